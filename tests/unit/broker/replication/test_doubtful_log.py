"""Who leads, and who may be followed, where logs have failed or may lack records."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica.longest_log import LogReach
from ottla_broker.replication.doubtful_log import heard_of_log, longest_log, must_make_way, take_for_longest
from ottla_broker.replication.following import append_from_leader
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import (
    NotLeaderOrFollower,
)
from ottla_core.topic_config import TopicConfig
from tests.support.broker.partition_logs import NOW_MS, batch_of, fail
from tests.support.broker.partition_replicas import LAG_MAX_MS, STATE, append
from tests.support.controller.replica_rules import live

ALONE = replace(STATE, isr=(1,))
MEMBERS = live("1@71", "2@72", "3@73")


@pytest.fixture
def elected(make_replica: Callable[..., Partition]) -> Partition:
    """A partition of five records that was elected alone although its disk may have lost its end."""
    partition = make_replica()
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


def test_a_replica_whose_log_has_failed_makes_way_while_it_counts_and_another_could(
    make_replica: Callable[..., Partition],
) -> None:
    partition = make_replica()
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


def test_the_only_replica_leads_with_what_it_has(make_replica: Callable[..., Partition]) -> None:
    partition = make_replica()
    partition.log.may_lack_end = True
    partition.apply(replace(STATE, replicas=(1,), isr=(1,)), leads=True)
    assert partition.leads
