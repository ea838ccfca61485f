"""What a cluster tells about itself: brokers, partitions, replicas on disks, moves that are going on. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla_core.topic_partition import TopicPartition

Replicas = tuple[int, ...]
"""Broker ids of a partition's copies, the preferred leader first."""

ELECTION_NOT_NEEDED = 84
"""Kafka's error code for it."""
TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE = 2, 4, 16
"""Kafka's numbers for what a setting belongs to."""
RESOURCE_NAMES = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", CLIENT_METRICS_RESOURCE: "client-metrics"}


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that is in service."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """What a broker tells of the controllers.

    Attributes:
        time_ms: by which clock it dates this, since 1970; None if nobody leads, or it does not know.
        is_out_of_date: whether it says that it cannot know, as it does not hear what is decided in the cluster.
    """

    time_ms: int | None
    is_out_of_date: bool


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition.

    Attributes:
        leader: the broker that leads it, or None if it is offline.
        replicas: where its copies are or shall be.
        in_sync: the copies that have everything.
    """

    name: TopicPartition
    leader: int | None
    replicas: Replicas
    in_sync: Replicas

    @property
    def is_under_replicated(self) -> bool:
        """Whether a copy is not in sync."""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class ReplicaOnDisk:
    """One broker's copy of a partition.

    Attributes:
        is_future: whether it is to replace another one on the same broker.
        behind: by how many offsets it is behind the high watermark, or, of a future copy, behind the one to replace.
    """

    partition: TopicPartition
    size_bytes: int
    is_future: bool = False
    behind: int = 0


@dataclass(frozen=True, slots=True)
class LogDirectoryView:
    """A log directory of a broker, as it tells; the bytes are -1 where it does not know."""

    path: str
    free_bytes: int
    size_bytes: int
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A reassignment that is going on; `replicas` are all that the partition has meanwhile."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas that there will be."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


Disks = Mapping[int, Sequence[ReplicaOnDisk]]
"""The copies that each broker has; a broker that did not answer is missing."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at one moment.

    Attributes:
        brokers: those in service, by id.
        partitions: of all topics, in order.
    """

    cluster_id: str
    brokers: Mapping[int, BrokerView]
    partitions: Mapping[TopicPartition, PartitionView] = field(default_factory=dict)

    @property
    def topics(self) -> dict[str, int]:
        """How many partitions each topic has."""
        counts: dict[str, int] = {}
        for name in self.partitions:
            counts[name.topic] = counts.get(name.topic, 0) + 1
        return counts

    @property
    def racks(self) -> dict[int, str | None]:
        """The rack of each broker."""
        return {broker.id: broker.rack for broker in self.brokers.values()}


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A dynamic setting of a topic, a broker, or a subscription to clients' metrics; None deletes it."""

    resource_type: int
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done; `code` is Kafka's."""

    code: int
    message: str

    @property
    def is_needless(self) -> bool:
        """Whether there was nothing to do."""
        return self.code == ELECTION_NOT_NEEDED


OwnSettings = dict[str, dict[str, str | None]]
"""By topic or broker, the settings that were given at run time; None for a secret."""

Outcomes = Mapping[TopicPartition, Refusal | None]
"""What became of a request for several partitions: None where it was done."""


def partition_sizes(disks: Disks) -> dict[TopicPartition, int]:
    """Return how many bytes a copy of each partition takes: the biggest there is, as others may be catching up."""
    sizes: dict[TopicPartition, int] = {}
    for replicas in disks.values():
        for replica in replicas:
            if not replica.is_future:
                sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
    return sizes


def describe_replicas(replicas: Iterable[int]) -> str:
    """Return broker ids as people write them."""
    return ",".join(str(broker) for broker in replicas)
