"""The form to reset a group's offsets, and the plan that comes back with it."""

import pytest

from ottla_console.views.offset_reset_form import (
    PLANNED_MAX,
    ShownOffset,
    outdated,
    plan_text,
    selection_of,
    shown_plan,
    wanted_reset,
)
from ottla_console.views.topic_form import BadField
from ottla_operations.groups.offset_reset import PartitionOffsets, Reset, Target, plan_reset


@pytest.mark.parametrize(
    ("to", "at", "expected"),
    [
        ("earliest", "", Reset(Target.EARLIEST)),
        ("latest", "ignored", Reset(Target.LATEST)),
        ("offset", " 17 ", Reset(Target.OFFSET, 17)),
        ("time", "1970-01-01T00:01", Reset(Target.TIME_MS, 60_000)),
    ],
)
def test_a_form_says_where_to_go_on(to: str, at: str, expected: Reset) -> None:
    assert wanted_reset({"to": to, "at": at}).reset == expected


def test_topics_are_named_with_or_without_partitions() -> None:
    chosen = wanted_reset({"to": "latest", "topic": "flights:0,2  prices"}).chosen
    assert chosen == {"flights": frozenset({0, 2}), "prices": frozenset()}


@pytest.mark.parametrize(
    ("to", "at", "topic", "told"),
    [
        ("", "", "", "Go on at"),
        ("offset", "", "", "Offset"),
        ("offset", "-1", "", "Offset"),
        ("offset", "²", "", "Offset"),
        ("offset", str(2**63), "", "Offset"),
        ("time", "yesterday", "", "time"),
        ("time", "1960-01-01T00:00", "", "time"),
        ("latest", "", "flights:x", "Topics"),
    ],
)
def test_a_form_that_cannot_be_used_names_the_field(to: str, at: str, topic: str, told: str) -> None:
    with pytest.raises(BadField, match=told):
        wanted_reset({"to": to, "at": at, "topic": topic})


def partition(number: int, committed: int | None, first: int = 0, end: int = 10) -> PartitionOffsets:
    return PartitionOffsets(topic="t", partition=number, committed=committed, first=first, end=end)


def test_a_plan_comes_back_as_it_was_shown() -> None:
    shown = shown_plan(plan_text(plan_reset(Reset(Target.OFFSET, 4), [partition(0, 7), partition(1, None, end=3)])))
    assert shown == [ShownOffset(("t", 0), 7, 4), ShownOffset(("t", 1), None, 3)]
    assert selection_of(shown) == {"t": frozenset({0, 1})}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", "[1]", '[["t",0,1]]', '[["t",-1,1,1]]', '[["t",0,1,-1]]', '[["t",0,"1",1]]',
        '[["",0,1,1]]', '[["t",0,1,1],["t",0,1,2]]', f"[{'1,' * PLANNED_MAX}1]", "[" * 100_000,
    ],
)  # fmt: skip
def test_a_plan_that_was_never_shown_is_refused(text: str) -> None:
    with pytest.raises(BadField, match="make it again"):
        shown_plan(text)


def test_a_plan_is_outdated_once_the_group_or_the_log_has_moved() -> None:
    shown = [ShownOffset(("t", 0), 7, 4)]
    assert outdated(shown, [partition(0, 7)]) is None
    assert outdated(shown, [partition(0, 7, first=4, end=4)]) is None
    assert "another offset" in (outdated(shown, [partition(0, 8)]) or "")
    assert "another offset" in (outdated(shown, [partition(0, None)]) or "")
    assert "does not hold offset 4" in (outdated(shown, [partition(0, 7, first=5)]) or "")
    assert "does not hold offset 4" in (outdated(shown, [partition(0, 7, end=3)]) or "")
