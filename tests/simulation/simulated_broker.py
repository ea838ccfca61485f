"""A simulated broker: what the shell around the real `Partition` does, in a few words.

It registers under a lease, follows the cluster state, serves producers and consumers, and hands followers' fetches
and in-sync sets to `replication.py` here. The real `Reconciler` holds its partitions and makes them lead and follow,
on an event loop in simulated time, over a log store that takes its time.
What is on its disk survives kill -9; a wiped disk comes back as another directory.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partitions import PartitionTable
from ottla_broker.reconciliation import Reconciler
from ottla_core.cluster.model import NO_EPOCH, ClusterState, Member, Role, Topic
from ottla_core.errors import KafkaError, NotLeaderOrFollower
from ottla_core.topic_config import TopicConfig, parse_topic_configs
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_etcd import ABSENT, Compare, FakeEtcd, Put, Transaction, TransactionResult, Watcher
from tests.simulation.fake_log import NO_RECORDS, Records, SimulatedLog
from tests.simulation.invariants import Invariants
from tests.simulation.lease_keeper import ATTEMPT_TIMEOUT_MS, LEASE_TTL_MS, RETRY_DELAY_MS, LeaseKeeper
from tests.simulation.network import Answer, Network
from tests.simulation.replication import FetchRequest, Replication
from tests.simulation.schedule import Schedule
from tests.simulation.simulated_log_store import SimulatedLogStore
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.cluster import SimulatedCluster

CHECKPOINT_INTERVAL_MS = 5_000
SHUTDOWN_CHECK_MS = 100
SHUTDOWN_LIMIT_MS = 8_000
READ_RECORDS_MAX = 8


@dataclass(slots=True)
class Disk:
    """What a broker's disk holds; `vanished`: of which only checkpoints know."""

    directory_id: UUID
    logs: dict[TopicPartition, SimulatedLog] = field(default_factory=dict)
    intact_since: int = 0
    vanished: set[TopicPartition] = field(default_factory=set)


def fsync_failed_in(disk: Disk) -> int:
    """Return since when a disk is intact in which an fsync has failed, as the mark on it tells at the next start."""
    del disk
    return NO_EPOCH


@dataclass(frozen=True, slots=True)
class Produce:
    """A producer's request with one record."""

    partition: TopicPartition
    number: int
    all_in_sync: bool


@dataclass(frozen=True, slots=True)
class Consume:
    """A consumer's request; `any_replica`: it may be answered by a follower (KIP-392)."""

    partition: TopicPartition
    offset: int
    any_replica: bool


@dataclass(frozen=True, slots=True)
class Consumed:
    """The answer to a consumer."""

    error: ErrorCode
    records: Records = NO_RECORDS


_CONFIGS: dict[tuple[tuple[str, str], ...], TopicConfig] = {}


def topic_config(configs: Mapping[str, str]) -> TopicConfig:
    """Return a topic's settings; parsed once for all simulations."""
    key = tuple(configs.items())
    if key not in _CONFIGS:
        _CONFIGS[key] = parse_topic_configs(configs, TopicConfig())
    return _CONFIGS[key]


class HeldPartitions(PartitionTable):
    """The real table of partitions, with the settings of topics parsed once for all simulations."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        config = SimpleNamespace(node_id=broker.broker_id, member_lease_ttl_ms=LEASE_TTL_MS)
        super().__init__(config, broker, broker)  # type: ignore[arg-type]
        self._broker = broker

    def add(self, partition: Partition) -> None:
        """Hold a partition, and watch it."""
        super().add(partition)
        partition.watch(self._broker.replication)

    def topic_config(self, topic: Topic, state: ClusterState | None = None) -> TopicConfig:
        """Return a topic's settings."""
        del state
        return topic_config(topic.configs)


class SimulatedBroker(Watcher):
    """One broker over all its lives.

    Attributes:
        state: the cluster state as this broker knows it.
        disk: what survives it.
        partitions: what it holds in this life.
        registered_epoch: its broker epoch, which outlives a lapsed lease.
    """

    def __init__(
        self, broker_id: int, schedule: Schedule, network: Network, etcd: FakeEtcd, observer: Invariants
    ) -> None:
        super().__init__(f"broker-{broker_id}", schedule)
        self.broker_id = broker_id
        self.network = network
        self.etcd = etcd
        self.observer = observer
        self.cluster: SimulatedCluster
        self.disk = Disk(UUID(int=broker_id * 1000))
        self.partitions: HeldPartitions
        self.state = ClusterState()
        self.registered_epoch = NO_EPOCH
        self._listeners: list[Callable[[ClusterState, ClusterState], None]] = []
        self._led: set[Partition] = set()
        self._loops: list[VirtualLoop] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._resumes_lease = schedule.chance(0.7)

    # Life and death

    def on_start(self) -> None:
        """Read the cluster state, then register."""
        self.registered_epoch = NO_EPOCH
        self.state = ClusterState()
        self._is_shutting_down = False
        self._listeners = []
        self._led = set()
        forget_epochs = self.schedule.chance(0.5)
        self._lose_what_failed()
        for log in self.disk.logs.values():
            log.reopen(forget_empty_epochs=forget_epochs)
        self.context = ReplicationContext(
            broker_id=self.broker_id, lag_max_ms=self.cluster.lag_max_ms, monotonic_ms=self.now_ms
        )
        self.replication = Replication(self)
        self.context.on_out_of_sync_fetch = self.replication.look_at
        self.context.on_lost_log = self.replication.report_lost
        self.context.on_failed_log = self.replication.report_failed
        self.partitions = HeldPartitions(self)
        self._loop = VirtualLoop(self)
        self._loops.append(self._loop)  # what a killed life was doing is never collected, hence never goes on
        self._changed = asyncio.Event()
        self._reconciler = Reconciler(
            config=SimpleNamespace(node_id=self.broker_id),
            store=SimulatedLogStore(self),
            feed=self,
            membership=self,
            partitions=self.partitions,
            context=self.context,
            fetchers=self.replication,
            changed=self._changed,
        )  # type: ignore[arg-type]
        self._list_state()

    def wipe(self) -> None:
        """Lose everything on the disk; only while the broker is down."""
        assert not self.is_running
        self.note("loses its disk")
        self.disk = Disk(UUID(int=self.disk.directory_id.int + 1))

    def lose_power(self) -> None:
        """Lose what was not fsynced, or some of it; only while the broker is down."""
        assert not self.is_running
        self.note("has lost power")
        for log in self.disk.logs.values():
            log.lose_power(self.schedule.random.randint(log.durable_end_offset, log.log_end_offset))
        self.disk.intact_since = NO_EPOCH

    def fail_log(self, name: TopicPartition) -> None:
        """Have an fsync of a log fail."""
        self.note("can fsync its log of {} no more", name)
        self.disk.logs[name].fail()

    @property
    def has_failed_log(self) -> bool:
        """Whether it has a log that takes no more records in this life."""
        return any(log.failure is not None for log in self.disk.logs.values())

    def _lose_what_failed(self) -> None:
        """Begin a life after one in which an fsync has failed: what it was for may be lost, and the disk says so."""
        for log in self.disk.logs.values():
            if log.failure is not None:
                log.failure = None
                self.observer.wiped(self.broker_id)
                log.lose_power(self.schedule.random.randint(log.durable_end_offset, log.log_end_offset))
                self.note("has {} records of {} left", log.log_end_offset, log.topic_partition)
                self.disk.intact_since = fsync_failed_in(self.disk)

    def has_checkpointed(self, name: TopicPartition) -> bool:
        """Return whether a checkpoint tells that there are committed records of a partition here."""
        log = self.disk.logs.get(name)
        return log is not None and log.checkpointed_high_watermark > 0

    def lose_log(self, name: TopicPartition) -> None:
        """Lose the log of a partition; only while the broker is down."""
        assert not self.is_running
        self.note("loses its log of {}", name)
        del self.disk.logs[name]
        self.disk.vanished.add(name)

    def shut_down(self) -> None:
        """Begin a controlled shutdown."""
        self._is_shutting_down = True
        self.note("begins to shut down")
        self._announce_shutdown()
        self.after(SHUTDOWN_CHECK_MS, self._end_if_nothing_is_led, self.now_ms() + SHUTDOWN_LIMIT_MS)

    def _announce_shutdown(self) -> None:
        if self.is_registered():
            self._transact(
                [Compare(self._key, self.registered_epoch, created=True)],
                [Put(self._key, self._member(), self._lease.id)],
                lambda _result: None,
            )

    def _end_if_nothing_is_led(self, limit_ms: int) -> None:
        if self.now_ms() < limit_ms and any(partition.leads for partition in self.partitions):
            self.after(SHUTDOWN_CHECK_MS, self._end_if_nothing_is_led, limit_ms)
            return
        for log in self.disk.logs.values():
            log.checkpoint()
        if self.is_registered():
            self._lease.revoke()
        self.kill()

    # Registration

    def _list_state(self) -> None:
        def listed(state: ClusterState | None) -> None:
            if state is None:
                self._list_state()
                return
            self.on_state(state)
            self._tasks.append(self._loop.create_task(self._reconciler.start()))
            self._lease = LeaseKeeper(
                self,
                self.network,
                self.etcd,
                on_granted=self._register,
                on_lapsed=lambda: None,
                resume=self._resumes_lease,
            )
            self.after(CHECKPOINT_INTERVAL_MS, self._checkpoint)

        self.network.call(self, self.etcd, self.etcd.list_state, self, listed, ATTEMPT_TIMEOUT_MS)

    @property
    def _key(self) -> tuple[str, int]:
        return ("broker", self.broker_id)

    def _member(self) -> Member:
        return Member(
            role=Role.BROKER,
            id=self.broker_id,
            epoch=NO_EPOCH,
            incarnation=UUID(int=self.life),
            rpc_address="",
            version="",
            directory_ids=(self.disk.directory_id,),
            shutting_down=self._is_shutting_down,
            intact_since=self.disk.intact_since,
        )

    def is_registered(self) -> bool:
        """Return whether nobody can have been told that this broker is gone."""
        return self.is_running and self.registered_epoch != NO_EPOCH and self._lease.is_valid()

    def _transact(self, compares: list[Compare], puts: list[Put], when_over: Answer) -> None:
        transaction = Transaction(compares, puts, [self._key])
        self.network.call(self, self.etcd, self.etcd.transact, transaction, when_over, ATTEMPT_TIMEOUT_MS)

    def _register(self) -> None:
        lease = self._lease.id

        def attempted(result: TransactionResult | None) -> None:
            if lease != self._lease.id or not self._lease.is_valid():
                return
            if result is None:
                self.after(RETRY_DELAY_MS, self._register)
            elif result.succeeded:
                self._registered(result.revision)
            elif (holder := result.reads[0]) is None:
                self._register()
            elif holder.lease == lease:
                self._registered(holder.created)
            elif holder.value.incarnation.int == self.life or self.disk.directory_id in holder.value.directory_ids:
                self._transact(
                    [Compare(self._key, holder.modified)],
                    [Put(self._key, None)],
                    lambda _result: self.after(1, self._register),
                )
            else:
                self.after(RETRY_DELAY_MS, self._register)

        self._transact([Compare(self._key, ABSENT)], [Put(self._key, self._member(), lease)], attempted)

    def _registered(self, epoch: int) -> None:
        if epoch != self.registered_epoch:
            self.note("is registered with broker epoch {}", epoch)
            self.registered_epoch = epoch
            if self.disk.intact_since == NO_EPOCH:
                self.disk.intact_since = epoch
            self._loop.run(self._changed.set)

    def _checkpoint(self) -> None:
        for log in self.disk.logs.values():
            log.checkpoint()
        self.after(CHECKPOINT_INTERVAL_MS, self._checkpoint)

    # The cluster state

    def on_state(self, state: ClusterState) -> None:
        """Take over a newer cluster state; the partitions follow a moment later."""
        if state.revision <= self.state.revision:
            return
        if state.brokers is not self.state.brokers:
            self.context.live_brokers = frozenset(
                broker_id for broker_id, member in state.brokers.items() if not member.shutting_down
            )
        former, self.state = self.state, state
        for listener in self._listeners:
            self.after(self.schedule.between(0.05, 3.0), self._loop.run, listener, former, state)
        self.replication.on_state()

    def subscribe(self, listener: Callable[[ClusterState, ClusterState], None]) -> None:
        """Call `listener` a moment after each change; part of what the reconciler knows as the feed."""
        self._listeners.append(listener)

    def is_current(self) -> bool:
        """As `is_registered`; what the table of partitions knows as the membership."""
        return self.is_registered()

    def give_roles(self) -> None:
        """Make the partitions that are held what the newest state wants them to be."""
        self._loop.run(self._reconciler.give_roles)

    def give_roles_again(self, topic: str) -> None:
        """The same, also where nothing has changed."""
        self._loop.run(self._reconciler.give_roles_again, {topic})

    def role_changed(self, partition: Partition) -> None:
        """Note when a partition begins to be led."""
        if not partition.leads:
            self._led.discard(partition)
        elif partition not in self._led:
            self._led.add(partition)
            log = partition.log
            epoch = partition.state.leader_epoch
            self.note("leads {} in leader epoch {}, its log ends at {}", partition.topic_partition, epoch,
                      log.log_end_offset)  # fmt: skip
            self.observer.began_to_lead(log, epoch)  # type: ignore[arg-type]

    # Requests

    def leader_of(self, name: TopicPartition) -> Partition:
        """Return a partition that this broker leads, or raise NotLeaderOrFollower."""
        partition = self.partitions.get(name)
        if partition is None:
            raise NotLeaderOrFollower(f"broker {self.broker_id} holds no replica of {name}")
        if not partition.leads or not (self.is_registered() or partition.leads_without_registration(LEASE_TTL_MS)):
            raise partition.not_leader()
        return partition

    def on_produce(self, request: Produce, answer: Answer) -> None:
        """Append a record; answer with None-less (error, offset)."""
        try:
            partition = self.leader_of(request.partition)
            appended = partition.append(
                (request.number,),  # type: ignore[arg-type]
                now_ms=self.now_ms(),
                all_in_sync=request.all_in_sync,
            )
        except KafkaError as error:
            answer((error.code, -1))
            return
        offset = appended.base_offset
        if not request.all_in_sync:
            answer((ErrorCode.none, offset))
            return
        log = partition.log

        def replicated(error: KafkaError | None) -> None:
            if error is None:
                self.observer.acknowledged(log, offset, request.number)  # type: ignore[arg-type]
            answer((ErrorCode.none if error is None else error.code, offset))

        partition.when_replicated(offset + 1, replicated)

    def on_fetch(self, request: FetchRequest, answer: Answer) -> None:
        """Serve a follower."""
        self.replication.on_fetch(request, answer)

    def on_consume(self, request: Consume, answer: Answer) -> None:
        """Answer with records below the high watermark."""
        try:
            if request.any_replica:
                partition = self.partitions.get(request.partition)
                if partition is None:
                    raise NotLeaderOrFollower("")
            else:
                partition = self.leader_of(request.partition)
            records = partition.read(request.offset, READ_RECORDS_MAX, at_least_one_batch=True)
        except KafkaError as error:
            answer(Consumed(error.code))
            return
        found: Records = records or NO_RECORDS  # type: ignore[assignment]
        if found:
            self.observer.consumed(partition.log, found)  # type: ignore[arg-type]
        answer(Consumed(ErrorCode.none, found))
