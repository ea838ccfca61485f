"""The cluster's state as plain immutable values; this file knows nothing of etcd. Pure.

Names follow Kafka: a *topic* has *partitions*, each with an ordered list of *replicas* (broker ids), an
*in-sync replica set* (ISR), a *leader* and a *leader epoch*. Epochs of members and of the controller are etcd
create revisions, so they only ever grow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from ottla_core.cluster.state.features import SUPPORTED, FeatureRanges, FinalizedFeatures
from ottla_core.cluster.state.security import SecurityState
from ottla_core.topic_partition import TopicPartition

NO_LEADER = -1
NO_COORDINATOR = -1
NO_EPOCH = -1


class Role(StrEnum):
    """The kinds of process that join a cluster; the value stands in the etcd key."""

    BROKER = "broker"
    CONTROLLER = "controller"
    GROUP_COORDINATOR = "group-coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where clients reach one listener of a broker."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A live process, as it registered itself under a lease.

    Attributes:
        epoch: create revision of its key: the broker epoch of Kafka. Grows with every registration.
        incarnation: a UUID drawn at every start of the process.
        directory_ids: the `directory.id` of each log directory, in the order of `log.dirs`; brokers only. The
            same ids prove that a new process is the successor of an old one, since it holds the same locks.
        rpc_address: host:port of its gRPC server.
        shutting_down: it is about to leave (controlled shutdown); brokers only. The process writes this into its own
            key, so it needs no answer and outlives the controller of the moment.
        highest_producer_id: in its logs when it started, or -1; brokers only. The logs know better than an etcd that
            was restored from a backup.
        producer_epoch_floor: the highest producer epoch by which the log of a shard was seen to refuse an owner that
            etcd names, or -1; group coordinators only.
        intact_since: its logs have lost nothing since this epoch, which is that of its first registration after an
            unclean shutdown (a power failure; the end of a process is none); `NO_EPOCH` for the present one, 0 if
            there never was any; brokers only.
        features: the levels of features that it has.
    """

    role: Role
    id: int
    epoch: int
    incarnation: UUID
    rpc_address: str
    version: str
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    directory_ids: tuple[UUID, ...] = ()
    shutting_down: bool = False
    highest_producer_id: int = -1
    producer_epoch_floor: int = -1
    intact_since: int = 0
    features: FeatureRanges = SUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What the controller remembers of a broker that has ever joined, until it is unregistered.

    It is compared with what a broker says when it comes back. So it is written after everything that follows from
    the difference has been written.

    Attributes:
        broker_epoch: the latest registration that the controller has attended to. A live broker with another epoch
            has been away since.
        directory_ids: those of the log directories it had then. A broker that comes back without one of them has
            lost what was in it.
        features: the levels of features that it had. A broker that is away keeps the cluster from levels beyond them,
            as it could not come back.
        revision: mod revision of the key, for compare-and-set; not part of the stored value.
    """

    broker_id: int
    broker_epoch: int
    directory_ids: tuple[UUID, ...] = ()
    rack: str | None = None
    features: FeatureRanges = SUPPORTED
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLeader:
    """The leading controller; `epoch` is the create revision of the election key."""

    id: int
    epoch: int
    rpc_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition as the controller decided it.

    Attributes:
        replicas: broker ids, preferred leader first.
        isr: the in-sync subset of `replicas`.
        eligible_leaders: KIP-966's eligible leader replicas: those that have left the in-sync set since it fell
            below `min.insync.replicas`. They have everything up to the high watermark, which stands still meanwhile.
        leader: broker id or `NO_LEADER`.
        leader_epoch: grows with every election, also when the leader lost its registration and got it back.
        leader_broker_epoch: the leader's broker epoch when it was elected, or `NO_EPOCH`. A broker leads only
            under the registration that it was elected with; that makes a restart visible to every controller.
        adding: replicas that a reassignment is adding.
        removing: replicas that a reassignment will remove.
        link: the id of the link that the partition follows, so that its leader takes batches from the source cluster
            and none from clients; None if it is written here.
        set_aside_up_to: while it follows a link, the leader epoch up to which its records were written here, -1 if
            none were. What of them the source does not have is set aside when the log is cut to the source's.
        partition_epoch: mod revision of the key, for compare-and-set; not part of the stored value.
    """

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    leader_broker_epoch: int = NO_EPOCH
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    partition_epoch: int = 0
    eligible_leaders: tuple[int, ...] = ()
    link: UUID | None = None
    set_aside_up_to: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Another cluster, the source, of which topics here are followed offset by offset.

    Attributes:
        id: drawn at its creation; a later link of the same name is another one.
        source_cluster_id: the cluster that must answer at `bootstrap_servers`.
        bootstrap_servers: HOST:PORT of brokers of the source.
        settings: of connections to it, under librdkafka's names; secrets are `${provider:path:key}` references.
        topics: patterns of topic names (regular expressions that match whole names), for those who create topics.
        groups: patterns of ids of consumer groups whose offsets go along.
        paused: whether nothing is fetched.
        bytes_per_second: the most that each broker fetches through it; None for no limit.
        properties: how brokers keep it in step with its source, as written; see `link_properties`.
        promoted_topics: topics that were promoted, which are not linked again unless somebody asks for it.
        revision: mod revision of the key, for compare-and-set; not part of the stored value.
    """

    name: str
    id: UUID
    source_cluster_id: str
    bootstrap_servers: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    paused: bool = False
    bytes_per_second: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    promoted_topics: frozenset[str] = frozenset()
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The last time that the cluster's state was written into an etcd from elsewhere.

    etcd counts revisions anew then, so an epoch that was noted outside etcd before is not comparable with later ones.

    Attributes:
        number: grows with every recovery; 0 if there never was any.
        is_unfinished: not everything is there yet, and nobody may go by the state.
    """

    number: int = 0
    is_unfinished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrigin:
    """What a linked topic follows: the link's id, and the topic's name and id in the source cluster."""

    link_id: UUID
    source_topic: str
    source_topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with all its partitions, `partitions[i].index == i`.

    Attributes:
        origin: of what the topic is a linked copy; whether a partition still follows it, its state says.
        mod_revision: that of the topic's key, for compare-and-set; not part of the stored value.
    """

    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    origin: TopicOrigin | None = None
    mod_revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Which coordinator owns one partition of a sharded topic (see `shards`), as the controller decided it.

    The owner writes the partition as the producer named here; a later owner has a later epoch, or another producer id
    once the epochs have run out. So the pair of producer id and producer epoch names one ownership, and none twice.

    Attributes:
        topic_partition: the partition.
        coordinator: id of the owner or `NO_COORDINATOR`.
        coordinator_epoch: the epoch under which the owner was registered then, or `NO_EPOCH`. A coordinator owns a
            shard only under that registration.
        producer_id: what the owner writes as.
        producer_epoch: grows with every change of the owner or of its epoch; an int16.
        revision: mod revision of the key, for compare-and-set; not part of the stored value.
    """

    topic_partition: TopicPartition
    coordinator: int
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """One consistent snapshot; `revision` is the etcd revision it reflects.

    Attributes:
        coordinators: the live group coordinators.
        registrations: every broker that was ever live and not unregistered since, by id.
        shards: the partitions of sharded topics that the controller has assigned. A new topic's are assigned a
            moment after it has appeared, and go a moment after it has gone.
        broker_configs: dynamic broker settings by broker id; the key None holds the cluster-wide default.
        group_configs: the settings of the groups that have any, by group id.
        client_metrics_configs: the subscriptions to clients' metrics, by name.
        links: the links to source clusters, by name.
        features: the levels of features that the cluster is at.
        recovery: the last recovery of the state.
        security: access control lists, credentials, tokens and quotas.
        deleted_topics: topics whose deletion this process has seen happen, with the revision at which it happened;
            the oldest are forgotten (see `state.DELETIONS_REMEMBERED_MAX`). A topic that has gone from `topics_by_id`
            without being here is merely missing: it was not in a new listing, lost a partition's key, or had its
            record replaced by hand. Its data must be kept. Says how a process came to know a state, not what the
            state is, hence plays no part in comparisons.
        incomplete_topics: names of topics that are stored and not in `topics`, since the record or a partition
            cannot be read, or a partition is missing. They may be back.
    """

    cluster_id: str = ""
    revision: int = 0
    controller: ControllerLeader | None = None
    brokers: Mapping[int, Member] = field(default_factory=dict)
    controllers: Mapping[int, Member] = field(default_factory=dict)
    coordinators: Mapping[int, Member] = field(default_factory=dict)
    registrations: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, Topic] = field(default_factory=dict)
    shards: Mapping[TopicPartition, Shard] = field(default_factory=dict)
    broker_configs: Mapping[int | None, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    features: FinalizedFeatures = field(default_factory=FinalizedFeatures)
    recovery: Recovery = Recovery()
    security: SecurityState = field(default_factory=SecurityState)
    deleted_topics: Mapping[UUID, int] = field(default_factory=dict, compare=False)
    incomplete_topics: frozenset[str] = frozenset()

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id that a live broker has found in its logs, or -1."""
        return max((broker.highest_producer_id for broker in self.brokers.values()), default=-1)

    def link_of(self, link_id: UUID | None) -> Link | None:
        """Return the link of an id, if it is there."""
        return next((link for link in self.links.values() if link.id == link_id), None)
