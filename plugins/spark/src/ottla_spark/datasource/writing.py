"""Writes the rows of a query to topics: what Spark calls on the driver to plan, and on the executors for each task.

Everything about options and columns is checked while the query is planned (`writing_plan.py`). A task then hands its
rows to an idempotent producer and returns only when every one of them is acknowledged by all in-sync replicas
(`writing_producer.py`); otherwise it fails. Spark repeats failed tasks and, after a restart, the last micro-batch of
a stream from its beginning: every row is in the topic at least once, and rows of one task are in their order in each
partition. Nothing is left to do for a commit; what an aborted attempt has written stays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.datasource.writing_plan import WritePlan, write_plan
from ottla_spark.datasource.writing_producer import PRODUCERS, check_settings
from ottla_spark.datasource.writing_rows import record_slices

_OVERWRITE = "a topic can only be appended to; write mode('append')"


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return what writes a batch query's rows.

    Args:
        options: of the query: `topic` and `kafka.*`.
        schema: the query's columns: `value` and perhaps `key`, `topic`, `partition`, `headers`; others are ignored.
        overwrite: whether what the topic has is to be replaced, which it cannot be.

    Raises:
        InvalidConfig: options or columns are wrong; all that is wrong is in it.
    """
    if overwrite:
        raise InvalidConfig([Problem("mode", _OVERWRITE)])
    return BatchWriter(_checked_plan(options, schema))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Return what writes the rows of each micro-batch; arguments and errors as for `batch_writer`.

    With the output mode `complete`, for which `overwrite` is true, each micro-batch appends the whole result, as with
    Spark's own Kafka sink: the newest record of a key is its row.
    """
    return StreamWriter(_checked_plan(options, schema))


@dataclass(frozen=True)
class WrittenRecords(WriterCommitMessage):
    """What a task tells the driver: how many records it wrote, all of them acknowledged."""

    count: int


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRecords:
        """Write the rows of one task."""
        return write_task(self._plan, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query, a micro-batch at a time."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRecords:
        """Write the rows of one task of a micro-batch."""
        return write_task(self._plan, iterator)


def write_task(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> WrittenRecords:
    """Write a task's rows, and return when all of them are acknowledged.

    Raises:
        ClusterUnreachable: no broker answers.
        MissingTopic: a topic or partition does not exist.
        RecordRefused: a record can never be written.
        RecordsUndelivered: some were not acknowledged in time; how many, and why the first one was not.
    """
    count = 0
    with PRODUCERS.lent(plan.settings) as producer:
        for batch in batches:
            for records in record_slices(batch, plan):
                count += producer.send(records)
        producer.finish()
    return WrittenRecords(count)


def _checked_plan(options: Mapping[str, str], schema: StructType) -> WritePlan:
    plan = write_plan(options, schema)
    check_settings(plan.settings)
    return plan
