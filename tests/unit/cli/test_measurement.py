"""The figures of a benchmark."""

import pytest

from ottla.load.measurement import due_at, nearest_rank, spread_of, throughput


def test_percentiles_are_values_that_occurred():
    ordered = [float(number) for number in range(1, 1001)]
    assert [nearest_rank(ordered, percentile) for percentile in (50.0, 99.0, 99.9, 100.0)] == [500, 990, 999, 1000]
    assert nearest_rank([7.0], 99.9) == 7.0


def test_a_spread_needs_no_order():
    spread = spread_of([3.0, 1.0, 2.0])
    assert spread is not None
    assert (spread.count, spread.mean_ms, spread.max_ms) == (3, 2.0, 3.0)
    assert spread.to_document()["p50"] == 2.0


def test_nothing_has_no_spread():
    assert spread_of([]) is None


def test_rates_count_records_and_decimal_megabytes():
    figures = throughput(2000, 2_000_000, 4.0)
    assert figures["records_per_second"] == pytest.approx(500.0)
    assert figures["megabytes_per_second"] == pytest.approx(0.5)


def test_a_steady_rate_does_not_drift():
    assert due_at(10.0, 500, 100.0) == pytest.approx(15.0)
