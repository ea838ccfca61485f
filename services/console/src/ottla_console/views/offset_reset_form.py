"""What a form to reset a group's offsets says, and the plan that was shown, as it comes back to be carried out. Pure.

That plan is carried out, none made anew: what would be planned now, such as the ends of logs, may differ from what
somebody has looked at and agreed to. It is refused if it no longer fits the group or its partitions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.views.topic_form import BadField
from ottla_operations.groups.inspection import Partition
from ottla_operations.groups.offset_reset import PartitionOffsets, PlannedOffset, Reset, Target
from ottla_operations.groups.partition_selection import BadSelection, parse_selection
from ottla_operations.records.start_offset import parse_time_ms

TARGETS: Final[Mapping[str, str]] = {
    "earliest": "the first record there is",
    "latest": "behind the last record",
    "offset": "an offset",
    "time": "a time (UTC without a zone)",
}
OFFSET_MAX: Final = 2**63 - 1
PLANNED_MAX: Final = 5_000
"""Partitions in one plan, and so in one line of the audit log."""


@dataclass(frozen=True, slots=True)
class WantedReset:
    """Where a group is to go on, and in which partitions; in all that it has an offset of where none are named."""

    reset: Reset
    chosen: Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class ShownOffset:
    """A line of the plan that was shown: the offset before, None where there was none, and the new one."""

    place: Partition
    committed: int | None
    new: int


def wanted_reset(fields: Mapping[str, str]) -> WantedReset:
    """Return what a form asks for.

    Raises:
        BadField: a field cannot be used; the message says what to write.
    """
    try:
        chosen = parse_selection(fields.get("topic", "").split())
    except BadSelection as error:
        raise BadField(f"Topics: {error}") from None
    return WantedReset(_reset(fields.get("to", ""), fields.get("at", "").strip()), chosen)


def _reset(target: str, at: str) -> Reset:
    match target:
        case "earliest":
            return Reset(Target.EARLIEST)
        case "latest":
            return Reset(Target.LATEST)
        case "offset":
            if not (at.isascii() and at.isdecimal() and len(at) < 20 and int(at) <= OFFSET_MAX):
                raise BadField("Offset or time: an offset is a number from 0")
            return Reset(Target.OFFSET, int(at))
        case "time":
            time_ms = parse_time_ms(at)
            if time_ms is None or time_ms < 0:
                raise BadField("Offset or time: a time is written as 2013-07-01T00:00 or 2013-07-01T00:00Z")
            return Reset(Target.TIME_MS, time_ms)
    raise BadField(f"Go on at: choose one of {', '.join(TARGETS)}")


def plan_text(planned: Sequence[PlannedOffset]) -> str:
    """Return a plan as a field of a form has it."""
    return json.dumps(
        [[each.before.topic, each.before.partition, each.before.committed, each.new] for each in planned],
        separators=(",", ":"),
    )


def shown_plan(text: str) -> list[ShownOffset]:
    """Return the plan that was shown.

    Raises:
        BadField: it is none.
    """
    try:
        lines = json.loads(text)
    except (ValueError, RecursionError):
        lines = None
    if not isinstance(lines, list) or not 0 < len(lines) <= PLANNED_MAX:
        raise BadField(f"the plan cannot be read, or has not between 1 and {PLANNED_MAX:,} partitions: make it again")
    shown = [_shown(line) for line in lines]
    if len({each.place for each in shown}) < len(shown):
        raise BadField("the plan names a partition twice: make it again")
    return shown


def _shown(line: object) -> ShownOffset:
    match line:
        case [str(topic), int(partition), int() | None as committed, int(new)] if (
            topic and 0 <= partition < 2**31 and 0 <= new <= OFFSET_MAX
        ):
            return ShownOffset((topic, partition), committed, new)
    raise BadField("the plan has a line that cannot be read: make it again")


def selection_of(shown: Sequence[ShownOffset]) -> dict[str, frozenset[int]]:
    """Return the partitions of a plan, by topic."""
    chosen: dict[str, frozenset[int]] = {}
    for each in shown:
        topic, number = each.place
        chosen[topic] = chosen.get(topic, frozenset()) | {number}
    return chosen


def outdated(shown: Sequence[ShownOffset], now: Sequence[PartitionOffsets]) -> str | None:
    """Return why a plan must not be carried out any more, or None.

    Args:
        shown: the plan.
        now: what its partitions, all of them, are like at this moment.
    """
    known = {(each.topic, each.partition): each for each in now}
    for each in shown:
        partition = known[each.place]
        name = f"{each.place[0]} partition {each.place[1]}"
        if partition.committed != each.committed:
            return f"the group has another offset in {name} than the plan was made from"
        if not partition.first <= each.new <= partition.end:
            return f"{name} does not hold offset {each.new} any more"
    return None
