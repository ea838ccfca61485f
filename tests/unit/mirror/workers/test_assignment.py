"""Partitions are shared out evenly, and stay where they are as far as that allows."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla_mirror.workers.assignment import (
    FlowPartition,
    MemberState,
    TopicNames,
    TopicOf,
    Work,
    known_topics,
    shares,
)

NOTHING: frozenset[str] = frozenset()


def work(*partitions: FlowPartition) -> Work:
    topics = {TopicOf(each.flow, each.topic): TopicNames(UUID(int=1), f"A.{each.topic}") for each in partitions}
    return Work(frozenset(partitions), topics)


def orders(*numbers: int, flow: str = "A->B") -> list[FlowPartition]:
    return [FlowPartition(flow, "orders", number) for number in numbers]


def member(*held: FlowPartition, flows: tuple[str, ...] = ("A->B", "C->B")) -> MemberState:
    return MemberState(url="http://w", flows=frozenset(flows), held=work(*held))


def sizes(assigned) -> list[int]:
    return sorted(len(each) for each in assigned.values())


def test_partitions_are_shared_evenly():
    assigned = shares({"a": member(), "b": member(), "c": member()}, work(*orders(*range(10))), NOTHING)
    assert sizes(assigned) == [3, 3, 4]
    assert frozenset().union(*assigned.values()) == set(orders(*range(10)))


def test_a_worker_that_joins_takes_its_share_and_no_other_partition_moves():
    held = {"a": orders(0, 1, 2), "b": orders(3, 4, 5)}
    members = {**{name: member(*each) for name, each in held.items()}, "c": member()}
    assigned = shares(members, work(*orders(*range(6))), NOTHING)
    assert sizes(assigned) == [2, 2, 2]
    assert assigned["a"] < set(held["a"])
    assert assigned["b"] < set(held["b"])


def test_what_a_worker_had_that_has_gone_goes_to_the_others():
    assigned = shares({"a": member(*orders(0, 1)), "b": member(*orders(2))}, work(*orders(0, 1, 2, 3)), NOTHING)
    assert assigned == {"a": set(orders(0, 1)), "b": set(orders(2, 3))}


def test_of_two_who_copy_the_same_partition_one_keeps_it():
    assigned = shares({"a": member(*orders(0)), "b": member(*orders(0))}, work(*orders(0)), NOTHING)
    assert sorted(map(len, assigned.values())) == [0, 1]


def test_a_leader_that_has_not_looked_yet_leaves_everything_as_it_is():
    members = {"a": member(*orders(0)), "b": member(*orders(1))}
    assert shares(members, Work(), frozenset({"A->B"})) == {"a": set(orders(0)), "b": set(orders(1))}
    assert shares(members, Work(), NOTHING) == {"a": set(), "b": set()}


def test_a_flow_goes_to_workers_that_know_it():
    members = {"a": member(flows=("A->B",)), "b": member()}
    wanted = work(*orders(0, 1, 2), *orders(0, 1, 2, flow="C->B"))
    assigned = shares(members, wanted, NOTHING)
    assert all(each.flow == "A->B" for each in assigned["a"])
    assert frozenset().union(*assigned.values()) == wanted.partitions


def test_a_flow_that_no_worker_knows_is_assigned_to_nobody():
    assert shares({"a": member(flows=())}, work(*orders(0)), NOTHING) == {"a": frozenset()}


def test_what_the_leader_has_found_counts_before_what_others_say():
    newer = Work(frozenset(orders(0)), {TopicOf("A->B", "orders"): TopicNames(UUID(int=2), "A.orders")})
    found = known_topics([member(*orders(0))], newer)
    assert found[TopicOf("A->B", "orders")].topic_id == UUID(int=2)


@given(
    st.integers(1, 6),
    st.integers(0, 40),
    st.dictionaries(st.integers(0, 60), st.integers(0, 5)),
)
def test_everything_is_assigned_once_evenly_and_nothing_moves_without_need(workers, partitions, holders):
    names = [f"w{number}" for number in range(workers)]
    held = {name: [] for name in names}
    for partition, holder in holders.items():
        if holder < workers:
            held[names[holder]] += orders(partition)
    wanted = work(*orders(*range(partitions)))
    assigned = shares({name: member(*held[name]) for name in names}, wanted, NOTHING)
    everything = [each for some in assigned.values() for each in some]
    assert len(everything) == len(set(everything)) == partitions
    assert set(everything) == wanted.partitions
    assert max(sizes(assigned)) - min(sizes(assigned)) <= 1
    again = shares({name: member(*assigned[name]) for name in names}, wanted, NOTHING)
    assert again == assigned
