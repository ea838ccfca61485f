"""What a follower does with its leader's answers."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla_broker.partition import Partition
from ottla_broker.replication.following import append_from_leader, diverging_offset, restart_at, truncate_to
from ottla_core.errors import (
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
)
from tests.support.broker.partition_logs import NOW_MS, batch_of
from tests.support.broker.partition_replicas import STATE, append, log_bytes


def test_a_follower_becomes_equal_to_its_leader(make_replica: Callable[..., Partition]) -> None:
    leader, follower = make_replica(1), make_replica(2)
    leader.apply(STATE, leads=True)
    follower.apply(STATE, leads=False)
    end = append(leader)
    append_from_leader(
        follower, log_bytes(leader), leader_epoch=5, high_watermark=end, log_start_offset=0, now_ms=NOW_MS
    )
    position = follower.fetch_position()
    assert (position.offset, position.last_fetched_epoch) == (end, 5)
    assert follower.log.high_watermark == end
    assert log_bytes(follower) == log_bytes(leader)


def test_a_followers_high_watermark_does_not_pass_its_end(make_replica: Callable[..., Partition]) -> None:
    follower = make_replica(2)
    follower.apply(STATE, leads=False)
    append_from_leader(follower, b"", leader_epoch=5, high_watermark=50, log_start_offset=0, now_ms=NOW_MS)
    assert follower.log.high_watermark == 0


def test_answers_of_another_leader_epoch_are_refused(make_replica: Callable[..., Partition]) -> None:
    follower = make_replica(2)
    follower.apply(STATE, leads=False)
    with pytest.raises(FencedLeaderEpoch):
        diverging_offset(follower, 3, 0, leader_epoch=4)
    with pytest.raises(UnknownLeaderEpoch):
        truncate_to(follower, 0, leader_epoch=6, now_ms=NOW_MS)
    follower.apply(replace(STATE, leader=2, leader_epoch=6), leads=True)
    with pytest.raises(FencedLeaderEpoch):
        restart_at(follower, 9, leader_epoch=6, now_ms=NOW_MS)


def test_a_former_leader_cuts_what_the_new_one_never_had(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica(1)
    partition.apply(STATE, leads=True)
    kept = append(partition)
    append(partition)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert diverging_offset(partition, 5, kept, leader_epoch=6) == kept
    truncate_to(partition, kept, leader_epoch=6, now_ms=NOW_MS)
    assert partition.log.log_end_offset == kept


def test_an_epoch_in_which_nothing_was_appended_is_forgotten(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica(1)
    partition.apply(STATE, leads=True)
    end = append(partition)
    partition.apply(replace(STATE, leader_epoch=7), leads=True)
    partition.apply(replace(STATE, leader=2, leader_epoch=8), leads=False)
    assert diverging_offset(partition, 5, end, leader_epoch=8) == end
    truncate_to(partition, end, leader_epoch=8, now_ms=NOW_MS)
    assert partition.fetch_position().last_fetched_epoch == 5


def test_deleted_records_go_on_followers_too(make_replica: Callable[..., Partition]) -> None:
    leader, follower = make_replica(1), make_replica(2)
    leader.apply(STATE, leads=True)
    follower.apply(STATE, leads=False)
    end = append(leader)
    append_from_leader(
        follower, log_bytes(leader), leader_epoch=5, high_watermark=end, log_start_offset=end, now_ms=NOW_MS
    )
    assert follower.log.log_start_offset == end


def test_a_follower_takes_nothing_that_is_of_a_later_epoch_than_its_leader(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica(2)
    partition.apply(STATE, leads=False)
    records = batch_of(b"a", leader_epoch=5) + batch_of(b"b", base_offset=1, leader_epoch=6)
    with pytest.raises(UnknownLeaderEpoch, match="is of leader epoch 6"):
        append_from_leader(partition, records, leader_epoch=5, high_watermark=2, log_start_offset=0, now_ms=NOW_MS)
    assert (partition.log.log_end_offset, partition.log.leader_epochs.latest) == (1, 5)


def test_a_log_begun_anew_claims_nothing_before_a_leader_has_answered(make_replica: Callable[..., Partition]) -> None:
    follower = make_replica(2)
    follower.was_begun_anew = follower.awaits_first_answer = True
    follower.apply(STATE, leads=False)
    assert not follower.fetch_position().claims_all
    append_from_leader(follower, b"", leader_epoch=5, high_watermark=7, log_start_offset=0, now_ms=NOW_MS)
    assert follower.fetch_position().claims_all
    assert follower.was_begun_anew  # it lacks what is committed still


def test_a_log_begun_anew_is_none_once_nothing_is_known_to_be_committed(
    make_replica: Callable[..., Partition],
) -> None:
    follower = make_replica(2)
    follower.was_begun_anew = follower.awaits_first_answer = True
    follower.apply(STATE, leads=False)
    append_from_leader(follower, b"", leader_epoch=5, high_watermark=0, log_start_offset=0, now_ms=NOW_MS)
    assert not follower.was_begun_anew
