"""Ranges of offsets, and into how many a batch is cut: one per partition, or more if the options ask for it.

The rules are those of Spark's KafkaOffsetRangeCalculator: `maxRecordsPerPartition` cuts every range that is longer,
then `minPartitions` cuts the long ones further, in proportion to their lengths. A range's length is only an estimate
of how many records it has: compaction and transactions leave gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ottla_spark.datasource.offsets import Offsets, TopicOffsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition: from `start`, up to `end` exclusively.

    Attributes:
        topic_id: of the topic that they belong to; empty where the cluster tells none.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        """The number of offsets; negative for a range that runs backwards."""
        return self.end - self.start

    def __str__(self) -> str:
        """Return the range for a message."""
        return f"offsets {self.start} to {self.end} of partition {self.partition} of topic {self.topic}"


def ranges_between(start: Offsets, end: TopicOffsets) -> list[OffsetRange]:
    """Return the ranges that have offsets, in order; partitions without a start are left out."""
    return [
        OffsetRange(topic, number, start[topic, number], last, end.topic_ids.get(topic, ""))
        for (topic, number), last in sorted(end.offsets.items())
        if start.get((topic, number), last) < last
    ]


def cut(
    ranges: Sequence[OffsetRange], *, partitions_min: int | None, records_per_partition_max: int | None
) -> list[OffsetRange]:
    """Return the ranges that Spark's tasks read.

    Args:
        ranges: one per partition, none of them empty.
        partitions_min: about how many there shall be at least; rounding may lead to a few more or less.
        records_per_partition_max: how many offsets one may have at most.
    """
    pieces = list(ranges)
    if records_per_partition_max is not None:
        pieces = [piece for whole in ranges for piece in _parts(whole, -(-whole.size // records_per_partition_max))]
    if partitions_min is None or not pieces or len(pieces) >= partitions_min:
        return pieces
    return _cut_in_proportion(pieces, partitions_min)


def _cut_in_proportion(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    total = sum(each.size for each in ranges)
    # Short ranges stay whole, and take no part in how the others are cut.
    whole = {each for each in ranges if _share(each.size, total, count) == 1}
    cut_total = total - sum(each.size for each in whole)
    cut_count = max(count - len(whole), 1)
    return [
        piece
        for each in ranges
        for piece in _parts(each, 1 if each in whole else _share(each.size, cut_total, cut_count))
    ]


def _share(size: int, total: int, count: int) -> int:
    """Return `count` times the part that `size` is of `total`, rounded, and at least 1."""
    return max((2 * size * count + total) // (2 * total), 1)


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [replace(whole, start=first, end=last) for first, last in pairwise(bounds) if first < last]
