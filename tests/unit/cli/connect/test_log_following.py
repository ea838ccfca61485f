"""Which log lines are new."""

import pytest

from ottla.connect.log_following import new_lines


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ([], [], []),
        ([], ["a"], ["a"]),
        (["a", "b"], ["a", "b"], []),
        (["a", "b"], ["a", "b", "c"], ["c"]),
        (["a", "b", "c"], ["b", "c", "d"], ["d"]),
        (["a", "b", "c"], ["x", "y", "z"], ["x", "y", "z"]),
        (["a", "b", "c"], ["c", "d", "e"], ["d", "e"]),
        (["a"] * 5, ["a"] * 5, []),
        (["a"] * 5, ["a", "a", "a", "a", "b"], ["b"]),
        (["a", "b"], [], []),
        (["a", "b"], ["b"], []),
    ],
)
def test_new_lines_are_those_behind_what_was_seen(before, now, new):
    assert new_lines(before, now) == new
