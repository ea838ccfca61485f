"""Which offsets of which partitions are looked at next, and what of it makes a page. Pure.

A place is an offset in each partition. Newest first, it is where what was not looked at ends; oldest first, where it
begins. A step looks at a block of offsets beside the place in each partition; the next place comes out of it, so that
going on needs nothing but that place.
"""

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_operations.records.record_line import Record

Place = Mapping[int, int]
"""Offsets by partition."""
Spans = Mapping[int, tuple[int, int]]
"""By partition the first offset, and the one behind the last."""

NO_TIME: Final = -1
BEHIND_MAX: Final = 10_000
"""Offsets of a partition by which a reading of what arrives may be behind."""
RESUMED_BEFORE_END: Final = 100
DENSITY_MIN: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Picked:
    """What a page shows of what was found, and where it goes on."""

    records: Sequence[Record]
    place: Place


def clamped(place: Place, logs: Spans) -> dict[int, int]:
    """Return a place within what the logs hold; a partition that it does not name is left out."""
    return {each: min(max(place[each], first), end) for each, (first, end) in logs.items() if each in place}


def next_spans(place: Place, logs: Spans, block: int, *, newest_first: bool) -> dict[int, tuple[int, int]]:
    """Return at most `block` offsets beside the place in each partition; none where nothing is left."""
    found = {}
    for partition, offset in place.items():
        first, end = logs[partition]
        span = (max(first, offset - block), offset) if newest_first else (offset, min(end, offset + block))
        if span[0] < span[1]:
            found[partition] = span
    return found


def block_for(missing: int, density: float, partitions: int) -> int:
    """Return how many offsets of each partition to look at so that as many records as are missing may be there.

    Args:
        missing: records.
        density: records for each offset, as far as was looked.
        partitions: that are looked at.
    """
    return max(1, math.ceil(missing / max(density, DENSITY_MIN) / partitions))


def remaining(place: Place, logs: Spans, *, newest_first: bool) -> int:
    """Return how many offsets are left to look at."""
    return sum(
        (offset - logs[each][0]) if newest_first else (logs[each][1] - offset) for each, offset in place.items()
    )


def picked(place: Place, spans: Spans, found: Sequence[Record], wanted: int, *, newest_first: bool) -> Picked:
    """Return the first `wanted` records that were found in the spans, by time over partitions, and the next place.

    In a partition records stay in the order of their offsets, whatever their times are, so that nothing is left out
    or shown twice when it goes on from the next place.
    """
    by_partition: dict[int, list[Record]] = {each: [] for each in spans}
    for record in found:
        by_partition[_number(record.partition)].append(record)
    sign = -1 if newest_first else 1
    for records in by_partition.values():
        records.sort(key=lambda each: sign * _number(each.offset))
    taken: list[Record] = []
    shown_of = dict.fromkeys(spans, 0)
    for record in _merged(by_partition, sign):
        if len(taken) == wanted:
            break
        taken.append(record)
        shown_of[_number(record.partition)] += 1
    following = dict(place)
    for partition, (first, end) in spans.items():
        records, shown = by_partition[partition], shown_of[partition]
        if shown == len(records):
            following[partition] = first if newest_first else end
        elif shown:
            following[partition] = _number(records[shown - 1].offset) + (0 if newest_first else 1)
    return Picked(taken, following)


def resumed(place: Place, ends: Place) -> tuple[dict[int, int], int]:
    """Return where a reading goes on, given the ends of logs as far as they are known, and what it passes over."""
    following = {}
    passed_over = 0
    for partition, offset in place.items():
        behind = ends.get(partition, offset) - offset
        following[partition] = offset + max(0, behind - RESUMED_BEFORE_END) if behind > BEHIND_MAX else offset
        passed_over += following[partition] - offset
    return following, passed_over


def _merged(by_partition: Mapping[int, Sequence[Record]], sign: int) -> Iterator[Record]:
    """Yield records by time, each partition's in its own order."""
    heads = [(sign * _time(records[0]), each, 0) for each, records in by_partition.items() if records]
    heapq.heapify(heads)
    while heads:
        _, partition, index = heapq.heappop(heads)
        records = by_partition[partition]
        yield records[index]
        if index + 1 < len(records):
            heapq.heappush(heads, (sign * _time(records[index + 1]), partition, index + 1))


def _time(record: Record) -> int:
    return NO_TIME if record.timestamp is None else record.timestamp


def _number(value: int | None) -> int:
    assert value is not None
    return value
