"""Lag over time: points in bounded number, charts of them."""

from ottla_console.views.lag_history import GROUPS_MAX, POINTS_MAX, SPAN_S, LagHistories


def test_a_chart_is_there_from_the_second_point_on() -> None:
    histories = LagHistories()
    histories.note("g", 100.0, 7, None)
    histories.note("g", 100.5, 900, None)  # too soon
    assert histories.charts("g") == histories.charts("unknown") == []
    histories.note("g", 105.0, 1200, 2.5)
    (records,) = histories.charts("g")
    assert (records.newest, records.highest, records.spans_s) == ("1,200", "1,200", 5)
    histories.note("g", 110.0, 3, 1.0)
    records, seconds = histories.charts("g")
    assert (records.newest, records.highest) == ("3", "1,200")
    assert (seconds.title, seconds.newest, seconds.highest, seconds.spans_s) == (
        "Lag in seconds",
        "1.0 s",
        "2.5 s",
        5,
    )


def test_a_lag_that_is_not_known_is_no_point() -> None:
    histories = LagHistories()
    for at_s in (1.0, 5.0, 9.0):
        histories.note("g", at_s, None, 1.0)
    assert histories.charts("g") == []


def test_points_and_groups_are_bounded() -> None:
    histories = LagHistories()
    for number in range(2 * POINTS_MAX):
        histories.note("g", 2.0 * number, number, None)
    (chart,) = histories.charts("g")
    assert chart.spans_s == 2 * (POINTS_MAX - 1) <= SPAN_S
    histories.note("g", 10_000.0, 1, None)  # all others are too old
    assert histories.charts("g") == []
    histories.note("g", 10_005.0, 1, None)
    for number in range(GROUPS_MAX - 1):
        histories.note(f"other-{number}", 1.0, 1, None)
    assert histories.charts("g")
    histories.note("one more", 1.0, 1, None)
    assert histories.charts("other-0") == []
    assert histories.charts("g") == []
