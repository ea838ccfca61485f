"""The models of the three connectors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, cast

from ottla_sdk import CommaSeparated, Importance, Problem, Width, setting
from ottla_spark.job.config import NAME, JobConfig
from ottla_spark.job.nested_settings import NestedConfig
from ottla_spark.job.output_config import EncodingConfig, NamedOutputConfig, OutputConfig
from ottla_spark.job.query_text import query_problems
from ottla_spark.job.setting_types import DELIVERY_GUARANTEE, OutputNames, Pattern, TableNames
from ottla_spark.job.table_config import DecodingConfig, ReadConfig, TableConfig

INPUT = "input"
"""The view that the `sql` of a source or a sink reads."""

_SQL_DOC = (
    "A SELECT in Spark's SQL over the table `input`; before it any number of `CREATE TEMPORARY VIEW x AS …`, each "
    "with `;` behind it. By default all rows as they are."
)
_READ, _WRITE, _TABLES, _OUTPUTS = "read.", "write.", "tables.NAME.", "outputs.NAME."


class SparkSourceConfig(JobConfig, EncodingConfig):
    """Settings of `SparkSource`."""

    nested: ClassVar[Mapping[str, type[NestedConfig]]] = {_READ: ReadConfig}

    topic: str = setting("topic", doc="The topic to write to.", importance=Importance.HIGH, min_length=1)
    sql: str = setting("sql", "", doc=_SQL_DOC, importance=Importance.HIGH, width=Width.LONG)

    @property
    def read(self) -> ReadConfig:
        """Return what to read."""
        return cast("ReadConfig", self.one(_READ))

    @property
    def writes_topic(self) -> bool:
        """Return that it is one."""
        return True

    @property
    def exactly_once_keys(self) -> Iterable[str]:
        """Return the setting, if it asks for that."""
        return (DELIVERY_GUARANTEE,) if self.is_exactly_once else ()

    def check(self) -> Iterable[Problem]:
        """Check the statements."""
        yield from super().check()
        yield from query_problems(self.sql)


class SparkSinkConfig(JobConfig, DecodingConfig):
    """Settings of `SparkSink`."""

    nested: ClassVar[Mapping[str, type[NestedConfig]]] = {_WRITE: OutputConfig}

    topics: CommaSeparated = setting("topics", (), doc="The topics to read.", importance=Importance.HIGH)
    topics_regex: Pattern = setting(
        "topics.regex", "", doc="Instead of `topics`: a regular expression; topics whose whole names match it."
    )
    sql: str = setting("sql", "", doc=_SQL_DOC, importance=Importance.HIGH, width=Width.LONG)

    @property
    def write(self) -> OutputConfig:
        """Return what to write."""
        return cast("OutputConfig", self.one(_WRITE))

    @property
    def writes_topic(self) -> bool:
        """Return whether it is one."""
        return self.write.is_topic

    @property
    def exactly_once_keys(self) -> Iterable[str]:
        """Return the setting, if it asks for that."""
        return (f"{_WRITE}{DELIVERY_GUARANTEE}",) if self.write.is_exactly_once else ()

    def check(self) -> Iterable[Problem]:
        """Check the statements."""
        yield from super().check()
        yield from query_problems(self.sql)


class SparkPipelineConfig(JobConfig):
    """Settings of `SparkPipeline`."""

    nested: ClassVar[Mapping[str, type[NestedConfig]]] = {_TABLES: TableConfig, _OUTPUTS: NamedOutputConfig}
    names_keys: ClassVar[Mapping[str, str]] = {_TABLES: "tables", _OUTPUTS: "outputs"}

    table_names: TableNames = setting(
        "tables", doc="Names for what is read, by which the query knows them; `tables.NAME.…` says what each is.",
        importance=Importance.HIGH,
    )  # fmt: skip
    sql: str = setting(
        "sql",
        "",
        doc="One SELECT in Spark's SQL over the tables; before it any number of `CREATE TEMPORARY VIEW x AS …`, "
        "each with `;` behind it.",
        importance=Importance.HIGH,
        width=Width.LONG,
    )
    python_function: str = setting(
        "python.function",
        "",
        doc="Instead of `sql`: `module:function`. It is called as `function(spark, tables)`, where `tables` has a "
        "DataFrame for each table's name, and returns a DataFrame, or a dict with one for each output's name. It is "
        "called once for each output, and says what to do without doing it.",
        importance=Importance.HIGH,
    )
    python_files: CommaSeparated = setting(
        "python.files",
        (),
        doc="Files with the function's module and what it imports, `.py` or `.zip`; they are shipped to the "
        "executors. Not needed for what is installed on all machines.",
        width=Width.LONG,
    )
    output_names: OutputNames = setting(
        "outputs", doc="Names for what is written; `outputs.NAME.…` says what each is. Each is a query of its own.",
        importance=Importance.HIGH,
    )  # fmt: skip

    @property
    def tables(self) -> Mapping[str, TableConfig]:
        """Return the tables by name."""
        return cast("Mapping[str, TableConfig]", self.named(_TABLES))

    @property
    def outputs(self) -> Mapping[str, NamedOutputConfig]:
        """Return the outputs by name."""
        return cast("Mapping[str, NamedOutputConfig]", self.named(_OUTPUTS))

    @property
    def writes_topic(self) -> bool:
        """Return whether one of them is a topic."""
        return any(output.is_topic for output in self.outputs.values())

    @property
    def exactly_once_keys(self) -> Iterable[str]:
        """Return the settings of the outputs that ask for that."""
        return [
            f"{_OUTPUTS.replace(NAME, name)}{DELIVERY_GUARANTEE}"
            for name, output in self.outputs.items()
            if output.is_exactly_once
        ]

    def check(self) -> Iterable[Problem]:
        """Check that there is one query."""
        yield from super().check()
        if self.sql.strip() and self.python_function:
            yield Problem("python.function", "is set beside sql; a pipeline has one of both")
        if self.python_function and not all(self.python_function.partition(":")):
            yield Problem("python.function", "must be module:function, such as delays:by_airline")
        if self.python_files and not self.python_function:
            yield Problem("python.files", "is for python.function, which is not set")

    def check_nested(self) -> Iterator[Problem]:
        """Check that every output has something to write."""
        yield from super().check_nested()
        unnamed = [name for name, output in self.outputs.items() if not output.view]
        yield from query_problems(self.sql, views_only=not unnamed)
        if not self.sql.strip() and not self.python_function and unnamed:
            yield Problem("sql", "must be set, or python.function, or outputs.NAME.from for every output")
        if self.python_function:
            for name, output in self.outputs.items():
                if output.view:
                    yield Problem(
                        f"outputs.{name}.from", "is for sql; a python.function returns what each output is to write"
                    )
        places: dict[str, str] = {}
        for name, output in self.outputs.items():
            if output.path and (other := places.setdefault(output.path, name)) != name:
                yield Problem(
                    f"outputs.{name}.path", f"is that of the output {other}, too; each needs a folder of its own"
                )
