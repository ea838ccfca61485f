"""A pause is the longest time in which nothing happened, the ends of the span included."""

import pytest

from benchmarks.steady_clients import longest_pause_s


@pytest.mark.parametrize(
    ("moments", "pause_s"),
    [
        ([], 10),
        ([1, 2, 3, 8, 9], 5),
        ([9.5], 9.5),
        ([0.5], 9.5),
        ([-3, 5, 20], 5),
        ([8, 1, 4], 4),
    ],
)
def test_the_longest_pause_is_found(moments: list[float], pause_s: float):
    assert longest_pause_s(moments, 0, 10) == pause_s
