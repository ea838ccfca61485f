"""Makes names in statements known to Spark: topics and declared tables become views when Spark asks for them.

A statement is given to Spark as it is. Where Spark says that it does not know a name, and that is a topic, a view of
the topic is made and the statement is tried again; so nothing here has to understand a query. The views of one
statement are gone before the next: that may want them as streams, and there may be other topics and columns by then.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ottla_spark.constant_folding import folded
from ottla_spark.datasource.errors import MissingTopic
from ottla_spark.datasource.record_filters import TIMESTAMP, Comparison, as_text
from ottla_spark.formats.decoding import decoded
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import DROP, Format
from ottla_spark.formats.inference import inferred
from ottla_spark.formats.sampling import Sample, first_records, latest_records
from ottla_spark.sql.pipelines import quoted
from ottla_spark.sql.plain_conditions import PlainConditions, makes_function, plain_conditions
from ottla_spark.sql.plain_selects import PlainSelect, constants, plain_select
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.tables import Table, topic_table
from ottla_spark.sql.topics import Topics, matching, meant
from ottla_spark.statement_splitting import tokens

SOURCE = "ottla"
TABLES_MAX = 100
"""A statement that needs more views than this is refused."""
COLUMNS_KEPT_S = 30.0
"""For so long the columns that were found for a topic count, whatever is written to it meanwhile."""
RECORDS_PER_BATCH_MAX = 500_000
"""Something is shown soon, also of a topic in which there is much."""
SLICE_OPTION = "maxRecordsPerPartition"
SLICE_BYTES = 16 << 20
"""Two slices are in Java's memory, of which there is a gigabyte: one that is shown and the next."""
SLICE_RECORDS_MAX = 100_000
SIZED_RECORDS = 200
"""So many are looked at to find out how long records are, where the columns are known."""
UNKNOWN_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
STARTING_OFFSETS_KEY = "ottla.starting.offsets"


@dataclass(frozen=True, slots=True)
class Found:
    """The columns that a topic was found to have.

    Attributes:
        format: what its keys or values are.
        next_offsets: of its partitions at that time.
        topic_id: which topic it was; empty where the cluster tells none.
        at_s: when that was, on the monotonic clock.
    """

    format: Format
    next_offsets: Mapping[int, int]
    topic_id: str
    at_s: float


class Catalog:
    """What names stand for in a session.

    Attributes:
        declared: tables that the user described, by name in lower case.
        temporary_views: the statements of the user's own views, by name, in their order.

    Args:
        topics: of the cluster.
        client_options: of the data source, how it reaches the cluster.
    """

    def __init__(self, topics: Topics, client_options: Mapping[str, str]) -> None:
        self.topics = topics
        self.declared: dict[str, Table] = {}
        self.temporary_views: dict[str, str] = {}
        self.columns: dict[str, list[str]] = {}
        self._client_options = client_options
        self._record_bytes: dict[str, int] = {}
        self._found: dict[tuple[str, str], Found] = {}
        self._viewed: dict[str, Table] = {}
        self._conditions: PlainConditions | None = None
        self._has_functions = False

    def analyzed(
        self, spark: SparkSession, statement: str, *, streaming: bool = False
    ) -> tuple[DataFrame, list[Table]]:
        """Give a statement to Spark, with views of all that it needs.

        Args:
            spark: the session.
            statement: anything that Spark runs.
            streaming: whether topics are to be streams.

        Returns:
            What Spark returns, and the tables that there are views of.

        Raises:
            SqlProblem: a name is neither known to Spark nor a topic.
            PySparkException: Spark's other errors.
        """
        self.drop_views(spark)
        plain = None if streaming else plain_select(statement)
        # A function of the user's may read the same topic, whose records it wants whatever the statement says.
        self._has_functions = self._has_functions or makes_function(statement)
        self._conditions = None if streaming or self._has_functions else plain_conditions(statement)
        for _ in range(TABLES_MAX):
            try:
                return spark.sql(statement), list(self._viewed.values())
            except AnalysisException as error:
                if error.getCondition() != UNKNOWN_TABLE:
                    raise
                name = (error.getMessageParameters() or {}).get("relationName", "")
                self._make_view(spark, name, plain, streaming=streaming)
        raise SqlProblem(f"the statement needs more than {TABLES_MAX} tables")

    def drop_views(self, spark: SparkSession) -> None:
        """Make Spark forget the views of the last statement."""
        for name in self._viewed:
            spark.catalog.dropTempView(name)
        self._viewed.clear()

    def names(self) -> Iterable[str]:
        """Return all that a query can read besides Spark's own tables."""
        yield from (table.name for table in self.declared.values())
        yield from (topic.name for topic in self.topics.visible())

    def _make_view(self, spark: SparkSession, relation: str, plain: PlainSelect | None, *, streaming: bool) -> None:
        """Make a view of what Spark does not know.

        Args:
            spark: the session.
            relation: its name as Spark gives it, with each part in backquotes.
            plain: the statement, if a few records are enough for it.
            streaming: whether it is to be a stream.
        """
        parts = [token.value for token in tokens(relation) if not token.is_symbol(".")]
        name = ".".join(parts)
        table = self._table(name)
        if len(parts) > 1:
            raise SqlProblem(f"there is a topic {name}; write its name in backquotes: {quoted(name)}")
        if name in self._viewed:
            raise SqlProblem(f"Spark does not find {name}, though it is there")
        sample: Sample | None = None
        # Asked for before anything is read: columns of another topic then do not count for this one.
        topic_id = self.topics.topic_id(table.topic) if table.topic and table.unknown_parts else ""
        for part in table.unknown_parts:
            offsets = self.topics.next_offsets(table.topic) if table.topic else {}
            form = self._kept_format(table, part, offsets, topic_id)
            if form is None:
                sample = sample or latest_records(self._read_options(table), table.config.sample_records)
                form = self._found_format(spark, table, part, sample)
                self._found[table.name, part] = Found(form, offsets, topic_id, time.monotonic())
            table = table.with_part(part, form)
        if table.is_topic and (sample is not None or table.name not in self._record_bytes):
            self._record_bytes[table.name] = self._mean_bytes(table) if sample is None else sample.mean_bytes
        frame = self._few_records(spark, table, plain.count) if plain is not None and plain.name == name else None
        if frame is None:
            frame = self._frame(spark, table, streaming=streaming and table.config.mode == "stream")
        frame.createOrReplaceTempView(quoted(name))
        self._viewed[name] = table
        self.columns[name] = frame.columns

    def _table(self, name: str) -> Table:
        declared = self.declared.get(name.lower())
        if declared is not None:
            return declared
        topic = self._topic(name)
        if topic is None:
            near = meant(name, {*self.names(), *self.temporary_views}, "TABLES")
            raise SqlProblem(f"there is no topic and no table {name}{near}")
        return topic_table(name, topic)

    def check_names(self, names: Iterable[str]) -> None:
        """Check that there are topics, tables or views of these names.

        Raises:
            SqlProblem: there is none of one of them.
        """
        views = {each.lower() for each in self.temporary_views}
        for name in names:
            if name.lower() not in views:
                self._table(name)

    def check_topic(self, name: str) -> None:
        """Check that there is a topic.

        Raises:
            SqlProblem: there is none.
        """
        if self._topic(name) != name:
            near = meant(name, (topic.name for topic in self.topics.visible()), "TOPICS")
            raise SqlProblem(f"there is no topic {name}{near}")

    def _topic(self, name: str) -> str | None:
        """Return the topic that is meant; the cluster is asked again before there is none."""
        topic = matching(name, self.topics.all())
        if topic is None:
            self.topics.forget()
            topic = matching(name, self.topics.all())
        return topic

    def _mean_bytes(self, table: Table) -> int:
        try:
            return latest_records(self._read_options(table), SIZED_RECORDS).mean_bytes
        except MissingTopic:  # of a pattern, which none need match
            return 0

    def _kept_format(self, table: Table, part: str, offsets: Mapping[int, int], topic_id: str) -> Format | None:
        """Return what a topic's keys or values were found to be, or text if there is nothing to look at."""
        known = self._found.get((table.name, part))
        if known is not None and known.topic_id == topic_id and _still_counts(known, offsets):
            return known.format
        if table.topic and table.name.lower() not in self.declared and not any(offsets.values()):
            return Format(name="string")
        return None

    def _found_format(self, spark: SparkSession, table: Table, part: str, sample: Sample) -> Format:
        """Return what a topic's keys or values are, as a sample tells: as declared, else JSON or text."""
        given = table.key if part == "key" else table.value
        try:
            form = inferred(spark, self._read_options(table), given, part=part, sample=sample)
        except UnusableFormat as error:
            if table.name.lower() in self.declared:
                raise SqlProblem(f"table {table.name}: {error}") from None
            form = Format(name="string")
        return form

    def _frame(self, spark: SparkSession, table: Table, *, streaming: bool) -> DataFrame:
        config = table.config
        if not table.is_topic:
            return _static_frame(spark, table)
        options = self._read_options(table)
        if streaming:
            default = str(spark.conf.get(STARTING_OFFSETS_KEY, "earliest"))
            options["startingOffsets"] = table.settings.get("starting.offsets", default)
            options["maxOffsetsPerTrigger"] = str(RECORDS_PER_BATCH_MAX)
        if SLICE_OPTION.lower() not in map(str.lower, options):
            options[SLICE_OPTION] = str(slice_records(self._record_bytes.get(table.name, 0)))
        if self._conditions is not None and self._conditions.name == table.name:
            options = {**_narrowing(spark, table, self._conditions), **options}
        reader = spark.readStream if streaming else spark.read
        frame = decoded(reader.format(SOURCE).options(**options).load(), key=table.key, value=table.value)
        if streaming and config.watermark is not None:
            frame = frame.withWatermark(config.watermark.column, config.watermark.delay)
        return frame

    def _few_records(self, spark: SparkSession, table: Table, count: int) -> DataFrame | None:
        """Return a topic's first records as constants; None if Spark has to read them itself."""
        if not table.topic or table.config.headers or table.config.options or table.config.bad_records == DROP:
            return None
        messages = first_records(self._read_options(table), count)
        query = None if messages is None else constants(messages)
        return None if query is None else decoded(spark.sql(query), key=table.key, value=table.value)

    def _read_options(self, table: Table) -> dict[str, str]:
        pattern = table.config.pattern
        selection = {"subscribePattern": pattern} if pattern else {"subscribe": table.topic}
        headers = {"includeHeaders": "true"} if table.config.headers else {}
        return {**self._client_options, **selection, **headers, **table.config.options}

    def is_empty(self, table: Table) -> bool:
        """Return whether a topic never had a record."""
        return bool(table.topic) and not any(self.topics.next_offsets(table.topic).values())


def _narrowing(spark: SparkSession, table: Table, known: PlainConditions) -> dict[str, str]:
    """Return options with which the data source leaves out what a statement does not want."""
    options = {}
    comparisons = []
    for each in known.conditions:
        if each.column != TIMESTAMP:
            comparisons.append(Comparison(each.column, each.operator, int(each.operand)))
            continue
        with suppress(PySparkException, Py4JError, AttributeError):  # the statement itself says what is wrong
            time_ms = folded(spark, sf.expr(f"unix_millis(CAST({each.operand} AS TIMESTAMP_LTZ))"))
            if time_ms is not None:
                comparisons.append(Comparison(TIMESTAMP, each.operator, int(time_ms)))
    if comparisons:
        options["recordFilters"] = as_text(comparisons)
    if known.counts and table.config.bad_records != DROP:
        options["includeContent"] = "false"
    return options


def slice_records(mean_bytes: int) -> int:
    """Return how many records a task reads at most: what it returns lies in Java's memory as a whole.

    Args:
        mean_bytes: of a record, as a sample has it.
    """
    return max(1, min(SLICE_BYTES // max(mean_bytes, 1), SLICE_RECORDS_MAX))


def _static_frame(spark: SparkSession, table: Table) -> DataFrame:
    config = table.config
    reader = spark.read.format(config.format).options(**config.options)
    if config.row_schema:
        reader = reader.schema(config.row_schema)
    return reader.load(config.path) if config.path else reader.load()


def _still_counts(found: Found, next_offsets: Mapping[int, int]) -> bool:
    if found.next_offsets == next_offsets:
        return True
    was_made_anew = any(next_offsets.get(partition, 0) < offset for partition, offset in found.next_offsets.items())
    return not was_made_anew and time.monotonic() - found.at_s < COLUMNS_KEPT_S
