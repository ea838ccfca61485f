"""Limits on the copying of replicas."""

from ottla_broker.replication.throttle import WAIT_MS_MAX, ReplicationThrottle, ReplicationThrottles
from ottla_core.throttle_config import UNLIMITED

START_MS = 1_000_000


def test_without_a_rate_nothing_ever_waits() -> None:
    throttle = ReplicationThrottle()
    throttle.record(1 << 40, START_MS)
    assert throttle.wait_ms(START_MS) == 0


def test_what_was_copied_is_paid_off_before_the_next_fetch() -> None:
    throttle = ReplicationThrottle(1000)
    throttle.wait_ms(START_MS)
    throttle.record(1500, START_MS)
    waited = throttle.wait_ms(START_MS)
    assert 490 <= waited <= 510  # what one second saved up is used up first
    assert throttle.wait_ms(START_MS + waited) == 0


def test_a_large_debt_is_looked_at_again_before_it_is_paid_since_the_rate_may_change() -> None:
    throttle = ReplicationThrottle(1000)
    throttle.wait_ms(START_MS)
    throttle.record(1_000_000, START_MS)
    assert throttle.wait_ms(START_MS) == WAIT_MS_MAX
    throttle.set_rate(2000)
    assert throttle.wait_ms(START_MS) == 0


def test_over_time_the_rate_is_kept() -> None:
    throttle = ReplicationThrottle(10_000)
    now_ms, copied = START_MS, 0
    while now_ms < START_MS + 60_000:
        if wait_ms := throttle.wait_ms(now_ms):
            now_ms += wait_ms
        else:
            throttle.record(7000, now_ms)
            copied += 7000
    assert 600_000 <= copied <= 600_000 + 10_000 + 7000


def test_a_rate_of_nothing_lets_nothing_through() -> None:
    assert ReplicationThrottle(0).wait_ms(START_MS) == WAIT_MS_MAX


def test_the_rates_come_from_the_cluster_state() -> None:
    throttles = ReplicationThrottles()
    throttles.update(
        2,
        {
            None: {"leader.replication.throttled.rate": "500", "follower.replication.throttled.rate": "600"},
            2: {"follower.replication.throttled.rate": "700"},
        },
    )
    assert (throttles.leader.rate, throttles.follower.rate) == (500, 700)
    throttles.update(2, {})
    assert (throttles.leader.rate, throttles.follower.rate) == (UNLIMITED, UNLIMITED)
