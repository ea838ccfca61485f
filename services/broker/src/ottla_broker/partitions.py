"""All partitions on this broker, kept in step with the cluster state.

The controller decides, the watch brings its decisions, and `PartitionTable` carries them out: it creates the logs
of partitions assigned to this broker, deletes those of deleted topics, and makes each partition lead or follow.
Changes are applied one after the other; a burst of them is applied as one, since only the newest state counts.
"""

import asyncio
from collections.abc import Iterator
from uuid import UUID

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.log.log_store import LogStore
from ottla_broker.partition import Partition
from ottla_core.cluster.feed import ClusterStateFeed
from ottla_core.cluster.membership import Membership
from ottla_core.cluster.model import NO_EPOCH, ClusterState, PartitionState, Topic
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from ottla_core.topic_config import TopicConfig, parse_topic_configs
from ottla_core.topic_partition import TopicPartition

APPLY_RETRY_SECONDS = 1.0

logger = structlog.get_logger("partitions")


class PartitionTable:
    """The partitions this broker holds, by topic and index."""

    def __init__(self, config: BrokerConfig, store: LogStore, feed: ClusterStateFeed, membership: Membership) -> None:
        self._config = config
        self._store = store
        self._feed = feed
        self._membership = membership
        self._partitions: dict[TopicPartition, Partition] = {}
        self._changed = asyncio.Event()
        self._applied = asyncio.Condition()
        self._applied_state = ClusterState()
        self._applied_epoch = NO_EPOCH
        self._applier: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        """Return a partition if this broker holds it."""
        return self._partitions.get(TopicPartition(topic, index))

    def leader_of(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads.

        Raises:
            UnknownTopicOrPartition: the cluster has no such partition.
            NotLeaderOrFollower: another broker leads it, or nobody, or this broker's registration has lapsed.
        """
        partition = self._partitions.get(TopicPartition(topic, index))
        if partition is None:
            raise self._absent(topic, index)
        if not partition.leads or not (partition.is_only_replica or self._membership.is_current()):
            raise partition.not_leader()
        return partition

    def topic_name(self, topic_id: UUID) -> str:
        """Return the name of a topic.

        Raises:
            UnknownTopicId: the cluster has no such topic.
        """
        topic = self._feed.state.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"no topic has the id {topic_id}")
        return topic.name

    def topic_config(self, topic: Topic, state: ClusterState | None = None) -> TopicConfig:
        """Return a topic's settings on this broker: its own over dynamic, static and built-in defaults."""
        dynamic = (state or self._feed.state).broker_configs
        defaults = self._config.topic_defaults(
            {**dynamic.get(None, {}), **dynamic.get(self._config.node_id, {})},
        )
        return parse_topic_configs(topic.configs, defaults)

    async def start(self) -> None:
        """Apply the present cluster state, then follow it."""
        self._feed.subscribe(lambda _old, _new: self._changed.set())
        await self._set_aside_unknown_logs(self._feed.state)
        await self._apply(self._feed.state)
        self._applier = asyncio.create_task(self._follow(), name="partition table")

    async def close(self) -> None:
        """Stop following the cluster state."""
        if self._applier is not None:
            self._applier.cancel()
            await asyncio.gather(self._applier, return_exceptions=True)

    def membership_changed(self) -> None:
        """Look again at who leads, because this broker registered anew."""
        self._changed.set()

    async def wait_applied(self, revision: int, timeout_s: float) -> bool:
        """Wait until the cluster state of `revision` has been applied here; return whether it was in time."""
        try:
            async with asyncio.timeout(timeout_s), self._applied:
                await self._applied.wait_for(lambda: self._applied_state.revision >= revision)
        except TimeoutError:
            return False
        return True

    def _absent(self, topic: str, index: int) -> UnknownTopicOrPartition | NotLeaderOrFollower:
        known = self._feed.state.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return UnknownTopicOrPartition(f"no partition {topic}-{index}")
        return NotLeaderOrFollower(f"broker {self._config.node_id} holds no replica of {topic}-{index}")

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._apply(self._feed.state)
            except (KafkaStorageError, OSError) as error:
                logger.error("cannot apply the cluster state; trying again", error=str(error))
                await asyncio.sleep(APPLY_RETRY_SECONDS)
                self._changed.set()

    async def _apply(self, state: ClusterState) -> None:
        previous, epoch = self._applied_state, self._membership.epoch
        reregistered = epoch != self._applied_epoch
        new_defaults = previous.broker_configs != state.broker_configs
        for name, topic in previous.topics.items():
            replacement = state.topics.get(name)
            if replacement is None or replacement.id != topic.id:
                await self._drop(topic)
        for name, topic in state.topics.items():
            if reregistered or new_defaults or previous.topics.get(name) is not topic:
                await self._apply_topic(topic, state, epoch)
        async with self._applied:
            self._applied_state, self._applied_epoch = state, epoch
            self._applied.notify_all()

    async def _apply_topic(self, topic: Topic, state: ClusterState, epoch: int) -> None:
        config = self.topic_config(topic, state)
        for partition_state in topic.partitions:
            if self._config.node_id not in partition_state.replicas:
                continue
            name = TopicPartition(topic.name, partition_state.index)
            partition = self._partitions.get(name)
            if partition is None:
                log = self._store.get(name) or await self._store.create(name, topic.id, config)
                partition = Partition(name, log, self._config.node_id, partition_state)
                self._partitions[name] = partition
            if partition.log.config != config:
                partition.log.update_config(config)
            partition.apply(partition_state, leads=self._leads(partition, partition_state, epoch))

    def _leads(self, partition: Partition, state: PartitionState, epoch: int) -> bool:
        if state.leader != self._config.node_id:
            return False
        if epoch == NO_EPOCH and partition.is_only_replica:
            return partition.leads and state.leader_epoch == partition.state.leader_epoch
        return state.leader_broker_epoch == epoch

    async def _drop(self, topic: Topic) -> None:
        for partition_state in topic.partitions:
            name = TopicPartition(topic.name, partition_state.index)
            partition = self._partitions.pop(name, None)
            if partition is not None:
                partition.leads = False
                partition.wake_all()
                await self._store.delete(name)

    async def _set_aside_unknown_logs(self, state: ClusterState) -> None:
        """Keep, but do not serve, logs on disk whose topic the cluster does not know (any more)."""
        for name, log in tuple(self._store.logs.items()):
            topic = state.topics.get(name.topic)
            if topic is None or topic.id != log.topic_id or name.partition >= len(topic.partitions):
                await self._store.set_aside(name)
