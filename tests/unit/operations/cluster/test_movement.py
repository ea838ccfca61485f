"""Carrying out a plan, with and without interrupts, on a simulated cluster."""

import pytest

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.movement import Movement
from ottla_operations.errors import OperationError
from tests.unit.operations.cluster.simulated_cluster import PARTITION_BYTES, SimulatedCluster

NAMES = [TopicPartition("t", index) for index in range(10)]


class Patience:
    """Time that passes at once; after some of it, an interrupt comes."""

    def __init__(self, *interrupts_at: int) -> None:
        self.count = 0
        self._waits = 0
        self._interrupts_at = interrupts_at

    def wait(self, duration_s: float) -> None:
        self._waits += 1
        self.count = sum(self._waits >= at for at in self._interrupts_at)
        assert self._waits < 1000


class Told:
    def __init__(self) -> None:
        self.bytes: list[int] = []
        self.names: list[TopicPartition] = []
        self.messages: list[str] = []

    def copied(self, size_bytes: int) -> None:
        self.bytes.append(size_bytes)

    def moved(self, name, replicas, done) -> None:
        self.names.append(name)
        assert done == len(self.names)

    def finishing(self, partitions: int) -> None:
        self.messages.append(f"waiting for {partitions}")

    def cancelling(self) -> None:
        self.messages.append("cancelling")

    def warned(self, message: str) -> None:
        self.messages.append(message)


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(dict.fromkeys(NAMES, (1, 2)), brokers=(1, 2, 3))


def movement(cluster, targets, *, parallel=3) -> Movement:
    sizes = dict.fromkeys(NAMES, PARTITION_BYTES)
    return Movement(cluster, cluster.view(), targets, sizes, parallel=parallel)


def test_everything_arrives_a_few_at_a_time_and_is_led_by_its_first_replica(cluster):
    told = Told()
    result = movement(cluster, dict.fromkeys(NAMES, (3, 1))).run(Patience(), told)
    assert sorted(result.moved) == sorted(told.names) == NAMES
    assert (result.failed, result.cancelled, result.not_begun) == ({}, [], [])
    assert cluster.most_at_once == 3
    assert {partition.replicas for partition in cluster.partitions.values()} == {(3, 1)}
    assert {partition.leader for partition in cluster.partitions.values()} == {3}
    assert told.bytes[-1] == len(NAMES) * PARTITION_BYTES
    assert told.bytes == sorted(told.bytes)


def test_partitions_that_only_change_their_order_do_not_take_turns(cluster):
    movement(cluster, dict.fromkeys(NAMES, (2, 1)), parallel=1).run(Patience(), Told())
    assert cluster.most_at_once == len(NAMES)
    assert {partition.leader for partition in cluster.partitions.values()} == {2}


def test_throttles_are_there_while_partitions_move_and_gone_afterwards(cluster):
    movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Patience(), Told(), bytes_per_second=1000)
    assert ("t", "follower.replication.throttled.replicas") in cluster.settings_seen
    assert ("3", "follower.replication.throttled.rate") in cluster.settings_seen
    assert cluster.settings == {}


def test_without_a_throttle_no_setting_is_touched(cluster):
    cluster.settings["3", "follower.replication.throttled.rate"] = "1"
    movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Patience(), Told())
    assert cluster.settings == {("3", "follower.replication.throttled.rate"): "1"}


def test_a_partition_that_is_refused_is_told_and_the_others_move(cluster):
    cluster.refused[NAMES[4]] = "no"
    result = movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Patience(), Told())
    assert result.failed == {NAMES[4]: "no"}
    assert len(result.moved) == 9


def test_a_first_interrupt_waits_for_what_is_being_moved_and_begins_no_more(cluster):
    told = Told()
    result = movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Patience(1), told, bytes_per_second=1)
    assert len(result.moved) == 3
    assert result.cancelled == []
    assert len(result.not_begun) == 7
    assert told.messages == ["waiting for 3"]
    assert cluster.settings == {}
    assert all(cluster.partitions[name].replicas == (1, 2) for name in result.not_begun)


def test_a_second_interrupt_cancels_what_is_being_moved(cluster):
    cluster.polls_to_move = 100
    result = movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Patience(1, 2), Told(), bytes_per_second=1)
    assert len(result.cancelled) == 3
    assert len(result.not_begun) == 7
    assert result.moved == []
    assert {partition.replicas for partition in cluster.partitions.values()} == {(1, 2)}
    assert cluster.settings == {}


def test_a_move_that_somebody_else_cancels_is_told(cluster):
    cluster.polls_to_move = 1000

    class Cancelling(Patience):
        def wait(self, duration_s: float) -> None:
            super().wait(duration_s)
            if self._waits == 1:
                cluster.cancel(NAMES[0])

    result = movement(cluster, {NAMES[0]: (1, 3)}).run(Cancelling(), Told())
    assert result.failed == {NAMES[0]: "somebody else cancelled its move"}


def test_a_topic_that_is_deleted_meanwhile_is_told(cluster):
    class Deleting(Patience):
        def wait(self, duration_s: float) -> None:
            super().wait(duration_s)
            cluster.partitions.pop(NAMES[0], None)
            if self._waits == 1:
                cluster.cancel(NAMES[0])

    cluster.polls_to_move = 1000
    result = movement(cluster, {NAMES[0]: (1, 3)}).run(Deleting(), Told())
    assert result.failed == {NAMES[0]: "it does not exist any more"}


def test_a_cluster_that_goes_away_ends_the_movement_and_says_that_throttles_stay(cluster):
    class Leaving(Patience):
        def wait(self, duration_s: float) -> None:
            cluster.is_gone = True

    told = Told()
    with pytest.raises(OperationError, match="cannot reach"):
        movement(cluster, dict.fromkeys(NAMES, (1, 3))).run(Leaving(), told, bytes_per_second=1)
    assert [each.partition(";")[0] for each in told.messages] == ["throttles were not removed"]
