"""Whether each stage of a chain has made exactly one record of each that its group has come past. Pure.

A stage reads one topic and writes another, and commits its group's offsets in the transactions of what it writes.
So what is there in the end tells all: offsets without their records (*skipped*), records without their offsets
(*ahead*), what was made twice, in another order, or of what was never committed.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.faults.history import Place
from tests.faults.transactions.transaction_history import Contents


class Stage(NamedTuple):
    """A stage: a group that reads a topic, and the topic that is made of it."""

    group: str
    source: str
    target: str


def chain_problems(
    stage: Stage, committed: Contents, offsets: Mapping[int, int], *, is_finished: bool = True
) -> Iterator[str]:
    """Everything that is wrong with a stage.

    Args:
        stage: which one.
        committed: what a reader of committed records gets in the end of both topics.
        offsets: the group's committed offset of each partition of the source.
        is_finished: whether the stage had the time to come to the end.
    """
    source = {place[1]: records for place, records in committed.items() if place[0] == stage.source}
    made: dict[Place, list[Place]] = {}
    for (topic, partition), records in sorted(committed.items()):
        if topic != stage.target:
            continue
        last: dict[int, Place] = {}
        for offset, record in records:
            place, origin = Place(topic, partition, offset), record.origin
            assert origin is not None
            made.setdefault(origin, []).append(place)
            before = last.get(origin.partition)
            if before is not None and origin < before:
                yield f"{stage.group} reordered: {place} was made of {origin}, what is before it of {before}"
            last[origin.partition] = max(origin, before) if before is not None else origin
    there = {Place(stage.source, index, offset) for index, records in source.items() for offset, _ in records}
    for origin, places in sorted(made.items()):
        if origin not in there:
            yield f"{stage.group} aborted read: {places[0]} was made of {origin}, where nothing committed stands"
        if len(places) > 1:
            yield f"{stage.group} twice: {' and '.join(map(str, places))} were made of {origin}"
        if origin.offset >= (offset := offsets.get(origin.partition, 0)):
            yield f"{stage.group} ahead: {places[0]} was made of {origin}, and the group is at {offset} only"
    for origin in sorted(there - made.keys()):
        if origin.offset < (offset := offsets.get(origin.partition, 0)):
            yield f"{stage.group} skipped: the group is at {offset}, and nothing was made of {origin}"
        elif is_finished:
            yield f"{stage.group} unseen: the group is at {offset}, and does not go on to {origin}"
