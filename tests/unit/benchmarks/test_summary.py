"""The arithmetic of a report: percentiles, medians with their range, ratios between neighbours, tables."""

import pytest

from benchmarks.summary import Figure, figures, percentile, percentiles, ratios, short, table


def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed():
    values = [float(number) for number in range(1000, 0, -1)]
    assert percentile(values, 50) == 500
    assert percentile(values, 99) == 990
    assert percentile(values, 99.9) == 999
    assert percentile(values, 100) == 1000


def test_one_value_is_every_percentile():
    assert percentiles([7.0], "ack_{}_ms") == {"ack_p50_ms": 7, "ack_p99_ms": 7, "ack_p99.9_ms": 7, "ack_max_ms": 7}


def test_no_values_have_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_figure_is_the_median_and_the_range_of_all_repetitions():
    found = figures([{"cpu": 3.0, "only_once": 1.0}, {"cpu": 1.0}, {"cpu": 2.0}])
    assert found == {"cpu": Figure(median=2, low=1, high=3)}


def test_ratios_compare_repetitions_that_ran_next_to_each_other():
    mine = [{"cpu": 2.0}, {"cpu": 20.0}]
    floor = [{"cpu": 1.0}, {"cpu": 10.0}]
    assert ratios(mine, floor) == {"cpu": Figure(2, 2, 2)}


def test_a_figure_that_is_zero_or_missing_on_the_floor_has_no_ratio():
    assert ratios([{"user": 1.0, "etcd": 1.0}], [{"user": 0.0}]) == {}


def test_ratios_without_a_floor_are_none():
    assert ratios([{"cpu": 1.0}], []) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.5, "1.50"), (42, "42.0"), (999.4, "999"), (1234567.8, "1,234,568")],
)
def test_numbers_have_three_significant_digits(value, text):
    assert short(value) == text


def test_a_figure_without_spread_shows_no_range():
    assert str(Figure(2, 2, 2)) == "2.00"
    assert str(Figure(2, 1, 3)) == "2.00 (1.00–3.00)"


def test_a_table_aligns_names_left_and_figures_right():
    assert table(["", "floor"], [["cpu", "1.00"], ["mb_per_s", "12,345"]]).splitlines() == [
        "           floor",
        "--------  ------",
        "cpu         1.00",
        "mb_per_s  12,345",
    ]
