"""Plans for chosen placements; placements of every kind are in tests/property/test_balance.py."""

import pytest

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.balance import NoRoom, plan_balance, plan_departure
from ottla_operations.cluster.cluster_view import Replicas
from ottla_operations.cluster.disk_balance import DiskGoal

GB = 1_000_000_000


def partitions(*replicas: Replicas, topic: str = "t") -> dict[TopicPartition, Replicas]:
    return {TopicPartition(topic, index): each for index, each in enumerate(replicas)}


def without_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def test_an_even_placement_is_left_as_it_is():
    placement = partitions((1, 2, 3), (2, 3, 1), (3, 1, 2))
    assert plan_balance({1: "a", 2: "b", 3: "c"}, placement, {}) == {}


def test_a_new_broker_gets_its_share_and_nothing_moves_between_the_others():
    placement = partitions((1,), (2,), (1,), (2,), (1,), (2,))
    changes = plan_balance(without_racks(1, 2, 3), placement, {})
    assert len(changes) == 2
    assert set(changes.values()) == {(3,)}
    assert sorted(placement[name] for name in changes) == [(1,), (2,)]


def test_leaders_are_evened_out_by_order_alone():
    placement = partitions((1, 2, 3), (1, 2, 3), (1, 2, 3))
    changes = plan_balance(without_racks(1, 2, 3), placement, {})
    assert all(set(replicas) == {1, 2, 3} for replicas in changes.values())
    assert sorted(replicas[0] for replicas in {**placement, **changes}.values()) == [1, 2, 3]
    assert len(changes) == 2


def test_replicas_that_share_a_rack_are_parted():
    placement = partitions((1, 2), (3, 4))
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    later = {**placement, **plan_balance(racks, placement, {})}
    assert all(len({racks[broker] for broker in replicas}) == 2 for replicas in later.values())


def test_replicas_share_racks_evenly_where_there_are_fewer_racks_than_replicas():
    placement = partitions((1, 2, 3, 4))
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b"}
    later = {**placement, **plan_balance(racks, placement, {})}
    assert sorted(racks[broker] for broker in later[TopicPartition("t", 0)]) == ["a", "a", "b", "b"]


def test_a_rack_with_a_single_broker_bears_a_replica_of_everything_rather_than_racks_being_shared():
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    placement = partitions((2, 3), (3, 4), (4, 2), (1, 2))
    later = {**placement, **plan_balance(racks, placement, {})}
    assert all(1 in replicas for replicas in later.values())


def test_a_replica_goes_by_way_of_another_broker_where_it_cannot_go_directly():
    # Broker 1 has two more than 3, but rack b is taken for all that it has; 2, in rack b, can pass one on.
    racks = {1: "a", 2: "b", 3: "b"}
    placement = partitions((1, 2), (1, 2), (1, 2), (1, 3))
    later = {**placement, **plan_balance(racks, placement, {})}
    counts = [sum(broker in replicas for replicas in later.values()) for broker in racks]
    assert counts == [4, 2, 2]


def test_a_full_disk_swaps_a_big_replica_for_a_small_one():
    placement = partitions((1,), (1,), (2,), (2,))
    sizes = dict(zip(placement, (10 * GB, 10 * GB, GB, GB), strict=True))
    later = {**placement, **plan_balance(without_racks(1, 2), placement, sizes)}
    disks = [sum(sizes[name] for name, replicas in later.items() if broker in replicas) for broker in (1, 2)]
    assert disks == [11 * GB, 11 * GB]


def test_small_differences_between_disks_move_nothing():
    placement = partitions((1,), (2,))
    sizes = dict(zip(placement, (50_000_000, 0), strict=True))
    assert plan_balance(without_racks(1, 2), placement, sizes) == {}


def test_how_even_disks_shall_be_can_be_said():
    placement = partitions((1,), (1,), (2,), (2,))
    sizes = dict(zip(placement, (1000, 1000, 0, 0), strict=True))
    changes = plan_balance(without_racks(1, 2), placement, sizes, disk_goal=DiskGoal(0.0, 0))
    assert len(changes) == 2


def test_a_broker_that_is_away_keeps_its_replicas_and_is_given_none():
    placement = partitions((1, 3), (1, 3), (1, 2))
    later = {**placement, **plan_balance(without_racks(1, 2), placement, {})}
    assert [3 in replicas for replicas in later.values()] == [True, True, False]


def test_what_leaves_a_broker_goes_to_the_rack_that_lacks_it():
    racks = {1: "a", 2: "b", 3: "c", 4: "c", 5: "a"}
    changes = plan_departure(3, racks, partitions((1, 2, 3), (3, 2, 5)), {})
    assert changes[TopicPartition("t", 0)] == (1, 2, 4)
    assert set(changes[TopicPartition("t", 1)]) == {2, 4, 5}


def test_a_leader_that_leaves_is_followed_by_the_replica_that_leads_least():
    placement = partitions((3, 1, 2), (1, 2, 4))
    changes = plan_departure(3, without_racks(1, 2, 3, 4), placement, {})
    assert changes == {TopicPartition("t", 0): (2, 4, 1)}


def test_a_broker_that_others_cannot_stand_in_for_stays():
    with pytest.raises(NoRoom) as problem:
        plan_departure(3, without_racks(1, 2, 3), partitions((1, 2, 3), (1, 3)), {})
    assert (problem.value.partitions, problem.value.copies) == ([TopicPartition("t", 0)], 3)


def test_nothing_moves_in_a_cluster_without_brokers_or_partitions():
    assert plan_balance({}, partitions((1, 2)), {}) == {}
    assert plan_balance(without_racks(1, 2), {}, {}) == {}


@pytest.mark.slow
def test_five_thousand_partitions_get_their_places():
    racks = {broker: f"r{broker % 3}" for broker in range(12)}
    placement = partitions(*((index % 9, (index + 1) % 9, (index + 2) % 9) for index in range(5000)))
    sizes = {name: (name.partition % 97) * 10_000_000 for name in placement}
    later = {**placement, **plan_balance(racks, placement, sizes)}
    counts = [sum(broker in replicas for replicas in later.values()) for broker in racks]
    assert max(counts) - min(counts) <= 1
