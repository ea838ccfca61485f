"""OffsetDelete, DeleteGroups and ListGroups."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema

from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    ShardUnderTest,
    cluster_of,
    commit_codes,
    commit_request,
    fetch_request,
    join_classic,
    leave_classic,
    with_deleted,
)

SETTINGS = GroupSettings(initial_rebalance_delay_ms=0, max_session_timeout_ms=10**9)


@pytest.fixture
def under_test() -> ShardUnderTest:
    return ShardUnderTest(settings=SETTINGS, state=cluster_of({"orders": (1, 3), "payments": (2, 1)}))


def commit(under_test: ShardUnderTest, group_id: str, *places: tuple[str, int], **values: Any) -> None:
    request = commit_request(9, group_id, dict.fromkeys(places, 5), **values)
    codes = commit_codes(under_test.ask(api.OFFSET_COMMIT, 9, request))
    assert set(codes.values()) == {"none"}


def delete_offsets(under_test: ShardUnderTest, group_id: str, **topics: list[int]) -> Any:
    request_type = load_request_schema(api.OFFSET_DELETE, 0)
    topic_type = item_type(request_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    asked = tuple(
        message_of(
            topic_type,
            name=name,
            partitions=tuple(message_of(partition_type, partition_index=index) for index in indexes),
        )
        for name, indexes in topics.items()
    )
    return under_test.ask_with(api.OFFSET_DELETE, 0, group_id=group_id, topics=asked)


def test_offsets_are_deleted_from_a_group_without_members(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0), ("orders", 1), ("payments", 0))
    response = delete_offsets(under_test, "g", orders=[0, 0, 2, 3], nowhere=[0])
    assert response.error_code.name == "none"
    assert commit_codes(response) == {
        ("orders", 0): "none",
        ("orders", 2): "none",
        ("orders", 3): "unknown_topic_or_partition",
        ("nowhere", 0): "unknown_topic_or_partition",
    }
    assert list(under_test.offsets("g")) == [("orders", 1), ("payments", 0)]
    assert len(under_test.turn_records) == 1
    under_test.restart()
    assert list(under_test.offsets("g")) == [("orders", 1), ("payments", 0)]


def test_offsets_of_topics_that_members_consume_are_not_deleted(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    commit(
        under_test, "g", ("orders", 0), ("payments", 0), member_id=member_id, generation_id_or_member_epoch=generation
    )
    assert commit_codes(delete_offsets(under_test, "g", orders=[0, 9], payments=[0])) == {
        ("orders", 0): "group_subscribed_to_topic",
        ("orders", 9): "unknown_topic_or_partition",
        ("payments", 0): "none",
    }
    assert list(under_test.offsets("g")) == [("orders", 0)]


def test_offsets_are_not_deleted_where_it_is_unknown_what_members_consume(under_test: ShardUnderTest) -> None:
    join_classic(under_test, "g", [], protocol_type="connect")
    assert delete_offsets(under_test, "g", orders=[0]).error_code.name == "non_empty_group"


@pytest.mark.parametrize(("group_id", "error"), [("", "invalid_group_id"), ("nobody", "group_id_not_found")])
def test_offsets_are_not_deleted_from_no_group(under_test: ShardUnderTest, group_id: str, error: str) -> None:
    assert delete_offsets(under_test, group_id, orders=[0]).error_code.name == error


def test_more_offsets_than_fit_into_a_batch_are_not_deleted_at_once() -> None:
    under_test = ShardUnderTest(state=cluster_of({"orders": (1, 100)}), settings=GroupSettings(batch_bytes_max=5_000))
    for first in range(0, 100, 20):
        commit(under_test, "g", *(("orders", index) for index in range(first, first + 20)))
    response = delete_offsets(under_test, "g", orders=list(range(100)))
    assert response.error_code.name == "invalid_commit_offset_size"
    assert len(under_test.offsets("g")) == 100


def results(response: Any) -> dict[str, str]:
    return {result.group_id: result.error_code.name for result in response.results}


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted_and_others_are_not(under_test: ShardUnderTest, version: int) -> None:
    commit(under_test, "simple", ("orders", 0))
    left, generation = join_classic(under_test, "left", ["orders"])
    commit(under_test, "left", ("orders", 0), member_id=left, generation_id_or_member_epoch=generation)
    leave_classic(under_test, "left", left)
    join_classic(under_test, "joined", ["orders"])
    names = ("simple", "nobody", "joined", "left", "simple", "")
    response = under_test.ask_with(api.DELETE_GROUPS, version, groups_names=names)
    assert results(response) == {
        "simple": "none",
        "nobody": "group_id_not_found",
        "joined": "non_empty_group",
        "left": "none",
        "": "group_id_not_found",
    }
    assert list(under_test.shard.groups) == ["joined"]
    assert len(under_test.shard.offsets) == 0
    under_test.restart()
    assert list(under_test.shard.groups) == ["joined"]
    assert len(under_test.shard.offsets) == 0


def small_turns() -> ShardUnderTest:
    """A shard whose groups `a` and `b` have more offsets than one turn can remove."""
    under_test = ShardUnderTest(
        settings=replace(SETTINGS, batch_bytes_max=2_000), state=cluster_of({"orders": (1, 100)})
    )
    for group_id in ("a", "b"):
        for first in range(0, 100, 10):
            commit(under_test, group_id, *(("orders", index) for index in range(first, first + 10)))
    return under_test


def test_groups_with_many_offsets_are_deleted_in_several_turns_and_answered_in_the_last() -> None:
    under_test = small_turns()
    request = message_of(load_request_schema(api.DELETE_GROUPS, 2), groups_names=("a", "b"))
    token = under_test.send(api.DELETE_GROUPS, 2, request)
    assert token in under_test.waiting
    assert 0 < len(under_test.offsets("a")) < 100
    under_test.advance(100)
    assert results(under_test.answers[token]) == {"a": "none", "b": "none"}
    assert not under_test.shard.groups
    assert len(under_test.shard.offsets) == 0


def begin_to_delete(under_test: ShardUnderTest, *group_ids: str) -> int:
    request = message_of(load_request_schema(api.DELETE_GROUPS, 2), groups_names=group_ids)
    token = under_test.send(api.DELETE_GROUPS, 2, request)
    assert token in under_test.waiting
    return token


def test_nobody_can_use_a_group_while_it_is_being_deleted() -> None:
    under_test = small_turns()
    token = begin_to_delete(under_test, "a")
    busy = "coordinator_load_in_progress"
    joining = under_test.ask_with(api.JOIN_GROUP, 9, group_id="a", session_timeout=timedelta(seconds=10))
    heartbeat = under_test.ask_with(api.CONSUMER_GROUP_HEARTBEAT, 1, group_id="a", member_id="m", member_epoch=0)
    committed = under_test.ask(api.OFFSET_COMMIT, 9, commit_request(9, "a", {("orders", 0): 7}))
    read_by_old = under_test.ask(api.OFFSET_FETCH, 7, fetch_request(7, {"a": None}))
    read = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"a": None, "b": None}))
    assert [joining.error_code.name, heartbeat.error_code.name, read_by_old.error_code.name] == [busy] * 3
    assert commit_codes(committed) == {("orders", 0): busy}
    assert [group.error_code.name for group in read.groups] == [busy, "none"]
    under_test.advance(100)
    assert results(under_test.answers[token]) == {"a": "none"}
    assert list(under_test.shard.groups) == ["b"]
    commit(under_test, "a", ("orders", 0))


def test_of_two_requests_to_delete_a_group_one_succeeds() -> None:
    under_test = small_turns()
    tokens = begin_to_delete(under_test, "a"), begin_to_delete(under_test, "a")
    under_test.advance(100)
    codes = sorted(results(under_test.answers[token])["a"] for token in tokens)
    assert codes == ["group_id_not_found", "none"]
    assert not under_test.shard.groups_being_deleted


def test_a_group_whose_topics_go_while_it_is_being_deleted_is_deleted() -> None:
    under_test = small_turns()
    token = begin_to_delete(under_test, "b")
    under_test.change(with_deleted(under_test.state, "orders", revision=5))
    under_test.advance(100)
    assert results(under_test.answers[token]) == {"b": "none"}
    assert not under_test.shard.groups
    assert not under_test.shard.groups_being_deleted


def test_a_deletion_that_a_restart_has_ended_is_completed_when_it_is_asked_for_again() -> None:
    under_test = small_turns()
    begin_to_delete(under_test, "a")
    under_test.restart()
    assert 0 < len(under_test.offsets("a")) < 100
    token = begin_to_delete(under_test, "a")
    under_test.advance(100)
    assert results(under_test.answers[token]) == {"a": "none"}
    assert not under_test.offsets("a")


def listed(under_test: ShardUnderTest, version: int, **filters: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
    response = under_test.ask_with(api.LIST_GROUPS, version, **filters)
    assert response.error_code.name == "none"
    return [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in response.groups]


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(under_test: ShardUnderTest, version: int) -> None:
    commit(under_test, "simple", ("orders", 0))
    join_classic(under_test, "joined", ["orders"])
    assert listed(under_test, version) == [
        ("simple", "", "Empty", "classic"),
        ("joined", "consumer", "Stable", "classic"),
    ]


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (("Empty",), (), ["simple"]),
        (("empty", " STABLE "), (), ["simple", "joined"]),
        (("Dead",), (), []),
        (("nonsense",), (), []),
        ((), ("Classic",), ["simple", "joined"]),
        ((), ("consumer",), []),
        ((), ("nonsense",), []),
        (("stable",), ("classic", "consumer"), ["joined"]),
        (("stable",), ("consumer",), []),
    ],
)
def test_groups_are_listed_by_state_and_type(
    under_test: ShardUnderTest, states: tuple[str, ...], types: tuple[str, ...], found: list[str]
) -> None:
    commit(under_test, "simple", ("orders", 0))
    join_classic(under_test, "joined", ["orders"])
    assert [group[0] for group in listed(under_test, 5, states_filter=states, types_filter=types)] == found
