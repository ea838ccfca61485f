"""The server-side assignors, mostly as invariants over random groups."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_group_coordinator.consumer.assignors import ASSIGNORS, Assignor, Subscriber
from ottla_group_coordinator.consumer.assignors.range_assignor import assign_by_range
from ottla_group_coordinator.consumer.assignors.uniform_assignor import assign_uniformly
from ottla_group_coordinator.consumer.partitions import Partitions

Target = dict[str, Partitions]
Counts = dict[UUID, int]
Subscribers = dict[str, Subscriber]

MEMBERS_MAX = 9
TOPICS_MAX = 5
PARTITIONS_MAX = 13


def topic_id(number: int) -> UUID:
    return UUID(int=number + 1)


counts_of_topics = st.lists(st.integers(0, PARTITIONS_MAX), min_size=1, max_size=TOPICS_MAX).map(
    lambda counts: {topic_id(number): count for number, count in enumerate(counts)}
)
member_ids = st.lists(st.sampled_from("abcdefghi"), min_size=1, max_size=MEMBERS_MAX, unique=True)


@st.composite
def equal_groups(draw: st.DrawFn) -> tuple[Subscribers, Counts]:
    counts = draw(counts_of_topics)
    return {member_id: Subscriber(frozenset(counts)) for member_id in draw(member_ids)}, counts


@st.composite
def mixed_groups(draw: st.DrawFn) -> tuple[Subscribers, Counts]:
    counts = draw(counts_of_topics)
    subscriptions = st.sets(st.sampled_from(sorted(counts))).map(frozenset)
    instances = st.sampled_from([None, None, "i"])
    return {
        member_id: Subscriber(draw(subscriptions), None if draw(instances) is None else f"instance-{member_id}")
        for member_id in draw(member_ids)
    }, counts


@st.composite
def present_targets(draw: st.DrawFn, subscribers: Subscribers, counts: Counts) -> Target:
    """What an earlier epoch left: any member may have any partition, also of topics that it has given up."""
    owners = [*sorted(subscribers), "gone", None]
    target: dict[str, dict[UUID, set[int]]] = {}
    for topic, count in counts.items():
        for index in range(draw(st.integers(0, count + 2))):
            owner = draw(st.sampled_from(owners))
            if owner is not None:
                target.setdefault(owner, {}).setdefault(topic, set()).add(index)
    return {
        owner: {topic: frozenset(indexes) for topic, indexes in topics.items()} for owner, topics in target.items()
    }


def loads(target: Target) -> list[int]:
    return [sum(map(len, partitions.values())) for partitions in target.values()]


def owners(target: Target) -> dict[tuple[UUID, int], str]:
    found: dict[tuple[UUID, int], str] = {}
    for member_id, partitions in target.items():
        for topic, indexes in partitions.items():
            assert indexes, "a topic without partitions has no entry"
            for index in indexes:
                assert (topic, index) not in found, "a partition is assigned to two members"
                found[topic, index] = member_id
    return found


def check_complete(target: Target, subscribers: Subscribers, counts: Counts) -> None:
    """Every partition of a topic that somebody subscribes to is assigned once, to a subscriber."""
    assert target.keys() == subscribers.keys()
    found = owners(target)
    subscribed = {topic for subscriber in subscribers.values() for topic in subscriber.topic_ids}
    assert found.keys() == {(topic, index) for topic in subscribed for index in range(counts[topic])}
    for (topic, _), member_id in found.items():
        assert topic in subscribers[member_id].topic_ids


@pytest.mark.slow
@given(st.data(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_of_a_subscribed_topic_is_assigned_once(data: st.DataObject, name: str) -> None:
    assignor: Assignor = ASSIGNORS[name]
    subscribers, counts = data.draw(mixed_groups())
    present = data.draw(present_targets(subscribers, counts))
    check_complete(assignor(subscribers, counts, present), subscribers, counts)


@given(st.data())
def test_uniform_is_balanced_within_one_if_all_subscribe_to_the_same(data: st.DataObject) -> None:
    subscribers, counts = data.draw(equal_groups())
    present = data.draw(present_targets(subscribers, counts))
    found = loads(assign_uniformly(subscribers, counts, present))
    assert max(found) - min(found) <= 1


@given(st.data())
def test_uniform_moves_nothing_that_need_not_move_if_all_subscribe_to_the_same(data: st.DataObject) -> None:
    subscribers, counts = data.draw(equal_groups())
    present = data.draw(present_targets(subscribers, counts))
    target = assign_uniformly(subscribers, counts, present)
    kept = {
        member_id: sum(
            len({index for index in present.get(member_id, {}).get(topic, ()) if index < count})
            for topic, count in counts.items()
        )
        for member_id in subscribers
    }
    share, larger_shares = divmod(sum(counts.values()), len(subscribers))
    above_share = sum(count > share for count in kept.values())
    keepable = sum(min(count, share) for count in kept.values()) + min(above_share, larger_shares)
    stayed = sum(
        len(target[member_id].get(topic, frozenset()) & indexes)
        for member_id, partitions in present.items()
        if member_id in target
        for topic, indexes in partitions.items()
    )
    assert stayed == keepable


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_no_single_move_makes_uniform_more_even(data: st.DataObject) -> None:
    subscribers, counts = data.draw(mixed_groups())
    present = data.draw(present_targets(subscribers, counts))
    target = assign_uniformly(subscribers, counts, present)
    load = dict(zip(target, loads(target), strict=True))
    for (topic, _), owner in owners(target).items():
        for member_id, subscriber in subscribers.items():
            if topic in subscriber.topic_ids:
                assert load[owner] - load[member_id] <= 1


@given(st.data(), st.sampled_from(sorted(ASSIGNORS)))
def test_a_second_run_changes_nothing(data: st.DataObject, name: str) -> None:
    assignor = ASSIGNORS[name]
    subscribers, counts = data.draw(mixed_groups())
    target = assignor(subscribers, counts, data.draw(present_targets(subscribers, counts)))
    assert assignor(subscribers, counts, target) == target


@given(equal_groups(), st.data())
def test_when_a_member_leaves_a_uniform_group_only_its_partitions_move(
    group: tuple[Subscribers, Counts], data: st.DataObject
) -> None:
    subscribers, counts = group
    before = assign_uniformly(subscribers, counts, {})
    leaver = data.draw(st.sampled_from(sorted(subscribers)))
    remaining = {member_id: subscriber for member_id, subscriber in subscribers.items() if member_id != leaver}
    if remaining:
        after = owners(assign_uniformly(remaining, counts, before))
        assert all(after[partition] == owner for partition, owner in owners(before).items() if owner != leaver)


@given(equal_groups())
def test_when_a_member_joins_a_uniform_group_partitions_move_to_it_only(group: tuple[Subscribers, Counts]) -> None:
    subscribers, counts = group
    before = assign_uniformly(subscribers, counts, {})
    after = assign_uniformly({**subscribers, "z": Subscriber(frozenset(counts))}, counts, before)
    assert all(owner in {"z", owners(before)[partition]} for partition, owner in owners(after).items())


@given(equal_groups())
def test_uniform_spreads_a_topic_over_all_members(group: tuple[Subscribers, Counts]) -> None:
    subscribers, counts = group
    target = assign_uniformly(subscribers, counts, {})
    for topic, count in counts.items():
        sharers = sum(topic in partitions for partitions in target.values())
        assert sharers == min(count, len(subscribers))


@given(equal_groups(), st.integers(1, PARTITIONS_MAX))
def test_range_keeps_topics_of_equal_size_co_partitioned(group: tuple[Subscribers, Counts], count: int) -> None:
    subscribers, topics = group
    counts = dict.fromkeys(topics, count)
    for partitions in assign_by_range(subscribers, counts, {}).values():
        assert len(set(partitions.values())) <= 1
        assert not partitions or partitions.keys() == counts.keys()


@given(mixed_groups())
def test_range_gives_contiguous_ranges_balanced_within_one_per_topic(group: tuple[Subscribers, Counts]) -> None:
    subscribers, counts = group
    target = assign_by_range(subscribers, counts, {})
    for topic in counts:
        sizes = []
        for member_id, subscriber in subscribers.items():
            indexes = sorted(target[member_id].get(topic, ()))
            assert indexes == list(range(indexes[0], indexes[-1] + 1)) if indexes else True
            if topic in subscriber.topic_ids:
                sizes.append(len(indexes))
        assert not sizes or max(sizes) - min(sizes) <= 1


def test_static_members_keep_their_ranges_when_their_member_ids_change() -> None:
    counts = {topic_id(0): 5}
    topics = frozenset(counts)
    before = assign_by_range({"m1": Subscriber(topics, "i1"), "m2": Subscriber(topics, "i2")}, counts, {})
    after = assign_by_range({"m3": Subscriber(topics, "i2"), "m4": Subscriber(topics, "i1")}, counts, {})
    assert (after["m4"], after["m3"]) == (before["m1"], before["m2"])


def test_static_members_come_before_dynamic_ones_in_ranges() -> None:
    counts = {topic_id(0): 3}
    topics = frozenset(counts)
    target = assign_by_range({"a": Subscriber(topics), "z": Subscriber(topics, "i")}, counts, {})
    assert target == {"z": {topic_id(0): frozenset({0, 1})}, "a": {topic_id(0): frozenset({2})}}
