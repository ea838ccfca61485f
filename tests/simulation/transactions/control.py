"""Who owns which shard, decided in one place, and told to each process late.

Stands for the controller and etcd, which the other simulation is about. A coordinator that is not heard of for the
time of a lease loses its registration, and its shards go to another under the next producer epoch, while the former
owner may go on for a while: it was paused, or hears of it late.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla_core.cluster.state.features import FinalizedFeatures, newest_features
from ottla_core.cluster.state.model import ClusterState, Member, PartitionState, Role, Shard, Topic
from ottla_core.shards import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from tests.simulation.schedule import Schedule
from tests.support.groups.group_cluster import broker_member

if TYPE_CHECKING:
    from tests.simulation.transactions.processes import ShellProcess, SimulatedCoordinator

LEASE_MS = 1_500.0
LOOK_MS = 250.0
DATA_TOPIC = "orders"
DATA_PARTITIONS, TRANSACTION_SHARDS, GROUP_SHARDS = 4, 2, 1
SHARD_PRODUCER_ID = 1_000_000
"""Of the owners of shards; those of clients begin far below."""


def _topic(number: int, name: str, partitions: int, brokers: list[int]) -> Topic:
    topic_id = UUID(int=number)
    return Topic(
        name=name,
        id=topic_id,
        partitions=tuple(
            PartitionState(
                topic_id=topic_id,
                index=index,
                replicas=(leader,),
                isr=(leader,),
                leader=leader,
                leader_epoch=0,
            )
            for index in range(partitions)
            for leader in (brokers[(number + index) % len(brokers)],)
        ),
    )


def first_state(brokers: list[int]) -> ClusterState:
    """Return a cluster with its topics, and nobody who owns a shard."""
    topics = [
        _topic(1, DATA_TOPIC, DATA_PARTITIONS, brokers),
        _topic(2, TRANSACTION_TOPIC, TRANSACTION_SHARDS, brokers),
        _topic(3, GROUP_TOPIC, GROUP_SHARDS, brokers),
    ]
    return ClusterState(
        revision=1,
        features=FinalizedFeatures(levels=newest_features(), epoch=1),
        brokers={each: broker_member(each, epoch=1) for each in brokers},
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.id: topic for topic in topics},
    )


class Control:
    """The state of the cluster, and who is registered.

    Attributes:
        state: the newest.
        shards_moved: how often a shard has gone to another owner.
        failures: what failed unexpectedly in processes.
    """

    def __init__(self, schedule: Schedule, brokers: list[int]) -> None:
        self.schedule = schedule
        self.state = first_state(brokers)
        self.shards_moved = 0
        self.failures: list[tuple[str, Exception]] = []
        self._processes: list[ShellProcess] = []
        self._registered: dict[int, tuple[SimulatedCoordinator, int, int]] = {}
        self._unheard_ms: dict[int, float] = {}
        self._producer_ids = 0
        self._floor: int | None = None
        self._late_max_ms = schedule.random.choice((20.0, 500.0, 4_000.0))

    def watch(self, processes: Iterable["ShellProcess"]) -> None:
        """Tell these processes what changes, and look after their leases."""
        self._processes = list(processes)
        self.schedule.after(LOOK_MS, self._look)

    def unexpected(self, who: str, error: Exception) -> None:
        """Note what failed."""
        self.failures.append((who, error))

    def fresh_producer_id(self) -> int:
        """Return an id that nobody has."""
        self._producer_ids += 1
        return self._producer_ids

    def coordinator_of(self, member: Member) -> "SimulatedCoordinator | None":
        """Return the process that is registered as a member, if it lives in the same life."""
        process, epoch, life = self._registered.get(member.id, (None, 0, 0))
        return process if process is not None and epoch == member.epoch and process.life == life else None

    def register(self, process: "SimulatedCoordinator") -> None:
        """Register a coordinator; it learns of it a moment later."""
        life = process.life
        self.schedule.after(self.schedule.between(5.0, 200.0), self._register, process, life)

    def register_anew(self, process: "SimulatedCoordinator", epoch_floor: int | None) -> None:
        """Register a coordinator again, whose shards are to be written under a later epoch."""
        self.schedule.note(process.name, "wants to register anew, {}", epoch_floor)
        self._floor = epoch_floor
        self._unregister(process.id)
        self.register(process)

    def _register(self, process: "SimulatedCoordinator", life: int) -> None:
        if process.life != life or not process.is_running:
            return
        epoch = self.state.revision + 1
        member = Member(
            role=Role.GROUP_COORDINATOR,
            id=process.id,
            epoch=epoch,
            incarnation=UUID(int=epoch),
            rpc_address=f"10.0.0.{process.id}:1",
            version="test",
        )
        self._registered[process.id] = process, epoch, life
        self._unheard_ms[process.id] = 0.0
        self.change(coordinators={**self.state.coordinators, process.id: member})
        self._assign()
        process.deliver(process.on_registered, (epoch, self.state))

    def _unregister(self, coordinator_id: int) -> None:
        self._registered.pop(coordinator_id, None)
        others = {key: value for key, value in self.state.coordinators.items() if key != coordinator_id}
        self.change(coordinators=others)
        self._assign()

    def _look(self) -> None:
        for coordinator_id, (process, _, life) in list(self._registered.items()):
            is_heard = process.is_running and process.life == life and not process.is_paused
            self._unheard_ms[coordinator_id] = 0.0 if is_heard else self._unheard_ms[coordinator_id] + LOOK_MS
            if self._unheard_ms[coordinator_id] > LEASE_MS:
                self._lapse(process, life)
        self.schedule.after(LOOK_MS, self._look)

    def _lapse(self, process: "SimulatedCoordinator", life: int) -> None:
        """Take a registration away. A process that comes back goes on as before until it hears of that."""
        self.schedule.note(process.name, "has lost its registration")
        self._unregister(process.id)
        if process.is_running and process.life == life:
            process.deliver(self._tell_lapsed, (process, life))

    def _tell_lapsed(self, process: "SimulatedCoordinator", life: int) -> None:
        def tell() -> None:
            if process.life == life and process.is_running:
                process.deliver(process.on_lapsed, ())
                self.register(process)

        self.schedule.after(self.schedule.between(0.0, self._late_max_ms), tell)

    def move_a_shard(self) -> None:
        """Give a shard to another owner, as a rebalance does."""
        shards = list(self.state.shards.values())
        if shards and len(self.state.coordinators) > 1:
            shard = self.schedule.random.choice(shards)
            others = [each for key, each in self.state.coordinators.items() if key != shard.coordinator]
            self._give({shard.topic_partition: self.schedule.random.choice(others)})

    def relieve(self, coordinator_id: int) -> None:
        """Give all shards of a coordinator to others."""
        others = [each for key, each in self.state.coordinators.items() if key != coordinator_id]
        owned = [name for name, shard in self.state.shards.items() if shard.coordinator == coordinator_id]
        if others and owned:
            self._give({name: self.schedule.random.choice(others) for name in owned})

    def _assign(self) -> None:
        """Give shards without an owner to those who are there."""
        members = list(self.state.coordinators.values())
        if not members:
            return
        wanted: dict[TopicPartition, Member] = {}
        for topic, count in ((TRANSACTION_TOPIC, TRANSACTION_SHARDS), (GROUP_TOPIC, GROUP_SHARDS)):
            for index in range(count):
                name = TopicPartition(topic, index)
                shard = self.state.shards.get(name)
                owner = None if shard is None else self.state.coordinators.get(shard.coordinator)
                if shard is None or owner is None or owner.epoch != shard.coordinator_epoch:
                    wanted[name] = self.schedule.random.choice(members)
        if wanted:
            self._give(wanted)

    def _give(self, owners: dict[TopicPartition, Member]) -> None:
        shards = dict(self.state.shards)
        for name, owner in owners.items():
            former = shards.get(name)
            epoch = 0 if former is None else former.producer_epoch + 1
            shards[name] = Shard(
                topic_partition=name,
                coordinator=owner.id,
                coordinator_epoch=owner.epoch,
                producer_id=SHARD_PRODUCER_ID + hash_of(name) if former is None else former.producer_id,
                producer_epoch=epoch if self._floor is None else max(epoch, self._floor + 1),
            )
            self.shards_moved += former is not None
            self.schedule.note("control", "{} is owned by coordinator {}", str(name), owner.id)
        self.change(shards=shards)

    def change(self, **changes: Any) -> None:
        """Change the state, and tell everybody, each when the message has come."""
        self.state = replace(self.state, revision=self.state.revision + 1, **changes)
        for process in self._processes:
            delay_ms = self.schedule.between(0.1, self._late_max_ms)
            self.schedule.after(delay_ms, self._tell, process, process.life, self.state)

    def _tell(self, process: "ShellProcess", life: int, state: ClusterState) -> None:
        if process.is_running and process.life == life:
            process.deliver(process.on_cluster_state, (state,))


def hash_of(name: TopicPartition) -> int:
    """Return a number of its own for each shard."""
    return name.partition + (100 if name.topic == GROUP_TOPIC else 0)
