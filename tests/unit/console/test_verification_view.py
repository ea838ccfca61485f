"""What is asked to be compared, and what was found, in bounded length."""

import re

import pytest

from ottla_console.views.verification_view import (
    TOPICS_MAX,
    UNEQUAL_SHOWN_MAX,
    found_of,
    wanted_of,
)
from ottla_operations.mirror.differences import Difference, Kind, PartitionOutcome, State


def test_topics_are_names_and_not_patterns() -> None:
    wanted = wanted_of({"source": "west", "topics": " a.b, c  a.b", "alias": " w ", "linked": "yes"}, ["west"])
    assert (wanted.topics, wanted.alias, wanted.is_linked) == (("a.b", "c"), "w", True)
    assert re.fullmatch(wanted.patterns[0], "a.b")
    assert not re.fullmatch(wanted.patterns[0], "aXb")
    everything = wanted_of({"source": "west"}, ["west"])
    assert (everything.topics, everything.patterns, everything.is_linked) == ((), [], False)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"source": "elsewhere:9092"},
        {"source": "west", "topics": "(a+)+$"},
        {"source": "west", "alias": "<b>"},
        {"source": "west", "topics": "x" * 250},
        {"source": "west", "topics": " ".join(f"t{number}" for number in range(TOPICS_MAX + 1))},
    ],
)
def test_what_cannot_be_compared_is_refused(form: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"choose the source|is no name|name at most"):
        wanted_of(form, ["west"])


def outcome(partition: int, **found: object) -> PartitionOutcome:
    return PartitionOutcome(topic="t", target_topic="w.t", partition=partition, records=2, **found)  # type: ignore[arg-type]


def test_what_was_found_is_told_by_state_with_the_first_difference() -> None:
    difference = Difference(kind=Kind.VALUE, source_offset=7, target_offset=8, detail="x" * 5000)
    found = found_of(
        [
            outcome(0),
            outcome(1, difference=difference),
            outcome(2, behind_records=5, source_end=9),
            outcome(3, problem="no"),
        ]
    )
    assert found.counts == {State.EQUAL: 1, State.DIFFERENT: 1, State.BEHIND: 1, State.UNREADABLE: 1}
    assert (found.records, found.is_equal) == (8, False)
    different, behind, unreadable = found.unequal
    assert different.words == "source offset 7, target offset 8, other value"  # and nothing of the values
    assert behind.words == "5 offsets before 9 are not copied yet"
    assert unreadable.words == "cannot be compared: no"
    assert found_of([outcome(0)]).is_equal


def test_very_many_differences_are_counted() -> None:
    found = found_of([outcome(number, problem="no") for number in range(UNEQUAL_SHOWN_MAX + 3)])
    assert (len(found.unequal), found.unequal_more) == (UNEQUAL_SHOWN_MAX, 3)


def test_details_without_anything_of_records_are_told() -> None:
    (row,) = found_of([outcome(0, difference=Difference(kind=Kind.TOPIC, detail="w.t at the target"))]).unequal
    assert row.words == "no such topic: w.t at the target"
