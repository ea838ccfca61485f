"""Which source offsets are safe to commit: those up to which all records of a source partition are acknowledged.

Records are acknowledged in the order of their topic partitions, not of their source partitions; so the offsets of
each source partition wait in a queue until all before them is acknowledged too (Kafka's SubmittedRecords). They are
kept by runs of records that came from one poll, which costs a record no more than a count.

Pure.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


def identity(partition: SourcePartition) -> str:
    """Return what is the same for equal source partitions, in whatever order their keys are."""
    return json.dumps(partition, sort_keys=True, default=str)


class CommittableOffset(NamedTuple):
    """A source partition and the offset up to which its records are acknowledged."""

    partition: SourcePartition
    offset: SourceOffset


class Run:
    """Records of one source partition, one behind the other. Whoever sends them counts; the attributes are for that.

    Attributes:
        partition: the source partition.
        outstanding: records that were sent and are not acknowledged.
        offset: that of the last record that was sent or dropped; None before the first.
        sealed: whether no more will come.
    """

    __slots__ = ("offset", "outstanding", "partition", "sealed")

    def __init__(self, partition: SourcePartition) -> None:
        self.partition = partition
        self.outstanding = 0
        self.offset: SourceOffset | None = None
        self.sealed = False

    def seal(self) -> None:
        """No more will come; the offset is kept as it is now, whatever its owner does with the object."""
        self.sealed = True
        if self.offset is not None:
            self.offset = dict(self.offset)

    @property
    def is_done(self) -> bool:
        """Whether everything is acknowledged and nothing more will come."""
        return self.sealed and self.outstanding == 0


class InFlight:
    """The runs of a task that are not committed yet."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Run]] = {}

    def begin(self, partition: SourcePartition) -> Run:
        """Return a new run behind all others of its source partition; it must be sealed at some time."""
        run = Run(partition)
        self._queues.setdefault(identity(partition), deque()).append(run)
        return run

    def take_committable(self) -> dict[str, CommittableOffset]:
        """Return the latest offset of each source partition that has become safe since the last call, by identity."""
        safe: dict[str, CommittableOffset] = {}
        for key, queue in list(self._queues.items()):
            while queue and queue[0].is_done:
                run = queue.popleft()
                if run.offset is not None:
                    safe[key] = CommittableOffset(run.partition, run.offset)
            if not queue:
                del self._queues[key]
        return safe
