"""Offsets that nobody needs are forgotten, and so are groups that have neither members nor offsets."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ottla_core.wire import group_responses as api
from ottla_group_coordinator.offsets.expiry import is_expired
from ottla_group_coordinator.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, encode_key
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    ShardUnderTest,
    cluster_of,
    commit_request,
    join_classic,
    leave_classic,
    topic_id,
    with_deleted,
)

CHECK_MS = 1_000
RETENTION_MS = 10_000
SETTINGS = GroupSettings(
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_ms=CHECK_MS,
    initial_rebalance_delay_ms=0,
    max_session_timeout_ms=10**9,
)
TOPICS = {"orders": (1, 3), "payments": (2, 1)}


@pytest.fixture
def under_test() -> ShardUnderTest:
    return ShardUnderTest(settings=SETTINGS, state=cluster_of(TOPICS))


def commit(under_test: ShardUnderTest, group_id: str, *places: tuple[str, int], **values: Any) -> None:
    version = 4 if "retention_time" in values else 9
    under_test.ask(api.OFFSET_COMMIT, version, commit_request(version, group_id, dict.fromkeys(places, 5), **values))


VALUE = OffsetCommitValue(offset=1, commit_timestamp=1_000)


@pytest.mark.parametrize(
    ("value", "empty_since_ms", "now_ms", "expired"),
    [
        (VALUE, None, 1_499, False),
        (VALUE, None, 1_500, True),
        (VALUE, 1_200, 1_699, False),
        (VALUE, 1_200, 1_700, True),
        (VALUE, 800, 1_300, True),
        (replace(VALUE, expire_timestamp=9_000), None, 8_999, False),
        (replace(VALUE, expire_timestamp=9_000), 0, 9_000, True),
        (replace(VALUE, expire_timestamp=1_100), 1_050, 1_100, True),
    ],
)
def test_retention_counts_from_the_commit_or_from_the_last_member_unless_the_offset_says_when(
    value: OffsetCommitValue, empty_since_ms: int | None, now_ms: int, expired: bool
) -> None:
    assert is_expired(value, empty_since_ms, now_ms, 500) is expired


def test_what_was_committed_outside_of_a_group_expires_after_the_last_commit_and_the_group_with_the_last_offset(
    under_test: ShardUnderTest,
) -> None:
    commit(under_test, "g", ("orders", 0), ("orders", 1))
    under_test.advance(RETENTION_MS // 2)
    commit(under_test, "g", ("orders", 1))
    under_test.advance(RETENTION_MS // 2 + CHECK_MS)
    assert list(under_test.offsets("g")) == [("orders", 1)]
    assert "g" in under_test.shard.groups
    under_test.advance(RETENTION_MS // 2)
    assert not under_test.shard.groups
    assert len(under_test.shard.offsets) == 0
    assert under_test.log[-2:] == [
        (encode_key(OffsetCommitKey(group="g", topic="orders", partition=1)), None),
        (encode_key(GroupMetadataKey(group="g")), None),
    ]
    under_test.restart()
    assert not under_test.shard.groups


def test_an_offset_with_a_time_of_its_own_expires_then(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0), retention_time=timedelta(milliseconds=2 * CHECK_MS))
    commit(under_test, "h", ("orders", 0), retention_time=timedelta(milliseconds=3 * RETENTION_MS))
    under_test.advance(3 * CHECK_MS)
    assert list(under_test.shard.groups) == ["h"]
    under_test.advance(2 * RETENTION_MS)
    assert list(under_test.shard.groups) == ["h"]
    under_test.advance(RETENTION_MS)
    assert not under_test.shard.groups


def test_members_keep_the_offsets_of_what_they_consume_and_no_others(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    commit(
        under_test,
        "g",
        ("orders", 0),
        ("payments", 0),
        member_id=member_id,
        generation_id_or_member_epoch=generation,
    )
    under_test.advance(RETENTION_MS - CHECK_MS)
    assert len(under_test.offsets("g")) == 2
    under_test.advance(2 * CHECK_MS)
    assert list(under_test.offsets("g")) == [("orders", 0)]
    under_test.advance(5 * RETENTION_MS)
    assert list(under_test.offsets("g")) == [("orders", 0)]


def test_members_that_are_no_consumers_keep_all_offsets(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", [], protocol_type="connect")
    commit(under_test, "g", ("orders", 0), member_id=member_id, generation_id_or_member_epoch=generation)
    under_test.advance(5 * RETENTION_MS)
    assert len(under_test.offsets("g")) == 1


def test_retention_begins_when_the_last_member_has_gone(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    commit(under_test, "g", ("orders", 0), member_id=member_id, generation_id_or_member_epoch=generation)
    under_test.advance(5 * RETENTION_MS)
    leave_classic(under_test, "g", member_id)
    under_test.advance(RETENTION_MS - 2 * CHECK_MS)
    under_test.restart()
    assert len(under_test.offsets("g")) == 1
    under_test.advance(3 * CHECK_MS)
    assert not under_test.shard.groups


def test_an_empty_group_without_offsets_is_removed_at_the_next_look(under_test: ShardUnderTest) -> None:
    member_id, _ = join_classic(under_test, "g", ["orders"])
    under_test.advance(3 * CHECK_MS)
    assert "g" in under_test.shard.groups
    leave_classic(under_test, "g", member_id)
    under_test.advance(CHECK_MS)
    assert not under_test.shard.groups


def test_more_than_fits_into_a_turn_is_removed_in_several() -> None:
    settings = replace(SETTINGS, batch_bytes_max=2_000)
    under_test = ShardUnderTest(settings=settings, state=cluster_of({"orders": (1, 200)}))
    for first in range(0, 200, 10):
        commit(under_test, "g", *(("orders", index) for index in range(first, first + 10)))
        commit(under_test, "h", *(("orders", index) for index in range(first, first + 10)))
    writes = len(under_test.log)
    under_test.advance(RETENTION_MS + 2 * CHECK_MS)
    assert not under_test.shard.groups
    assert len(under_test.log) == writes + 402


def test_the_offsets_of_a_deleted_topic_are_removed_soon(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0), ("orders", 2), ("payments", 0))
    commit(under_test, "h", ("orders", 1))
    under_test.change(with_deleted(under_test.state, "orders", 12))
    under_test.advance(10)
    assert list(under_test.offsets("g")) == [("payments", 0)]
    assert list(under_test.shard.groups) == ["g"]


def test_members_do_not_keep_the_offsets_of_a_deleted_topic(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    commit(under_test, "g", ("orders", 0), member_id=member_id, generation_id_or_member_epoch=generation)
    under_test.change(with_deleted(under_test.state, "orders", 12))
    under_test.advance(10)
    assert not under_test.offsets("g")
    assert list(under_test.shard.groups) == ["g"]


def test_a_topic_that_is_merely_missing_keeps_its_offsets(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0))
    under_test.change(cluster_of({}))
    under_test.advance(CHECK_MS)
    assert len(under_test.offsets("g")) == 1


def test_a_topic_made_anew_under_the_same_name_keeps_what_is_committed_for_it(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0), ("orders", 1))
    deleted = with_deleted(under_test.state, "orders", 12).deleted_topics
    under_test.change(cluster_of({"orders": (3, 3)}, deleted=deleted))
    commit(under_test, "g", ("orders", 1))
    under_test.advance(10)
    assert {place: value.topic_id for place, value in under_test.offsets("g").items()} == {("orders", 1): topic_id(3)}


def test_a_topic_deleted_while_nobody_served_the_shard_loses_its_offsets_too(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", ("orders", 0), ("payments", 0))
    under_test.state = with_deleted(under_test.state, "orders", 12)
    under_test.restart()
    under_test.advance(10)
    assert list(under_test.offsets("g")) == [("payments", 0)]


def test_a_topic_deleted_and_made_anew_while_nobody_looked_loses_its_offsets_at_the_next_look(
    under_test: ShardUnderTest,
) -> None:
    commit(under_test, "g", ("orders", 0), ("orders", 1), ("payments", 0))
    commit(under_test, "h", ("orders", 0), retention_time=timedelta(days=1))
    under_test.restart()
    under_test.change(cluster_of({"orders": (3, 3), "payments": (2, 1)}))
    commit(under_test, "g", ("orders", 1))
    under_test.advance(CHECK_MS)
    assert list(under_test.offsets("g")) == [("orders", 1), ("payments", 0)]
    assert list(under_test.shard.groups) == ["g"]


def test_a_topic_deleted_in_the_middle_of_a_look_causes_another_at_once() -> None:
    settings = replace(SETTINGS, batch_bytes_max=1_000, offsets_retention_check_ms=10**8)
    under_test = ShardUnderTest(settings=settings, state=cluster_of({"orders": (1, 50), "payments": (2, 5)}))
    for group_id in ("a", "b", "c"):
        commit(under_test, group_id, *(("payments", index) for index in range(3)))
        for first in range(0, 50, 5):
            commit(under_test, group_id, *(("orders", index) for index in range(first, first + 5)))
    under_test.change(with_deleted(under_test.state, "orders", 12))
    under_test.advance(3)
    under_test.change(with_deleted(under_test.state, "payments", 13))
    assert len(under_test.shard.offsets) > 0
    under_test.advance(100)
    assert len(under_test.shard.offsets) == 0
    assert not under_test.shard.groups
