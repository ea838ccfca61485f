"""What can happen to a cluster in a trial, as data: one fault hits some processes from one moment to another. Pure.

Processes are known by names such as `broker-1`; `CLIENTS` stands for all programs of the load together. Moments are
seconds since the faults of the trial began.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

BROKER = "broker"
CONTROLLER = "controller"
COORDINATOR = "group-coordinator"
ETCD = "etcd"
CLIENTS = "clients"

Link = tuple[str, str]
"""Everything that the first process sends to the second."""


class Kind(StrEnum):
    """What happens; each is undone when the fault is over."""

    KILL = "kill"
    """kill -9; started again at the end."""
    STOP = "stop"
    """SIGTERM, a clean stop; started again at the end."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT at the end."""
    WIPE = "wipe"
    """kill -9 and all data deleted; started again, empty, at the end."""
    CUT = "cut"
    """Links lose all packets."""
    SLOW = "slow"
    """A process's network carries few bytes per second."""
    FULL_DISK = "full disk"
    """A broker's log directory has no space left."""
    SLOW_DISK = "slow disk"
    """Now and then a broker's disk takes seconds for a write."""
    BROKEN_DISK = "broken disk"
    """A broker's disk refuses all writes and fsyncs; the broker is killed at the end and started again on one that
    lacks what was not fsynced."""
    UNSYNCED_DISK = "unsynced disk"
    """A broker's disk takes writes and refuses fsyncs; the end is that of a broken disk."""
    STALLED_DISK = "stalled disk"
    """A broker's disk does nothing, then goes on; shorter than the lease that costs nothing, longer leadership."""
    REFUSING_DISK = "refusing disk"
    """A broker's disk refuses writes, some after a part of the bytes, and new files; then all is well by itself."""
    NO_DESCRIPTORS = "no descriptors"
    """A broker cannot open files."""
    CLOCK = "clock"
    """The wall clock is wrong by some seconds."""
    REASSIGN = "reassign"
    """A partition moves to other brokers, and back at the end, whether it has arrived or not."""
    CANCEL = "cancel"
    """A partition moves to other brokers, which is cancelled at the end."""
    SHUFFLE = "reassign beside a big topic"
    """A partition leaves a broker and comes back at once, while the brokers make the logs of a topic with many."""
    FACTOR = "replication factor"
    """A topic gets more or fewer replicas, and has its former ones again at the end."""
    BIG_TOPIC = "big topic"
    """A topic with many partitions is created, and deleted at the end."""
    SETTINGS = "settings"
    """A topic's setting is changed, and has its former value again at the end."""
    ELECT = "elect"
    """The preferred leaders of all partitions are elected, at the beginning and at the end."""
    LIFE = "topic's life"
    """Topics of an operator's own are created, filled, moved, deleted in part or whole, and created anew."""
    HOSTILE = "hostile clients"
    """Clients send garbage, half frames and huge requests, read nothing, or come in great numbers."""
    RECREATE = "topic recreated"
    """A mirrored topic of the source is deleted, created anew, and written."""
    GROW = "partitions added"
    """A mirrored topic of the source gets one more partition, which is written."""
    OVERTAKE = "retention overtakes"
    """Mirrors cannot reach the source, which deletes meanwhile what they have not copied."""


class HostileBehaviour(StrEnum):
    """What clients do that mean harm, or are broken."""

    GARBAGE = "garbage"
    HALF = "half frames"
    HUGE = "huge requests"
    """Announced; not all of them comes."""
    UNREAD = "answers never read"
    MANY = "many connections"
    LARGE = "large requests"
    """Well-formed, and as much work as possible."""


DISK_FAULTS = frozenset(
    {
        Kind.SLOW_DISK,
        Kind.BROKEN_DISK,
        Kind.UNSYNCED_DISK,
        Kind.STALLED_DISK,
        Kind.REFUSING_DISK,
        Kind.NO_DESCRIPTORS,
    }
)
LOSSES = frozenset({Kind.WIPE, Kind.BROKEN_DISK, Kind.UNSYNCED_DISK})
"""What may cost a replica records that it has acknowledged: all of them, or those that were not fsynced."""
OPERATIONS = frozenset(
    {
        Kind.REASSIGN,
        Kind.CANCEL,
        Kind.SHUFFLE,
        Kind.FACTOR,
        Kind.BIG_TOPIC,
        Kind.SETTINGS,
        Kind.ELECT,
        Kind.LIFE,
    }
)
"""What operators do, who mean no harm: their requests, rather than anything that fails."""
MIRROR_OPERATIONS = frozenset({Kind.RECREATE, Kind.GROW, Kind.OVERTAKE})
"""What operators do where two clusters are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        kind: what happens.
        targets: to which processes; for a cut only what to call it, for an operation the topic or partition.
        from_s: when it begins.
        until_s: when it is undone.
        links: what a cut cuts.
        rate_kbit: kilobits per second of a slow link.
        jump_s: by how many seconds a clock is wrong, or how long a slow disk takes at most.
        wanted: what an operation is to bring about, which error a disk refuses writes with, or what clients do.
    """

    kind: Kind
    targets: tuple[str, ...]
    from_s: float
    until_s: float
    links: frozenset[Link] = frozenset()
    rate_kbit: int = 0
    jump_s: int = 0
    wanted: str = ""

    def __str__(self) -> str:
        """One line of a printed schedule."""
        extra = {
            Kind.CUT: f" ({len(self.links)} links)",
            Kind.SLOW: f" ({self.rate_kbit} kbit/s)",
            Kind.CLOCK: f" ({self.jump_s:+d} s)",
            Kind.SLOW_DISK: f" (up to {self.jump_s} s)",
        }.get(self.kind, f" ({self.wanted})" if self.wanted else "")
        return f"{self.from_s:5.1f}-{self.until_s:5.1f} s  {self.kind} {', '.join(self.targets)}{extra}"

    def overlaps(self, other: "Fault") -> bool:
        """Whether both are in force at some moment."""
        return self.from_s <= other.until_s and other.from_s <= self.until_s


@dataclass(frozen=True, slots=True)
class Members:
    """How many processes of each role there are; ids count from 1.

    Attributes:
        site: which of several clusters they are, or "": names begin with it, as in `west.broker-1`.
    """

    brokers: int = 3
    controllers: int = 3
    coordinators: int = 2
    etcd: int = 3
    site: str = ""

    def name(self, role: str, number: int) -> str:
        """The name of one process."""
        return f"{self.site}.{role}-{number}" if self.site else f"{role}-{number}"

    def of(self, role: str) -> tuple[str, ...]:
        """The names of one role's processes."""
        count = {BROKER: self.brokers, CONTROLLER: self.controllers, COORDINATOR: self.coordinators, ETCD: self.etcd}
        return tuple(self.name(role, number) for number in range(1, count[role] + 1))

    @property
    def services(self) -> tuple[str, ...]:
        """Every process but etcd's."""
        return (*self.of(BROKER), *self.of(CONTROLLER), *self.of(COORDINATOR))

    @property
    def all(self) -> tuple[str, ...]:
        """Every process of the cluster, in the order of their start."""
        return (*self.of(ETCD), *self.of(CONTROLLER), *self.of(COORDINATOR), *self.of(BROKER))


def role_of(name: str) -> str:
    """The role of a process, by its name."""
    return name.rpartition("-")[0].rpartition(".")[2]


def site_of(name: str) -> str:
    """The site of a process, by its name; "" if it has none."""
    return name.rpartition("-")[0].rpartition(".")[0]


def id_of(name: str) -> int:
    """The id of a process, by its name."""
    return int(name.rpartition("-")[2])


def links_between(ones: Iterable[str], others: Iterable[str], *, both_ways: bool = True) -> frozenset[Link]:
    """The links from some processes to others, and back if asked for."""
    return frozenset(_links(tuple(ones), tuple(others), both_ways=both_ways))


def _links(ones: tuple[str, ...], others: tuple[str, ...], *, both_ways: bool) -> Iterator[Link]:
    for one in ones:
        for other in others:
            if one != other:
                yield one, other
                if both_ways:
                    yield other, one
