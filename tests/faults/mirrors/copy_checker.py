"""Whether copies hold what the source acknowledged, in its order, and whether maps of offsets are exact. Pure.

What the source has ever had is put together from what producers were told, what a reader saw, and what is there in
the end, as compaction and retention take some of it away. Each record at the target must be the next one of the
source, and each run of a map must lead from a record to the same record.

Two things are excused where the source's log has gaps, and counted: records that the source has deleted, or replaced
by later ones of their keys, before they were copied; and records that stand twice in two sessions, because a worker
that was about to be replaced has still written when the next one looked.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla_mirror.offsets.offset_map import OffsetMap
from tests.faults.checker import FinalContents, Writer
from tests.faults.history import UNKNOWN_OFFSET, Content, ProducerHistory, ReaderHistory
from tests.faults.topics import Keeps

UNKNOWN_CHECKSUM = -1
PROBLEMS_MAX = 5
"""Of one partition and kind; the others are mostly consequences."""

Log = Mapping[int, Content]
"""Records by offset."""


def source_logs(
    produced: ProducerHistory, readers: Iterable[ReaderHistory], final: FinalContents
) -> dict[tuple[str, int], dict[int, Content]]:
    """Everything that partitions are known to have had; a checksum is unknown where only a producer tells of it."""
    logs: dict[tuple[str, int], dict[int, Content]] = {place: {} for place in final}
    for stream, places in produced.acknowledged.items():
        for number, place in places.items():
            if place.offset != UNKNOWN_OFFSET:
                log = logs.setdefault((place.topic, place.partition), {})
                log[place.offset] = Content(stream.key, number, UNKNOWN_CHECKSUM)
    for reader in readers:
        for partition, runs in reader.runs.items():
            logs.setdefault(partition, {}).update(record for run in runs for record in run)
    for partition, records in final.items():
        logs.setdefault(partition, {}).update(records)
    return {partition: dict(sorted(log.items())) for partition, log in logs.items()}


def same(one: Content, other: Content) -> bool:
    """Whether two records are one, as far as is known."""
    if (one.key, one.number) != (other.key, other.number):
        return False
    return UNKNOWN_CHECKSUM in (one.checksum, other.checksum) or one.checksum == other.checksum


class CopiedRecord(NamedTuple):
    """A record at the target."""

    offset: int
    content: Content
    session: Writer | None


@dataclass(slots=True)
class Copy:
    """One partition on both sides.

    Attributes:
        name: for messages.
        keeps: what its topic keeps.
        source: all records that the source is known to have had.
        left: the offsets of those that it has in the end.
        source_start: the source's first offset in the end.
        source_end: the source's end.
        target: the target's records in order, without those that others have written there.
        target_start: the target's first offset in the end.
        map: the workers' map of offsets.
    """

    name: str
    keeps: Keeps
    source: Log
    left: Collection[int]
    source_start: int
    source_end: int
    target: Sequence[CopiedRecord]
    target_start: int
    map: OffsetMap


@dataclass(slots=True)
class Verdict:
    """What came of a comparison.

    Attributes:
        problems: what is wrong.
        counts: what was compared, and what was excused.
    """

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge(copy: Copy) -> Verdict:
    """Compares a copy with its source, and its map with both."""
    verdict = Verdict()
    places = _compare_order(copy, verdict)
    verdict.problems += _first(_map_problems(copy, places, verdict.counts))
    if copy.keeps is Keeps.LAST_VALUES:
        verdict.problems += _first(_last_value_problems(copy))
    return verdict


def _compare_order(copy: Copy, verdict: Verdict) -> dict[int, list[int]]:
    """Goes through the target's records; returns at which target offsets each of the source's stands."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for offset, content in copy.source.items():
        offsets.setdefault((content.key, content.number), []).append(offset)
    places: dict[int, list[int]] = {}
    sessions: dict[int, Writer | None] = {}
    problems: list[str] = []
    reached = -1
    for record in copy.target:
        of_source = offsets.get((record.content.key, record.content.number), [])
        following = bisect_right(of_source, reached)
        if following < len(of_source):
            offset = of_source[following]
            if not same(copy.source[offset], record.content):
                problems.append(f"{copy.name}@{record.offset} is not what the source has at {offset}")
            places[offset], sessions[offset] = [record.offset], record.session
            reached = offset
        elif not of_source:
            problems.append(f"{copy.name}@{record.offset} is {_text(record.content)}, which the source never had")
        elif _is_excused_copy(copy, record, sessions.get(of_source[-1])):
            verdict.counts["copied twice"] += 1
            places[of_source[-1]].append(record.offset)
        else:
            at = [places.get(each, []) for each in of_source]
            problems.append(
                f"twice or out of order: {copy.name}@{record.offset} is {_text(record.content)} of the source's "
                f"{of_source}, which is at {at}; the one before was the source's {reached}"
            )
    problems += _missing_records(copy, places, verdict.counts)
    verdict.counts["copied"] += len(places)
    verdict.problems += _first(problems)
    return places


def _missing_records(copy: Copy, places: Collection[int], counts: Counter[str]) -> Iterator[str]:
    """Records that the target does not have, and should."""
    is_gone = _excuse_for_missing(copy)
    was_copied = _known_to_map(copy.map)
    left = frozenset(copy.left)
    for offset in sorted(copy.source.keys() - places):
        record = f"{_text(copy.source[offset])} of the source's offset {offset}"
        if not is_gone(offset):
            yield f"lost: {copy.name} has not {record}"
        elif was_copied(offset):
            counts["copied, and deleted at the target"] += 1
        elif offset in left:
            yield f"lost: {copy.name} never had {record}, which is still there"
        else:
            counts["deleted before they were copied"] += 1


def _known_to_map(offsets: OffsetMap) -> Callable[[int], bool]:
    """Says whether a map has a record, or does not know whether it was copied."""
    spans = [(run.source, run.source_end) for run in offsets.runs()]
    spans += [(hole.source_start, hole.source_end) for hole in offsets.holes()]
    spans.sort()
    starts = [start for start, _ in spans]

    def is_known(offset: int) -> bool:
        index = bisect_right(starts, offset) - 1
        return offset < offsets.source_start or (index >= 0 and offset < spans[index][1])

    return is_known


def _is_excused_copy(copy: Copy, record: CopiedRecord, first: Writer | None) -> bool:
    """Whether a record may stand twice: behind gaps of the source, when another session has begun."""
    return copy.keeps is not Keeps.EVERYTHING and first is not None and record.session != first


def _excuse_for_missing(copy: Copy) -> Callable[[int], bool]:
    """Says of a record that is not at the target whether that is right."""
    last_of_key = {content.key: offset for offset, content in copy.source.items()}

    def is_gone(offset: int) -> bool:
        if copy.keeps is Keeps.LAST_VALUES:
            return last_of_key[copy.source[offset].key] > offset
        if copy.keeps is Keeps.NEWEST:
            translated = copy.map.translate(offset)
            return offset < copy.source_start or translated.target_offset < copy.target_start
        return False

    return is_gone


def _map_problems(copy: Copy, places: Mapping[int, Sequence[int]], counts: Counter[str]) -> Iterator[str]:
    """Offsets that the map translates to another record, and such as it does not know."""
    if copy.map.source_end < copy.source_end:
        yield f"{copy.name}: the map ends at {copy.map.source_end}, the source at {copy.source_end}"
    holes = copy.map.holes()
    if holes and copy.keeps is Keeps.EVERYTHING:
        yield f"{copy.name}: the map has holes: {holes}"
    counts["holes of maps"] += len(holes)
    ordered, left = sorted(places), frozenset(copy.left)
    for offset in copy.source:
        if offset < copy.map.source_start or any(each.source_start <= offset < each.source_end for each in holes):
            counts["offsets that no map tells"] += 1
            continue
        index = bisect_left(ordered, offset)
        if index == len(ordered):
            continue  # nothing behind it was copied, so there is nothing that it leads to
        told = copy.map.translate(offset).target_offset
        wanted = places[ordered[index]]
        is_kept = ordered[index] == offset or copy.keeps is Keeps.EVERYTHING
        if copy.keeps is Keeps.LAST_VALUES and offset not in left:
            # The source has compacted it away, maybe before a worker paired both sides: nobody is owed it any more.
            # What a group must get is the next record that the source still has.
            owed = next((each for each in ordered[index:] if each in left), None)
            if owed is None:
                continue
            wanted, is_kept = places[owed], False
        # What the target has compacted or deleted since is passed over by readers: it may lead to what lies before.
        if told not in wanted and (is_kept or told > min(wanted)):
            yield f"{copy.name}: offset {offset} is translated to {told}; its record is at {wanted}"
        counts["offsets translated"] += 1
    if copy.keeps is Keeps.EVERYTHING and copy.target:
        end, told = copy.target[-1].offset + 1, copy.map.translate(copy.source_end).target_offset
        if told != end:
            yield f"{copy.name}: the source's end {copy.source_end} is translated to {told}; the copy ends at {end}"


def _last_value_problems(copy: Copy) -> Iterator[str]:
    last = {content.key: content for content in copy.source.values()}
    found = {record.content.key: record.content for record in copy.target}
    for key, content in sorted(last.items()):
        if key not in found or not same(content, found[key]):
            there = _text(found[key]) if key in found else "nothing"
            yield f"lost: the last value of {key} is number {content.number}; {copy.name} has {there}"


def _first(problems: Iterable[str]) -> list[str]:
    found = list(problems)
    more = [f"and {len(found) - PROBLEMS_MAX} more of these"] if len(found) > PROBLEMS_MAX else []
    return [*found[:PROBLEMS_MAX], *more]


def _text(content: Content) -> str:
    return f"{content.key} number {content.number}"
