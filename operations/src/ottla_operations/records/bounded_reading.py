"""Looking at a part of a topic without a group, bounded in records, bytes and seconds.

It looks at block after block of offsets (`reading_plan.py`), keeps what matches, and stops at the first bound. A
block that would keep too much is looked at again in smaller parts, down to one record of each partition; one that is
not done in time is left for the next call.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import describe_error, plain_errors
from ottla_operations.records.reading_plan import Place, Spans, block_for, next_spans, picked, remaining
from ottla_operations.records.received_record import to_record
from ottla_operations.records.record_line import Record

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

CONSUME_RECORDS_FIRST: Final = 16
CONSUME_RECORDS_MAX: Final = 1_000
CONSUME_BYTES: Final = 8 * 1024 * 1024
"""About so much is taken at once, by the mean size of what was seen, so that bounds are looked at in between."""
POLL_S: Final = 0.05
REASON_WITHIN_S: Final = 1.0
GROWTH: Final = 4
QUICK_S: Final = 0.5
"""A block that takes less is followed by a larger one."""
BLOCK_MAX: Final = 50_000
SETTINGS: Final[Mapping[str, Any]] = {
    "group.id": "ottla-console",  # it joins none and commits nothing; librdkafka wants a name
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 20,
    "fetch.queue.backoff.ms": 10,  # by default, once the queue has been full, nothing is fetched for a second
    "queued.max.messages.kbytes": 16 * 1024,
    # Brokers count compressed bytes: of the default, a megabyte, two hundred came in one answer, with every block.
    "fetch.message.max.bytes": 256 * 1024,
}

Matches = Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where looking stops.

    Attributes:
        wanted: records to find.
        records_max: records that are looked at.
        kept_bytes_max: bytes of what is found, a single record aside.
        bytes_max: bytes that are looked at.
        within_s: seconds.
        block: offsets of each partition that are looked at first.
    """

    wanted: int
    records_max: int
    kept_bytes_max: int
    bytes_max: int
    within_s: float
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was found, and how far it looked.

    Attributes:
        records: in the order that was asked for.
        place: where it goes on.
        seen: records that were looked at; `seen_bytes` of keys and values.
        remaining: offsets that were not looked at; 0 at the end.
        seconds: that it took.
    """

    records: Sequence[Record]
    place: Place
    seen: int
    seen_bytes: int
    remaining: int
    seconds: float

    def without_records(self) -> "Looked":
        """Return how far it looked, for what outlives the records: what a page was made of is freed late."""
        return replace(self, records=())


@dataclass(slots=True)
class _Block:
    """What one block gave; `is_whole` unless a bound was met within."""

    found: list[Record]
    seen: int = 0
    seen_bytes: int = 0
    kept_bytes: int = 0
    is_whole: bool = True


def look(
    config: Mapping[str, Any],
    topic: str,
    logs: Spans,
    place: Place,
    bounds: Bounds,
    *,
    newest_first: bool,
    matches: Matches | None = None,
) -> Looked:
    """Look for records from a place on.

    Args:
        config: librdkafka's settings.
        topic: that is read.
        logs: by partition what its log holds.
        place: where it begins.
        bounds: where it stops.
        newest_first: whether it goes back.
        matches: which records are wanted; None for all.

    Raises:
        OperationError: the cluster does not answer, or refuses.
    """
    from confluent_kafka import Consumer  # noqa: PLC0415 - takes a tenth of a second

    bootstrap = str(config["bootstrap.servers"])
    began = time.monotonic()
    deadline = began + bounds.within_s
    with plain_errors(bootstrap, f"topic {topic}"), closing(Consumer({**config, **SETTINGS})) as consumer:
        reader = _Reader(consumer, topic, bootstrap, bounds, matches)
        records: list[Record] = []
        seen = seen_bytes = kept_bytes = 0
        block = bounds.block
        while spans := next_spans(place, logs, block, newest_first=newest_first):
            at = time.monotonic()
            read = reader.read(spans, kept_bytes, deadline)
            if not read.is_whole and block > 1 and time.monotonic() < deadline:
                block = max(1, block // (2 * GROWTH))
                continue
            if not read.is_whole and time.monotonic() >= deadline:
                if seen == 0:
                    raise OperationError(f"topic {topic}: nothing could be read within {bounds.within_s:.0f} s")
                break
            chosen = picked(place, spans, read.found, bounds.wanted - len(records), newest_first=newest_first)
            records += chosen.records
            place = chosen.place
            seen, seen_bytes, kept_bytes = (
                seen + read.seen,
                seen_bytes + read.seen_bytes,
                kept_bytes + read.kept_bytes,
            )
            is_enough = len(records) >= bounds.wanted or seen >= bounds.records_max or seen_bytes >= bounds.bytes_max
            if is_enough or kept_bytes >= bounds.kept_bytes_max or time.monotonic() >= deadline:
                break
            if time.monotonic() - at < QUICK_S:
                block = min(block * GROWTH, BLOCK_MAX)
            if matches is None:  # what is not needed would be read for nothing, and once more by whoever goes on
                density = read.seen / sum(end - first for first, end in spans.values())
                block = min(block, block_for(bounds.wanted - len(records), density, len(spans)))
    return Looked(
        records=records,
        place=place,
        seen=seen,
        seen_bytes=seen_bytes,
        remaining=remaining(place, logs, newest_first=newest_first),
        seconds=time.monotonic() - began,
    )


class _Reader:
    """Reads spans of a topic."""

    def __init__(
        self, consumer: "Consumer", topic: str, bootstrap: str, bounds: Bounds, matches: Matches | None
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._bootstrap = bootstrap
        self._bounds = bounds
        self._matches = matches
        self._seen = self._seen_bytes = 0

    def read(self, spans: Spans, kept_bytes: int, deadline: float) -> _Block:
        """Return what matches in the spans.

        A span of one offset is read whatever it weighs, or a record above the bound would be in the way for ever.
        """
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        open_ends = {partition: end for partition, (_, end) in spans.items()}
        may_stop = any(end - first > 1 for first, end in spans.values())
        self._consumer.assign([TopicPartition(self._topic, each, first) for each, (first, _) in spans.items()])
        block = _Block([])
        while open_ends:
            for message in self._consumer.consume(self._count(), POLL_S):
                record = self._within(message, open_ends)
                if record is not None:
                    self._take(block, record)
            is_full = may_stop and kept_bytes + block.kept_bytes > self._bounds.kept_bytes_max and block.seen > 1
            if is_full or (open_ends and time.monotonic() >= deadline):
                block.is_whole = False
                break
        return block

    def _count(self) -> int:
        if not self._seen:
            return CONSUME_RECORDS_FIRST
        mean_bytes = self._seen_bytes // self._seen
        return max(1, min(CONSUME_RECORDS_MAX, CONSUME_BYTES // max(1, mean_bytes)))

    def _take(self, block: _Block, record: Record) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        self._seen += 1
        self._seen_bytes += size
        block.seen += 1
        block.seen_bytes += size
        if self._matches is None or self._matches(record):
            block.found.append(record)
            block.kept_bytes += size

    def _within(self, message: "Message", open_ends: dict[int, int]) -> Record | None:
        """Return a record of the spans, and note which partitions are at their ends."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        partition: Any = message.partition()
        error = message.error()
        if error is not None:
            if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):  # noqa: SLF001 - public
                open_ends.pop(partition, None)  # the latter: its first records were deleted since
                return None
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return None  # librdkafka looks for the group's coordinator; reading needs a right on the topic alone
            if error.retriable() and not error.fatal():
                return None
            raise OperationError(describe_error(error, self._bootstrap, f"topic {self._topic}"))
        end = open_ends.get(partition)
        if end is None:
            return None
        offset: Any = message.offset()
        if offset + 1 >= end:
            del open_ends[partition]
        return to_record(message) if offset < end else None


def publish_one(config: Mapping[str, Any], record: Record, *, within_s: float) -> tuple[int, int]:
    """Publish a record to its topic, and return its partition and offset once all in-sync replicas have it.

    Raises:
        OperationError: it is refused, or not acknowledged in time.
    """
    from confluent_kafka import KafkaError, KafkaException, Producer  # noqa: PLC0415

    assert record.topic is not None
    bootstrap = str(config["bootstrap.servers"])
    told: list[Any] = []
    own = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": int(within_s * 1000), "linger.ms": 0}
    optional: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
    with plain_errors(bootstrap, f"topic {record.topic}"):
        producer = Producer({**config, **own, "message.max.bytes": 64 * 1024 * 1024})
        try:
            producer.produce(
                record.topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=lambda error, message: told.append((error, message)),
                **optional,
            )
        except KafkaException as raised:
            # A producer that waits for a token when it is made may have met a fatal error by now; `poll` raises why.
            if raised.args[0].code() == KafkaError._FATAL:  # noqa: SLF001 - a public name
                producer.poll(REASON_WITHIN_S)
            raise
        try:
            producer.flush(within_s)
        except SystemError as raised:
            # A fatal error, such as a missing right, is pending while `on_delivery` is called, and Python objects.
            raise raised.__cause__ or raised from None
    if not told:
        raise OperationError(f"topic {record.topic} did not acknowledge the message within {within_s:.0f} s")
    error, message = told[0]
    if error is not None:
        raise OperationError(describe_error(error, bootstrap, f"topic {record.topic}"))
    return message.partition(), message.offset()
