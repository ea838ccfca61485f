"""What `ottla doctor` knows of a cluster and what it makes of it: facts, findings, and how bad these are. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Move, PartitionView
from ottla_operations.doctor.etcd_members import EtcdMember
from ottla_operations.local_clusters.cluster_report import ClusterReport
from ottla_operations.transactions.transaction_view import OpenTransaction

NAMED_MAX = 5


class Harm(IntEnum):
    """How bad a finding is, the worst first."""

    UNAVAILABLE = 0
    """Something cannot be read or written."""
    AT_RISK = 1
    """The next failure stops something, or loses records."""
    STALLED = 2
    """Work beside the brokers stands still."""
    ADVICE = 3
    """Everything works; a setting or something left behind makes a later failure worse."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        rule: the name of the rule that found it, for scripts.
        where: the part of the cluster.
        what: what is wrong, in a sentence.
        remedy: the command that mends it, or that says more.
    """

    harm: Harm
    rule: str
    where: str
    what: str
    remedy: str

    def to_document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {**asdict(self), "harm": self.harm.name.lower()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """How far a group has come in one partition.

    Attributes:
        place: the partition, as `topic-0`.
        committed: the offset that it reads next.
        log_start, log_end: of the partition.
        overdue_before: the offset of the first record that is young enough; the log's end if none is.
    """

    group: str
    place: str
    committed: int
    log_start: int
    log_end: int
    overdue_before: int
    has_members: bool


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """What a partition that follows another cluster is doing, and why; `state` is a `LinkedPartitionState`."""

    link: str
    place: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Clock:
    """A process's clock; seconds ahead of this machine's (negative: behind), and by how much that may be wrong."""

    name: str
    ahead_s: float
    uncertain_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What could be seen of a cluster.

    Attributes:
        view: what brokers tell; None if none was asked, or none answers.
        settings: of each topic that could be asked, those in `hazards.ASKED`.
        moves: the reassignments that are going on.
        disks: bytes free, and of how many, in each log directory of the brokers that answer.
        local: the local cluster of `ottla up`, if it is one, its processes asked for their health.
        connectors: statuses of Connect workers.
        flows: the list of flows of mirror workers.
        etcd: its members, as far as their addresses are known.
        clocks: those of the processes that tell.
        days_left: of the certificates of a local cluster that end within a month, by whose they are; below 0 for one
            that has ended.
        has_controller: whether a controller leads; None if nobody told.
        has_coordinators: whether consumer groups have a coordinator; None if nobody told, or there are no groups yet.
        out_of_date: of each broker that tells, whether it does not hear what is decided in the cluster.
        failed_directories: log directories that brokers cannot use.
        groups: the places of consumer groups that are behind the ends of logs.
        links: what partitions of links are doing.
        hanging: transactions that nobody will end.
        levels: the cluster's levels of features.
        supported_levels: by broker, the lowest and the highest level that it has of each.
    """

    view: ClusterView | None = None
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    moves: Mapping[TopicPartition, Move] = field(default_factory=dict)
    disks: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    local: ClusterReport | None = None
    connectors: Sequence[Mapping[str, Any]] = ()
    flows: Sequence[Mapping[str, Any]] = ()
    etcd: Sequence[EtcdMember] = ()
    clocks: Sequence[Clock] = ()
    days_left: Mapping[str, int] = field(default_factory=dict)
    has_controller: bool | None = None
    has_coordinators: bool | None = None
    out_of_date: Mapping[int, bool] = field(default_factory=dict)
    failed_directories: Mapping[int, Sequence[str]] = field(default_factory=dict)
    groups: Sequence[GroupPlace] = ()
    links: Sequence[LinkPlace] = ()
    hanging: Sequence[OpenTransaction] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    supported_levels: Mapping[int, Mapping[str, tuple[int, int]]] = field(default_factory=dict)


def named(partitions: Sequence[PartitionView]) -> str:
    """Return the first few partitions, as a sentence takes them."""
    names = [f"{each.name.topic}-{each.name.partition}" for each in partitions]
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else "")
