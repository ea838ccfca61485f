"""Reads one range of offsets to its end, as a Spark task does, whatever happens meanwhile.

A range ends with the record before its end, or where the partition's log is known to have none up to there:
compaction and transactions leave gaps, so the last offset may have no record. Brokers may die; librdkafka reconnects,
and only if nothing at all comes for `kafkaConsumer.pollTimeoutMs` the task fails. Offsets that no longer exist are a
loss of data, which fails the task or, with `failOnDataLoss=false`, is logged and skipped. At the end of a range it is
asked whether the topic is still the one that was planned, as brokers give its name to whichever there is. Where that
fails nothing, it is asked before each batch is handed on: records of a new topic are read by the query's next batch,
and would come twice.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message

from ottla_spark.datasource.client_options import Settings
from ottla_spark.datasource.consumers import POOL, RangeConsumer
from ottla_spark.datasource.errors import DataLost, ReadFailed, ReadRefused
from ottla_spark.datasource.ranges import OffsetRange
from ottla_spark.datasource.record_batches import BatchConverter, BatchSize, garbage_collection_paused
from ottla_spark.datasource.refusals import REFUSALS

log = logging.getLogger(__name__)

POLL_S = 0.05
BOUNDS_TIMEOUT_S = 10.0
# A new leader may know for a moment less than its predecessor did; after this long it is believed.
DOUBT_MAX_S = 3.0
# After this long without a record or an event it is asked whether the partition still exists.
QUIET_MAX_S = 10.0
# A new consumer has to connect and to get its first records before it, too, may be doubted.
RENEWED_EVERY_S = 15.0
# A broker that has just started may not know a partition yet.
GONE_LOOKS = 2
IDENTITY_LOOKS = 3
IDENTITY_PAUSE_S = 0.5
REPLACED = "the topic was deleted and created again meanwhile"

GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - public
)
FINAL = REFUSALS | frozenset(
    {
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001 - public
        KafkaError._BAD_MSG,  # noqa: SLF001 - public
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """How a task reads.

    Attributes:
        consumer_settings: librdkafka's.
        admin_settings: librdkafka's, for asking which topic it was.
        include_headers: whether there is a column for them.
        include_content: whether keys and values are there; otherwise they are null.
        poll_timeout_ms: how long nothing may come.
        fail_on_data_loss: whether records that are gone fail the task.
    """

    consumer_settings: Settings
    admin_settings: Settings
    include_headers: bool
    poll_timeout_ms: int
    fail_on_data_loss: bool
    include_content: bool = True


def read_range(wanted: OffsetRange, rules: ReadingRules) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, in order.

    Raises:
        DataLost: some of its offsets no longer exist, and that shall fail.
        ReadRefused: a broker refused, or sent what cannot be read.
        ReadFailed: nothing came for too long.
    """
    with POOL.lent(rules.consumer_settings) as consumer:
        yield from _RangeReading(wanted, rules, consumer).batches()


class _RangeReading:
    def __init__(self, wanted: OffsetRange, rules: ReadingRules, consumer: RangeConsumer) -> None:
        self._range = wanted
        self._rules = rules
        self._consumer = consumer
        self._converter = BatchConverter(
            wanted.topic,
            wanted.partition,
            end=wanted.end,
            with_headers=rules.include_headers,
            with_content=rules.include_content,
        )
        self._size = BatchSize()
        self._position = wanted.start
        self._progress_at = time.monotonic()
        self._doubted_since: float | None = None
        self._renewed_at = -RENEWED_EVERY_S
        self._gone_looks = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._seek(self._position)
        while self._position < self._range.end:
            batch = self._next_batch()
            if batch is not None:
                if not self._rules.fail_on_data_loss and self._was_replaced():
                    # The next batch of the query reads the new topic from its beginning.
                    self._lose(REPLACED, resume_at=None)
                    return
                yield batch
                self._progress_at = time.monotonic()  # what is done with a batch may take its time
            else:
                self._check_time()
        if self._was_replaced():
            self._lose(REPLACED, resume_at=None)

    def _was_replaced(self) -> bool:
        """Return whether what was read may be of another topic; ids never come back, so a look afterwards is enough.

        Raises:
            ReadFailed: nobody tells.
        """
        deadline = time.monotonic() + self._rules.poll_timeout_ms / 1000
        looks = 0
        while self._range.topic_id and looks < IDENTITY_LOOKS:
            if looks:
                time.sleep(IDENTITY_PAUSE_S)  # a broker that lags may tell of the topic before
            try:
                found = self._consumer.topic_id(self._rules.admin_settings, self._range.topic, BOUNDS_TIMEOUT_S)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise ReadFailed(
                        f"cannot find out whether {self._range.topic} is still the topic that it was: "
                        f"{error.args[0].str()}"
                    ) from None
                time.sleep(IDENTITY_PAUSE_S)
                continue
            if found in ("", self._range.topic_id):
                return False
            looks += 1
        return looks > 0

    def _next_batch(self) -> pa.RecordBatch | None:
        count = min(self._size.count, self._range.end - self._position)
        with garbage_collection_paused():
            messages = self._consumer.consume(count, POLL_S)
            if not messages:
                return None
            converted = self._converter.convert(messages, position=self._position)
            del messages  # before the collector runs again
        if converted.position is not None:
            self._advance(converted.position)
        for event in converted.events:
            self._handle(event)
        if converted.batch is not None:
            self._size.learn(records=converted.batch.num_rows, size_bytes=converted.batch.nbytes)
        return converted.batch

    def _advance(self, position: int) -> None:
        self._position = max(self._position, position)
        self._progress_at = time.monotonic()
        self._doubted_since = None

    def _seek(self, offset: int) -> None:
        self._position = offset
        self._consumer.seek(self._range.topic, self._range.partition, offset)

    def _handle(self, event: Message) -> None:
        error = event.error()
        assert error is not None
        code = error.code()
        if event.topic() not in (None, self._range.topic) or event.partition() not in (
            None,
            -1,
            self._range.partition,
        ):
            return  # of a range that this consumer read before
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public
            self._end_of_log(event.offset())
        elif code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - public
            self._out_of_range()
        elif code in GONE:
            self._consumer.last_error = error.str()
            self._doubt()  # a broker that has just started may not know it yet
        elif code in FINAL:
            raise ReadRefused(f"cannot read {self._where()}: {error.str()}")
        else:
            self._consumer.last_error = error.str()

    def _end_of_log(self, end: int | None) -> None:
        """Take note that the log has nothing up to `end`, and nothing behind it for now."""
        if end is not None and end > self._position:
            self._advance(end)
        if self._position < self._range.end:
            self._doubt()

    def _doubt(self) -> None:
        """Ask in a while whether what is missing still exists, unless it has come by then."""
        if self._doubted_since is None:
            self._doubted_since = time.monotonic()

    def _out_of_range(self) -> None:
        bounds = self._bounds()
        if bounds is None or bounds[0] <= self._position:
            self._doubt()
            self._seek(self._position)  # a leader that did not have it yet
            return
        low, high = bounds
        exists = f"the partition has offsets {low} to {high} only"
        self._lose(exists, resume_at=low if low < self._range.end else None)

    def _check_time(self) -> None:
        now = time.monotonic()
        if now - self._progress_at > QUIET_MAX_S:
            self._doubt()
        if self._doubted_since is not None and now - self._doubted_since > DOUBT_MAX_S:
            self._look_what_exists()
            self._doubted_since = time.monotonic()
        if (now - self._progress_at) * 1000 > self._rules.poll_timeout_ms:
            cause = f" ({self._consumer.last_error})" if self._consumer.last_error else ""
            raise ReadFailed(
                f"cannot read {self._where()}: nothing came for {self._rules.poll_timeout_ms} ms{cause}; "
                "the option kafkaConsumer.pollTimeoutMs says how long to wait"
            )

    def _look_what_exists(self) -> None:
        """Ask whether what is missing still exists, with a new consumer if that is a while old: it may hang."""
        if time.monotonic() - self._renewed_at > RENEWED_EVERY_S:
            self._consumer.renew()
            self._renewed_at = time.monotonic()
        bounds = self._bounds()
        if self._gone_looks >= GONE_LOOKS:
            self._lose("the partition is gone", resume_at=None)
        elif bounds is not None and bounds[1] < self._range.end:
            self._lose(f"the partition has offsets {bounds[0]} to {bounds[1]} only", resume_at=None)
        else:
            self._seek(self._position)

    def _lose(self, why: str, *, resume_at: int | None) -> None:
        message = f"cannot read {self._where()}: {why}"
        if self._rules.fail_on_data_loss:
            raise DataLost(f"{message}; set failOnDataLoss to false to go on without these records")
        if resume_at is None:
            log.warning("%s; going on without the rest of the range, as failOnDataLoss is false", message)
            self._position = self._range.end
        else:
            log.warning("%s; going on from there, as failOnDataLoss is false", message)
            self._seek(resume_at)

    def _bounds(self) -> tuple[int, int] | None:
        """Return the earliest offset and the one after the last; None if no broker says, or there are none."""
        try:
            bounds = self._consumer.bounds(self._range.topic, self._range.partition, BOUNDS_TIMEOUT_S)
        except KafkaException as error:
            self._consumer.last_error = error.args[0].str()
            self._gone_looks = self._gone_looks + 1 if error.args[0].code() in GONE else 0
            return None
        self._gone_looks = 0
        return bounds

    def _where(self) -> str:
        return f"{self._range} at offset {self._position}"
