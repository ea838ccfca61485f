"""What counts as used, and how long a client waits that has used too much."""

import pytest

from ottla_broker.quotas.sampled_rate import THROTTLE_MS_MAX, RateWindow, SampledRate, TokenBucket

WINDOW = RateWindow(samples=11, sample_ms=1000)


def test_a_first_burst_is_taken_over_the_whole_window_but_one_sample() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1000, 5)
    assert rate.per_second(5) == 100
    assert rate.throttle_ms(100, 5) == 0


def test_who_is_above_the_limit_waits_until_the_rate_has_come_down_to_it() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1500, 0)
    throttle_ms = rate.throttle_ms(100, 0)
    assert throttle_ms == 5000
    assert rate.throttle_ms(100, 10_000 + throttle_ms) == 0


def test_a_steady_use_at_the_limit_is_never_throttled() -> None:
    rate = SampledRate(WINDOW)
    for now_ms in range(0, 60_000, 100):
        rate.record(10, now_ms)
        assert rate.throttle_ms(110, now_ms) == 0


def test_a_steady_use_of_twice_the_limit_is_throttled() -> None:
    rate = SampledRate(WINDOW)
    throttled = 0
    for now_ms in range(0, 60_000, 100):
        rate.record(20, now_ms)
        throttled += rate.throttle_ms(100, now_ms) > 0
    assert throttled > 400


def test_what_is_older_than_the_window_does_not_count() -> None:
    rate = SampledRate(WINDOW)
    rate.record(10**9, 0)
    assert rate.throttle_ms(1, 10_999) > 0
    assert rate.throttle_ms(1, 11_000) == 0
    assert rate.is_unused


def test_what_is_taken_back_does_not_count() -> None:
    rate = SampledRate(WINDOW)
    rate.record(5000, 0)
    rate.record(-5000, 3)
    assert rate.throttle_ms(1, 3) == 0


def test_no_more_samples_are_kept_than_the_window_has() -> None:
    rate = SampledRate(RateWindow(samples=3, sample_ms=10))
    for now_ms in range(0, 1000, 10):
        rate.record(1, now_ms)
    assert rate.per_second(990) == 3 * 1000 / 20


def test_a_bucket_allows_a_windows_worth_at_once_and_then_the_rate() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.record(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.record(4, 2, 0)
    assert bucket.throttle_ms(2, 0) == 2000
    assert bucket.throttle_ms(2, 1500) == 500
    assert bucket.throttle_ms(2, 2000) == 0


def test_a_bucket_saves_up_no_more_than_a_windows_worth() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.record(0, 1, 0)
    bucket.record(12, 1, 10**9)
    assert bucket.throttle_ms(1, 10**9) == 1000


@pytest.mark.parametrize("limit", [1e-308, 5e-324, 1e-6])
def test_the_smallest_limits_make_the_longest_wait_and_no_error(limit: float) -> None:
    rate, bucket = SampledRate(WINDOW), TokenBucket(WINDOW)
    rate.record(1e6, 0)
    bucket.record(1e6, limit, 0)
    assert rate.throttle_ms(limit, 0) == THROTTLE_MS_MAX
    assert bucket.throttle_ms(limit, 0) == THROTTLE_MS_MAX
