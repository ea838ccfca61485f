"""The partitions of one topic: leaders, replicas, offsets, sizes, how far followers are behind. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operations.cluster.cluster_view import ClusterView, Disks, PartitionView, partition_sizes
from ottla_operations.groups.inspection import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCell:
    """A replica: its broker, whether it leads, is in sync, and by how many offsets it is behind (None: not known)."""

    broker: int
    leads: bool
    in_sync: bool
    behind: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition.

    Attributes:
        first, following: the offsets at which its log begins, and of its next record; None where not known.
        log_bytes: of its largest copy.
    """

    number: int
    leader: int | None
    replicas: Sequence[ReplicaCell]
    first: int | None
    following: int | None
    log_bytes: int | None

    @property
    def state(self) -> str:
        """How it is: ok, under-replicated, or offline."""
        if self.leader is None:
            return "offline"
        return "ok" if all(each.in_sync for each in self.replicas) else "under-replicated"

    @property
    def records_max(self) -> int | None:
        """How many records it may have; fewer after compaction or transactions."""
        return None if self.first is None or self.following is None else self.following - self.first


def partition_rows(
    view: ClusterView, topic: str, disks: Disks, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[PartitionRow]:
    """Return the partitions of a topic; none if there is no such topic."""
    sizes = partition_sizes(disks)
    return [
        PartitionRow(
            number=name.partition,
            leader=each.leader,
            replicas=_replicas(each, disks),
            first=starts.get((topic, name.partition)),
            following=ends.get((topic, name.partition)),
            log_bytes=sizes.get(name),
        )
        for name, each in view.partitions.items()
        if name.topic == topic
    ]


def _replicas(partition: PartitionView, disks: Disks) -> list[ReplicaCell]:
    behind = {
        broker: copy.behind
        for broker, copies in disks.items()
        for copy in copies
        if copy.partition == partition.name and not copy.is_future
    }
    return [
        ReplicaCell(
            broker=broker,
            leads=broker == partition.leader,
            in_sync=broker in partition.in_sync,
            behind=behind.get(broker),
        )
        for broker in partition.replicas
    ]
