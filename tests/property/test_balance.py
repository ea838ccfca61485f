"""Plans that even out replicas and leaders, for clusters and placements of every kind."""

from collections import Counter
from collections.abc import Mapping
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.balance import NoRoom, plan_balance, plan_departure
from ottla_operations.cluster.cluster_view import Replicas

pytestmark = pytest.mark.slow

GB = 1_000_000_000

Racks = Mapping[int, str | None]
Placements = dict[TopicPartition, Replicas]


FACTORS = st.integers(1, 4)
RACKS = st.sampled_from([None, "a", "b", "c"])


@st.composite
def clusters(draw, *, factors=FACTORS, racks=RACKS):
    """Brokers with racks, and partitions with replicas anywhere."""
    count = draw(st.integers(1, 8))
    brokers = {broker: draw(racks) for broker in range(1, count + 1)}
    placement = {}
    for topic in range(draw(st.integers(1, 4))):
        factor = min(draw(factors), count)
        for index in range(draw(st.integers(1, 20))):
            replicas = draw(st.permutations(list(brokers)))[:factor]
            placement[TopicPartition(f"t{topic}", index)] = tuple(replicas)
    sizes = {name: draw(st.sampled_from([0, 1, 1000, GB, 7 * GB])) for name in placement}
    return brokers, placement, sizes


def after(placement: Placements, changes: Placements) -> Placements:
    return {**placement, **changes}


def replica_counts(brokers: Racks, placement: Placements) -> Counter[int]:
    counts = Counter(broker for replicas in placement.values() for broker in replicas)
    return Counter({broker: counts[broker] for broker in brokers})


def leader_counts(brokers: Racks, placement: Placements) -> Counter[int]:
    counts = Counter(replicas[0] for replicas in placement.values())
    return Counter({broker: counts[broker] for broker in brokers})


def spread(counts: Counter[int]) -> int:
    return max(counts.values()) - min(counts.values())


def moved(before: Placements, later: Placements) -> int:
    return sum(len(set(later[name]) - set(before[name])) for name in before)


def crowded_pairs(brokers: Racks, replicas: Replicas) -> int:
    racks = Counter(brokers[broker] for broker in replicas if brokers[broker] is not None)
    return sum(count * (count - 1) // 2 for count in racks.values())


@given(clusters())
@settings(deadline=None)
def test_every_partition_keeps_its_number_of_replicas_each_on_another_broker(cluster):
    brokers, placement, sizes = cluster
    later = after(placement, plan_balance(brokers, placement, sizes))
    assert later.keys() == placement.keys()
    for name, replicas in later.items():
        assert len(replicas) == len(set(replicas)) == len(placement[name])
        assert set(replicas) <= set(brokers)


@given(clusters())
@settings(deadline=None)
def test_no_partition_has_more_replicas_in_one_rack_than_before(cluster):
    brokers, placement, sizes = cluster
    later = after(placement, plan_balance(brokers, placement, sizes))
    for name, replicas in later.items():
        assert crowded_pairs(brokers, replicas) <= crowded_pairs(brokers, placement[name])


@given(clusters())
@settings(deadline=None)
def test_racks_are_distinct_wherever_there_are_enough(cluster):
    brokers, placement, sizes = cluster
    rack_count = len({broker if rack is None else rack for broker, rack in brokers.items()})
    for replicas in after(placement, plan_balance(brokers, placement, sizes)).values():
        if len(replicas) <= rack_count:
            assert crowded_pairs(brokers, replicas) == 0


@given(clusters(racks=st.none()))
@settings(deadline=None)
def test_without_racks_replicas_are_even_to_within_one_and_no_more_move_than_have_to(cluster):
    brokers, placement, _ = cluster
    before = replica_counts(brokers, placement)
    later = after(placement, plan_balance(brokers, placement, {}))
    assert spread(replica_counts(brokers, later)) <= 1
    mean = sum(before.values()) / len(brokers)
    too_many = sum(max(0, count - ceil(mean)) for count in before.values())
    too_few = sum(max(0, int(mean) - count) for count in before.values())
    assert moved(placement, later) == max(too_many, too_few)


@given(clusters(racks=st.none(), factors=st.just(3)))
@settings(deadline=None)
def test_leaders_are_even_to_within_one_where_all_topics_have_as_many_replicas(cluster):
    brokers, placement, sizes = cluster
    later = after(placement, plan_balance(brokers, placement, sizes))
    assert spread(leader_counts(brokers, later)) <= 1


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.data())
@settings(deadline=None)
def test_with_racks_of_the_same_size_replicas_and_leaders_are_even_to_within_one(racks, per_rack, factor, data):
    brokers = {broker: f"r{broker % racks}" for broker in range(racks * per_rack)}
    factor = min(factor, racks)
    placement = {
        TopicPartition("t", index): tuple(data.draw(st.permutations(list(brokers)))[:factor])
        for index in range(data.draw(st.integers(1, 30)))
    }
    later = after(placement, plan_balance(brokers, placement, {}))
    assert spread(replica_counts(brokers, later)) <= 1
    assert spread(leader_counts(brokers, later)) <= 1


@given(clusters())
@settings(deadline=None)
def test_a_plan_that_was_carried_out_leaves_no_replicas_to_move(cluster):
    brokers, placement, sizes = cluster
    later = after(placement, plan_balance(brokers, placement, sizes))
    assert moved(later, after(later, plan_balance(brokers, later, sizes))) == 0


@given(clusters())
@settings(deadline=None)
def test_disks_are_never_evened_out_at_the_cost_of_replicas(cluster):
    brokers, placement, sizes = cluster
    with_disks = replica_counts(brokers, after(placement, plan_balance(brokers, placement, sizes)))
    without = replica_counts(brokers, after(placement, plan_balance(brokers, placement, {})))
    assert spread(with_disks) <= max(1, spread(without))


@given(clusters())
@settings(deadline=None)
def test_a_broker_that_leaves_has_nothing_afterwards_and_nothing_else_moves(cluster):
    brokers, placement, sizes = cluster
    stuck = sorted(name for name in placement if set(placement[name]) == set(brokers))
    if stuck:
        with pytest.raises(NoRoom) as problem:
            plan_departure(1, brokers, placement, sizes)
        assert problem.value.partitions == stuck
        return
    changes = plan_departure(1, brokers, placement, sizes)
    later = after(placement, changes)
    assert changes.keys() == {name for name, replicas in placement.items() if 1 in replicas}
    for name, replicas in later.items():
        assert 1 not in replicas
        assert len(replicas) == len(set(replicas)) == len(placement[name])
        assert set(placement[name]) - {1} <= set(replicas)


@given(clusters())
@settings(deadline=None)
def test_a_leader_that_leaves_is_followed_by_a_broker_that_has_the_records(cluster):
    brokers, placement, sizes = cluster
    try:
        changes = plan_departure(1, brokers, placement, sizes)
    except NoRoom:
        return
    for name, replicas in changes.items():
        if len(replicas) > 1:
            assert replicas[0] in placement[name]


@given(clusters())
@settings(deadline=None)
def test_replicas_on_brokers_that_are_away_stay_there(cluster):
    brokers, placement, sizes = cluster
    present = {broker: rack for broker, rack in brokers.items() if broker != 1}
    later = after(placement, plan_balance(present, placement, sizes))
    for name, replicas in later.items():
        assert (1 in replicas) == (1 in placement[name])
