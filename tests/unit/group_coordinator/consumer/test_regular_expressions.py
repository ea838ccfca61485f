"""Subscriptions by regular expression: RE2's syntax, whole names, bounds."""

import pytest

from ottla_group_coordinator.consumer.regular_expressions import compiled, matching
from ottla_group_coordinator.errors import InvalidRegularExpression

NAMES = ("flights", "flights-eu", "Flights", "trains")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("flights", {"flights"}),
        ("flight", set()),
        ("flights.*", {"flights", "flights-eu"}),
        ("^flights$", {"flights"}),
        ("(?i)FLIGHTS", {"flights", "Flights"}),
        ("flights|trains", {"flights", "trains"}),
        (r"\p{Lu}.*", {"Flights"}),
        (".*", set(NAMES)),
        ("", set()),
    ],
)
def test_an_expression_has_to_match_the_whole_name(pattern: str, found: set[str]) -> None:
    assert matching(pattern, NAMES) == found


@pytest.mark.parametrize("pattern", ["(", "[a", "a**", "(?=a)", r"(a)\1", "((a{1000}){1000})", "\ud800"])
def test_what_re2_cannot_compile_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression) as raised:
        compiled(pattern)
    assert "is not valid" in raised.value.message


def test_an_expression_that_would_backtrack_for_ever_is_matched_at_once() -> None:
    assert matching("(a+)+b", ["a" * 249]) == frozenset()
