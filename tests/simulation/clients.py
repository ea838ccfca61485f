"""Simulated producers and consumers, and what they may be told.

Clients know the cluster as etcd shows it, a moment later (their metadata requests are not simulated), and sometimes
not even that: they try other brokers too. A producer gives up on a record that it got no good answer for; it is not
idempotent, so it never repeats one.
"""

from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import NO_LEADER
from ottla_core.topic_partition import TopicPartition
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.simulated_broker import Consume, Consumed, Produce, SimulatedBroker

REQUEST_TIMEOUT_MS = 3_000


class Client(Process):
    """What producers and consumers have in common."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        network: Network,
        brokers: dict[int, SimulatedBroker],
        partition: TopicPartition,
    ) -> None:
        super().__init__(name, schedule)
        self._network = network
        self._brokers = brokers
        self._partition = partition

    def _some_broker(self) -> SimulatedBroker:
        """Return whom this client takes for the leader: what some broker says, or just anybody."""
        told_by = self.schedule.random.choice(list(self._brokers.values()))
        topic = told_by.state.topics.get(self._partition.topic) if told_by.is_running else None
        if topic is None or self.schedule.chance(0.03):
            return told_by
        leader = topic.partitions[self._partition.partition].leader
        return self._brokers[leader] if leader != NO_LEADER else told_by


class Producer(Client):
    """Sends one record after another, with acks=all or acks=1.

    Attributes:
        acknowledged: how many were acknowledged with acks=all.
        pause_ms: the time between an answer and the next record, at most.
    """

    def __init__(self, *arguments: object, pause_ms: float) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.acknowledged = 0
        self.pause_ms = pause_ms
        self._number = 0

    def on_start(self) -> None:
        """Begin to produce."""
        self.after(self.schedule.between(0, self.pause_ms), self._produce)

    def _produce(self) -> None:
        self._number += 1
        number = self._number * 10 + int(self.name[-1])
        all_in_sync = self.schedule.chance(0.8)

        def answered(answer: tuple[ErrorCode, int] | None) -> None:
            if answer is not None and answer[0] is ErrorCode.none and all_in_sync:
                self.acknowledged += 1
            failed = answer is None or answer[0] is not ErrorCode.none
            self.after(self.schedule.between(1, self.pause_ms) + (100 if failed else 0), self._produce)

        broker = self._some_broker()
        request = Produce(self._partition, number, all_in_sync)
        self._network.call(self, broker, broker.on_produce, request, answered, REQUEST_TIMEOUT_MS)


class Consumer(Client):
    """Reads the partition from its beginning, over and over, from the leader or from any replica."""

    def on_start(self) -> None:
        """Begin to consume."""
        self._offset = 0
        self._consume()

    def _consume(self) -> None:
        any_replica = self.schedule.chance(0.3)
        broker = self.schedule.random.choice(list(self._brokers.values())) if any_replica else self._some_broker()

        def answered(answer: Consumed | None) -> None:
            if answer is not None and answer.error is ErrorCode.none and answer.records:
                self._offset = answer.records[-1][0] + 1
            elif answer is not None and answer.error is ErrorCode.offset_out_of_range:
                self._offset = 0
            self.after(self.schedule.between(50, 400), self._consume)

        request = Consume(self._partition, self._offset, any_replica)
        self._network.call(self, broker, broker.on_consume, request, answered, REQUEST_TIMEOUT_MS)
