"""When the groups of a cluster are asked again for the consumers of a topic."""

import pytest

from ottla_console.clusters.consumer_surveys import AGE_MAX_S, pause_s


@pytest.mark.parametrize(
    ("took_s", "is_whole", "expected_s"),
    [(0.1, True, AGE_MAX_S), (0.1, False, AGE_MAX_S), (5.0, True, 15.0), (5.0, False, 5.0)],
)
def test_a_look_that_did_not_come_to_all_groups_goes_on_sooner(
    took_s: float, is_whole: bool, expected_s: float
) -> None:
    assert pause_s(took_s, is_whole=is_whole) == expected_s
