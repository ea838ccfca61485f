"""One partition's role, and who waits for what happens to it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla_broker.log.partition.read_isolation import ReadIsolation
from ottla_broker.partition import Partition
from ottla_broker.partition_context import NotEnoughReplicas, NotEnoughReplicasAfterAppend
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.following import append_from_leader, truncate_to
from ottla_core.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
)
from tests.support.broker.partition_logs import NOW_MS, batch_of, fail
from tests.support.broker.partition_replicas import STATE, append, fetch


class Watcher:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        self.told.append("append")

    def on_high_watermark(self, partition: Partition) -> None:
        self.told.append(f"high watermark {partition.log.high_watermark}")

    def on_change(self, partition: Partition) -> None:
        self.told.append("change")


def test_records_are_replicated_when_every_follower_has_fetched_beyond_them(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    end = append(partition)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    fetch(partition, 2, end)
    assert outcomes == []
    fetch(partition, 3, end)
    assert outcomes == [None]
    assert partition.log.high_watermark == end


def test_who_asks_about_replicated_records_is_answered_at_once(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    assert outcomes == [None]


def test_waiting_ends_with_an_error_when_leadership_does(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert isinstance(outcomes[0], NotLeaderOrFollower)


def test_nobody_is_told_that_another_leaders_records_are_the_ones_he_waits_for(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    end = append(partition)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    truncate_to(partition, 0, leader_epoch=6, now_ms=NOW_MS)
    records = batch_of(b"other", leader_epoch=6)
    append_from_leader(partition, records, leader_epoch=6, high_watermark=1, log_start_offset=0, now_ms=NOW_MS)
    partition.apply(replace(STATE, leader_epoch=7, partition_epoch=102), leads=True)

    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    assert isinstance(outcomes[0], NotLeaderOrFollower)


def test_waiting_goes_on_through_a_new_election_of_the_same_leader(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    end = append(partition)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    partition.apply(replace(STATE, leader_epoch=6, isr=(1, 2), partition_epoch=101), leads=True)
    fetch(partition, 2, end)
    assert outcomes == [None]


def test_a_waiter_can_give_up(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    partition.no_longer_wait(outcomes.append)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert outcomes == []


def test_too_few_replicas_are_refused_before_the_append(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica(min_isr=2)
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    with pytest.raises(NotEnoughReplicas, match="1 replicas in sync"):
        append(partition)
    assert partition.log.log_end_offset == 0


def test_a_batch_that_is_sent_again_is_not_told_that_it_is_not_in_the_log(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica(min_isr=2)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    batch = batch_of(b"x", producer=(7, 0, 0))
    partition.append(batch, now_ms=NOW_MS, all_in_sync=True)
    partition.apply(replace(STATE, isr=(1,), partition_epoch=101), leads=True)
    with pytest.raises(NotEnoughReplicasAfterAppend):
        partition.append(batch, now_ms=NOW_MS, all_in_sync=True)


def test_an_only_replica_that_goes_on_without_an_election_is_in_sync_with_itself(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica()
    alone = replace(STATE, replicas=(1,), isr=(1,))
    partition.apply(alone, leads=True)
    partition.apply(replace(alone, leader=-1, isr=(), eligible_leaders=(1,), partition_epoch=101), leads=True)
    end = append(partition)
    assert partition.log.high_watermark == end


def test_what_is_appended_without_waiting_stays_invisible_below_the_minimum(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica(min_isr=2)
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    append(partition, all_in_sync=False)
    assert partition.log.high_watermark == 0
    assert partition.read(0, 1000, at_least_one_batch=True) is None
    assert partition.read(0, 1000, at_least_one_batch=True, isolation=ReadIsolation.LOG_END) is not None


def test_records_replicated_to_too_few_are_told_so(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica(min_isr=2)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    fetch(partition, 2, end)
    partition.apply(replace(STATE, isr=(1,), partition_epoch=101), leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    assert isinstance(outcomes[0], NotEnoughReplicasAfterAppend)


def test_only_replicas_may_fetch_as_followers(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    with pytest.raises(NotLeaderOrFollower, match="broker 4 holds no replica"):
        fetch(partition, 4, 0)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    with pytest.raises(NotLeaderOrFollower, match="led by broker 2"):
        fetch(partition, 3, 0)


def test_watchers_hear_of_appends_watermarks_and_changes(make_replica: Callable[..., Partition]) -> None:
    partition, watcher = make_replica(), Watcher()
    partition.watch(watcher)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    fetch(partition, 2, end)
    partition.unwatch(watcher)
    append(partition)
    assert watcher.told == ["change", "append", f"high watermark {end}"]


def test_a_fetch_of_a_follower_s_earlier_registration_counts_for_nothing(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica()
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    partition.record_follower_fetch(FollowerContact(2, 90, 10), offset=0, log_start_offset=0)
    with pytest.raises(NotLeaderOrFollower, match="registration"):
        partition.record_follower_fetch(FollowerContact(2, 80, 20), offset=end, log_start_offset=0)
    assert partition.log.high_watermark == 0


def test_a_leader_whose_log_has_failed_replicates_nothing_any_more(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.apply(STATE, leads=True)
    end = append(partition)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    fail(partition.log)
    for follower in (2, 3):
        fetch(partition, follower, end)
    assert (outcomes, partition.log.high_watermark) == ([], 0), "the leader may lose what it has"
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        append(partition)
