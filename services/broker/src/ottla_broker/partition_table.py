"""The partitions that this broker holds, as request handlers see them.

`PartitionTable` answers who leads a partition here; `reconciliation.py` keeps it in step with the cluster state. The
table may lag a little behind the newest state, so a look-up compares topic ids: a request for a topic must never
reach the log of an earlier topic of the same name.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.effective_topic_config import effective_topic_config, unknown_settings
from ottla_broker.partition import Partition
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import (
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

CONFIGS_KEPT_MAX: Final = 1000
"""Different settings of topics whose outcome is remembered; thousands of topics mostly have the same."""
log = structlog.get_logger("partitions")


class PartitionTable:
    """The partitions this broker holds, by topic and index."""

    def __init__(self, config: BrokerConfig, feed: ClusterStateFeed, membership: Membership) -> None:
        self._config = config
        self._feed = feed
        self._membership = membership
        self._partitions: dict[TopicPartition, Partition] = {}
        self._lease_ttl_ms = config.member_lease_ttl_ms
        self._configs: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        self._configs_under: Mapping[int | None, Mapping[str, str]] | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def get(self, name: TopicPartition) -> Partition | None:
        """Return a partition if this broker holds it."""
        return self._partitions.get(name)

    def add(self, partition: Partition) -> None:
        """Hold a partition."""
        self._partitions[partition.topic_partition] = partition

    def remove(self, partition: Partition) -> None:
        """Hold a partition no longer."""
        del self._partitions[partition.topic_partition]

    def leader_of(self, named: str | UUID, index: int) -> Partition:
        """Return a partition that this broker leads.

        Args:
            named: the topic's name or id.
            index: the partition's index.

        Raises:
            UnknownTopicId, UnknownTopicOrPartition: the cluster has no such partition.
            NotLeaderOrFollower: another broker leads it, or nobody, or this broker's registration has lapsed and
                somebody else may have been elected.
        """
        partition = self.replica_of(named, index)
        if not self.leads_safely(partition):
            raise partition.not_leader()
        return partition

    def replica_of(self, named: str | UUID, index: int) -> Partition:
        """Return a partition of which this broker holds a replica, whoever leads it.

        Args:
            named: the topic's name or id.
            index: the partition's index.

        Raises:
            UnknownTopicId, UnknownTopicOrPartition: the cluster has no such partition.
            NotLeaderOrFollower: this broker holds no replica of it.
        """
        topic = self._topic(named)
        partition = self._partitions.get(TopicPartition(topic.name, index))
        if partition is None or partition.topic_id.int != topic.id.int:  # a UUID compares itself more slowly
            raise self._absent(topic, index)
        return partition

    def readable_replica(self, named: str | UUID, index: int) -> Partition:
        """Return a partition that consumers may read here: one that this broker leads, or follows in sync.

        A follower that is not in sync may have to begin from nothing, for example because its disk was replaced. A
        consumer that still reads from it must not be told that its offset is out of range, but to ask the leader.
        Nor must it read from one what the leader gives up, because the source that it follows does not have it.

        Args:
            named: the topic's name or id.
            index: the partition's index.

        Raises:
            UnknownTopicId, UnknownTopicOrPartition: the cluster has no such partition.
            NotLeaderOrFollower: this broker holds no replica of it that is in sync, or should lead it and does not.
        """
        partition = self.replica_of(named, index)
        if partition.has_lost_log:
            raise partition.not_leader()
        if partition.leads:
            if not self.leads_safely(partition):
                raise partition.not_leader()
        elif (
            partition.state.leader == partition.broker_id
            or partition.broker_id not in partition.state.isr
            or partition.may_be_cut
        ):
            raise partition.not_leader()
        return partition

    def leads_safely(self, partition: Partition) -> bool:
        """Return whether this broker leads and nobody else can have been elected.

        While etcd cannot be reached that is so for as long as every replica that could be elected keeps fetching. A
        new registration ends it at once, not when the partition is given the role that follows from it: the
        controller may know the registration by now, and have elected another broker.
        """
        if not partition.leads or partition.is_only_replica:
            return partition.leads
        if self._membership.is_current():
            return partition.state.leader_broker_epoch == self._membership.registered_epoch
        return partition.leads_without_registration(self._lease_ttl_ms)

    def topic_config(self, topic: Topic, state: ClusterState | None = None) -> TopicConfig:
        """Return the settings that hold for a topic on this broker.

        Raises:
            InvalidConfig: the topic's own settings are bad or contradict each other.
        """
        state = state or self._feed.state
        if state.broker_configs is not self._configs_under or len(self._configs) >= CONFIGS_KEPT_MAX:
            self._configs_under, self._configs = state.broker_configs, {}
        own = frozenset(topic.configs.items())
        config = self._configs.get(own)
        if config is None:
            config = self._configs[own] = effective_topic_config(topic, state, self._config)
            if unknown := unknown_settings(topic):
                log.warning("settings of a topic are unknown to this release", topic=topic.name, settings=unknown)
        return config

    def _topic(self, named: str | UUID) -> Topic:
        state = self._feed.state
        if isinstance(named, UUID):
            topic = state.topics_by_id.get(named)
            if topic is None:
                raise UnknownTopicId(f"no topic has the id {named}")
            return topic
        topic = state.topics.get(named)
        if topic is None:
            raise UnknownTopicOrPartition(f"there is no topic {named}")
        return topic

    def _absent(self, topic: Topic, index: int) -> KafkaError:
        if not 0 <= index < len(topic.partitions):
            return UnknownTopicOrPartition(f"{topic.name} has no partition {index}")
        return NotLeaderOrFollower(f"broker {self._config.node_id} holds no replica of {topic.name}-{index}")
