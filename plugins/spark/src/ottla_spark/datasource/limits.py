"""How far a batch of a stream goes: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`.

As in Spark's KafkaMicroBatchStream: the greatest number of offsets is spread over partitions in proportion to what
each has, and a batch that would have too few waits until there are more, or until the greatest delay is over.
"""

from dataclasses import dataclass

from ottla_spark.datasource.offsets import Offsets, Partition


def limited(start: Offsets, latest: Offsets, limit: int) -> dict[Partition, int]:
    """Return where a batch ends that reads about `limit` offsets.

    Args:
        start: where it starts; a partition that is not in it stays as it is in `latest`.
        latest: the ends of all partitions.
        limit: how many offsets; a partition that has any gets at least one, so a few more may be read.
    """
    sizes = {partition: latest[partition] - start[partition] for partition in latest if partition in start}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= limit:
        return dict(latest)
    ends = dict(latest)
    for partition, size in sizes.items():
        if size > 0:
            ends[partition] = start[partition] + min(size, max(limit * size // total, 1))
    return ends


@dataclass(slots=True, kw_only=True)
class BatchDelay:
    """Decides whether a batch waits for more records.

    Attributes:
        offsets_min: how many a batch has to have, unless the delay is over.
        delay_max_ms: how long after the last batch the next one starts at the latest.
        last_batch_ms: when the last one started; the first never waits.
    """

    offsets_min: int
    delay_max_ms: int
    last_batch_ms: int | None = None

    def waits(self, start: Offsets, latest: Offsets, *, now_ms: int) -> bool:
        """Return whether to wait; otherwise the batch counts as started now."""
        available = sum(max(offset - start.get(partition, 0), 0) for partition, offset in latest.items())
        is_late = self.last_batch_ms is None or now_ms - self.last_batch_ms >= self.delay_max_ms
        if available < self.offsets_min and not is_late:
            return True
        self.last_batch_ms = now_ms
        return False
