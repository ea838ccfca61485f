"""How long to wait before the next fetch."""

from ottla_mirror.copy.rate_limit import RateLimit


def test_bytes_are_paid_off_as_time_passes():
    rate = RateLimit()
    rate.take(10**9, 0.0)
    assert rate.wait_s(0.0) == 0.0, "there is no limit"
    rate.bytes_per_s = 1000.0
    rate.take(500, 10.0)
    rate.take(500, 10.0)
    assert rate.wait_s(10.0) == 1.0
    assert rate.wait_s(10.75) == 0.25
    assert rate.wait_s(20.0) == 0.0
    rate.take(1000, 20.0)
    assert rate.wait_s(20.0) == 1.0, "what was not used is not saved up"
    rate.bytes_per_s = None
    assert rate.wait_s(20.0) == 0.0
