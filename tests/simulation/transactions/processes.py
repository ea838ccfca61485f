"""The processes of a cluster with transactions: brokers and coordinators with the real code in them.

A broker has real logs, on a disk in memory: they survive its lives, and each life recovers them as after a crash.
Requests go through the real dispatcher. A coordinator is the real `GroupCoordinator`. Who owns which shard, and
what each process knows of that, is the simulated controller's business (`control.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla_broker.dispatch import Dispatcher
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, Member
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.coordinator import GroupCoordinator
from tests.simulation.network import Answer, Network
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.broker.broker_parts import Client, broker_of
from tests.support.broker.partition_logs import open_log

if TYPE_CHECKING:
    from tests.simulation.transactions.control import Control

WALL_CLOCK_MS = 1_700_000_000_000
REQUEST_TIMEOUT_MS = 10_000
SEGMENT_BYTES = 2_000
"""Logs roll, so that snapshots of producers and indexes of transactions are among what is recovered."""
SLICE_OVER_PROBABILITY = 0.02
"""How often a look at the clock finds that a slice of work is over."""
LONG_WORK_S = 0.1
"""Longer than any slice."""
BROKER_SETTINGS = {
    "add.partitions.to.txn.retry.backoff.ms": "5",
    "add.partitions.to.txn.retry.backoff.max.ms": "100",
}
COORDINATOR_SETTINGS: Mapping[str, Any] = {
    "offsets.commit.timeout.ms": 3_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


class VirtualClock:
    """The clocks of a process: `ottla_core.clock.Clock`, and what `time` has of a module that reads it itself."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return WALL_CLOCK_MS + self._process.now_ms()

    def monotonic(self) -> float:
        """Return seconds."""
        return self._process.monotonic_s()


def running_loop() -> VirtualLoop:
    """Return the loop of the process that does something just now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


class RunningClock:
    """In place of the module `time`: the clock of the process whose loop runs.

    Work takes no simulated time, so no slice of long work would ever be over. Now and then chance says that one is.
    """

    @staticmethod
    def monotonic() -> float:
        """Return seconds."""
        return running_loop().time()

    @staticmethod
    def perf_counter() -> float:
        """Return seconds of work, by which slices end."""
        loop = running_loop()
        if loop.process.schedule.chance(SLICE_OVER_PROBABILITY):
            loop.worked_s += LONG_WORK_S
        return loop.time() + loop.worked_s


def simulated_uuid() -> UUID:
    """Return what is drawn in place of a `uuid4`."""
    return UUID(int=running_loop().process.schedule.random.getrandbits(128))


class Feed:
    """What a process knows of the cluster's state; it comes late, and never goes back."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._listeners: list[Callable[[ClusterState, ClusterState], None]] = []

    def subscribe(self, listener: Callable[[ClusterState, ClusterState], None]) -> Callable[[], None]:
        """Have a listener called with former and new states."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def take(self, state: ClusterState) -> None:
        """Take a later state."""
        if state.revision > self.state.revision:
            former, self.state = self.state, state
            for listener in tuple(self._listeners):
                listener(former, state)


class ShellProcess(Process):
    """A process with an event loop of its own in each life.

    Attributes:
        feed: what it knows of the cluster in this life.
    """

    def __init__(self, name: str, schedule: Schedule, network: Network, control: "Control") -> None:
        super().__init__(name, schedule)
        self.network = network
        self.control = control
        self.clock = VirtualClock(self)
        self.feed = Feed(control.state)
        self.loops: list[VirtualLoop] = []

    def on_start(self) -> None:
        """Begin a life."""
        self.feed = Feed(self.control.state)
        self.loop = VirtualLoop.of(self)
        self.loops.append(self.loop)
        self.loop.run(self.begin)

    def begin(self) -> None:
        """Make what this life consists of."""
        raise NotImplementedError

    def perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Do it on this life's event loop, with all that comes of it at once."""
        self.loop.run(action, *arguments)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something on this life's loop."""
        self.loop.run(self.loop.create_task, self._noting(work))

    async def _noting(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.control.unexpected(self.name, error)

    def on_cluster_state(self, state: ClusterState) -> None:
        """Take a state of the cluster."""
        self.feed.take(state)


@dataclass
class _Registration:
    """A broker's, for its partitions."""

    registered_epoch: int = NO_EPOCH

    def is_current(self) -> bool:
        return True


@dataclass
class _ProducerIds:
    """Ids that nobody else has."""

    control: "Control"

    async def take(self, _timeout_s: float) -> int:
        return self.control.fresh_producer_id()


class SimulatedBroker(ShellProcess):
    """A broker that leads its partitions for good.

    Attributes:
        id: its id.
        logs: of its partitions in this life.
    """

    def __init__(
        self, broker_id: int, schedule: Schedule, network: Network, control: "Control", directory: Path
    ) -> None:
        super().__init__(f"broker {broker_id}", schedule, network, control)
        self.id = broker_id
        self.directory = directory
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.partitions: dict[TopicPartition, Partition] = {}

    def coordinator_process(self, member: Member) -> "SimulatedCoordinator | None":
        """Return the process behind a member, if it is that very registration's."""
        return self.control.coordinator_of(member)

    def begin(self) -> None:
        """Recover the logs, and open streams to the coordinators."""
        state = self.feed.state
        config = broker_of(self.feed).config
        table = PartitionTable(config, self.feed, _Registration())  # type: ignore[arg-type]
        self.logs, self.partitions = {}, {}
        context = ReplicationContext(self.id, 30_000, self.now_ms, time_ms=self.clock.time_ms)
        for topic in state.topics.values():
            for each in topic.partitions:
                if each.leader == self.id:
                    name = TopicPartition(topic.name, each.index)
                    partition = Partition(name, self._log(name), context, each)
                    partition.apply(each, leads=True)
                    table.add(partition)
                    self.partitions[name] = partition
        relay = self.relay = GroupRelay(
            self.feed,  # type: ignore[arg-type]
            self.id,
            ShardLogAccess(table, lambda: self.feed.state, self.clock),
            markers=MarkerWriting(table, self.clock, self.name),
        )
        relay.start()
        self.broker = broker_of(
            self.feed,
            settings=BROKER_SETTINGS,
            clock=self.clock,
            partitions=table,
            groups=relay,
            transaction_coordinators=CoordinatorRequests(
                relay, lambda: self.feed.state, self.name, REQUEST_TIMEOUT_MS / 1000
            ),
            producer_ids=_ProducerIds(self.control),
        )
        self._dispatcher = Dispatcher(self.broker)

    def _log(self, name: TopicPartition) -> PartitionLog:
        config = TopicConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=500)
        directory = self.directory / f"{name.topic}-{name.partition}"
        log = open_log(directory, config=config, was_clean=False, now_ms=self.clock.time_ms())
        self.logs[name] = log
        return log

    def kill(self) -> None:
        """End the process; its files stay."""
        super().kill()
        for log in self.logs.values():
            log.close()

    def handle(self, frame: bytes, answer: Answer) -> None:
        """Handle a client's request as one that came alone on its connection."""

        async def run() -> None:
            outcome: Any = self._dispatcher.handle(memoryview(frame).toreadonly(), Client())  # type: ignore[arg-type]
            while outcome is not None and not isinstance(outcome, list):
                outcome = await outcome
            if outcome is not None:
                answer(b"".join(part for part in outcome if isinstance(part, bytes))[4:])

        self.spawn(run)


@dataclass
class _Place:
    """A coordinator's registration, as it knows it itself."""

    epoch: int = NO_EPOCH


class SimulatedCoordinator(ShellProcess):
    """A coordinator.

    Attributes:
        id: its id.
        place: under which registration it owns shards, as far as it knows.
        service: what brokers call.
    """

    def __init__(self, coordinator_id: int, schedule: Schedule, network: Network, control: "Control") -> None:
        super().__init__(f"coordinator {coordinator_id}", schedule, network, control)
        self.id = coordinator_id
        self.place = _Place()

    def begin(self) -> None:
        """Register, and take what is assigned."""
        self.place = _Place()
        config = GroupCoordinatorConfig.model_validate({"node.id": self.id, **COORDINATOR_SETTINGS})
        self.coordinator = GroupCoordinator(
            config=config,
            feed=self.feed,
            place=self.place,
            register_anew=lambda floor: self.control.register_anew(self, floor),
            clock=self.clock,
        )
        self.service = self.coordinator.service
        self.control.register(self)

    def on_registered(self, epoch: int, state: ClusterState) -> None:
        """Learn of a registration."""
        self.place.epoch = epoch
        self.feed.take(state)
        self.coordinator.on_place_changed()

    def on_lapsed(self) -> None:
        """Learn that the registration has lapsed."""
        self.place.epoch = NO_EPOCH
        self.coordinator.on_place_changed()
