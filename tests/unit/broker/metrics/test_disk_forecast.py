"""When a disk will be full follows from what was free in the last hour."""

import math

from ottla_broker.metrics.disk_forecast import LEAST_S, REMEMBERED_S, SAMPLE_INTERVAL_S, DiskForecast

GIB = 1 << 30


def test_a_disk_that_fills_evenly_is_full_when_its_free_space_is_used_up() -> None:
    forecast = DiskForecast()
    forecast.until_full_s(0, 100 * GIB)
    assert forecast.until_full_s(600, 90 * GIB) == 9 * 600


def test_a_disk_that_does_not_fill_is_never_full() -> None:
    forecast = DiskForecast()
    assert forecast.until_full_s(0, 10 * GIB) == math.inf
    assert forecast.until_full_s(600, 10 * GIB) == math.inf
    assert forecast.until_full_s(700, 11 * GIB) == math.inf


def test_a_burst_just_after_the_start_says_nothing() -> None:
    forecast = DiskForecast()
    forecast.until_full_s(0, 10 * GIB)
    assert forecast.until_full_s(LEAST_S / 2, 9 * GIB) == math.inf


def test_a_full_disk_is_full_now_whatever_was() -> None:
    assert DiskForecast().until_full_s(0, 0) == 0


def test_growth_of_more_than_an_hour_ago_is_forgotten() -> None:
    forecast = DiskForecast()
    forecast.until_full_s(0, 100 * GIB)
    forecast.until_full_s(60, 10 * GIB)
    assert forecast.until_full_s(61 + REMEMBERED_S, 10 * GIB) == math.inf


def test_frequent_questions_leave_a_bounded_number_of_samples() -> None:
    forecast = DiskForecast()
    for second in range(2 * int(REMEMBERED_S)):
        forecast.until_full_s(second, GIB)
    assert len(forecast._samples) <= REMEMBERED_S / SAMPLE_INTERVAL_S + 1
