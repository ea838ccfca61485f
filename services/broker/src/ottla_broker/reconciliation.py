"""Bringing this broker's partitions and logs in step with the cluster state.

The controller decides, the watch brings its decisions, and `Reconciler` carries them out: it creates the logs of
partitions assigned to this broker, retires those of deleted topics and those assigned to others, makes each
partition lead or follow, and tells the fetchers whom to follow. It always compares what is held with the newest
state, so a burst of changes is carried out as one, and whatever failed (a full disk, say) is tried again without
holding up the other topics.

Files of a topic are deleted only if its deletion was seen. A topic that merely is not there (any more), because this
broker was away or etcd lost it, has its files set aside.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.log.log_store import LogStore
from ottla_broker.partition import Partition, ReplicationContext
from ottla_broker.partitions import PartitionTable
from ottla_core.cluster.feed import ClusterStateFeed
from ottla_core.cluster.membership import Membership
from ottla_core.cluster.model import NO_EPOCH, NO_LEADER, ClusterState, Member, PartitionState, Topic
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

RETRY_SECONDS = 1.0
LOGS_CREATED_AT_ONCE_MAX = 16

logger = structlog.get_logger("partitions")


class ReplicaFetchers(Protocol):
    """Who copies the leaders' logs."""

    def follow(self, partition: Partition, leader: Member) -> None:
        """Copy a partition from a leader, now in the leader epoch of the partition's state."""

    def unfollow(self, partition: Partition) -> None:
        """Copy a partition no longer; nothing is done if it is not copied."""


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
        context: ReplicationContext,
        fetchers: ReplicaFetchers,
        changed: asyncio.Event,
    ) -> None:
        self._broker_id = config.node_id
        self._context = context
        self._fetchers = fetchers
        self._store = store
        self._feed = feed
        self._membership = membership
        self._partitions = partitions
        self._changed = changed
        self._progress = asyncio.Condition()
        self._reached = ClusterState()
        self._roles = ClusterState()
        self._epoch = NO_EPOCH
        self._failed: set[str] = set()
        self._without_role: set[str] = set()
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
        former = self._reached
        self.give_roles()
        failed: set[str] = set()
        if self._failed or former.topics_by_id.keys() != state.topics_by_id.keys():
            for partition in self._partitions:
                name = partition.topic_partition.topic
                topic = state.topics.get(name)
                if topic is None or topic.id != partition.topic_id:
                    with self._reporting(name, failed):
                        await self._retire(partition, deletion_seen=partition.topic_id in state.deleted_topics)
        for name, topic in state.topics.items():
            if former.topics.get(name) is not topic or name in self._failed:
                with self._reporting(name, failed):
                    await self._hold_what_is_assigned(topic, state)
        self._failed = failed | self._without_role
        async with self._progress:
            self._reached = state
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

    # Roles: they change without waiting for anything, so that no election waits for the logs of new topics.

    def give_roles(self) -> None:
        """Make each partition that is held lead or follow, as the newest state says, where that has changed."""
        state, former = self._feed.state, self._roles
        # The epoch of a lapsed registration counts until there is a new one; `PartitionTable` knows for how long.
        epoch = self._membership.registered_epoch
        all_partitions = (
            epoch != self._epoch
            or former.broker_configs != state.broker_configs
            or former.brokers is not state.brokers  # a leader's address may have changed
        )
        failed: set[str] = set()
        for name, topic in state.topics.items():
            before = former.topics.get(name)
            if all_partitions or before is not topic or name in self._without_role:
                is_new = all_partitions or name in self._without_role or before is None or before.id != topic.id
                with self._reporting(name, failed):
                    self._give_roles_of(topic, state, epoch, () if is_new or before is None else before.partitions)
        self._without_role = failed
        self._roles, self._epoch = state, epoch

    def _give_roles_of(self, topic: Topic, state: ClusterState, epoch: int, known: Sequence[PartitionState]) -> None:
        """Give the partitions of one topic their roles, but for those whose state is known already."""
        config = self._partitions.topic_config(topic, state)
        for index, partition_state in enumerate(topic.partitions):
            partition = self._partitions.get(TopicPartition(topic.name, index))
            if partition is None or partition.topic_id != topic.id:
                continue
            if partition.log.config != config:
                partition.log.update_config(config)
            is_known = index < len(known) and known[index] is partition_state
            if not is_known:
                self._give_role(partition, partition_state, state, epoch)

    def _give_role(self, partition: Partition, wanted: PartitionState, state: ClusterState, epoch: int) -> None:
        leader = state.brokers.get(wanted.leader)
        if self._broker_id not in wanted.replicas:  # its log goes as soon as that is its turn
            self._fetchers.unfollow(partition)
            partition.apply(wanted, leads=False)
            return
        if self._leads(partition, wanted, epoch):
            self._fetchers.unfollow(partition)
            partition.apply(wanted, leads=True)
            return
        partition.apply(wanted, leads=False)
        if leader is None or leader.id == self._broker_id:  # itself: not elected under its present registration yet
            self._fetchers.unfollow(partition)
        else:
            self._fetchers.follow(partition, leader)

    def _leads(self, partition: Partition, state: PartitionState, epoch: int) -> bool:
        """Return whether this broker leads: elected under its present registration, or irreplaceable.

        For a partition whose only replica is here nobody else can be elected. If this broker led it already it
        goes on, also while the controller, having lost sight of it, says that nobody leads.
        """
        if partition.is_only_replica and partition.leads:
            return state.leader in {self._broker_id, NO_LEADER}
        return state.leader == self._broker_id and state.leader_broker_epoch == epoch

    # Logs

    async def _hold_what_is_assigned(self, topic: Topic, state: ClusterState) -> None:
        """Create the logs of a topic that are missing, and drop those that are others' now."""
        for partition_state in topic.partitions:
            held = self._partitions.get(TopicPartition(topic.name, partition_state.index))
            if held is None:
                continue
            if held.topic_id != topic.id:
                raise KafkaStorageError(f"a log of an earlier topic {topic.name} could not be retired yet")
            if self._broker_id not in partition_state.replicas:
                await self._retire(held, deletion_seen=True)
        missing = [
            partition_state
            for partition_state in topic.partitions
            if self._broker_id in partition_state.replicas
            and self._partitions.get(TopicPartition(topic.name, partition_state.index)) is None
        ]
        config = self._partitions.topic_config(topic, state)
        for start in range(0, len(missing), LOGS_CREATED_AT_ONCE_MAX):
            batch = missing[start : start + LOGS_CREATED_AT_ONCE_MAX]
            # All of them have ended before this goes on: a straggler would hold a log of a topic that is gone.
            outcomes = await asyncio.gather(
                *(self._hold(topic, partition, config) for partition in batch), return_exceptions=True
            )
            self.give_roles()
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome

    async def _hold(self, topic: Topic, state: PartitionState, config: TopicConfig) -> None:
        name = TopicPartition(topic.name, state.index)
        log = self._store.get(name)
        if log is None or log.topic_id != topic.id:
            # One that has had a leader before has a log somewhere, unless this broker never came to create it.
            is_new = state.leader_epoch == 0 or self._broker_id in state.adding
            log = await self._store.create(name, topic.id, config, is_new=is_new)
        partition = Partition(name, log, self._context, state)
        self._partitions.add(partition)
        newest = self._roles.topics.get(topic.name)
        if newest is None or newest.id != topic.id or self._broker_id not in newest.partitions[state.index].replicas:
            return  # it is retired as soon as that state is carried out
        try:
            self._give_role(partition, newest.partitions[state.index], self._roles, self._epoch)
        except Exception:
            self._without_role.add(topic.name)
            raise

    async def _retire(self, partition: Partition, *, deletion_seen: bool) -> None:
        self._fetchers.unfollow(partition)
        partition.step_down()
        if deletion_seen:
            await self._store.delete(partition.topic_partition)
        else:
            await self._store.set_aside(partition.topic_partition)
        self._partitions.remove(partition)

    async def _set_aside_unknown_logs(self, state: ClusterState) -> None:
        """Keep, but do not serve, logs on disk whose topic the cluster does not know, or has given to others."""
        for name, log in tuple(self._store.logs.items()):
            topic = state.topics.get(name.topic)
            if topic is None or topic.id != log.topic_id or not self._is_mine(topic, name.partition):
                await self._store.set_aside(name)

    def _is_mine(self, topic: Topic, index: int) -> bool:
        return index < len(topic.partitions) and self._broker_id in topic.partitions[index].replicas
