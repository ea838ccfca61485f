"""The leader's view of its followers: high watermark and in-sync set."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla_broker.replica.leader_replica import FollowerContact, IsrProposal, LeaderReplica
from ottla_core.cluster.state.model import NO_EPOCH, PartitionState

LAG_MAX_MS = 30_000
LIVE = frozenset({1, 2, 3})
STATE = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=5,
    partition_epoch=100,
)


def leader_of(*isr: int, log_end_offset: int = 10, **more: bool) -> LeaderReplica:
    return LeaderReplica(1, replace(STATE, isr=isr), log_end_offset, 0, **more)


def fetch(leader: LeaderReplica, follower: int, offset: int, *, at_ms: int = 0, leader_end: int = 10) -> None:
    contact = FollowerContact(follower, 70 + follower, at_ms)
    leader.followers[follower].fetched(contact, offset, 0, leader_end)


def high_watermark(
    leader: LeaderReplica, *, current: int = 0, end: int = 10, min_isr: int = 1, now_ms: int = 0
) -> int:
    return leader.high_watermark(
        current, end, min_in_sync_replicas=min_isr, now_ms=now_ms, lag_max_ms=LAG_MAX_MS, live=LIVE
    )


def propose(
    leader: LeaderReplica,
    *,
    end: int = 10,
    high_watermark: int = 0,
    now_ms: int = 0,
    live: frozenset[int] = LIVE,
) -> IsrProposal | None:
    return leader.propose(
        log_end_offset=end, high_watermark=high_watermark, now_ms=now_ms, lag_max_ms=LAG_MAX_MS, live=live
    )


def test_the_high_watermark_is_the_smallest_end_offset_over_the_in_sync_set() -> None:
    leader = leader_of(1, 2, 3)
    fetch(leader, 2, 8)
    fetch(leader, 3, 6)
    assert high_watermark(leader) == 6


def test_a_follower_that_has_not_fetched_yet_holds_the_high_watermark_where_it_is() -> None:
    leader = leader_of(1, 2, 3)
    fetch(leader, 2, 10)
    assert high_watermark(leader, current=4) == 4


def test_a_leader_that_is_alone_in_the_set_decides_by_its_own_end() -> None:
    leader = leader_of(1)
    assert leader.is_alone
    assert high_watermark(leader) == 10


def test_the_high_watermark_waits_while_the_set_is_smaller_than_the_minimum() -> None:
    leader = leader_of(1)
    assert high_watermark(leader, current=3, min_isr=2) == 3


def test_the_high_watermark_never_goes_back() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 2, 5)
    assert high_watermark(leader, current=9) == 9


def test_a_follower_about_to_join_holds_the_high_watermark_back() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10, at_ms=1_000)
    fetch(leader, 3, 10, at_ms=2_000, leader_end=12)  # it had everything at 1,000 ms
    fetch(leader, 2, 12, at_ms=2_000, leader_end=12)
    assert high_watermark(leader, end=12, now_ms=2_000) == 10
    assert high_watermark(leader, end=12, now_ms=2_000 + LAG_MAX_MS) == 12


def test_a_follower_that_is_far_behind_does_not_hold_it_back() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 2, 10)
    fetch(leader, 3, 1)
    assert high_watermark(leader) == 10


def test_nothing_is_proposed_while_all_are_in_step() -> None:
    leader = leader_of(1, 2, 3)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert propose(leader) is None


def test_a_follower_that_lags_too_long_is_proposed_to_leave() -> None:
    leader = leader_of(1, 2, 3)
    fetch(leader, 2, 10)
    fetch(leader, 3, 4)
    assert propose(leader, now_ms=LAG_MAX_MS) is None
    proposal = propose(leader, now_ms=LAG_MAX_MS + 1)
    assert proposal == IsrProposal((1, 2), (NO_EPOCH, 72), leader_epoch=5, partition_epoch=100)


def test_a_follower_that_had_nothing_to_fetch_for_long_lags_only_from_the_next_append_on() -> None:
    leader = leader_of(1, 2, 3)
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    leader.appended(10, 3_600_000)
    assert propose(leader, end=11, now_ms=3_600_000 + LAG_MAX_MS) is None
    proposal = propose(leader, end=11, now_ms=3_600_001 + LAG_MAX_MS)
    assert proposal is not None
    assert proposal.isr == (1,)


def test_a_follower_that_keeps_reaching_the_leaders_former_end_is_in_sync() -> None:
    leader = leader_of(1, 2)
    for step in range(1, 60):
        fetch(leader, 2, 10 * step, at_ms=1_000 * step, leader_end=10 * (step + 1))
    assert propose(leader, end=700, now_ms=59_000 + LAG_MAX_MS - 2_000) is None


def test_a_follower_joins_at_the_high_watermark() -> None:
    leader = leader_of(1, 2, log_end_offset=0)
    fetch(leader, 3, 7, leader_end=7)
    assert propose(leader, high_watermark=8) is None
    fetch(leader, 3, 8, leader_end=8)
    proposal = propose(leader, high_watermark=8)
    assert proposal is not None
    assert proposal.isr == (1, 2, 3)
    assert proposal.broker_epochs == (NO_EPOCH, NO_EPOCH, 73)


def test_a_follower_that_is_cut_off_does_not_join_though_the_high_watermark_stands_still() -> None:
    leader = leader_of(1, log_end_offset=0)
    fetch(leader, 3, 8, leader_end=8)
    leader.appended(8, 0)
    assert propose(leader, end=9, high_watermark=8, now_ms=LAG_MAX_MS + 1) is None


def test_a_follower_does_not_join_before_the_start_of_the_leaders_epoch() -> None:
    leader = leader_of(1, 2, log_end_offset=9)
    fetch(leader, 3, 8)
    assert propose(leader, high_watermark=5) is None


def test_a_broker_that_is_about_to_stop_does_not_join() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 3, 10)
    assert propose(leader, live=frozenset({1, 2})) is None


def test_one_proposal_is_under_way_at_a_time() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 3, 10)
    assert propose(leader) is not None
    assert propose(leader) is None


def test_a_follower_that_is_proposed_to_join_counts_already() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 10)
    assert propose(leader) is not None
    assert not leader.is_alone
    leader.appended(10, 0)
    assert high_watermark(leader, current=10, end=11, now_ms=10 * LAG_MAX_MS) == 10


def test_a_follower_that_is_proposed_to_leave_counts_still() -> None:
    leader = leader_of(1, 2)
    fetch(leader, 2, 4)
    assert propose(leader, now_ms=LAG_MAX_MS + 1) is not None
    assert high_watermark(leader, now_ms=LAG_MAX_MS + 1) == 4


def test_a_new_partition_epoch_settles_a_proposal() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 10)
    propose(leader)
    leader.take_over(replace(STATE, isr=(1, 2), partition_epoch=101), 0)
    assert leader.proposal is None
    assert leader.may_be_in_sync(2)
    assert not leader.may_be_in_sync(3)


def test_a_refused_proposal_is_made_again() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 10)
    proposal = propose(leader)
    assert proposal is not None
    leader.refused(proposal)
    assert propose(leader) == proposal


def test_a_refusal_does_not_settle_an_earlier_attempt_that_may_be_under_way() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 10)
    proposal = propose(leader)
    assert proposal is not None
    leader.refused(proposal)
    assert leader.may_be_in_sync(2)
    fetch(leader, 2, 3, leader_end=20)
    again = propose(leader, end=20, high_watermark=10)
    assert again is not None
    assert again.isr == (1,), "it changes nothing, but moves the partition epoch"
    leader.take_over(replace(STATE, isr=(1,), partition_epoch=101), 0)
    assert leader.is_alone


def test_the_high_watermark_stands_still_while_there_are_eligible_leaders() -> None:
    leader = LeaderReplica(1, replace(STATE, isr=(1,), eligible_leaders=(2,)), 10, 0)
    assert high_watermark(leader, current=3) == 3


def test_who_led_this_epoch_before_reckons_with_changes_it_has_forgotten() -> None:
    leader = leader_of(1, led_this_epoch_before=True)
    assert leader.may_be_in_sync(2)
    assert high_watermark(leader) == 0
    assert propose(leader) is not None


def test_a_follower_that_was_taken_out_of_the_set_holds_nothing_back_until_it_fetches_again() -> None:
    leader = leader_of(1, 2, 3)
    for follower in (2, 3):
        fetch(leader, follower, 10)
    leader.take_over(replace(STATE, isr=(1, 3), partition_epoch=101), 0)
    leader.appended(10, 0)
    fetch(leader, 3, 11, leader_end=11)
    assert high_watermark(leader, end=11) == 11
    assert propose(leader, end=11, high_watermark=11) is None
    fetch(leader, 2, 10, leader_end=11)
    assert propose(leader, end=11, high_watermark=11) is None
    fetch(leader, 2, 11, leader_end=11)
    proposal = propose(leader, end=11, high_watermark=11)
    assert proposal is not None
    assert proposal.isr == (1, 2, 3)


def test_a_new_replica_must_catch_up_first() -> None:
    leader = leader_of(1, 2)
    leader.take_over(replace(STATE, replicas=(1, 2, 4), isr=(1, 2), adding=(4,), partition_epoch=101), 50)
    assert leader.followers.keys() == {2, 4}
    fetch(leader, 2, 10, at_ms=60)
    assert high_watermark(leader, now_ms=60) == 10


def cannot_be_replaced(leader: LeaderReplica, now_ms: int, *, allows_unclean: bool = False) -> bool:
    return leader.cannot_be_replaced(now_ms, 6_000, allows_unclean=allows_unclean)


def test_a_leader_goes_on_without_registration_while_all_others_fetch() -> None:
    leader = leader_of(1, 2, 3)
    assert not cannot_be_replaced(leader, 0)
    fetch(leader, 2, 10, at_ms=1_000)
    assert not cannot_be_replaced(leader, 1_000)
    fetch(leader, 3, 10, at_ms=2_000)
    assert cannot_be_replaced(leader, 7_000)
    assert not cannot_be_replaced(leader, 7_001)


def test_a_leader_does_not_go_on_without_registration_when_a_follower_has_left_that_still_fetches_others() -> None:
    leader = leader_of(1, 2)
    contact = FollowerContact(2, 72, 1_000)
    leader.followers[2].fetched(contact, 10, 0, 10)
    leader.stopped_fetching(2)
    contact.last_fetch_ms = 2_000  # of another partition, in the same session
    assert not cannot_be_replaced(leader, 2_000)
    leader.followers[2].fetched(contact, 10, 0, 10)
    assert cannot_be_replaced(leader, 2_000)


def test_a_leader_alone_in_the_set_goes_on_without_registration_unless_another_is_electable() -> None:
    assert cannot_be_replaced(leader_of(1), 0)
    assert not cannot_be_replaced(LeaderReplica(1, replace(STATE, isr=(1,), eligible_leaders=(2,)), 10, 0), 0)
    assert not cannot_be_replaced(leader_of(1), 0, allows_unclean=True)


def test_a_leader_that_is_not_alone_goes_on_without_registration_unless_an_eligible_leader_is_silent() -> None:
    """The others in the set may have lost sight of etcd with it, while an eligible leader has not."""
    leader = LeaderReplica(1, replace(STATE, isr=(1, 2), eligible_leaders=(3,)), 10, 0)
    fetch(leader, 2, 10, at_ms=1_000)
    assert not cannot_be_replaced(leader, 1_000)
    fetch(leader, 3, 10, at_ms=1_000)
    assert cannot_be_replaced(leader, 7_000)


def test_a_leader_alone_does_not_go_on_while_a_proposal_to_let_another_in_is_open() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 10, at_ms=0)
    assert propose(leader) is not None
    assert cannot_be_replaced(leader, 6_000)
    assert not cannot_be_replaced(leader, 6_001)


@pytest.mark.parametrize(
    ("other_at", "fetched_ms", "now_ms", "may", "story"),
    [
        (None, 0, LAG_MAX_MS, True, "it is not heard of yet"),
        (None, 0, LAG_MAX_MS + 1, False, "it has said nothing for too long"),
        (7, 0, LAG_MAX_MS, True, "it has more"),
        (6, 0, 0, False, "it has as much"),
        (7, 0, LAG_MAX_MS + 1, False, "it does not fetch any more"),
    ],
)
def test_another_follower_may_reach_beyond_an_offset(
    other_at: int | None, fetched_ms: int, now_ms: int, may: bool, story: str
) -> None:
    leader = leader_of(1)
    fetch(leader, 2, 9)
    if other_at is not None:
        fetch(leader, 3, other_at, at_ms=fetched_ms)
    assert leader.another_may_reach_beyond(6, 2, now_ms=now_ms, lag_max_ms=LAG_MAX_MS, live=LIVE) == may, story


def test_who_is_away_is_not_waited_for_to_reach_beyond_an_offset() -> None:
    leader = leader_of(1)
    fetch(leader, 2, 9)
    assert not leader.another_may_reach_beyond(6, 2, now_ms=0, lag_max_ms=LAG_MAX_MS, live=frozenset({1, 2}))
