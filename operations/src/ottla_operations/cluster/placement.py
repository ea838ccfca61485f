"""A placement of replicas that is being changed step by step, with the counts that decide the next step. Pure.

Brokers that do not take part (because they are away, or are to have no replicas) may hold replicas but are never
given one, and are not counted. Where several copies of a partition stand in one rack, they are *crowded*: the measure
is how many pairs of its replicas share a rack. A broker without a rack is a rack of its own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import Replicas


class Placement:
    """Which broker has which replicas, and which of them leads.

    Attributes:
        racks: the brokers that take part.
        replicas: each partition's brokers; the first is the preferred leader.
        replica_counts: how many replicas each broker that takes part has.
        leader_counts: how many partitions each of them leads.
        disk_bytes: how many bytes each of them keeps.
        topic_counts: replicas by topic and broker.
        topic_leader_counts: leaders by topic and broker.
    """

    def __init__(
        self,
        racks: Mapping[int, str | None],
        replicas: Mapping[TopicPartition, Replicas],
        sizes: Mapping[TopicPartition, int],
    ) -> None:
        self.racks = dict(sorted(racks.items()))
        self.replicas = {name: list(replicas[name]) for name in sorted(replicas)}
        self.replica_counts = dict.fromkeys(self.racks, 0)
        self.leader_counts = dict.fromkeys(self.racks, 0)
        self.disk_bytes = dict.fromkeys(self.racks, 0)
        self.topic_counts: Counter[tuple[str, int]] = Counter()
        self.topic_leader_counts: Counter[tuple[str, int]] = Counter()
        self._sizes = sizes
        # Dictionaries serve as sets that keep their order, so that a plan is the same every time.
        self._on_broker: dict[int, dict[str, dict[TopicPartition, None]]] = {broker: {} for broker in self.racks}
        self._led_by: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in self.racks}
        for name, brokers in self.replicas.items():
            for broker in brokers:
                self._count_replica(name, broker, 1)
            if brokers:
                self._count_leader(name, brokers[0], 1)

    def size_of(self, name: TopicPartition) -> int:
        """Return the bytes that one copy takes."""
        return self._sizes.get(name, 0)

    def rack_of(self, broker: int) -> str | int:
        """Return the rack of a broker that takes part; one without is a rack of its own."""
        rack = self.racks[broker]
        return broker if rack is None else rack

    def crowding_change(self, name: TopicPartition, source: int, target: int) -> int:
        """Return by how many pairs more the partition would be crowded if a replica moved."""
        source_rack = self.rack_of(source) if source in self.racks else None
        target_rack = self.rack_of(target)
        change = 0
        for broker in self.replicas[name]:
            if broker != source and broker in self.racks:
                rack = self.rack_of(broker)
                change += (rack == target_rack) - (rack == source_rack)
        return change

    def neighbours(self, name: TopicPartition, broker: int) -> int:
        """Return how many of the partition's replicas stand in a broker's rack besides its own."""
        rack = self.rack_of(broker)
        return sum(
            each != broker and each in self.racks and self.rack_of(each) == rack for each in self.replicas[name]
        )

    def can_move(self, name: TopicPartition, source: int, target: int) -> bool:
        """Return whether a replica can go from one broker to another without the partition being more crowded."""
        return target not in self.replicas[name] and self.crowding_change(name, source, target) <= 0

    def movable(self, source: int, target: int) -> Iterator[TopicPartition]:
        """Yield what can move from one broker to another, first of topics that the source has most too much of."""
        topics = sorted(
            self._on_broker[source],
            key=lambda topic: self.topic_counts[topic, target] - self.topic_counts[topic, source],
        )
        for topic in topics:
            for name in self._on_broker[source][topic]:
                if self.can_move(name, source, target):
                    yield name

    def leadable(self, source: int, target: int) -> Iterator[TopicPartition]:
        """Yield the partitions that one broker leads and another could, as it has a replica."""
        return (name for name in self._led_by[source] if target in self.replicas[name])

    def on_broker(self, broker: int) -> Iterator[TopicPartition]:
        """Yield the partitions that a broker has a replica of."""
        return (name for partitions in self._on_broker[broker].values() for name in partitions)

    def move(self, name: TopicPartition, source: int, target: int) -> None:
        """Put another broker in one's place."""
        brokers = self.replicas[name]
        assert target not in brokers
        position = brokers.index(source)
        brokers[position] = target
        self._count_replica(name, source, -1)
        self._count_replica(name, target, 1)
        if position == 0:
            self._count_leader(name, source, -1)
            self._count_leader(name, target, 1)

    def add(self, name: TopicPartition, broker: int) -> None:
        """Give a partition one more replica, the last in order."""
        assert broker not in self.replicas[name]
        self.replicas[name].append(broker)
        self._count_replica(name, broker, 1)
        if len(self.replicas[name]) == 1:
            self._count_leader(name, broker, 1)

    def remove(self, name: TopicPartition, broker: int) -> None:
        """Take a replica away; if it was the first, the next one is preferred as leader."""
        brokers = self.replicas[name]
        was_first = brokers[0] == broker
        brokers.remove(broker)
        self._count_replica(name, broker, -1)
        if was_first:
            self._count_leader(name, broker, -1)
            if brokers:
                self._count_leader(name, brokers[0], 1)

    def lead(self, name: TopicPartition, broker: int) -> None:
        """Put a replica first, and so make it the preferred leader."""
        brokers = self.replicas[name]
        self._count_leader(name, brokers[0], -1)
        brokers.remove(broker)
        brokers.insert(0, broker)
        self._count_leader(name, broker, 1)

    def changes(self, before: Mapping[TopicPartition, Replicas]) -> dict[TopicPartition, Replicas]:
        """Return the replicas of the partitions that have others than before, or in another order."""
        return {name: tuple(brokers) for name, brokers in self.replicas.items() if tuple(brokers) != before[name]}

    def _count_replica(self, name: TopicPartition, broker: int, change: int) -> None:
        if broker not in self.racks:
            return
        self.replica_counts[broker] += change
        self.topic_counts[name.topic, broker] += change
        self.disk_bytes[broker] += change * self.size_of(name)
        of_topic = self._on_broker[broker].setdefault(name.topic, {})
        if change > 0:
            of_topic[name] = None
        else:
            del of_topic[name]
            if not of_topic:
                del self._on_broker[broker][name.topic]

    def _count_leader(self, name: TopicPartition, broker: int, change: int) -> None:
        if broker not in self.racks:
            return
        self.leader_counts[broker] += change
        self.topic_leader_counts[name.topic, broker] += change
        if change > 0:
            self._led_by[broker][name] = None
        else:
            del self._led_by[broker][name]
