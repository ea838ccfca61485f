"""One partition's role, and who waits for what happens to it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ottla_broker.partition import Partition
from ottla_broker.partition_context import NotEnoughReplicas, NotEnoughReplicasAfterAppend, ReplicationContext
from ottla_broker.replication.doubtful_log import heard_of_log, longest_log, must_make_way, take_for_longest
from ottla_broker.replication.following import append_from_leader, diverging_offset, restart_at, truncate_to
from ottla_broker.replication.leader_replica import FollowerContact
from ottla_broker.replication.longest_log import LogReach
from ottla_core.cluster.model import PartitionState
from ottla_core.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ottla_core.topic_config import TopicConfig
from tests.support.partition_logs import NOW_MS, PARTITION, batch_of, fail, open_log, read_batches
from tests.support.replica_rules import live

STATE = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=5,
    leader_broker_epoch=71,
    partition_epoch=100,
)
LAG_MAX_MS = 30_000


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def log_bytes(partition: Partition) -> bytes:
    return b"".join(batch for _, batch in read_batches(partition.log))


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


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Partition]:
    def partition(broker_id: int = 1, *, min_isr: int = 1) -> Partition:
        directory = tmp_path / f"{broker_id}"
        directory.mkdir()
        context = ReplicationContext(broker_id, LAG_MAX_MS, Clock(), frozenset({1, 2, 3}))
        log = open_log(directory, config=TopicConfig(min_insync_replicas=min_isr))
        return Partition(PARTITION, log, context, STATE)

    return partition


def append(partition: Partition, *, all_in_sync: bool = True) -> int:
    """Append a batch of one record; return the log's end."""
    appended = partition.append(batch_of(b"x"), now_ms=NOW_MS, all_in_sync=all_in_sync)
    return appended.last_offset + 1


def fetch(partition: Partition, follower: int, offset: int) -> None:
    partition.record_follower_fetch(FollowerContact(follower, 70 + follower, 0), offset=offset, log_start_offset=0)


def test_records_are_replicated_when_every_follower_has_fetched_beyond_them(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(STATE, leads=True)
    end = append(partition)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    fetch(partition, 2, end)
    assert outcomes == []
    fetch(partition, 3, end)
    assert outcomes == [None]
    assert partition.log.high_watermark == end


def test_who_asks_about_replicated_records_is_answered_at_once(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    assert outcomes == [None]


def test_waiting_ends_with_an_error_when_leadership_does(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(STATE, leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert isinstance(outcomes[0], NotLeaderOrFollower)


def test_nobody_is_told_that_another_leaders_records_are_the_ones_he_waits_for(
    make: Callable[..., Partition],
) -> None:
    partition = make()
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


def test_waiting_goes_on_through_a_new_election_of_the_same_leader(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(STATE, leads=True)
    end = append(partition)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    partition.apply(replace(STATE, leader_epoch=6, isr=(1, 2), partition_epoch=101), leads=True)
    fetch(partition, 2, end)
    assert outcomes == [None]


def test_a_waiter_can_give_up(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(STATE, leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(append(partition), outcomes.append, leader_epoch=5)
    partition.no_longer_wait(outcomes.append)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert outcomes == []


def test_too_few_replicas_are_refused_before_the_append(make: Callable[..., Partition]) -> None:
    partition = make(min_isr=2)
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    with pytest.raises(NotEnoughReplicas, match="1 replicas in sync"):
        append(partition)
    assert partition.log.log_end_offset == 0


def test_a_batch_that_is_sent_again_is_not_told_that_it_is_not_in_the_log(make: Callable[..., Partition]) -> None:
    partition = make(min_isr=2)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    batch = batch_of(b"x", producer=(7, 0, 0))
    partition.append(batch, now_ms=NOW_MS, all_in_sync=True)
    partition.apply(replace(STATE, isr=(1,), partition_epoch=101), leads=True)
    with pytest.raises(NotEnoughReplicasAfterAppend):
        partition.append(batch, now_ms=NOW_MS, all_in_sync=True)


def test_an_only_replica_that_goes_on_without_an_election_is_in_sync_with_itself(
    make: Callable[..., Partition],
) -> None:
    partition = make()
    alone = replace(STATE, replicas=(1,), isr=(1,))
    partition.apply(alone, leads=True)
    partition.apply(replace(alone, leader=-1, isr=(), eligible_leaders=(1,), partition_epoch=101), leads=True)
    end = append(partition)
    assert partition.log.high_watermark == end


def test_what_is_appended_without_waiting_stays_invisible_below_the_minimum(make: Callable[..., Partition]) -> None:
    partition = make(min_isr=2)
    partition.apply(replace(STATE, isr=(1,)), leads=True)
    append(partition, all_in_sync=False)
    assert partition.log.high_watermark == 0
    assert partition.read(0, 1000, at_least_one_batch=True) is None
    assert partition.read(0, 1000, at_least_one_batch=True, to_log_end=True) is not None


def test_records_replicated_to_too_few_are_told_so(make: Callable[..., Partition]) -> None:
    partition = make(min_isr=2)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    fetch(partition, 2, end)
    partition.apply(replace(STATE, isr=(1,), partition_epoch=101), leads=True)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(end, outcomes.append, leader_epoch=5)
    assert isinstance(outcomes[0], NotEnoughReplicasAfterAppend)


def test_only_replicas_may_fetch_as_followers(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(STATE, leads=True)
    with pytest.raises(NotLeaderOrFollower, match="broker 4 holds no replica"):
        fetch(partition, 4, 0)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    with pytest.raises(NotLeaderOrFollower, match="led by broker 2"):
        fetch(partition, 3, 0)


def test_a_follower_becomes_equal_to_its_leader(make: Callable[..., Partition]) -> None:
    leader, follower = make(1), make(2)
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


def test_a_followers_high_watermark_does_not_pass_its_end(make: Callable[..., Partition]) -> None:
    follower = make(2)
    follower.apply(STATE, leads=False)
    append_from_leader(follower, b"", leader_epoch=5, high_watermark=50, log_start_offset=0, now_ms=NOW_MS)
    assert follower.log.high_watermark == 0


def test_answers_of_another_leader_epoch_are_refused(make: Callable[..., Partition]) -> None:
    follower = make(2)
    follower.apply(STATE, leads=False)
    with pytest.raises(FencedLeaderEpoch):
        diverging_offset(follower, 3, 0, leader_epoch=4)
    with pytest.raises(UnknownLeaderEpoch):
        truncate_to(follower, 0, leader_epoch=6, now_ms=NOW_MS)
    follower.apply(replace(STATE, leader=2, leader_epoch=6), leads=True)
    with pytest.raises(FencedLeaderEpoch):
        restart_at(follower, 9, leader_epoch=6, now_ms=NOW_MS)


def test_a_former_leader_cuts_what_the_new_one_never_had(make: Callable[..., Partition]) -> None:
    partition = make(1)
    partition.apply(STATE, leads=True)
    kept = append(partition)
    append(partition)
    partition.apply(replace(STATE, leader=2, leader_epoch=6), leads=False)
    assert diverging_offset(partition, 5, kept, leader_epoch=6) == kept
    truncate_to(partition, kept, leader_epoch=6, now_ms=NOW_MS)
    assert partition.log.log_end_offset == kept


def test_an_epoch_in_which_nothing_was_appended_is_forgotten(make: Callable[..., Partition]) -> None:
    partition = make(1)
    partition.apply(STATE, leads=True)
    end = append(partition)
    partition.apply(replace(STATE, leader_epoch=7), leads=True)
    partition.apply(replace(STATE, leader=2, leader_epoch=8), leads=False)
    assert diverging_offset(partition, 5, end, leader_epoch=8) == end
    truncate_to(partition, end, leader_epoch=8, now_ms=NOW_MS)
    assert partition.fetch_position().last_fetched_epoch == 5


def test_watchers_hear_of_appends_watermarks_and_changes(make: Callable[..., Partition]) -> None:
    partition, watcher = make(), Watcher()
    partition.watch(watcher)
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    fetch(partition, 2, end)
    partition.unwatch(watcher)
    append(partition)
    assert watcher.told == ["change", "append", f"high watermark {end}"]


def test_deleted_records_go_on_followers_too(make: Callable[..., Partition]) -> None:
    leader, follower = make(1), make(2)
    leader.apply(STATE, leads=True)
    follower.apply(STATE, leads=False)
    end = append(leader)
    append_from_leader(
        follower, log_bytes(leader), leader_epoch=5, high_watermark=end, log_start_offset=end, now_ms=NOW_MS
    )
    assert follower.log.log_start_offset == end


def test_a_fetch_of_a_follower_s_earlier_registration_counts_for_nothing(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(replace(STATE, isr=(1, 2)), leads=True)
    end = append(partition)
    partition.record_follower_fetch(FollowerContact(2, 90, 10), offset=0, log_start_offset=0)
    with pytest.raises(NotLeaderOrFollower, match="registration"):
        partition.record_follower_fetch(FollowerContact(2, 80, 20), offset=end, log_start_offset=0)
    assert partition.log.high_watermark == 0


def test_a_follower_takes_nothing_that_is_of_a_later_epoch_than_its_leader(make: Callable[..., Partition]) -> None:
    partition = make(2)
    partition.apply(STATE, leads=False)
    records = batch_of(b"a", leader_epoch=5) + batch_of(b"b", base_offset=1, leader_epoch=6)
    with pytest.raises(UnknownLeaderEpoch, match="is of leader epoch 6"):
        append_from_leader(partition, records, leader_epoch=5, high_watermark=2, log_start_offset=0, now_ms=NOW_MS)
    assert (partition.log.log_end_offset, partition.log.leader_epochs.latest) == (1, 5)


def test_a_leader_whose_log_has_failed_replicates_nothing_any_more(make: Callable[..., Partition]) -> None:
    partition = make()
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


def test_a_replica_whose_log_has_failed_makes_way_while_it_counts_and_another_could(
    make: Callable[..., Partition],
) -> None:
    partition = make()
    told: list[PartitionState] = []
    partition.context.on_failed_log = lambda failed: told.append(failed.state)
    partition.apply(STATE, leads=True)
    assert not must_make_way(partition, {1, 2, 3})
    fail(partition.log)
    assert told == [STATE]
    assert must_make_way(partition, {1, 3})
    assert not must_make_way(partition, {1})
    for isr, eligible, must in (((1,), (), False), ((1,), (2,), True), ((2,), (1,), True), ((2, 3), (), False)):
        state = replace(
            STATE, isr=isr, eligible_leaders=eligible, partition_epoch=partition.state.partition_epoch + 1
        )
        partition.apply(state, leads=1 in isr)
        assert told[-1] is state, "whoever reports it has to look again"
        assert must_make_way(partition, {1, 2, 3}) == must


# One that may lack records

ALONE = replace(STATE, isr=(1,))
MEMBERS = live("1@71", "2@72", "3@73")


@pytest.fixture
def elected(make: Callable[..., Partition]) -> Partition:
    """A partition of five records that was elected alone although its disk may have lost its end."""
    partition = make()
    partition.apply(ALONE, leads=True)
    for _ in range(5):
        append(partition)
    partition.apply(replace(ALONE, leader=-1), leads=False)
    partition.log.may_lack_end = True
    partition.apply(replace(ALONE, leader_epoch=7, partition_epoch=120), leads=True)
    return partition


def hear(partition: Partition, broker_id: int, epoch: int, end: int, *, leader_epoch: int = 7) -> None:
    heard_of_log(
        partition, FollowerContact(broker_id, 70 + broker_id, 0), LogReach(epoch, end), leader_epoch=leader_epoch
    )


def test_who_may_lack_records_leads_only_when_no_other_log_is_longer(elected: Partition) -> None:
    assert not elected.leads
    with pytest.raises(NotLeaderOrFollower, match="not ready to lead"):
        append(elected)
    assert elected.log.leader_epochs.latest == 5, "it begins no epoch at the end of a log that may be too short"
    hear(elected, 2, 5, 4)
    assert longest_log(elected, MEMBERS) is None
    hear(elected, 3, 5, 9, leader_epoch=5)
    assert longest_log(elected, MEMBERS) is None, "it was another leader's follower then"
    hear(elected, 3, 5, 5)
    assert longest_log(elected, MEMBERS) == (1, 71, LogReach(5, 5))
    take_for_longest(elected)
    elected.apply(replace(elected.state, leader_epoch=8, partition_epoch=121), leads=True)
    assert elected.leads
    assert longest_log(elected, MEMBERS) is None
    assert append(elected) == 6


def test_what_was_heard_in_one_leader_epoch_counts_in_no_other(elected: Partition) -> None:
    hear(elected, 2, 5, 4)
    hear(elected, 3, 5, 4)
    elected.apply(replace(elected.state, partition_epoch=121), leads=True)
    assert longest_log(elected, MEMBERS) is not None
    elected.apply(replace(elected.state, leader_epoch=8, partition_epoch=122), leads=True)
    assert longest_log(elected, MEMBERS) is None


def test_a_lost_end_has_others_waited_for_unless_the_topic_allows_a_loss(elected: Partition) -> None:
    elected.log.lost_from = 5
    elected.context.monotonic_ms.now_ms = 10 * LAG_MAX_MS  # type: ignore[attr-defined]
    assert longest_log(elected, MEMBERS) is None
    elected.log.update_config(TopicConfig(unclean_leader_election_enable=True))
    assert longest_log(elected, MEMBERS) is not None
    elected.log.update_config(TopicConfig())
    elected.log.lost_from = 3
    assert longest_log(elected, MEMBERS) is not None, "it reaches as far as ever"
    take_for_longest(elected)
    assert elected.lacks_records, "others may have what is lost in its middle"
    elected.log.lost_from = 5
    take_for_longest(elected)
    assert not elected.lacks_records, "nobody has what is lost at its end"


def test_a_log_with_a_gap_makes_way_once_it_is_known_not_to_be_the_longest(elected: Partition) -> None:
    elected.log.lost_from = 3
    elected.apply(replace(ALONE, isr=(1, 2), leader_epoch=7, partition_epoch=121), leads=True)
    assert not must_make_way(elected, {1, 2, 3}), "or it would cut its log, of which only the middle is lost"
    elected.log.lost_from = 5
    assert must_make_way(elected, {1, 2, 3}), "nothing of it can be lost that others do not have"
    elected.log.lost_from = 3
    take_for_longest(elected)
    elected.apply(replace(ALONE, isr=(1, 2), leader_epoch=8, partition_epoch=122), leads=True)
    assert must_make_way(elected, {1, 2, 3})


def test_a_replica_is_above_doubt_when_a_leader_has_taken_it_into_the_set(elected: Partition) -> None:
    following = replace(STATE, leader=2, leader_epoch=8, isr=(2, 3), partition_epoch=121)
    for state, may_lack in ((following, True), (replace(following, isr=(1, 2, 3), partition_epoch=122), False)):
        elected.apply(state, leads=False)
        assert elected.search is None
        append_from_leader(elected, b"", leader_epoch=8, high_watermark=5, log_start_offset=0, now_ms=NOW_MS)
        assert elected.log.may_lack_end == may_lack


def test_a_replica_that_is_in_the_set_by_its_former_log_is_in_doubt_until_it_has_what_is_committed(
    elected: Partition,
) -> None:
    """It may be back, and fetch, before the controller has taken it out."""
    elected.apply(replace(STATE, leader=2, leader_epoch=8, partition_epoch=121), leads=False)
    records = batch_of(b"y", base_offset=5, leader_epoch=8)
    for taken, may_lack in ((b"", True), (records, False)):
        append_from_leader(elected, taken, leader_epoch=8, high_watermark=6, log_start_offset=0, now_ms=NOW_MS)
        assert elected.log.may_lack_end == may_lack


def test_a_replica_that_was_taken_into_the_set_may_lead_at_once(elected: Partition) -> None:
    """It may be elected before it has fetched again; a second search would keep the partition away for long."""
    following = replace(STATE, leader=2, leader_epoch=8, isr=(2, 3), partition_epoch=121)
    elected.apply(following, leads=False)
    elected.apply(replace(following, isr=(1, 2, 3), partition_epoch=122), leads=False)
    elected.apply(replace(following, leader=1, leader_epoch=9, isr=(1, 3), partition_epoch=123), leads=True)
    assert elected.leads


def test_a_replica_that_was_named_leads_at_once_unless_it_knows_of_a_loss_at_its_end(elected: Partition) -> None:
    following = replace(STATE, leader=2, leader_epoch=8, isr=(2,), partition_epoch=121)
    named = replace(STATE, leader=1, leader_epoch=9, isr=(1,), partition_epoch=122)
    for lost_from, leads in ((5, False), (3, True)):
        elected.log.lost_from = lost_from
        elected.apply(following, leads=False)
        elected.apply(named, leads=True)
        assert elected.leads == leads


def test_the_only_replica_leads_with_what_it_has(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.log.may_lack_end = True
    partition.apply(replace(STATE, replicas=(1,), isr=(1,)), leads=True)
    assert partition.leads
