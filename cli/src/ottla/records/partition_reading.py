"""Reading partitions of one topic that are assigned by hand, each up to where it ended at the start, or for ever."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.kafka_client import partition_count
from ottla_operations.errors import OperationError
from ottla_operations.interruptible import interruptible
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error
from ottla_operations.records.start_offset import Anchor, StartOffset

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_RECORDS_MAX = 1_000
POLL_S = 0.05

PrintRecords = Callable[[list["Message"], int | None], tuple[int, int]]
"""Prints of some messages at most so many; returns how many it looked at, and how many it printed."""


class Reading:
    """Partitions being read, each up to where it ended at the start.

    Raises:
        KafkaException: the cluster does not tell the offsets.
    """

    def __init__(self, consumer: "Consumer", topic: str, partitions: Sequence[int], start: StartOffset) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        self._consumer = consumer
        self._ends = {}
        assigned = []
        by_time = _offsets_at(consumer, topic, partitions, start) if start.anchor is Anchor.TIME_MS else {}
        for partition in partitions:
            first, end = interruptible(
                partial(consumer.get_watermark_offsets, TopicPartition(topic, partition), REQUEST_TIMEOUT_S)
            )
            begin = by_time[partition] if by_time else first_offset(start, first, end, partition)
            assigned.append(TopicPartition(topic, partition, end if begin < 0 else begin))
            if begin < end and begin >= 0:
                self._ends[partition] = end
        consumer.assign(assigned)

    def run(self, print_records: PrintRecords, *, count: int | None, follow: bool, bootstrap: str) -> None:
        """Read until `count`, the ends (unless `follow`), or an interrupt.

        Raises:
            OperationError: a partition cannot be read.
        """
        remaining = count
        while (follow or self._ends) and remaining != 0:
            messages = self._consumer.consume(BATCH_RECORDS_MAX, POLL_S)
            records = [message for message in messages if self._take(message, bootstrap, follow=follow)]
            printed = print_records(records, remaining)[1] if records else 0
            if remaining is not None:
                remaining -= printed

    def _take(self, message: "Message", bootstrap: str, *, follow: bool) -> bool:
        """Tell whether a message is a record to print, and note where its partition is."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        partition = _number(message.partition())
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name
                self._ends.pop(partition, None)
                return False
            if error.retriable() and not error.fatal():
                return False
            raise OperationError(describe_error(error, bootstrap, f"{message.topic()} partition {partition}"))
        if follow:
            return True
        end = self._ends.get(partition)
        if end is None:
            return False
        offset = _number(message.offset())
        if offset + 1 >= end:
            del self._ends[partition]
        return offset < end


def first_offset(start: StartOffset, first: int, end: int, partition: int) -> int:
    """Return the offset a partition is read from, given the first there is and the one after the last.

    Raises:
        OperationError: the partition does not have the offset asked for.
    """
    match start.anchor:
        case Anchor.EARLIEST:
            return first
        case Anchor.LATEST:
            return end
        case Anchor.BEFORE_END:
            return max(first, end - start.number)
        case Anchor.OFFSET if not first <= start.number <= end:
            raise OperationError(
                f"partition {partition} has no offset {start.number}; it holds {describe_range(first, end)}"
            )
        case _:
            return start.number


def describe_range(first: int, end: int) -> str:
    """Return in words which offsets a partition holds."""
    return f"{first} to {end - 1}" if end > first else f"no records; its next offset is {end}"


def _offsets_at(consumer: "Consumer", topic: str, partitions: Sequence[int], start: StartOffset) -> dict[int, int]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    wanted = [TopicPartition(topic, partition, start.number) for partition in partitions]
    found = interruptible(lambda: consumer.offsets_for_times(wanted, REQUEST_TIMEOUT_S))
    return {each.partition: each.offset for each in found}


def chosen_partitions(consumer: "Consumer", topic: str, chosen: Sequence[int] | None, bootstrap: str) -> list[int]:
    """Return the partitions to read, in order: those that were chosen, or all.

    Raises:
        OperationError: the topic, or one of them, does not exist.
    """
    count = partition_count(consumer, topic, bootstrap)
    for partition in chosen or ():
        if partition >= count:
            raise OperationError(f"topic {topic} has no partition {partition}; its partitions are 0 to {count - 1}")
    return sorted(set(chosen)) if chosen else list(range(count))


def _number(value: int | None) -> int:
    assert value is not None
    return value
