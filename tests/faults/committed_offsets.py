"""Whether what groups were told about their committed offsets fits one order of commits, the one in the log. Pure.

A committed offset may well go back while links fail: a commit that a client has given up and sent again on another
connection is delivered late, after newer ones, and is carried out then, in Kafka too. What must not happen is that a
granted commit is nowhere in the log, or that an answer shows an older state than one that was told before it was
asked for. So every event (a granted commit, an answer about an offset) must have a place in the log with its offset,
and events that did not overlap in time must have places in the order of time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

NOTHING_COMMITTED = -1


class CommitPlace(NamedTuple):
    """A partition of the topic that a group reads."""

    group: str
    partition: int


class CommitEvent(NamedTuple):
    """A granted commit, or an answer that tells a committed offset.

    Attributes:
        asked_s: before it was asked for.
        ended_s: after it was answered.
        what: for messages.
    """

    place: CommitPlace
    offset: int
    asked_s: float
    ended_s: float
    what: str


def offset_problems(events: Iterable[CommitEvent], log: Mapping[CommitPlace, Sequence[int]]) -> list[str]:
    """Events that have no place in the log.

    Args:
        events: of all groups and partitions, in any order.
        log: all offsets that were ever committed, in the order of the log.
    """
    by_place: defaultdict[CommitPlace, list[CommitEvent]] = defaultdict(list)
    for event in events:
        by_place[event.place].append(event)
    return [
        problem
        for place, of_place in sorted(by_place.items())
        for problem in _misplaced(place, of_place, [NOTHING_COMMITTED, *log.get(place, ())])
    ]


def _misplaced(place: CommitPlace, events: list[CommitEvent], log: Sequence[int]) -> Iterator[str]:
    """Gives each event the first position that is possible, which leaves the others the most room."""
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for position, offset in enumerate(log):
        positions[offset].append(position)
    ended: list[tuple[float, int, CommitEvent]] = []
    earliest, latest_event = 0, None
    taken = 0
    for event in sorted(events, key=lambda each: each.asked_s):
        ended.sort(key=lambda each: each[0])
        while taken < len(ended) and ended[taken][0] < event.asked_s:
            if ended[taken][1] > earliest:
                _, earliest, latest_event = ended[taken]
            taken += 1
        possible = positions[event.offset]
        index = bisect_left(possible, earliest)
        if index < len(possible):
            ended.append((event.ended_s, possible[index], event))
            continue
        known = "is not in the log" if not possible else "is in the log, but before what was told earlier"
        earlier = "" if latest_event is None else f" ({latest_event.what} {latest_event.offset})"
        yield f"{place.group}, partition {place.partition}: {event.what} {event.offset}, which {known}{earlier}"
