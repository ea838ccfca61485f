"""From outputs to running work: streaming queries, and what is written once because it is no stream.

Everything is analysed by Spark before anything runs, so that a mistake in one output leaves the others unwritten.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla_sdk import FatalError
from ottla_spark.datasource.exactly_once import ExactlyOnceWriter
from ottla_spark.datasource.transaction_plan import SINCE
from ottla_spark.formats.encoding import encoded
from ottla_spark.job.checkpoint import folder_at, offsets_digest
from ottla_spark.job.clients import TopicClients
from ottla_spark.job.config import SPECULATION, SPECULATION_PROBLEM
from ottla_spark.job.plan import FILE_SINKS, FormatWrite, JobPlan, Output, TopicWrite
from ottla_spark.job.python_function import Function, outputs_of
from ottla_spark.job.query_text import SqlQuery
from ottla_spark.job.table_log import check_table_log
from ottla_spark.job.tables import read_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


PLACE = ("_topic", "_partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An output that Spark has understood.

    Attributes:
        output: it.
        frame: what is written, encoded already for a topic.
    """

    output: Output
    frame: "DataFrame"

    @property
    def streaming(self) -> bool:
        """Return whether it is written as rows come."""
        return self.frame.isStreaming


class BatchWriter(Protocol):
    """Writes a batch, given its number."""

    def __call__(self, batch: "DataFrame", number: int, /) -> None:
        """Write it."""


def prepare(
    session: "SparkSession", plan: JobPlan, clients: TopicClients, function: Function | None = None
) -> list[Prepared]:
    """Have Spark analyse every output.

    Args:
        session: Spark; views are made in sessions of their own beside it.
        plan: its tables have schemas.
        clients: how topics are reached.
        function: what makes the outputs, if that is not SQL.

    Raises:
        AnalysisException: Spark does not understand a query.
        FatalError: an output cannot be written in the way that is asked for.
    """
    return [_prepared(session.newSession(), plan, output, clients, function) for output in plan.outputs]


def _prepared(
    session: "SparkSession", plan: JobPlan, output: Output, clients: TopicClients, function: Function | None
) -> Prepared:
    # Each output has views of its own, as its offsets are committed to a group of its own.
    tables = read_tables(session, plan, clients, plan.commit_group_of(output))
    if function is not None:
        from pyspark.sql import DataFrame  # noqa: PLC0415 - not before a task starts

        names = [each.name for each in plan.outputs]
        frame = outputs_of(function(session, dict(tables)), names, DataFrame)[output.name]
    else:
        assert isinstance(plan.query, SqlQuery), "a job without a function has SQL"
        frame = _selected(session, plan.query, output)
    if isinstance(output.writing, TopicWrite):
        # Spark may have it from elsewhere than the connector's settings, which were checked.
        if session.sparkContext.getConf().get(SPECULATION, "false") == "true":
            raise FatalError(f"{SPECULATION} {SPECULATION_PROBLEM}")
        written = output.writing
        frame = encoded(
            frame.drop(*PLACE),  # of the records that were read; keys choose the partition anew
            key=written.key,
            value=written.value,
            key_columns=written.key_columns,
            value_columns=written.value_columns,
            topic=written.topic,
        )
    else:
        _check_columns(frame, output, output.writing)
        if frame.isStreaming:
            check_table_log(session, plan, output, output.writing)
    if not frame.isStreaming and output.mode == "update":
        raise FatalError(f"the output {output.name} is no stream, as no table is one, so its mode cannot be update")
    return Prepared(output=output, frame=frame)


def _selected(session: "SparkSession", query: SqlQuery, output: Output) -> "DataFrame":
    for view in query.views:
        session.sql(view)
    return session.table(output.view) if output.view else session.sql(query.query)


def _check_columns(frame: "DataFrame", output: Output, writing: FormatWrite) -> None:
    if missing := [column for column in writing.partition_by if column.lower() not in map(str.lower, frame.columns)]:
        raise FatalError(
            f"the output {output.name} has no column {', '.join(missing)} for partition.by; there are "
            f"{', '.join(frame.columns)}"
        )


def start_query(prepared: Prepared, plan: JobPlan, clients: TopicClients, since: int = 0) -> "StreamingQuery":
    """Start the query of an output that is a stream.

    Args:
        prepared: the output.
        plan: the job's.
        clients: how topics are reached.
        since: the first batch that was written exactly once, if the output is.

    Raises:
        ConnectError: what transactions need is wrong, or cannot be had.
    """
    output = prepared.output
    checkpoint = f"{plan.checkpoint_location}/{output.name}"
    writer = prepared.frame.writeStream.queryName(output.name).outputMode(output.mode)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = (
        writer.trigger(availableNow=True)
        if plan.available_now
        else writer.trigger(processingTime=plan.trigger_interval)
    )
    writing = output.writing
    if isinstance(writing, FormatWrite) and writing.format in FILE_SINKS | STREAM_SINKS:
        writer = writer.format(writing.format).options(**_path_option(writing)).options(**writing.options)
        return (writer.partitionBy(*writing.partition_by) if writing.partition_by else writer).start()
    if isinstance(writing, TopicWrite) and writing.exactly_once:
        folder = folder_at(plan.checkpoint_location, prepared.frame.sparkSession)
        assert folder is not None, "there is Spark"
        once = exactly_once_writer(writing, clients, since, partial(offsets_digest, folder, output.name))
        once.prepared(prepared.frame)  # so that a mistake in it is known before the query has begun
        return _with_batches(writer, once).start()
    if isinstance(writing, TopicWrite) and (output.mode == "append" or clients.source == "kafka"):
        return writer.format(clients.source).options(**clients.write_options(writing)).start()
    return _with_batches(writer, batch_writer(output, clients)).start()


STREAM_SINKS = frozenset({"console", "noop"})
"""Formats that do nothing with batches but show them."""


def _with_batches(writer: "DataStreamWriter", write: BatchWriter) -> "DataStreamWriter":
    return writer.foreachBatch(write)


def exactly_once_writer(
    writing: TopicWrite, clients: TopicClients, since: int, offsets_of: Callable[[int], str] = lambda _: ""
) -> ExactlyOnceWriter:
    """Return what writes batches of a topic exactly once, from a batch on; `offsets_of` as there."""
    return ExactlyOnceWriter({SINCE: str(since), **clients.write_options(writing)}, offsets_of)


def batch_writer(output: Output, clients: TopicClients) -> BatchWriter:
    """Return what writes batches of an output whose format Spark has no streaming sink for, or none in its mode."""
    mode = "overwrite" if output.mode == "complete" and isinstance(output.writing, FormatWrite) else "append"

    def write(batch: "DataFrame", number: int) -> None:
        write_rows(batch, output, clients, mode)

    return write


def write_rows(rows: "DataFrame", output: Output, clients: TopicClients, mode: str) -> None:
    """Write rows that are no stream; a topic takes them in mode append only."""
    writing = output.writing
    if isinstance(writing, TopicWrite):
        rows.write.format(clients.source).options(**clients.write_options(writing)).mode("append").save()
        return
    writer = rows.write.format(writing.format).options(**writing.options).mode(mode)
    if writing.partition_by:
        writer = writer.partitionBy(*writing.partition_by)
    writer.save(**_path_option(writing))


def _path_option(writing: FormatWrite) -> dict[str, str]:
    return {"path": writing.path} if writing.path else {}
