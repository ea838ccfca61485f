"""What a name in a query stands for: a topic with its formats, or data that lies still. Pure.

A `Table` is what `CREATE TABLE … WITH (…)` declares, or what was found out about a topic. Its settings are those that
a pipeline has below `tables.NAME.`; the prompt makes a view of them, a pipeline gets them as they are, so both see
the same columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_sdk import InvalidConfig
from ottla_spark.formats.format import AVRO, Format
from ottla_spark.job.table_config import TableConfig
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Declare

OPTIONS = "options."
FILE_FORMAT_DEFAULT = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Something to read.

    Attributes:
        name: in queries.
        settings: what differs from the defaults.
        config: all settings, parsed.
    """

    name: str
    settings: Mapping[str, str]
    config: TableConfig

    @property
    def is_topic(self) -> bool:
        """Return whether it is a topic, or several."""
        return not self.config.format

    @property
    def topic(self) -> str:
        """Return its topic; empty if that is a pattern or there is none."""
        return "" if self.config.format or self.config.pattern else self.config.topic or self.name

    @property
    def unknown_parts(self) -> tuple[str, ...]:
        """Return of which parts of records, key and value, the columns have to be found out."""
        if not self.is_topic:
            return ()
        return tuple(part for part, form in (("key", self.key), ("value", self.value)) if form.needs_schema)

    @property
    def key(self) -> Format:
        """Return how keys become a column."""
        return self._format(self.config.key_format, self.config.key_schema)

    @property
    def value(self) -> Format:
        """Return how values become columns."""
        return self._format(self.config.value_format, self.config.value_schema)

    def with_part(self, part: str, found: Format) -> "Table":
        """Return the table with what its keys or values were found to be."""
        settings = {**self.settings, f"{part}.format": found.name, f"{part}.schema": found.schema}
        return table_of(self.name, {key: value for key, value in settings.items() if value})

    def _format(self, name: str, schema: str) -> Format:
        config = self.config
        return Format(
            name=name,
            schema=schema.strip(),
            sample_rows=config.sample_records,
            registry_url=config.registry_url if name == "avro" else "",
            bad_records=config.bad_records,
        )


def table_of(name: str, settings: Mapping[str, str]) -> Table:
    """Return a table with these settings.

    Raises:
        SqlProblem: a setting is unknown or bad; the message names all of them.
    """
    try:
        return Table(name=name, settings=dict(settings), config=TableConfig.parse(settings))
    except InvalidConfig as error:
        raise SqlProblem(f"table {name}: {error}") from None


def topic_table(name: str, topic: str) -> Table:
    """Return what is assumed of a topic that nothing is declared about; queries may write it in another case."""
    return table_of(name, {"topic": topic})


def declared_table(declared: Declare) -> Table:
    """Return the table that a `CREATE TABLE … WITH (…)` describes.

    Raises:
        SqlProblem: a setting is unknown or bad; the message names all of them.
    """
    settings = {canonical(key): value for key, value in declared.settings.items()}
    if "path" in settings:
        settings.setdefault("format", FILE_FORMAT_DEFAULT)
    columns_key = "schema" if "format" in settings else "value.schema"
    if declared.columns:
        if columns_key in settings:
            raise SqlProblem(
                f"table {declared.name}: its columns are given twice, behind its name and as {columns_key}"
            )
        if columns_key == "value.schema" and settings.get("value.format", "").lower() == AVRO:
            raise SqlProblem(
                f"table {declared.name}: the columns of records in Avro follow from their schema: leave out those "
                "behind the name, and say value.schema.registry.url = 'http://HOST:PORT', or value.schema = 'the "
                "schema in JSON'"
            )
        settings[columns_key] = declared.columns
    if "format" not in settings and "pattern" not in settings:
        settings.setdefault("topic", declared.name)
    return table_of(declared.name, settings)


def canonical(key: str) -> str:
    """Return a setting's key in lower case; what belongs to Spark keeps its case behind the prefix."""
    for prefix in (OPTIONS, "spark."):
        if key.lower().startswith(prefix):
            return prefix + key[len(prefix) :]
    return key.lower()
