"""How far groups are behind, in records and in time, by what ends of partitions were seen when."""

import pytest

from ottla_group_coordinator.lag.end_history import POINTS_MAX, EndHistory
from ottla_group_coordinator.lag.group_lags import Committed, GroupLag, LagTotals


def history(*points: tuple[int, float]) -> EndHistory:
    """The history of these ends and times."""
    noted = EndHistory()
    for end, at_s in points:
        noted.note(end, at_s)
    return noted


@pytest.mark.parametrize(
    ("offset", "records", "seconds"),
    [
        (30, 0, 0.0),
        (31, 0, 0.0),
        (29, 1, 10.0),
        (20, 10, 10.0),
        (19, 11, 20.0),
        (10, 20, 20.0),
        (9, 21, 30.0),
        (0, 30, 30.0),
    ],
)
def test_an_offset_is_behind_since_the_first_end_beyond_it(offset: int, records: int, seconds: float) -> None:
    noted = history((10, 0.0), (20, 10.0), (30, 20.0))
    assert (noted.records_behind(offset), noted.seconds_behind(offset, 30.0)) == (records, seconds)


def test_an_end_that_stays_says_nothing_new() -> None:
    noted = history((10, 0.0), (10, 50.0), (20, 60.0), (20, 70.0))
    assert noted.seconds_behind(10, 100.0) == 40.0


def test_an_end_that_has_gone_back_begins_another_history() -> None:
    noted = history((10, 0.0), (20, 10.0), (5, 20.0))
    assert (noted.records_behind(0), noted.seconds_behind(0, 25.0)) == (5, 5.0)


def test_without_an_end_nothing_is_known() -> None:
    noted = EndHistory()
    assert (noted.is_known, noted.records_behind(0), noted.seconds_behind(0, 1.0)) == (False, 0, 0.0)


def test_points_are_bounded_and_times_stay_about_right() -> None:
    noted = EndHistory()
    for number in range(10_000):
        noted.note(number + 1, float(number))
        assert len(noted._ends) == len(noted._times_s) <= POINTS_MAX
    now_s = 10_000.0
    assert noted.seconds_behind(9_999, now_s) == 1.0
    assert noted.seconds_behind(0, now_s) == now_s
    for offset in (10, 1_000, 9_000, 9_900):
        assert noted.seconds_behind(offset, now_s) <= now_s - offset, "never more than it is"


def test_a_group_is_behind_in_records_of_all_partitions_and_in_time_of_the_worst() -> None:
    totals = LagTotals()
    totals.add(Committed("readers", "flights", 0, 5), history((5, 0.0), (10, 10.0)), 100.0)
    totals.add(Committed("readers", "flights", 1, 1), history((4, 40.0)), 100.0)
    totals.add(Committed("others", "flights", 0, 10), history((10, 0.0)), 100.0)
    totals.add(Committed("others", "planes", 0, 0), history((100, 99.0)), 100.0)
    assert totals.greatest_first() == [
        (("others", "planes"), GroupLag(100, 1.0)),
        (("readers", "flights"), GroupLag(8, 90.0)),
        (("others", "flights"), GroupLag(0, 0.0)),
    ]
