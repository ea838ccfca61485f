"""From a plan's tables to DataFrames and views.

A schema that is not given is inferred once, and kept: if a restart inferred another one from the records that are
there by then, the query would not fit its own state any more.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla_spark.formats.decoding import decoded
from ottla_spark.formats.format import Format
from ottla_spark.formats.inference import inferred
from ottla_spark.job.clients import TopicClients
from ottla_spark.job.plan import FormatRead, JobPlan, Table, TopicRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "rows"
"""The part of a table that Spark reads by itself, beside `key` and `value` of topics."""


@dataclass(slots=True)
class Schemas:
    """What was inferred, by table and part; `changed` says that there is more than was kept."""

    kept: dict[str, dict[str, str]]
    changed: bool = False

    def add(self, table: str, part: str, schema: str) -> None:
        """Keep one."""
        self.kept.setdefault(table, {})[part] = schema
        self.changed = True


def with_schemas(session: "SparkSession", plan: JobPlan, clients: TopicClients, schemas: Schemas) -> JobPlan:
    """Return the plan with a schema wherever one is needed and none is given; what was inferred goes to `schemas`.

    Raises:
        ConnectError: a topic has nothing that a schema could be inferred from.
    """
    return replace(plan, tables=tuple(_with_schema(session, table, clients, schemas) for table in plan.tables))


def read_tables(
    session: "SparkSession", plan: JobPlan, clients: TopicClients, commit_group: str = ""
) -> "dict[str, DataFrame]":
    """Return a DataFrame for every table, which is there as a view of the session, too.

    Args:
        session: where the views are made.
        plan: its tables have schemas.
        clients: how topics are reached.
        commit_group: the group to which offsets of streams are committed; empty for none.
    """
    frames = {}
    for table in plan.tables:
        frame = _frame(session, table, clients, commit_group)
        if table.watermark is not None:
            frame = frame.withWatermark(table.watermark.column, table.watermark.delay)
        if table.deduplicate_by:
            frame = _deduplicated(frame, table)
        frame.createOrReplaceTempView(table.name)
        frames[table.name] = frame
    return frames


def _frame(session: "SparkSession", table: Table, clients: TopicClients, commit_group: str) -> "DataFrame":
    reader = session.readStream if table.streaming else session.read
    reading = table.reading
    if isinstance(reading, TopicRead):
        options = clients.read_options(reading)
        if table.streaming and commit_group and clients.source == "ottla":
            options = {"commitGroupId": commit_group, **options}
        records = reader.format(clients.source).options(**options).load()
        return decoded(records, key=reading.key, value=reading.value)
    reader = reader.format(reading.format).options(**reading.options)
    if reading.schema:
        reader = reader.schema(reading.schema)
    return reader.load(reading.path) if reading.path else reader.load()


def _deduplicated(frame: "DataFrame", table: Table) -> "DataFrame":
    columns = list(table.deduplicate_by)
    return frame.dropDuplicates(columns) if table.watermark is None else frame.dropDuplicatesWithinWatermark(columns)


def _with_schema(session: "SparkSession", table: Table, clients: TopicClients, schemas: Schemas) -> Table:
    if isinstance(table.reading, FormatRead):
        return replace(table, reading=_with_row_schema(session, table, table.reading, schemas))
    options = clients.read_options(table.reading)
    formats = {}
    for part in ("key", "value"):
        given: Format = getattr(table.reading, part)
        formats[part] = given
        if given.needs_schema:
            kept = schemas.kept.get(table.name, {}).get(part)
            if kept is None:
                kept = inferred(session, options, given, part=part).schema
                schemas.add(table.name, part, kept)
            formats[part] = replace(given, schema=kept)
    return replace(table, reading=replace(table.reading, key=formats["key"], value=formats["value"]))


def _with_row_schema(session: "SparkSession", table: Table, reading: FormatRead, schemas: Schemas) -> FormatRead:
    """Infer what a stream of files looks like, as Spark does it for batches only."""
    if not table.streaming or reading.schema or not reading.path:
        return reading
    kept = schemas.kept.get(table.name, {}).get(ROWS)
    if kept is None:
        reader = session.read.format(reading.format).options(**reading.options)
        kept = reader.load(reading.path).schema.toDDL()
        schemas.add(table.name, ROWS, kept)
    return replace(reading, schema=kept)
