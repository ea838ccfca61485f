"""A cluster that moves partitions as it is asked to, one step per look at it, for the tests of movements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import (
    ELECTION_NOT_NEEDED,
    BrokerView,
    ClusterView,
    ConfigChange,
    Disks,
    Move,
    Outcomes,
    PartitionView,
    Refusal,
    ReplicaOnDisk,
    Replicas,
)
from ottla_operations.errors import OperationError

PARTITION_BYTES = 100


class SimulatedCluster:
    """Stands in for `ClusterAdmin`.

    Attributes:
        polls_to_move: how many looks at the moves one takes.
        most_at_once: the most partitions that ever were moving.
        refused: partitions whose move is refused, with the reason.
        settings: dynamic settings that are there.
    """

    def __init__(self, placement: Mapping[TopicPartition, Replicas], brokers: Iterable[int]) -> None:
        self.brokers = {broker: BrokerView(broker, "h", 9000 + broker, None) for broker in brokers}
        self.partitions = {
            name: PartitionView(name, replicas[0], replicas, replicas) for name, replicas in placement.items()
        }
        self.polls_to_move = 2
        self.most_at_once = 0
        self.refused: dict[TopicPartition, str] = {}
        self.settings: dict[tuple[str, str], str] = {}
        self.settings_seen: set[tuple[str, str]] = set()
        self.is_gone = False
        self.unregistered: list[int] = []
        self._targets: dict[TopicPartition, Replicas] = {}
        self._polls: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def view(self) -> ClusterView:
        self._check()
        return ClusterView("c", self.brokers, dict(self.partitions))

    def moves(self) -> dict[TopicPartition, Move]:
        self._check()
        for name in list(self._targets):
            self._polls[name] += 1
            if self._polls[name] >= self.polls_to_move:
                target = self._targets.pop(name)
                self.partitions[name] = replace(self.partitions[name], replicas=target, in_sync=target)
        return {name: Move(target, target, ()) for name, target in self._targets.items()}

    def disks(self, brokers: Iterable[BrokerView]) -> Disks:
        half = PARTITION_BYTES // 2
        return {broker.id: [ReplicaOnDisk(name, half) for name in self._targets] for broker in brokers}

    def reassign(self, targets: Mapping[TopicPartition, Replicas | None]) -> Outcomes:
        self._check()
        outcomes: dict[TopicPartition, Refusal | None] = {}
        for name, target in targets.items():
            outcomes[name] = None
            if name in self.refused:
                outcomes[name] = Refusal(1, self.refused[name])
            elif target is not None:
                self._targets[name], self._polls[name] = target, 0
            elif self._targets.pop(name, None) is None:
                outcomes[name] = Refusal(85, "it is not being moved")
        self.most_at_once = max(self.most_at_once, len(self._targets))
        return outcomes

    def elect_leaders(self, names: Sequence[TopicPartition]) -> Outcomes:
        self._check()
        outcomes: dict[TopicPartition, Refusal | None] = {}
        for name in names:
            partition = self.partitions[name]
            is_led = partition.leader == partition.replicas[0]
            outcomes[name] = Refusal(ELECTION_NOT_NEEDED, "") if is_led else None
            self.partitions[name] = replace(partition, leader=partition.replicas[0])
        return outcomes

    def alter_configs(self, changes: Iterable[ConfigChange]) -> None:
        self._check()
        for change in changes:
            if change.value is None:
                self.settings.pop((change.resource, change.name), None)
            else:
                self.settings[change.resource, change.name] = change.value
                self.settings_seen.add((change.resource, change.name))

    def unregister(self, broker_id: int) -> None:
        assert broker_id not in self.brokers
        self.unregistered.append(broker_id)

    def cancel(self, name: TopicPartition) -> None:
        """Has somebody else cancel a move."""
        del self._targets[name]

    def _check(self) -> None:
        if self.is_gone:
            raise OperationError("cannot reach the cluster")
