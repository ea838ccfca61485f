"""A simulated broker: the real parts of one, around logs in memory.

The real membership, view of the cluster, `Reconciler`, `IsrUpdates` and `FetcherPool` make the real `Partition`s
lead and follow, on an event loop in simulated time, over a log store that takes its time. What serves producers and
consumers, and what carries fetches, is simulated, without sockets and bytes (`replication.py`).
What is on its disk survives kill -9; a wiped disk comes back as another directory.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9.request import ListOffsetsRequest

from ottla_broker.controlled_shutdown import hand_over
from ottla_broker.joining import shows_registration
from ottla_broker.partition import Partition
from ottla_broker.partition_context import PartitionWatcher, ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.reconciliation import Reconciler
from ottla_broker.replication.fetch_plan import PlannedFetch
from ottla_broker.replication.fetcher_pool import FetcherPool
from ottla_broker.replication.isr_updates import IsrUpdates
from ottla_broker.replication.longest_log_searches import LongestLogSearches
from ottla_core.background import start_awaited
from ottla_core.cluster.controller_rpc.controller_api import AlteredIsr, IsrChange
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, Endpoint, Member, Role, Topic
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, NotController, NotLeaderOrFollower, RequestTimedOut
from ottla_core.topic_config import TopicConfig, parse_topic_configs
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_etcd import KEYS, FakeEtcd
from tests.simulation.fake_log import NO_RECORDS, Records, SimulatedLog
from tests.simulation.invariants import Invariants
from tests.simulation.network import Answer, Network
from tests.simulation.replication import SILENT_ENDS, FollowerService, SimulatedConnection, connector
from tests.simulation.schedule import Schedule
from tests.simulation.service_process import LEASE_TTL_MS, ServiceProcess
from tests.simulation.simulated_log_store import SimulatedLogStore

if TYPE_CHECKING:
    from tests.simulation.cluster import SimulatedCluster

CHECKPOINT_INTERVAL_MS = 5_000
HAND_OVER_S_MAX = 8.0
REGISTRATION_TIMEOUT_S = 10.0
ASKED_AGAIN_AFTER_S = 1.0
RETRY_DELAY_S = 0.05
LISTENER = "brokers"
FETCHING = {
    "inter_broker_listener": LISTENER,
    "num_replica_fetchers": 1,
    "replica_fetch_backoff_ms": 200,
    "replica_fetch_max_bytes": 1_000,
    "replica_fetch_min_bytes": 1,
    "replica_fetch_response_max_bytes": 1_000,
    "replica_fetch_wait_max_ms": 500,
    "replica_socket_timeout_ms": 10_000,
    "socket_request_max_bytes": 1_000,
}
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


class Watchers(dict[PartitionWatcher, None]):
    """A set whose order is that of its additions, lest a seed's run depend on addresses in memory."""

    def add(self, watcher: PartitionWatcher) -> None:
        """Add one."""
        self[watcher] = None

    def discard(self, watcher: PartitionWatcher) -> None:
        """Remove one if it is there."""
        self.pop(watcher, None)


class HeldPartitions(PartitionTable):
    """The real table of partitions, with the settings of topics parsed once for all simulations."""

    def __init__(self, broker: "SimulatedBroker", feed: ClusterStateFeed, membership: Membership) -> None:
        config = SimpleNamespace(node_id=broker.broker_id, member_lease_ttl_ms=LEASE_TTL_MS)
        super().__init__(config, feed, membership)  # type: ignore[arg-type]
        self._broker = broker

    def add(self, partition: Partition) -> None:
        """Hold a partition, and watch it."""
        super().add(partition)
        partition._watchers = Watchers()  # type: ignore[assignment]
        partition.watch(self._broker.followers)

    def topic_config(self, topic: Topic, state: ClusterState | None = None) -> TopicConfig:
        """Return a topic's settings."""
        del state
        return topic_config(topic.configs)


class ControllerCalls:
    """How a broker asks the controller, as `ControllerClient` does: again and again, whoever leads."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        self._broker = broker

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange], *, timeout_s: float
    ) -> tuple[list[AlteredIsr], int]:
        """Propose in-sync sets, or report lost and failed logs."""
        broker = self._broker
        deadline = broker.clock.monotonic() + timeout_s
        broker.note("asks for {}", ", ".join(map(_described, changes)))
        while (left_s := deadline - broker.clock.monotonic()) > 0:
            leader = broker.state.controller
            if leader is not None:
                controller = broker.cluster.controllers[leader.id]
                request = (broker_id, broker_epoch, changes)
                with contextlib.suppress(NotController, RequestTimedOut):
                    results, revision = await broker.ask(
                        controller, controller.on_alter_partitions, request, min(left_s, ASKED_AGAIN_AFTER_S)
                    )
                    broker.note("is told {}", ", ".join(result.error_code.name for result in results))
                    return results, revision
            await asyncio.sleep(min(left_s, RETRY_DELAY_S))  # of the simulation's clock, between two attempts
        raise RequestTimedOut("no controller answers")


def _described(change: IsrChange) -> str:
    if change.longest_log:
        return f"broker {change.isr[0].broker_id} to lead, as its log is the longest"
    if not change.isr:
        return f"partition {change.index} without its log"
    return f"isr {[member.broker_id for member in change.isr]} in place of partition epoch {change.partition_epoch}"


class SimulatedBroker(ServiceProcess):
    """One broker over all its lives.

    Attributes:
        disk: what survives it.
        partitions: what it holds in this life; None until it serves.
    """

    def __init__(
        self, broker_id: int, schedule: Schedule, network: Network, etcd: FakeEtcd, observer: Invariants
    ) -> None:
        super().__init__(f"broker-{broker_id}", schedule, network, etcd, observer)
        self.broker_id = broker_id
        self.cluster: SimulatedCluster
        self.disk = Disk(UUID(int=broker_id * 1000))
        self.partitions: HeldPartitions | None = None
        self.connections: list[SimulatedConnection] = []
        self._membership: Membership | None = None
        self._led: set[Partition] = set()
        self._resumes_lease = schedule.chance(0.7)

    # Life and death

    def on_start(self) -> None:
        """Find what the last life has left, and run the broker."""
        self._membership = None
        self._leaving = asyncio.Event()
        self._led = set()
        forget_epochs = self.schedule.chance(0.5)
        self._lose_what_failed()
        if any(log.lost_from is not None for log in self.disk.logs.values()):
            self.disk.intact_since = NO_EPOCH
        for log in self.disk.logs.values():
            log.reopen(forget_empty_epochs=forget_epochs)
            log.may_lack_end = self.disk.intact_since == NO_EPOCH
        self.context = ReplicationContext(
            broker_id=self.broker_id, lag_max_ms=self.cluster.lag_max_ms, monotonic_ms=self.now_ms
        )
        self.followers = FollowerService(self)
        self.partitions = None
        super().on_start()

    def wipe(self) -> None:
        """Lose everything on the disk; only while the broker is down."""
        assert not self.is_running
        self.note("loses its disk")
        self.disk = Disk(UUID(int=self.disk.directory_id.int + 1))

    def lose_power(self, *, loses_all: bool = False) -> None:
        """Lose what was not fsynced, or some of it; only while the broker is down."""
        assert not self.is_running
        self.note("has lost power")
        for log in self.disk.logs.values():
            kept_max = log.durable_end_offset if loses_all else log.log_end_offset
            log.lose_power(self.schedule.random.randint(log.durable_end_offset, kept_max))
        self.disk.intact_since = NO_EPOCH

    def lose_end(self, name: TopicPartition, end_offset: int) -> None:
        """Lose the end of a log, durable or not, of which checkpoints still tell; only while the broker is down."""
        assert not self.is_running
        self.note("has lost the end of its log of {}, which ends at {} now", name, end_offset)
        self.disk.logs[name].lose_end(end_offset)
        self.disk.intact_since = NO_EPOCH

    def fail_log(self, name: TopicPartition) -> None:
        """Have an fsync of a log fail."""
        self.note("can fsync its log of {} no more", name)
        self.loop.run(self.disk.logs[name].fail)

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
        self.note("begins to shut down")
        self.loop.run(self._leaving.set)

    # Service

    async def serve(self, etcd: EtcdClient, feed: ClusterStateFeed) -> str:
        """Register, then lead and follow, until the place is lost or the broker is told to leave."""
        changed = asyncio.Event()
        self._membership = membership = Membership(
            etcd,
            KEYS.cluster_name,
            self._member(),
            lease_ttl_ms=LEASE_TTL_MS,
            on_change=changed.set,
            resume=self._resumes_lease,
            view_is_fresh=feed.is_fresh,
            clock=self.clock,
        )
        await membership.start()
        self.note("is registered with broker epoch {}", membership.registered_epoch)
        if self.disk.intact_since == NO_EPOCH:
            self.disk.intact_since = membership.registered_epoch
            self.observer.intact_again()
        await feed.wait_for(lambda state: shows_registration(state, membership), REGISTRATION_TIMEOUT_S)
        self.partitions = partitions = HeldPartitions(self, feed, membership)
        reconciler = Reconciler(
            config=SimpleNamespace(node_id=self.broker_id),  # type: ignore[arg-type]
            store=SimulatedLogStore(self),  # type: ignore[arg-type]
            feed=feed,
            membership=membership,
            partitions=partitions,
            context=self.context,
            fetchers=FetcherPool(
                SimpleNamespace(**FETCHING, node_id=self.broker_id),  # type: ignore[arg-type]
                broker_epoch=lambda: membership.registered_epoch,
                clock=self.clock,
                open_connection=connector(self),
            ),
            changed=changed,
        )
        for reporting in (IsrUpdates, LongestLogSearches):
            reporting(
                context=self.context,
                partitions=partitions,
                feed=feed,
                membership=membership,
                controller=ControllerCalls(self),
                reconciler=reconciler,
            ).start()
        self.after(CHECKPOINT_INTERVAL_MS, self._checkpoint)
        await reconciler.start()
        return await self._wait_for_end(membership, feed, reconciler)

    async def _wait_for_end(self, membership: Membership, feed: ClusterStateFeed, reconciler: Reconciler) -> str:
        ends = [
            start_awaited("end", end) for end in (self._leaving.wait(), membership.wait_failed(), feed.wait_failed())
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends[1:]:
            if end.done():
                return str(end.result())
        await hand_over(self.broker_id, membership, feed, reconciler, timeout_s=HAND_OVER_S_MAX)
        for log in self.disk.logs.values():
            log.checkpoint()
        await membership.close()
        return "it was told to"

    def _member(self) -> Member:
        return Member(
            role=Role.BROKER,
            id=self.broker_id,
            epoch=NO_EPOCH,
            incarnation=UUID(int=self.life),
            rpc_address="",
            version="",
            endpoints=(Endpoint(listener=LISTENER, host=self.name, port=9092),),
            directory_ids=(self.disk.directory_id,),
            intact_since=self.disk.intact_since,
        )

    @property
    def lease_id(self) -> int:
        """The lease that its registration hangs on."""
        assert self._membership is not None
        return self._membership.session.lease.id

    @property
    def registered_epoch(self) -> int:
        """Its broker epoch, which outlives a lapsed lease."""
        return self._membership.registered_epoch if self._membership is not None else NO_EPOCH

    def is_registered(self) -> bool:
        """Return whether nobody can have been told that this broker is gone."""
        return self.is_running and self._membership is not None and self._membership.is_current()

    def _checkpoint(self) -> None:
        for log in self.disk.logs.values():
            log.checkpoint()
        self.after(CHECKPOINT_INTERVAL_MS, self._checkpoint)

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
        """Return a partition that this broker leads, or raise why there is none."""
        if self.partitions is None:
            raise NotLeaderOrFollower(f"broker {self.broker_id} does not serve yet")
        partition = self.partitions.leader_of(name.topic, name.partition)
        if self.is_registered():
            self.observer.goes_by(self)
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

        partition.when_replicated(offset + 1, replicated, leader_epoch=partition.state.leader_epoch)

    def on_connect(self, _request: None, answer: Answer) -> None:
        """Accept a connection."""
        answer(True)

    def on_fetch(self, request: tuple[SimulatedConnection, int, PlannedFetch], answer: Answer) -> None:
        """Serve a follower; one that comes before the broker serves is reset."""
        if self.partitions is None:
            request[0].end()
        else:
            self.followers.on_fetch(*request, answer)

    def on_hurry(self, connection: SimulatedConnection) -> None:
        """Answer a fetch that waits."""
        for waiting in tuple(connection.delayed):
            waiting.hurry()

    def on_list_offsets(self, request: ListOffsetsRequest, answer: Answer) -> None:
        """Answer with an end of a log."""
        if self.partitions is not None:
            answer(self.followers.list_offsets(request))

    def kill(self) -> None:
        """End; who is connected hears of it, unless the machine goes as well."""
        super().kill()
        connections, self.connections = self.connections, []
        if not self.schedule.chance(SILENT_ENDS):
            for connection in connections:
                self.schedule.after(self.network.delay_ms(), connection.end)

    def on_consume(self, request: Consume, answer: Answer) -> None:
        """Answer with records below the high watermark."""
        try:
            if request.any_replica:
                if self.partitions is None:
                    raise NotLeaderOrFollower(f"broker {self.broker_id} does not serve yet")
                partition = self.partitions.readable_replica(*request.partition)
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
