"""What a query's conditions on partition, offset and timestamp say about where its records are. Pure.

A reader needs no more than the ranges in which records can be that fulfil all conditions. Spark applies these again
to what is read, so a range may be too wide, never too narrow: a condition that is not understood says nothing.
Timestamps need not rise with offsets. So there is no last record before a time, but there is a first one from a time
on, which brokers find.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla_spark.datasource.offsets import Offsets, Partition

PARTITION, OFFSET, TIMESTAMP = "partition", "offset", "timestamp"
EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL = "=", "<", "<=", ">", ">="
OPERATORS = (EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL)
EXAMPLE = '[["offset", ">=", 100], ["timestamp", ">=", 1717200000000]]'


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition that every record fulfils.

    Attributes:
        column: partition, offset or timestamp.
        operator: one of `OPERATORS`.
        value: a number; of timestamps milliseconds.
    """

    column: str
    operator: str
    value: int


def parse_comparisons(text: str) -> tuple[Comparison, ...]:
    """Return the conditions that an option has as JSON.

    Raises:
        ValueError: the text is something else; the message says what is expected.
    """
    expected = f"expected JSON such as {EXAMPLE}, got {text!r}"
    try:
        document = json.loads(text)
    except ValueError:
        raise ValueError(expected) from None
    if not isinstance(document, list):
        raise ValueError(expected)
    found = []
    for each in document:
        match each:
            case [("partition" | "offset" | "timestamp") as column, str() as operator, int() as value] if (
                operator in OPERATORS and not isinstance(value, bool)
            ):
                found.append(Comparison(column, operator, value))
            case _:
                raise ValueError(expected)
    return tuple(found)


def as_text(comparisons: Iterable[Comparison]) -> str:
    """Return conditions as `parse_comparisons` reads them."""
    return json.dumps([[each.column, each.operator, each.value] for each in comparisons])


def first_time_ms(comparisons: Iterable[Comparison]) -> int | None:
    """Return the time before which no record can be that is wanted; None if there is none."""
    from_then_on = (EQUAL, GREATER, GREATER_OR_EQUAL)
    # A record of the same millisecond may be later: Spark's times are finer.
    times = [each.value for each in comparisons if each.column == TIMESTAMP and each.operator in from_then_on]
    return max(times, default=None)


def wanted_partitions(partitions: Iterable[Partition], comparisons: Iterable[Comparison]) -> frozenset[Partition]:
    """Return the partitions in which records can be that are wanted."""
    conditions = [each for each in comparisons if each.column == PARTITION]
    return frozenset(each for each in partitions if all(_holds(each[1], condition) for condition in conditions))


def narrowed(
    start: Offsets, end: Offsets, comparisons: Iterable[Comparison], first: Mapping[Partition, int]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Return where reading starts and ends that leaves out what no condition allows.

    Args:
        start: of each partition that is wanted.
        end: likewise.
        comparisons: all conditions.
        first: by partition, the first record from `first_time_ms` on.
    """
    lowest, highest = 0, 2**63 - 1
    for each in comparisons:
        if each.column == OFFSET:
            if each.operator in (EQUAL, GREATER, GREATER_OR_EQUAL):
                lowest = max(lowest, each.value + (each.operator == GREATER))
            if each.operator in (EQUAL, LESS, LESS_OR_EQUAL):
                highest = min(highest, each.value + (each.operator != LESS))
    starts = {each: max(offset, lowest, first.get(each, 0)) for each, offset in start.items()}
    ends = {each: max(min(end[each], highest), starts[each]) for each in starts if each in end}
    return starts, ends


def _holds(number: int, condition: Comparison) -> bool:
    match condition.operator:
        case "=":
            return number == condition.value
        case "<":
            return number < condition.value
        case "<=":
            return number <= condition.value
        case ">":
            return number > condition.value
        case _:
            return number >= condition.value
