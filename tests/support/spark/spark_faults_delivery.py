"""What must hold of a table and a topic that a job on Spark makes of an input topic, whatever has failed.

Each input record has a key and a number, which counts up from 0 for each key. The table has every input record
exactly once. The topic has every one at least once; once repeats are left out, each key's records are in order; and a
repeat never skips: what follows is at most the next record that was not there yet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

SHOWN_MAX = 3


class Place(NamedTuple):
    """Where a record stands in its topic."""

    partition: int
    offset: int


class Row(NamedTuple):
    """What is in an input record and has to arrive."""

    key: str
    number: int
    payload: str


class Arrived(NamedTuple):
    """A record of the output topic, or a row of the table.

    Attributes:
        place: of the input record that it was made of.
        row: what is in it.
    """

    place: Place
    row: Row


def input_problems(acknowledged: Mapping[Place, Row], topic: Mapping[Place, Row]) -> Iterator[str]:
    """What is wrong with the input itself: the rest says nothing if that has lost or mixed up records."""
    lost = [place for place, row in acknowledged.items() if topic.get(place) != row]
    if lost:
        yield f"input: {len(lost)} acknowledged records are not where they were, such as {lost[:SHOWN_MAX]}"
    for key, numbers in _numbers_by_key(topic).items():
        if numbers != sorted(set(numbers)):
            yield f"input: {key} is out of order or has a number twice"


def table_problems(rows: Iterable[Arrived], topic: Mapping[Place, Row]) -> Iterator[str]:
    """What keeps the table from having every input record exactly once."""
    counts: Counter[Place] = Counter()
    changed, foreign = [], []
    for place, row in rows:
        counts[place] += 1
        if place not in topic:
            foreign.append(place)
        elif topic[place] != row:
            changed.append(place)
    yield from _named("table", "are missing", [place for place in topic if place not in counts])
    yield from _named("table", "are there more than once", [place for place, count in counts.items() if count > 1])
    yield from _named("table", "are not in the input", foreign)
    yield from _named("table", "differ from the input", changed)


def once_problems(partitions: Mapping[int, Sequence[Arrived]]) -> Iterator[str]:
    """What is more than once in a topic that is written exactly once."""
    counts = Counter(each.place for records in partitions.values() for each in records)
    yield from _named("once", "are there more than once", [place for place, count in counts.items() if count > 1])


def copy_problems(
    partitions: Mapping[int, Sequence[Arrived]], topic: Mapping[Place, Row], where: str = "copy"
) -> Iterator[str]:
    """What keeps the output topic from having every input record at least once, and in order for each key.

    Args:
        partitions: the output topic's records, each partition's in the order of their offsets.
        topic: the input.
        where: the output's name.
    """
    arrived = [each for records in partitions.values() for each in records]
    there = {place for place, _ in arrived}
    yield from _named(where, "are missing", [place for place in topic if place not in there])
    yield from _named(where, "are not in the input", [place for place in there if place not in topic])
    yield from _named(
        where, "differ from the input", [place for place, row in arrived if topic.get(place, row) != row]
    )
    homes: dict[str, set[int]] = {}
    for partition, records in partitions.items():
        for _, row in records:
            homes.setdefault(row.key, set()).add(partition)
    for key, found in sorted(homes.items()):
        if len(found) > 1:
            yield f"{where}: {key} is in partitions {sorted(found)}, so that its records have no order"
    expected = _numbers_by_key(topic)
    for partition, records in sorted(partitions.items()):
        yield from _order_problems(where, partition, records, expected)


def _order_problems(
    where: str, partition: int, records: Sequence[Arrived], expected: Mapping[str, Sequence[int]]
) -> Iterator[str]:
    """For each key of a partition: the first record that came before one that precedes it in the input."""
    ranks = {key: {number: rank for rank, number in enumerate(numbers)} for key, numbers in expected.items()}
    next_rank: Counter[str] = Counter()
    disordered: set[str] = set()
    for _, row in records:
        rank = ranks.get(row.key, {}).get(row.number)
        if rank is None or row.key in disordered:
            continue
        if rank > next_rank[row.key]:
            disordered.add(row.key)
            awaited = expected[row.key][next_rank[row.key]]
            yield f"{where}: in partition {partition}, {row.key} has {row.number} before {awaited}"
        next_rank[row.key] = max(next_rank[row.key], rank + 1)


def repeat_count(partitions: Mapping[int, Sequence[Arrived]]) -> int:
    """How many records of the output topic were there before."""
    arrived = [each.place for records in partitions.values() for each in records]
    return len(arrived) - len(set(arrived))


def _numbers_by_key(topic: Mapping[Place, Row]) -> dict[str, list[int]]:
    """Each key's numbers, in the order of the input."""
    numbers: dict[str, list[int]] = {}
    for _, row in sorted(topic.items()):
        numbers.setdefault(row.key, []).append(row.number)
    return numbers


def _named(where: str, what: str, places: Sequence[Place]) -> Iterator[str]:
    if places:
        first = [f"{partition}@{offset}" for partition, offset in sorted(places)[:SHOWN_MAX]]
        yield f"{where}: {len(places)} records {what}, such as {', '.join(first)}"
