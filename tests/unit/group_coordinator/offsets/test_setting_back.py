"""All groups of a shard go back to where partitions were cut off, and nobody goes on behind that."""

from datetime import timedelta
from typing import Any

import pytest

from ottla_core.wire import group_responses as api
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    ShardUnderTest,
    cluster_of,
    commit_codes,
    commit_request,
    join_classic,
    topic_id,
)

SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, max_session_timeout_ms=10**9)
ORDERS_ID, PAYMENTS_ID = topic_id(1), topic_id(2)
LEADER_EPOCH = 0
DONE = "none"
GOES_ON = "request_timed_out"


@pytest.fixture
def under_test() -> ShardUnderTest:
    return ShardUnderTest(settings=SETTINGS, state=cluster_of({"orders": (1, 3), "payments": (2, 1)}))


def commit(under_test: ShardUnderTest, group_id: str, offsets: dict[tuple[str, int], int], **values: Any) -> set[str]:
    request = commit_request(9, group_id, offsets, **values)
    return set(commit_codes(under_test.ask(api.OFFSET_COMMIT, 9, request)).values())


def set_back(under_test: ShardUnderTest, ends: dict[tuple[object, int], int]) -> dict[tuple[object, int], str]:
    request = commit_request(10, "", ends, leader_epoch=LEADER_EPOCH, generation_id_or_member_epoch=0)
    return commit_codes(under_test.ask(api.OFFSET_COMMIT, 10, request, sets_all_back=True))


def offsets(under_test: ShardUnderTest, group_id: str) -> dict[tuple[str, int], int]:
    return {place: value.offset for place, value in under_test.offsets(group_id).items()}


def test_offsets_behind_the_end_go_back_to_it_and_others_stay(under_test: ShardUnderTest) -> None:
    commit(under_test, "ahead", {("orders", 0): 9, ("orders", 1): 9, ("payments", 0): 9}, metadata="note")
    commit(under_test, "behind", {("orders", 0): 4})
    commit(under_test, "there", {("orders", 0): 5})
    assert set_back(under_test, {(ORDERS_ID, 0): 5, (ORDERS_ID, 1): 9}) == {
        (ORDERS_ID, 0): DONE,
        (ORDERS_ID, 1): DONE,
    }
    assert offsets(under_test, "ahead") == {("orders", 0): 5, ("orders", 1): 9, ("payments", 0): 9}
    assert offsets(under_test, "behind") == {("orders", 0): 4}
    assert offsets(under_test, "there") == {("orders", 0): 5}
    assert len(under_test.turn_records) == 1
    assert under_test.offsets("ahead")["orders", 0].metadata == "note"
    under_test.restart()
    assert offsets(under_test, "ahead") == {("orders", 0): 5, ("orders", 1): 9, ("payments", 0): 9}


def test_offsets_of_a_topic_that_the_shard_does_not_know_are_not_touched(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", {("orders", 0): 9})
    assert set_back(under_test, {(topic_id(7), 0): 5}) == {(topic_id(7), 0): "unknown_topic_id"}
    assert offsets(under_test, "g") == {("orders", 0): 9}


@pytest.mark.parametrize("committed", [9, 3, None])
def test_members_of_classic_groups_lose_their_place_wherever_they_are(
    under_test: ShardUnderTest, committed: int | None
) -> None:
    """A member may be behind the end although nothing is committed there yet."""
    member_id, generation = join_classic(under_test, "g", ["orders"])
    by_member: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    if committed is not None:
        assert commit(under_test, "g", {("orders", 0): committed}, **by_member) == {"none"}
    set_back(under_test, {(ORDERS_ID, 0): 5})
    assert commit(under_test, "g", {("orders", 0): 12}, **by_member) == {"unknown_member_id"}
    assert offsets(under_test, "g") == ({} if committed is None else {("orders", 0): min(committed, 5)})
    _, later = join_classic(under_test, "g", ["orders"])
    assert later > generation


def test_members_of_consumer_groups_lose_their_place(under_test: ShardUnderTest) -> None:
    joined = under_test.ask_with(
        api.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout=timedelta(seconds=30),
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    assert joined.error_code.name == "none"
    by_member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": joined.member_epoch}
    assert commit(under_test, "g", {("orders", 0): 9}, **by_member) == {"none"}
    set_back(under_test, {(ORDERS_ID, 0): 5})
    assert "none" not in commit(under_test, "g", {("orders", 0): 12}, **by_member)
    assert offsets(under_test, "g") == {("orders", 0): 5}


def test_members_that_consume_other_topics_stay(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["payments"])
    set_back(under_test, {(ORDERS_ID, 0): 5})
    by_member: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    assert commit(under_test, "g", {("payments", 0): 12}, **by_member) == {"none"}


def test_what_does_not_fit_into_one_turn_goes_on_in_later_ones() -> None:
    under_test = ShardUnderTest(settings=GroupSettings(batch_bytes_max=5_000), state=cluster_of({"orders": (1, 3)}))
    groups = [f"group-{number}" for number in range(100)]
    for group_id in groups:
        commit(under_test, group_id, {("orders", 0): 9})
    answers = [set_back(under_test, {(ORDERS_ID, 0): 5})]
    while answers[-1] != {(ORDERS_ID, 0): DONE}:
        assert answers[-1] == {(ORDERS_ID, 0): GOES_ON}
        assert under_test.turn_records
        answers.append(set_back(under_test, {(ORDERS_ID, 0): 5}))
    assert len(answers) > 1
    assert {offset for group_id in groups for offset in offsets(under_test, group_id).values()} == {5}


def test_who_leads_no_longer_sets_no_group_back(under_test: ShardUnderTest) -> None:
    commit(under_test, "ahead", {("orders", 0): 9})
    request = commit_request(10, "", {(ORDERS_ID, 0): 5}, leader_epoch=LEADER_EPOCH - 1)
    codes = commit_codes(under_test.ask(api.OFFSET_COMMIT, 10, request, sets_all_back=True))
    assert codes == {(ORDERS_ID, 0): "fenced_leader_epoch"}
    assert offsets(under_test, "ahead") == {("orders", 0): 9}
    assert set_back(under_test, {(ORDERS_ID, 0): 5}) == {(ORDERS_ID, 0): DONE}
    assert offsets(under_test, "ahead") == {("orders", 0): 5}


def test_a_coordinator_that_does_not_know_the_request_refuses_it(under_test: ShardUnderTest) -> None:
    request = commit_request(10, "", {(ORDERS_ID, 0): 5}, generation_id_or_member_epoch=0)
    codes = commit_codes(under_test.ask(api.OFFSET_COMMIT, 10, request))
    assert codes == {(ORDERS_ID, 0): "group_id_not_found"}
