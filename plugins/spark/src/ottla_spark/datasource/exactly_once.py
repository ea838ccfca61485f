"""Writes the batches of a query exactly once: each is one transaction, with the batch's number in it.

All rows of a batch go through one task, whatever made them. So a batch is in the topic as a whole or not at all, also
for its readers, and what a query computes may differ from one attempt to the next. Several tasks with a transaction
each would have to get the same rows in every attempt, which Spark does not promise: sources are split by the number
of cores there are, and rows of functions that are not deterministic fall differently.

Attempts shut each other out: all have the same transactional id, and each claims it before it looks at what is
written (`transactional_producer.py`).
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark import TaskContext

from ottla_sdk import ConnectError, FatalError
from ottla_spark.datasource.batch_numbers import Step, WrittenBatch, next_step
from ottla_spark.datasource.batch_numbers_topic import ensure_topic, last_batch
from ottla_spark.datasource.transaction_plan import TransactionPlan, transaction_plan
from ottla_spark.datasource.transactional_producer import TransactionalProducer
from ottla_spark.datasource.writing_producer import check_settings
from ottla_spark.datasource.writing_rows import record_slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

QUERY_ID = "sql.streaming.queryId"
"""The property of a thread in which Spark says whose batch it handles."""
RESULT = "records bigint, written boolean"
IDLE_PRODUCERS_MAX = 4

log = logging.getLogger(__name__)


class ExactlyOnceWriter:
    """What `foreachBatch` calls: writes each batch once, however often it is called for it.

    Args:
        options: as of `format("ottla")`, and `batchNumbersTopic`, `transactionalIdPrefix` and `exactlyOnceSince`.
        offsets_of: returns what tells the offsets of a batch, given its number, from others; empty if it cannot.
    """

    def __init__(self, options: Mapping[str, str], offsets_of: Callable[[int], str] = lambda _: "") -> None:
        self._options = dict(options)
        self._offsets_of = offsets_of
        self._plan: TransactionPlan | None = None
        self._schema: StructType | None = None

    def __call__(self, batch: "DataFrame", number: int) -> None:
        """Write a batch of a stream."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if not query_id:
            raise FatalError("exactly_once is for foreachBatch of a streaming query, and this is none")
        self.write(batch, query_id, number)

    def write(self, rows: "DataFrame", query_id: str, number: int) -> None:
        """Write rows, unless they are written.

        Args:
            rows: all of the batch.
            query_id: of the query; the same whenever it goes on, and no other one's.
            number: of the batch.

        Raises:
            InvalidConfig: options or columns are wrong.
            ConnectError: nothing is written that counts.
        """
        plan = self.prepared(rows)
        write = partial(write_task, plan, plan.transactional_id(query_id), number, offsets=self._offsets_of(number))
        for written in rows.repartition(1).mapInArrow(write, RESULT).collect():
            if not written.written:
                log.warning("batch %d of query %s was written before: %d records", number, query_id, written.records)

    def prepared(self, rows: "DataFrame") -> TransactionPlan:
        """Return the plan; where it is new it is checked, and the topic of numbers made.

        Raises:
            InvalidConfig, ConnectError: as `write`.
        """
        if self._plan is None or self._schema != rows.schema:
            plan = transaction_plan(self._options, rows.schema)
            check_settings(plan.write.settings)
            ensure_topic(plan)
            self._plan, self._schema = plan, rows.schema
        return self._plan


def write_task(
    plan: TransactionPlan,
    transactional_id: str,
    number: int,
    batches: Iterator[pa.RecordBatch],
    *,
    offsets: str = "",
) -> Iterator[pa.RecordBatch]:
    """Write all rows of a batch in one transaction; yield one row that says how many, and whether they were new.

    Args:
        plan: how to write.
        transactional_id: the query's.
        number: of the batch.
        batches: its rows.
        offsets: what tells its offsets from others; empty if that is not known.

    Raises:
        ConnectError: nothing is written that counts.
    """
    task = TaskContext.get()
    assert task is None or task.partitionId() == 0, "all rows of a batch are in one task"
    producer = _PRODUCERS.taken(plan, transactional_id, number)
    sent = None
    try:
        if producer is not None:
            first = list(islice(batches, 1))
            sent = _first_sent(producer, plan, first)
            if sent is None:
                producer.discard()
                producer, batches = None, chain(first, batches)
        if producer is None:
            producer = TransactionalProducer(plan.write.settings, transactional_id)
            producer.claim(plan.numbers_topic)
            producer.last = last_batch(plan, transactional_id)
        step = next_step(producer.last, number, since=plan.since, place=plan.numbers_place(), offsets=offsets)
        new = WrittenBatch(number, 0, offsets)
        written = _write(producer, plan, new, batches, sent) if step is Step.WRITE else producer.last
    except BaseException:
        if producer is not None:
            producer.discard()
        raise
    assert written is not None, "what is skipped was written"
    _PRODUCERS.keep(producer)
    yield pa.RecordBatch.from_pydict(
        {"records": pa.array([written.record_count], pa.int64()), "written": [step is Step.WRITE]}
    )


def _first_sent(
    producer: TransactionalProducer, plan: TransactionPlan, first: Sequence[pa.RecordBatch]
) -> int | None:
    """Begin a transaction of a producer that was kept, and return how many records are acknowledged in it.

    None if it cannot write any more, or has no records to find out by. Another process may have claimed its id
    meanwhile, to do a batch again, which the producer hears of with its first records only; a producer that claims
    the id anew sends those again.
    """
    try:
        producer.begin()
        sent = sum(producer.send(records) for batch in first for records in record_slices(batch, plan.write))
        producer.finish()
    except (ConnectError, KafkaException, SystemError):
        # The client raises fatal errors out of whatever it is doing. Where that is in the middle of calling our
        # callbacks, it is a SystemError.
        producer.abort()
        return None
    return sent or None


def _write(
    producer: TransactionalProducer,
    plan: TransactionPlan,
    new: WrittenBatch,
    batches: Iterator[pa.RecordBatch],
    sent: int | None,
) -> WrittenBatch:
    """Write rows of a new batch in a transaction, in one that has begun if records are sent already."""
    if sent is None:
        producer.begin()
    try:
        count = sent or 0
        for batch in batches:
            for records in record_slices(batch, plan.write):
                count += producer.send(records)
        written = replace(new, record_count=count)
        producer.commit(written, plan.numbers_topic)
    except BaseException:
        producer.abort()
        raise
    return written


class _ProducerPool:
    """Producers of this process that have committed a batch, by their transactional ids."""

    def __init__(self) -> None:
        self._idle: dict[str, TransactionalProducer] = {}
        self._lock = Lock()

    def taken(self, plan: TransactionPlan, transactional_id: str, number: int) -> TransactionalProducer | None:
        """Return a producer that may go on: it has committed the batch before, so nobody can have come in between.

        Whoever would have written since had to claim the id, and could write no other batch than this one. Then the
        brokers refuse what this producer sends.
        """
        with self._lock:
            found = self._idle.pop(transactional_id, None)
        if found is None:
            return None
        is_next = found.last is not None and found.last.number == number - 1
        if is_next and found.settings == {**plan.write.settings, "transactional.id": transactional_id}:
            return found
        found.discard()
        return None

    def keep(self, producer: TransactionalProducer) -> None:
        """Keep a producer for the next batch, in place of those that were used longest ago."""
        with self._lock:
            self._idle[str(producer.settings["transactional.id"])] = producer
            dropped = [self._idle.pop(each) for each in list(self._idle)[:-IDLE_PRODUCERS_MAX]]
        for each in dropped:
            each.discard()


_PRODUCERS = _ProducerPool()
