"""Checks that a log kept every acknowledged record: there, in order, once, where the acknowledgement said.

A *stream* is what one producer wrote to one partition: the numbers 0, 1, 2, … in this order. The producer notes
the offset of each acknowledged number. What is read back may hold more numbers than were acknowledged (their
answer was lost in the crash), but none twice, none out of order and none that was never sent.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

PROBLEMS_SHOWN_MAX = 10


class Stream(NamedTuple):
    """One producer's records in one partition."""

    producer: int
    partition: int


class ReadRecord(NamedTuple):
    """One record as it was read back."""

    stream: Stream
    number: int
    offset: int


@dataclass(slots=True)
class DeliveryLog:
    """What the producers did: numbers sent per stream, and the offsets of the acknowledged ones."""

    sent: Counter[Stream] = field(default_factory=Counter)
    acknowledged: dict[Stream, dict[int, int]] = field(default_factory=dict)

    def next_number(self, stream: Stream) -> int:
        """Notes that one more record of the stream is sent and returns its number."""
        number = self.sent[stream]
        self.sent[stream] += 1
        return number

    def acknowledge(self, stream: Stream, number: int, offset: int) -> None:
        self.acknowledged.setdefault(stream, {})[number] = offset

    def acknowledged_count(self) -> int:
        return sum(len(offsets) for offsets in self.acknowledged.values())

    def snapshot(self) -> "DeliveryLog":
        """A copy that later sends and acknowledgements leave alone."""
        return DeliveryLog(
            sent=self.sent.copy(),
            acknowledged={stream: dict(offsets) for stream, offsets in self.acknowledged.items()},
        )


def delivery_problems(log: DeliveryLog, read: Iterable[ReadRecord]) -> list[str]:
    """Everything that is wrong with what was read; an empty list is a kept promise.

    Args:
        log: acknowledgements up to the moment before the reading began.
        read: every record of every partition, each partition in offset order.
    """
    by_stream: dict[Stream, list[ReadRecord]] = {}
    for record in read:
        by_stream.setdefault(record.stream, []).append(record)
    problems: list[str] = []
    for stream in sorted({*by_stream, *log.acknowledged}):
        offsets = log.acknowledged.get(stream, {})
        problems += stream_problems(stream, offsets, log.sent[stream], by_stream.get(stream, []))
    return problems


def stream_problems(
    stream: Stream, acknowledged: Mapping[int, int], sent: int, records: list[ReadRecord]
) -> Iterator[str]:
    """The problems of one stream."""
    counts = Counter(record.number for record in records)
    offset_of = {record.number: record.offset for record in records}
    for number, count in counts.items():
        if count > 1:
            yield f"{stream}: {number} is there {count} times"
        if not 0 <= number < sent:
            yield f"{stream}: {number} was never sent"
    for number, offset in acknowledged.items():
        if number not in counts:
            yield f"{stream}: acknowledged {number} (offset {offset}) is lost"
        elif counts[number] == 1 and offset_of[number] != offset:
            yield f"{stream}: {number} was acknowledged at offset {offset} and stands at {offset_of[number]}"
    for earlier, later in pairwise(records):
        if later.number < earlier.number:
            yield f"{stream}: {later.number} follows {earlier.number}"


def assert_delivered(log: DeliveryLog, read: Iterable[ReadRecord]) -> None:
    """Fails with the first problems, if there are any."""
    problems = delivery_problems(log, read)
    assert not problems, f"{len(problems)} problems, the first: {problems[:PROBLEMS_SHOWN_MAX]}"
