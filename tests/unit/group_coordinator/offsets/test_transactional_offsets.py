"""Offsets that are committed in transactions: TxnOffsetCommit, WriteTxnMarkers, and what others see meanwhile."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

from ottla_core.wire import group_responses as api
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS
from ottla_group_coordinator.runtime.turn import VerificationGuard
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    START_MS,
    ShardUnderTest,
    cluster_of,
    commit_request,
    fetch_request,
    fetched,
    join_classic,
    leave_classic,
    topic_id,
    with_deleted,
)
from tests.support.groups.transactional_offsets import (
    A,
    B,
    Producer,
    begin,
    end,
    end_raising,
    marker_codes,
    markers_request,
    txn_commit,
    txn_commit_request,
)

VERSIONS = range(6)
ORDERS = ("orders", 0)
RETENTION_MS = 10_000
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=0,
    max_session_timeout_ms=10**9,
    offsets_retention_ms=RETENTION_MS,
    offsets_retention_check_ms=1_000,
)
OK = {ORDERS: "none"}


@pytest.fixture
def under_test() -> ShardUnderTest:
    return ShardUnderTest(settings=SETTINGS, state=cluster_of({"orders": (1, 3), "payments": (2, 1)}))


def commit(under_test: ShardUnderTest, group_id: str, offset: int, **values: Any) -> None:
    under_test.ask(api.OFFSET_COMMIT, 9, commit_request(9, group_id, {ORDERS: offset}, **values))


def offsets(under_test: ShardUnderTest, group_id: str = "g") -> dict[tuple[str, int], int]:
    return {place: value.offset for place, value in under_test.offsets(group_id).items()}


def fetch(
    under_test: ShardUnderTest, *, require_stable: bool, version: int = 8, everything: bool = False
) -> dict[tuple[Any, int], tuple[int, str]]:
    topic: Any = topic_id(1) if version >= 10 else "orders"
    asked = None if everything else [(topic, [0, 1])]
    request = fetch_request(version, {"g": asked}, require_stable=require_stable)
    response = under_test.ask(api.OFFSET_FETCH, version, request)
    return fetched(response.groups[0].topics if version >= 8 else response.topics)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offset_counts_once_its_transaction_is_committed(under_test: ShardUnderTest, version: int) -> None:
    assert txn_commit(under_test, A, "g", {ORDERS: 5, ("payments", 0): 7}, version=version) == {
        ORDERS: "none",
        ("payments", 0): "none",
    }
    assert offsets(under_test) == {}
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {ORDERS: 5, ("payments", 0): 7}
    value = under_test.offsets("g")[ORDERS]
    assert (value.topic_id, value.commit_timestamp) == (topic_id(1), START_MS)
    under_test.restart()
    assert offsets(under_test) == {ORDERS: 5, ("payments", 0): 7}


def test_an_offset_of_an_aborted_transaction_is_dropped(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 3)
    txn_commit(under_test, A, "g", {ORDERS: 5})
    end_raising(under_test, A, is_commit=False)
    assert offsets(under_test) == {ORDERS: 3}
    under_test.restart()
    assert offsets(under_test) == {ORDERS: 3}


@pytest.mark.parametrize("restarts", [False, True])
def test_an_open_transaction_is_committed_by_the_next_owner_of_the_shard(
    under_test: ShardUnderTest, restarts: bool
) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    if restarts:
        under_test.restart()
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {ORDERS: 5}


def test_a_commit_outside_of_the_transaction_that_came_later_stays(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    commit(under_test, "g", 4)
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {ORDERS: 4}
    under_test.restart()
    assert offsets(under_test) == {ORDERS: 4}


# Guards


def test_the_first_request_of_a_transaction_is_answered_with_a_guard(under_test: ShardUnderTest) -> None:
    guard = begin(under_test, A, "g")
    assert not under_test.log
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, guard=guard) == OK
    request = txn_commit_request(A, "g", {ORDERS: 6})
    assert not isinstance(under_test.ask(TXN_OFFSET_COMMIT, 5, request), VerificationGuard), "it is known by now"
    request = txn_commit_request(A, "h", {ORDERS: 6})
    assert not isinstance(under_test.ask(TXN_OFFSET_COMMIT, 5, request), VerificationGuard), "so is it for all groups"


def test_a_guard_is_void_after_the_end_of_the_transaction(under_test: ShardUnderTest) -> None:
    guard = begin(under_test, A, "g")
    assert end(under_test, (A, False), transaction_version=1) == ["none"]
    request = txn_commit_request(A, "g", {ORDERS: 5})
    again = under_test.ask(TXN_OFFSET_COMMIT, 5, request, verification_guard=guard)
    assert isinstance(again, VerificationGuard)
    assert again.number != guard
    assert offsets(under_test) == {}
    assert not under_test.shard.pending_offsets


def test_a_guard_is_void_for_another_owner_of_the_shard(under_test: ShardUnderTest) -> None:
    guard = begin(under_test, A, "g")
    under_test.restart()
    request = txn_commit_request(A, "g", {ORDERS: 5})
    assert isinstance(under_test.ask(TXN_OFFSET_COMMIT, 5, request, verification_guard=guard), VerificationGuard)


def test_an_open_transaction_needs_no_guard_at_the_next_owner(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    under_test.restart()
    request = txn_commit_request(A, "g", {ORDERS: 6})
    assert not isinstance(under_test.ask(TXN_OFFSET_COMMIT, 5, request), VerificationGuard)


def test_after_its_end_a_transaction_of_the_same_epoch_needs_a_guard(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    end(under_test, (A, True), transaction_version=1)
    begin(under_test, A, "g")


# What is refused


def test_what_does_not_exist_is_refused_without_a_guard(under_test: ShardUnderTest) -> None:
    places = {("orders", 3): 1, ("returns", 0): 1, ("orders", -1): 1}
    request = txn_commit_request(A, "g", places)
    assert not isinstance(under_test.ask(TXN_OFFSET_COMMIT, 5, request), VerificationGuard)
    assert txn_commit(under_test, A, "g", {**places, ORDERS: 5}) == {
        **dict.fromkeys(places, "unknown_topic_or_partition"),
        **OK,
    }


def test_a_group_needs_a_name(under_test: ShardUnderTest) -> None:
    assert txn_commit(under_test, A, "", {ORDERS: 5}) == {ORDERS: "invalid_group_id"}
    assert txn_commit(under_test, A, "x" * 40_000, {ORDERS: 5}) == {ORDERS: "invalid_group_id"}


def test_a_text_beside_an_offset_must_not_be_too_long(under_test: ShardUnderTest) -> None:
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, metadata="x" * 5_000) == {ORDERS: "offset_metadata_too_large"}
    assert not under_test.log


def test_more_offsets_than_a_batch_can_hold_are_refused() -> None:
    under_test = ShardUnderTest(settings=GroupSettings(batch_bytes_max=2_000), state=cluster_of({"orders": (1, 100)}))
    places = {("orders", index): 1 for index in range(100)}
    assert set(txn_commit(under_test, A, "g", places).values()) == {"invalid_commit_offset_size"}
    assert not under_test.log


def test_a_generation_of_a_group_that_does_not_exist_is_refused(under_test: ShardUnderTest) -> None:
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, generation_id=0) == {ORDERS: "illegal_generation"}


def test_an_earlier_instance_of_the_producer_is_refused(under_test: ShardUnderTest) -> None:
    end_raising(under_test, A, is_commit=False)
    guard = begin(under_test, A, "g")
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, guard=guard) == {ORDERS: "invalid_producer_epoch"}
    assert not under_test.shard.pending_offsets
    under_test.restart()
    assert txn_commit(under_test, A, "g", {ORDERS: 5}) == {ORDERS: "invalid_producer_epoch"}


def test_what_an_earlier_instance_left_pending_is_not_committed_with_a_later_one(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5, ("orders", 1): 5})
    later = Producer(A.id, A.epoch + 2)
    txn_commit(under_test, later, "g", {ORDERS: 6})
    end_raising(under_test, later, is_commit=True)
    assert offsets(under_test) == {ORDERS: 6}
    under_test.restart()
    assert offsets(under_test) == {ORDERS: 6}


def test_while_a_group_is_being_deleted_old_producers_are_told_what_they_know(under_test: ShardUnderTest) -> None:
    under_test.shard.groups_being_deleted.add("g")
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, version=1) == {ORDERS: "coordinator_not_available"}
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, version=2) == {ORDERS: "coordinator_load_in_progress"}


# Markers


def test_a_marker_without_a_transaction_is_written_all_the_same(under_test: ShardUnderTest) -> None:
    assert end(under_test, (A, True)) == ["none"]
    assert len(under_test.log) == 1


def test_a_marker_that_comes_again_changes_nothing(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    following = end_raising(under_test, A, is_commit=True)
    written = len(under_test.log)
    assert end(under_test, (following, True)) == ["none"]
    assert len(under_test.log) == written


def test_a_late_marker_does_not_end_the_next_transaction(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    following = end_raising(under_test, A, is_commit=True)
    txn_commit(under_test, following, "g", {ORDERS: 6})
    assert end(under_test, (following, True)) == ["invalid_producer_epoch"]
    under_test.restart()
    assert end(under_test, (following, True)) == ["invalid_producer_epoch"]
    assert offsets(under_test) == {ORDERS: 5}


def test_a_marker_of_a_former_coordinator_is_refused(under_test: ShardUnderTest) -> None:
    end(under_test, (Producer(A.id, 1), True), coordinator_epoch=4)
    assert end(under_test, (Producer(A.id, 2), True), coordinator_epoch=3) == ["transaction_coordinator_fenced"]
    under_test.restart()
    assert end(under_test, (Producer(A.id, 2), True), coordinator_epoch=3) == ["transaction_coordinator_fenced"]


def test_several_transactions_can_end_at_once(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    txn_commit(under_test, B, "g", {("orders", 1): 6})
    end(under_test, (Producer(72, 5), False))
    ends = ((Producer(A.id, 1), True), (Producer(72, 4), True), (Producer(B.id, 1), False))
    assert end(under_test, *ends) == ["none", "invalid_producer_epoch", "none"]
    assert offsets(under_test) == {ORDERS: 5}


def test_before_version_2_a_marker_says_nothing_of_the_transactions_version(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    assert end(under_test, (A, True), version=1) == ["none"]
    assert offsets(under_test) == {ORDERS: 5}


def test_a_shard_answers_for_its_own_partition_only(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    following = Producer(A.id, 1)
    other = markers_request((following, True), partitions=(6, 8))
    assert marker_codes(under_test.ask(WRITE_TXN_MARKERS, 2, other)) == ["unknown_topic_or_partition"] * 2
    other = markers_request((following, True), topic="orders")
    assert marker_codes(under_test.ask(WRITE_TXN_MARKERS, 2, other)) == ["unknown_topic_or_partition"]
    assert offsets(under_test) == {}
    mixed = markers_request((following, True), partitions=(6, 7, 7))
    assert marker_codes(under_test.ask(WRITE_TXN_MARKERS, 2, mixed)) == ["unknown_topic_or_partition", "none", "none"]
    assert offsets(under_test) == {ORDERS: 5}


def test_an_impossible_marker_is_refused_and_those_beside_it_are_written(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    ends = ((Producer(-1, 0), True), (Producer(B.id, -1), False), (Producer(A.id, 1), True))
    assert end(under_test, *ends) == ["invalid_record", "invalid_record", "none"]
    assert end(under_test, (B, True), coordinator_epoch=-1) == ["transaction_coordinator_fenced"]
    assert offsets(under_test) == {ORDERS: 5}


# What others see


@pytest.mark.parametrize("version", [7, 8, 9, 10])
@pytest.mark.parametrize("everything", [False, True])
def test_an_offset_that_is_about_to_change_is_not_told_where_it_must_be_stable(
    under_test: ShardUnderTest, version: int, everything: bool
) -> None:
    topic = topic_id(1) if version >= 10 else "orders"
    commit(under_test, "g", 3)
    txn_commit(under_test, A, "g", {ORDERS: 5, ("orders", 1): 6})
    stable = fetch(under_test, require_stable=True, version=version, everything=everything)
    assert stable[topic, 0] == (-1, "unstable_offset_commit")
    assert stable.get((topic, 1)) == (None if everything else (-1, "unstable_offset_commit"))
    assert fetch(under_test, require_stable=False, version=version)[topic, 0] == (3, "none")
    end_raising(under_test, A, is_commit=True)
    assert fetch(under_test, require_stable=True, version=version) == {
        (topic, 0): (5, "none"),
        (topic, 1): (6, "none"),
    }


def test_versions_without_the_wish_for_stable_offsets_are_told_those_that_count(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 3)
    txn_commit(under_test, A, "g", {ORDERS: 5})
    assert fetch(under_test, require_stable=True, version=6)[ORDERS] == (3, "none")


def test_an_offset_stays_unstable_until_all_its_transactions_have_ended(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5})
    txn_commit(under_test, B, "g", {ORDERS: 6})
    end_raising(under_test, B, is_commit=True)
    assert fetch(under_test, require_stable=True)[ORDERS] == (-1, "unstable_offset_commit")
    end_raising(under_test, A, is_commit=True)
    assert fetch(under_test, require_stable=True)[ORDERS] == (6, "none")


def test_neither_an_offset_nor_its_group_expires_while_a_transaction_is_open(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 3)
    txn_commit(under_test, A, "g", {ORDERS: 5})
    txn_commit(under_test, B, "h", {ORDERS: 5})
    under_test.advance(5 * RETENTION_MS)
    assert offsets(under_test) == {ORDERS: 3}
    assert {"g", "h"} <= under_test.shard.groups.keys()
    following = end_raising(under_test, A, is_commit=False)
    end_raising(under_test, B, is_commit=False)
    under_test.advance(5 * RETENTION_MS)
    assert offsets(under_test) == {}
    assert not under_test.shard.groups
    assert txn_commit(under_test, following, "g", {ORDERS: 6}) == OK


def test_the_offset_of_a_topic_that_is_gone_goes_after_the_transaction(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 3)
    under_test.change(with_deleted(under_test.state, "orders", 9))
    under_test.change(cluster_of({"orders": (3, 1)}, deleted=under_test.state.deleted_topics))
    txn_commit(under_test, A, "g", {ORDERS: 5})
    under_test.advance(2_000)
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {ORDERS: 5}
    assert fetch(under_test, require_stable=True)[ORDERS] == (5, "none")


def test_an_administrator_may_delete_offsets_of_an_open_transaction(under_test: ShardUnderTest) -> None:
    txn_commit(under_test, A, "g", {ORDERS: 5, ("payments", 0): 6})
    topics = (OffsetDeleteRequestTopic(name="orders", partitions=(OffsetDeleteRequestPartition(partition_index=0),)),)
    deleted = under_test.ask_with(api.OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert deleted.topics[0].partitions[0].error_code is ErrorCode.none
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {("payments", 0): 6}
    under_test.restart()
    assert offsets(under_test) == {("payments", 0): 6}


def test_an_administrator_may_delete_a_group_with_an_open_transaction(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 3)
    txn_commit(under_test, A, "g", {ORDERS: 5, ("payments", 0): 6})
    (result,) = under_test.ask_with(api.DELETE_GROUPS, 2, groups_names=("g",)).results
    assert result.error_code is ErrorCode.none
    assert "g" not in under_test.shard.groups
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == {}
    under_test.restart()
    assert offsets(under_test) == {}


@pytest.mark.parametrize(("present", "afterwards"), [(None, {}), (3, {ORDERS: 3}), (8, {ORDERS: 4})])
def test_a_transaction_does_not_take_a_group_behind_where_its_partition_was_cut(
    under_test: ShardUnderTest, present: int | None, afterwards: dict[tuple[str, int], int]
) -> None:
    if present is not None:
        commit(under_test, "g", present)
    txn_commit(under_test, A, "g", {ORDERS: 5})
    txn_commit(under_test, A, "other", {ORDERS: 2})
    for _ in range(2):
        request = commit_request(10, "", {(topic_id(1), 0): 4}, leader_epoch=0, generation_id_or_member_epoch=0)
        under_test.ask(api.OFFSET_COMMIT, 10, request, sets_all_back=True)
    assert not under_test.turn_records, "it is done once"
    end_raising(under_test, A, is_commit=True)
    assert offsets(under_test) == afterwards
    assert offsets(under_test, "other") == {ORDERS: 2}


# Members


def test_a_member_is_known_by_its_id_and_its_generation(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    own = {"member_id": member_id, "generation_id": generation}
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, **own) == OK
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, **{**own, "member_id": "x"}) == {ORDERS: "unknown_member_id"}
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, **{**own, "generation_id": generation - 1}) == {
        ORDERS: "illegal_generation"
    }
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, **own, group_instance_id="i") == {ORDERS: "unknown_member_id"}
    leave_classic(under_test, "g", member_id)
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, **own) == {ORDERS: "unknown_member_id"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_names_no_member_may_commit_for_a_group_that_has_some(
    under_test: ShardUnderTest, version: int
) -> None:
    join_classic(under_test, "g", ["orders"])
    assert txn_commit(under_test, A, "g", {ORDERS: 5}, version=version) == OK


def test_a_commit_in_a_transaction_is_no_sign_of_life(under_test: ShardUnderTest) -> None:
    member_id, generation = join_classic(under_test, "g", ["orders"])
    member = under_test.shard.groups["g"].members[member_id]
    deadline_ms = member.session_deadline_ms  # type: ignore[attr-defined]
    under_test.advance(1_000)
    txn_commit(under_test, A, "g", {ORDERS: 5}, member_id=member_id, generation_id=generation)
    assert member.session_deadline_ms == deadline_ms  # type: ignore[attr-defined]
