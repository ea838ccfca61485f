"""Bringing this broker's partitions and logs in step with the cluster state.

The controller decides, the watch brings its decisions, and `Reconciler` carries them out: it creates the logs of
partitions assigned to this broker, retires those of deleted topics, and makes each partition lead or follow. It
always compares what is held with the newest state, so a burst of changes is carried out as one, and whatever failed
(a full disk, say) is tried again without holding up the other topics.

Files of a topic are deleted only if its deletion was seen. A topic that merely is not there (any more), because this
broker was away or etcd lost it, has its files set aside.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.log.log_store import LogStore
from ottla_broker.partition import Partition
from ottla_broker.partitions import PartitionTable
from ottla_core.cluster.feed import ClusterStateFeed
from ottla_core.cluster.membership import Membership
from ottla_core.cluster.model import NO_EPOCH, NO_LEADER, ClusterState, PartitionState, Topic
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

RETRY_SECONDS = 1.0
LOGS_CREATED_AT_ONCE_MAX = 16

logger = structlog.get_logger("partitions")


class Reconciler:
    """Keeps a partition table and a log store in step with the cluster state.

    `changed` is set by whoever knows that there may be something to do, such as this broker's membership.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: LogStore,
        feed: ClusterStateFeed,
        membership: Membership,
        partitions: PartitionTable,
        changed: asyncio.Event,
    ) -> None:
        self._broker_id = config.node_id
        self._store = store
        self._feed = feed
        self._membership = membership
        self._partitions = partitions
        self._changed = changed
        self._progress = asyncio.Condition()
        self._reached = ClusterState()
        self._epoch = NO_EPOCH
        self._failed: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Carry out the present cluster state, then follow it."""
        self._feed.subscribe(lambda _former, _new: self._changed.set())
        await self._set_aside_unknown_logs(self._feed.state)
        await self._reconcile(self._feed.state)
        self._task = asyncio.create_task(self._follow(), name="reconciliation")

    async def close(self) -> None:
        """Stop following the cluster state."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def wait_reached(self, revision: int, timeout_s: float) -> bool:
        """Wait until the cluster state of `revision` has been carried out; return whether it was in time."""
        try:
            async with asyncio.timeout(timeout_s), self._progress:
                await self._progress.wait_for(lambda: self._reached.revision >= revision)
        except TimeoutError:
            return False
        return True

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if self._failed else None):
                    await self._changed.wait()
            self._changed.clear()
            await self._reconcile(self._feed.state)

    async def _reconcile(self, state: ClusterState) -> None:
        former, epoch = self._reached, self._membership.epoch
        look_at_all = epoch != self._epoch or former.broker_configs != state.broker_configs
        failed: set[str] = set()
        for partition in self._partitions:
            name = partition.topic_partition.topic
            topic = state.topics.get(name)
            if topic is None or topic.id != partition.topic_id:
                with self._reporting(name, failed):
                    await self._retire(partition, deletion_seen=partition.topic_id in state.deleted_topics)
        for name, topic in state.topics.items():
            if look_at_all or name in self._failed or former.topics.get(name) is not topic:
                with self._reporting(name, failed):
                    await self._apply(topic, state, epoch)
        self._failed = failed
        async with self._progress:
            self._reached, self._epoch = state, epoch
            self._progress.notify_all()

    @contextlib.contextmanager
    def _reporting(self, topic: str, failed: set[str]) -> Iterator[None]:
        """Note a topic that could not be brought in step; the others must not wait for it."""
        try:
            yield
        except Exception as error:
            if topic not in self._failed:
                logger.exception("cannot bring a topic in step; trying again", topic=topic, error=str(error))
            failed.add(topic)

    async def _apply(self, topic: Topic, state: ClusterState, epoch: int) -> None:
        """Create what is missing of a topic, and make each of its partitions lead or follow."""
        config = self._partitions.topic_config(topic, state)
        held = (self._partitions.get(TopicPartition(topic.name, p.index)) for p in topic.partitions)
        if any(partition is not None and partition.topic_id != topic.id for partition in held):
            raise KafkaStorageError(f"a log of an earlier topic {topic.name} could not be retired yet")
        mine = [partition for partition in topic.partitions if self._broker_id in partition.replicas]
        missing = [p for p in mine if self._partitions.get(TopicPartition(topic.name, p.index)) is None]
        for start in range(0, len(missing), LOGS_CREATED_AT_ONCE_MAX):
            batch = missing[start : start + LOGS_CREATED_AT_ONCE_MAX]
            # All of them have ended before this goes on: a straggler would hold a log of a topic that is gone.
            outcomes = await asyncio.gather(
                *(self._hold(topic, partition, config) for partition in batch), return_exceptions=True
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        for partition_state in mine:
            partition = self._partitions.get(TopicPartition(topic.name, partition_state.index))
            assert partition is not None
            if partition.log.config != config:
                partition.log.update_config(config)
            partition.apply(partition_state, leads=self._leads(partition, partition_state, epoch))

    async def _hold(self, topic: Topic, state: PartitionState, config: TopicConfig) -> None:
        name = TopicPartition(topic.name, state.index)
        log = self._store.get(name)
        if log is None or log.topic_id != topic.id:
            # One that has had a leader before has a log somewhere, unless this broker never came to create it.
            log = await self._store.create(name, topic.id, config, is_new=state.leader_epoch == 0)
        self._partitions.add(Partition(name, log, self._broker_id, state))

    def _leads(self, partition: Partition, state: PartitionState, epoch: int) -> bool:
        """Return whether this broker leads: elected under its present registration, or irreplaceable.

        For a partition whose only replica is here nobody else can be elected. If this broker led it already it
        goes on, also while the controller, having lost sight of it, says that nobody leads.
        """
        if partition.is_only_replica and partition.leads:
            return state.leader in {self._broker_id, NO_LEADER}
        return state.leader == self._broker_id and state.leader_broker_epoch == epoch

    async def _retire(self, partition: Partition, *, deletion_seen: bool) -> None:
        partition.leads = False
        partition.wake_all()
        if deletion_seen:
            await self._store.delete(partition.topic_partition)
        else:
            await self._store.set_aside(partition.topic_partition)
        self._partitions.remove(partition)

    async def _set_aside_unknown_logs(self, state: ClusterState) -> None:
        """Keep, but do not serve, logs on disk whose topic the cluster does not know (any more)."""
        for name, log in tuple(self._store.logs.items()):
            topic = state.topics.get(name.topic)
            if topic is None or topic.id != log.topic_id or name.partition >= len(topic.partitions):
                await self._store.set_aside(name)
