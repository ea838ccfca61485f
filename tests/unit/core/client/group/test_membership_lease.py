"""A lease always ends before the coordinator gives the work away."""

from ottla_core.client.group.membership_lease import MembershipLease


def test_without_an_answer_there_is_no_lease():
    lease = MembershipLease(10_000, 60_000)
    assert lease.until_ms is None
    lease.heard(5)
    assert lease.until_ms is None


def test_a_lease_lasts_for_the_session_from_when_the_request_was_sent():
    lease = MembershipLease(10_000, 60_000)
    lease.in_order(1_000)
    assert lease.until_ms == 11_000


def test_a_rebalance_that_is_not_answered_ends_it_although_heartbeats_are_heard():
    lease = MembershipLease(10_000, 60_000)
    lease.in_order(1_000)
    for sent_ms in range(2_000, 70_000, 1_000):
        lease.heard(sent_ms)
    assert lease.until_ms == 61_000


def test_a_rebalance_timeout_shorter_than_the_session_counts_from_the_start():
    lease = MembershipLease(10_000, 4_000)
    lease.in_order(1_000)
    assert lease.until_ms == 5_000


def test_an_answer_to_an_older_request_shortens_nothing():
    lease = MembershipLease(10_000, 60_000)
    lease.in_order(5_000)
    lease.in_order(3_000)
    lease.heard(4_000)
    assert lease.until_ms == 15_000


def test_an_ended_lease_is_none():
    lease = MembershipLease(10_000, 60_000)
    lease.in_order(5_000)
    lease.end()
    assert lease.until_ms is None
