"""Bringing this broker's partitions and logs in step with the cluster state.

The controller decides, the watch brings its decisions, and `Reconciler` carries them out: it creates the logs of
partitions assigned to this broker, retires those of deleted topics and those assigned to others, makes each
partition lead or follow, and tells the fetchers whom to follow. A burst of changes is carried out as one, and
whatever failed (a full disk, say) is tried again without holding up the other topics.

A pass says only which topics are looked at. What is done to a partition is decided by the newest state at the moment
when it is done, with nothing awaited in between: a pass takes seconds where many logs are created, and what its first
state took away from this broker may have come back, and be in sync, by the time that it is its turn. Passes do not
overlap, so a partition's log is never created while it is being retired.

Files of a topic are deleted only if its deletion was seen. A topic that merely is not there (any more), because this
broker was away or etcd lost it, has its files set aside.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol
from uuid import UUID

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_core.background import start_recurring
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, ClusterState, Member, PartitionState, Topic
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition

RETRY_SECONDS = 1.0
LOGS_CREATED_AT_ONCE_MAX = 100

logger = structlog.get_logger("partitions")


class FetcherPool(Protocol):
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
        fetchers: FetcherPool,
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
        self._held: set[tuple[UUID, int]] = set()
        self._lost: set[TopicPartition] = set()
        self._topics_at_start: frozenset[UUID] = frozenset()
        self._pass_is_due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Carry out the present cluster state, then follow it."""
        self._feed.subscribe(lambda _former, _new: self._changed.set())
        self._lost, self._topics_at_start = self._store.directories.lost, frozenset(self._feed.state.topics_by_id)
        for name in tuple(self._lost):
            topic = self._feed.state.topics.get(name.topic)
            if topic is None or not self._is_mine(topic, name.partition):
                self._settle_loss(name)
        self._tasks.append(start_recurring("roles", self._keep_roles))
        await self._reconcile()
        for name, log in tuple(self._store.logs.items()):
            if self._partitions.get(name) is None:
                await self._set_aside_unless_wanted(log)
        self._tasks.append(start_recurring("reconciliation", self._follow))

    async def close(self) -> None:
        """Stop following the cluster state."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def wait_reached(self, revision: int, timeout_s: float) -> bool:
        """Wait until the cluster state of `revision` has been carried out; return whether it was in time."""
        try:
            async with asyncio.timeout(timeout_s), self._progress:
                await self._progress.wait_for(lambda: self._reached.revision >= revision)
        except TimeoutError:
            return False
        return True

    async def _keep_roles(self) -> None:
        """Give roles with every change, however long a pass takes: logs to be retired may be slow to come to rest."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._pass_is_due.set()
            try:
                self.give_roles()
            except BaseException:
                self._changed.set()  # or what failed unexpectedly would wait for the next change
                raise

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if self._failed else None):
                    await self._pass_is_due.wait()
            self._pass_is_due.clear()
            try:
                await self._reconcile()
            except BaseException:
                self._pass_is_due.set()  # or a pass that failed unexpectedly would wait for the next change
                raise

    async def _reconcile(self) -> None:
        former, target = self._reached, self._feed.state
        self.give_roles()
        names = [
            name for name, topic in target.topics.items()
            if former.topics.get(name) is not topic or name in self._failed
        ]  # fmt: skip
        gone: dict[str, list[Partition]] = {}
        if self._failed or former.topics_by_id.keys() != target.topics_by_id.keys():
            self._held = {key for key in self._held if key[0] not in target.deleted_topics}
            for partition in self._partitions:
                if partition.topic_id not in target.topics_by_id:
                    gone.setdefault(partition.topic_partition.topic, []).append(partition)
        failed: set[str] = set()
        missing: list[TopicPartition] = []
        for name in dict.fromkeys((*gone, *names)):
            with self._reporting(name, failed):
                await self._retire_unwanted(name, gone.get(name, ()))
                missing += (found for found in self._partitions_of(name) if self._topic_lacking(found))
            while len(missing) >= LOGS_CREATED_AT_ONCE_MAX:
                await self._create_missing(missing[:LOGS_CREATED_AT_ONCE_MAX], failed)
                del missing[:LOGS_CREATED_AT_ONCE_MAX]
        await self._create_missing(missing, failed)
        self._failed = failed | self._without_role
        async with self._progress:
            self._reached = target
            self._progress.notify_all()

    @contextlib.contextmanager
    def _reporting(self, topic: str, failed: set[str]) -> Iterator[None]:
        """Note a topic that could not be brought in step; the others must not wait for it."""
        try:
            yield
        except KafkaStorageError as error:
            if topic not in self._failed:
                logger.error("cannot bring a topic in step; trying again", topic=topic, error=str(error))
            failed.add(topic)
        except Exception as error:
            if topic not in self._failed:
                logger.exception("cannot bring a topic in step; trying again", topic=topic, error=str(error))
            failed.add(topic)

    # Roles: they change without waiting for anything, so that no election waits for logs that come or go.

    def give_roles(self) -> None:
        """Make each partition that is held lead or follow, as the newest state says, where that has changed."""
        state, former = self._feed.state, self._roles
        if state is former and self._membership.registered_epoch == self._epoch and not self._without_role:
            return
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

    def give_roles_again(self, topics: Collection[str]) -> None:
        """The same, also to the partitions of some topics where nothing has changed."""
        self._without_role.update(topics)
        self.give_roles()
        if self._without_role:
            self._pass_is_due.set()  # or what failed here would wait for the next change

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
        self._look_for_loss(partition, wanted)
        if partition.has_lost_log:
            if partition.counts_as_complete(wanted):
                # Not even to be copied: a fetch would let it stay in the set, and the log's owner might be elected.
                self._fetchers.unfollow(partition)
                partition.apply(wanted, leads=False)
                return
            partition.has_lost_log, partition.loss_was_told = False, True
        if not partition.was_begun_anew:
            self._settle_loss(partition.topic_partition)
        if self._broker_id not in wanted.replicas:  # its log goes as soon as that is its turn
            self._fetchers.unfollow(partition)
            partition.apply(wanted, leads=False)
            return
        if self._leads(partition, wanted, epoch):
            self._fetchers.unfollow(partition)
            partition.was_begun_anew = partition.awaits_first_answer = False
            partition.apply(wanted, leads=True)
            return
        partition.apply(wanted, leads=False)
        is_own = wanted.leader == self._broker_id  # not elected under its present registration yet
        if (
            leader is None or is_own or partition.has_failed_log
        ):  # it would claim what may be lost with the next start
            self._fetchers.unfollow(partition)
        else:
            self._fetchers.follow(partition, leader)

    def _give_first_roles(self, name: str, held: Sequence[Partition]) -> None:
        """Give roles and settings to partitions of one topic that were not there when roles were given last."""
        topic = self._roles.topics.get(name)
        if topic is None:
            return  # they are retired as soon as that is carried out
        config = self._partitions.topic_config(topic, self._roles)
        for partition in held:
            index = partition.topic_partition.partition
            if partition.topic_id != topic.id or index >= len(topic.partitions):
                continue
            if partition.log.config != config:  # it may have changed since the log was begun
                partition.log.update_config(config)
            try:
                self._give_role(partition, topic.partitions[index], self._roles, self._epoch)
            except Exception:
                self._without_role.add(name)
                raise

    def _leads(self, partition: Partition, state: PartitionState, epoch: int) -> bool:
        """Return whether this broker leads: elected under its present registration, or irreplaceable.

        For a partition whose only replica is here nobody else can be elected. If this broker led it already it
        goes on, also while the controller, having lost sight of it, says that nobody leads.
        """
        if partition.is_only_replica and partition.leads:
            return state.leader in {self._broker_id, NO_LEADER}
        return state.leader == self._broker_id and state.leader_broker_epoch == epoch

    # Logs

    async def _retire_unwanted(self, name: str, gone: Iterable[Partition]) -> None:
        """Retire the logs of a name that are not to be here any more."""
        for partition in gone:
            await self._retire(partition)
        for held in map(self._partitions.get, self._partitions_of(name)):
            if held is not None and self._retirement_of(held) is not None:
                await self._retire(held)

    async def _create_missing(self, names: Iterable[TopicPartition], failed: set[str]) -> None:
        """Create logs, of whichever topic, but for topics that have failed in this pass; note those that fail."""
        names = [name for name in names if name.topic not in failed]
        configs: dict[UUID, TopicConfig] = {}
        # All of them have ended before this goes on: a straggler would hold a log of a topic that is gone.
        outcomes = await asyncio.gather(
            *(self._create_if_missing(name, configs) for name in names), return_exceptions=True
        )
        self.give_roles()
        held: dict[str, list[Partition]] = {}
        for outcome in outcomes:
            if isinstance(outcome, Partition):
                self._partitions.add(outcome)
                self._note_held(outcome)
                held.setdefault(outcome.topic_partition.topic, []).append(outcome)
        for topic, partitions in held.items():
            with self._reporting(topic, failed):
                self._give_first_roles(topic, partitions)
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                with self._reporting(name.topic, failed):
                    raise outcome

    async def _create_if_missing(self, name: TopicPartition, configs: dict[UUID, TopicConfig]) -> Partition | None:
        """Create a partition's log if it is still missing; `configs` has settings of topics, read once for all."""
        log = self._store.get(name)
        if log is not None:
            await self._set_aside_unless_wanted(log)
        topic = self._topic_lacking(name)
        if topic is None:
            return None
        state = topic.partitions[name.partition]
        # One that was there before this process, or has had a leader, may have a log in a directory that is away.
        may_be_here = state.leader_epoch > 0 or topic.id in self._topics_at_start
        is_new = not may_be_here or self._broker_id in state.adding
        config = configs.get(topic.id)
        if config is None:
            config = configs[topic.id] = self._partitions.topic_config(topic)
        log = await self._store.create(name, topic.id, config, is_new=is_new)
        return Partition(name, log, self._context, state)

    def _note_held(self, partition: Partition) -> None:
        """Find out whether a partition's log is one begun anew in place of one that has been here."""
        log = partition.log
        key = partition.topic_id, partition.topic_partition.partition
        is_empty = log.log_end_offset == 0
        partition.was_begun_anew = is_empty and (key in self._held or self._was_lost_at_start(partition))
        partition.awaits_first_answer = partition.was_begun_anew
        self._held.add(key)
        partition.tell_if_unfit()
        self._look_for_loss(partition, partition.state)

    def _look_for_loss(self, partition: Partition, state: PartitionState) -> None:
        """Find out whether a state counts on a log that is gone.

        It may do so later as well: a leader that knows this replica by its former log may still propose it for the
        in-sync set, under its former registration. One that is elected in spite of a loss that the controller knows
        shall lead.
        """
        is_chosen_nevertheless = partition.loss_was_told and state.leader == self._broker_id
        if not partition.was_begun_anew or partition.has_lost_log or is_chosen_nevertheless:
            return
        if partition.counts_as_complete(state):
            partition.has_lost_log = True
            logger.error(
                "a replica that counts as in sync has lost its log; it does not lead before the controller knows",
                partition=str(partition.topic_partition),
            )
            if self._context.on_lost_log is not None:
                self._context.on_lost_log(partition)

    def _settle_loss(self, name: TopicPartition) -> None:
        """Forget a log that was missing at the start: nobody counts on it any more."""
        if name in self._lost:
            self._lost.discard(name)
            self._store.directories.settle_loss(name)

    def _was_lost_at_start(self, partition: Partition) -> bool:
        """Return whether this broker came back without a log that it had; a topic created since is another one."""
        return partition.topic_partition in self._lost and partition.topic_id in self._topics_at_start

    def _partitions_of(self, name: str) -> Iterator[TopicPartition]:
        """Yield the partitions that a topic has by the newest state."""
        topic = self._feed.state.topics.get(name)
        return (TopicPartition(name, index) for index in range(len(topic.partitions) if topic is not None else 0))

    def _topic_lacking(self, name: TopicPartition) -> Topic | None:
        """Return a partition's topic if this broker should hold the partition by the newest state and does not."""
        topic = self._feed.state.topics.get(name.topic)
        if topic is None or not self._is_mine(topic, name.partition) or self._partitions.get(name) is not None:
            return None
        return topic

    async def _retire(self, partition: Partition) -> None:
        """Take a log out of use, unless it is wanted again when nothing works in its directory any more."""
        self._fetchers.unfollow(partition)
        partition.step_down()
        async with self._store.at_rest(partition.log):
            # It may have come back while its log came to rest, and be in sync by now. No await from here to the
            # removal from the table: a partition whose log is gone would follow, and claim to have what that had.
            retirement = self._retirement_of(partition)
            if retirement is None:
                self._without_role.add(partition.topic_partition.topic)  # it has stepped down
                self.give_roles()
                return
            retired = self._store.take_away(partition.log, retirement)
            self._fetchers.unfollow(partition)  # it may have been given a role again, and lost it, while this waited
            partition.step_down()
            self._partitions.remove(partition)
            partition.has_lost_log = False  # which is nobody's concern any more
            self._settle_loss(partition.topic_partition)
        await self._store.sync_retired(retired)

    def _retirement_of(self, partition: Partition) -> LogDisposal | None:
        """Return what is to become of a partition's log by the newest state, or None if it stays."""
        state = self._feed.state
        topic = state.topics_by_id.get(partition.topic_id)
        if topic is None:
            return LogDisposal.DELETE if partition.topic_id in state.deleted_topics else LogDisposal.SET_ASIDE
        return None if self._is_mine(topic, partition.topic_partition.partition) else LogDisposal.DELETE

    async def _set_aside_unless_wanted(self, log: PartitionLog) -> None:
        """Keep, but do not serve, a log on disk whose topic the cluster does not know, or has given to others."""
        if self._is_wanted(log):
            return
        async with self._store.at_rest(log):
            if self._is_wanted(log):
                return
            retired = self._store.take_away(log, LogDisposal.SET_ASIDE)
        await self._store.sync_retired(retired)

    def _is_wanted(self, log: PartitionLog) -> bool:
        topic = self._feed.state.topics.get(log.topic_partition.topic)
        return topic is not None and topic.id == log.topic_id and self._is_mine(topic, log.topic_partition.partition)

    def _is_mine(self, topic: Topic, index: int) -> bool:
        return index < len(topic.partitions) and self._broker_id in topic.partitions[index].replicas
