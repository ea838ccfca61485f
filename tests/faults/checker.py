"""Whether a cluster has kept its promises, judged by what its clients noted and what it holds after healing. Pure.

The final contents are every record that a reader gets from the beginning once all faults are over, partition by
partition in the order of offsets. They may hold records whose producer was never told that they are stored; but
faults end long before a producer's patience does, so there should be none.

The cluster promises that a producer's sequence numbers are stored once and in order, within a producer epoch
(`replicas.py` looks at that). librdkafka begins a new epoch by itself when a batch was refused while the next one was
on its way, for all its partitions, and sends again what may be stored already; no cluster can tell such a copy. So a
record that stands twice under two epochs of one producer is counted, and every other one is a problem.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from tests.faults.history import UNKNOWN_OFFSET, Content, KeyStream, Place, ProducerHistory, ReaderHistory
from tests.faults.topics import KEEPS, Keeps

FinalContents = Mapping[tuple[str, int], list[tuple[int, Content]]]
"""Offsets and contents by topic and partition."""


class Writer(NamedTuple):
    """Under which producer id and epoch a record was written."""

    producer_id: int
    producer_epoch: int


Writers = Mapping[Place, Writer]


def problems_of(
    produced: ProducerHistory, readers: Iterable[ReaderHistory], final: FinalContents, writers: Writers
) -> list[str]:
    """Everything that is wrong; an empty list is a kept promise.

    Args:
        produced: what producers noted.
        readers: what readers noted.
        final: what there is in the end.
        writers: who wrote each record of it.
    """
    problems = [f"producer: {problem}" for problem in produced.problems]
    problems += [f"failed: {count} records with {error}" for error, count in sorted(produced.failures.items())]
    problems += lost_records(produced, final)
    problems += lost_last_values(produced, final)
    problems += disordered_or_doubled_records(produced, final, writers)
    problems += gaps(final)
    for reader in readers:
        problems += [f"{reader.name}: {problem}" for problem in reader.problems]
        problems += vanished_records(reader, final)
        if reader.is_in_order:
            problems += skipped_records(reader)
    return problems


def lost_records(
    produced: ProducerHistory,
    final: FinalContents,
    *,
    keeping: Collection[Keeps] = (Keeps.EVERYTHING, Keeps.NEWEST),
    only: Collection[tuple[str, int]] | None = None,
) -> Iterator[str]:
    """Acknowledged records that do not stand where their acknowledgement said, or nowhere if it did not say.

    Args:
        produced: what producers noted.
        final: what there is in the end.
        keeping: which topics to look at; of those that keep the newest, what is not deleted yet.
        only: which of their partitions to look at, if not at all.
    """
    stored = {
        (topic, partition, content.key, content.number)
        for (topic, partition), records in final.items()
        for _, content in records
    }
    at_place = {place: dict(records) for place, records in final.items()}
    begins_at = {place: records[0][0] if records else 0 for place, records in final.items()}
    for stream, places in sorted(produced.acknowledged.items()):
        if _keeps(stream.topic) not in keeping:
            continue
        is_whole = _keeps(stream.topic) is not Keeps.NEWEST
        for number, place in sorted(places.items()):
            partition = place.topic, place.partition
            if only is not None and partition not in only:
                continue
            if place.offset == UNKNOWN_OFFSET:
                if is_whole and (*partition, stream.key, number) not in stored:
                    yield f"lost: {stream.key} number {number}, acknowledged in {place.topic}-{place.partition}"
                continue
            if not is_whole and place.offset < begins_at.get(partition, 0):
                continue
            found = at_place.get(partition, {}).get(place.offset)
            if found is None:
                yield f"lost: {stream.key} number {number}, acknowledged at {place}; nothing stands there"
            elif (found.key, found.number) != (stream.key, number):
                yield f"lost: {stream.key} number {number}, acknowledged at {place}; {_text(found)} stands there"


def lost_last_values(produced: ProducerHistory, final: FinalContents) -> Iterator[str]:
    """Keys of compacted topics of which neither the last acknowledged record nor a later one is there."""
    last: dict[KeyStream, int] = {}
    for (topic, _), records in sorted(final.items()):
        for _, content in records:
            last[KeyStream(topic, content.key)] = content.number
    for stream, places in sorted(produced.acknowledged.items()):
        if _keeps(stream.topic) is Keeps.LAST_VALUES and last.get(stream, -1) < (wanted := max(places)):
            yield (
                f"lost: the last value of {stream.key} in {stream.topic}, number {wanted} at {places[wanted]};"
                f" the last one there is number {last.get(stream)}"
            )


def disordered_or_doubled_records(produced: ProducerHistory, final: FinalContents, writers: Writers) -> Iterator[str]:
    """Records of one key that stand twice, out of order or in two partitions, and such as nobody has sent."""
    found: dict[KeyStream, list[tuple[Place, int]]] = {}
    for (topic, partition), records in sorted(final.items()):
        for offset, content in records:
            stream = KeyStream(topic, content.key)
            found.setdefault(stream, []).append((Place(topic, partition, offset), content.number))
            if not produced.was_sent(stream, content.number):
                yield f"never sent: {_text(content)} at {Place(topic, partition, offset)}"
    for stream, numbers in sorted(found.items()):
        if _keeps(stream.topic) is Keeps.NOTHING_SURE:
            continue  # its producers are not idempotent
        once, copies = _without_copies(numbers, writers)
        for number, place, copy in copies:
            if not _under_another_epoch(place, copy, writers):
                yield f"twice: {stream.key} number {number} at {place} and {copy}"
        for (earlier_place, earlier), (later_place, later) in pairwise(once):
            if later < earlier:
                yield (
                    f"out of order: {stream.key} number {later} at {later_place} after number {earlier} "
                    f"at {earlier_place}"
                )


def count_sent_again(final: FinalContents, writers: Writers) -> int:
    """How many records stand twice because their producer began a new epoch."""
    first: dict[tuple[str, str, int], Place] = {}
    count = 0
    for (topic, partition), records in sorted(final.items()):
        for offset, content in records:
            place = Place(topic, partition, offset)
            stands_at = first.setdefault((topic, content.key, content.number), place)
            count += stands_at != place and _under_another_epoch(stands_at, place, writers)
    return count


def _without_copies(
    numbers: Iterable[tuple[Place, int]], writers: Writers
) -> tuple[list[tuple[Place, int]], list[tuple[int, Place, Place]]]:
    """What stands where for the first time, or is no mere copy; and what stands where again."""
    first: dict[int, Place] = {}
    once: list[tuple[Place, int]] = []
    copies: list[tuple[int, Place, Place]] = []
    for place, number in numbers:
        if number not in first:
            first[number] = place
            once.append((place, number))
            continue
        copies.append((number, first[number], place))
        if not _under_another_epoch(first[number], place, writers):
            once.append((place, number))
    return once, copies


def _under_another_epoch(one: Place, other: Place, writers: Writers) -> bool:
    """Whether one producer wrote two records of one partition under different epochs."""
    first, second = writers.get(one), writers.get(other)
    if first is None or second is None or (one.topic, one.partition) != (other.topic, other.partition):
        return False
    return first.producer_id == second.producer_id and first.producer_epoch < second.producer_epoch


def gaps(final: FinalContents) -> Iterator[str]:
    """Offsets without a record where nothing is compacted; what is not the newest may be missing at the beginning."""
    for (topic, partition), records in sorted(final.items()):
        if _keeps(topic) is Keeps.LAST_VALUES:
            continue
        first = records[0][0] if records and _keeps(topic) is Keeps.NEWEST else 0
        for expected, (offset, _) in enumerate(records, start=first):
            if offset != expected:
                yield f"gap: {topic}-{partition} continues at {offset} instead of {expected}"
                break


def vanished_records(reader: ReaderHistory, final: FinalContents) -> Iterator[str]:
    """Records that a reader saw and that are gone or others now, but for those that the topic does not keep."""
    for (topic, partition), runs in sorted(reader.runs.items()):
        records = final.get((topic, partition), [])
        at_offset = dict(records)
        first = records[0][0] if records else 0
        last = {content.key: (content.number, offset) for offset, content in records}
        for offset, content in (record for run in runs for record in run):
            found = at_offset.get(offset)
            if found == content or (_keeps(topic) is Keeps.NEWEST and offset < first):
                continue
            # A copy that its producer wrote once more, under another epoch, supersedes the first one as well.
            is_superseded = last.get(content.key, (-1, -1)) > (content.number, offset)
            if _keeps(topic) is Keeps.LAST_VALUES and found is None and is_superseded:
                continue
            now = "nothing stands there now" if found is None else f"{_text(found)} stands there now"
            yield f"{reader.name} saw {_text(content)} at {Place(topic, partition, offset)}; {now}"


def skipped_records(reader: ReaderHistory) -> Iterator[str]:
    """Offsets that a reader was not given in their order."""
    for (topic, partition), runs in sorted(reader.runs.items()):
        keeps = _keeps(topic)
        for run in runs:
            expected = run[0][0] if run and keeps is not Keeps.EVERYTHING else 0
            for offset, _ in run:
                if offset < expected or (offset > expected and keeps is not Keeps.LAST_VALUES):
                    yield f"{reader.name} was given {Place(topic, partition, offset)} instead of {expected}"
                    break
                expected = offset + 1


def _keeps(topic: str) -> Keeps:
    return KEEPS.get(topic, Keeps.EVERYTHING)


def _text(content: Content) -> str:
    return f"{content.key} number {content.number} (checksum {content.checksum:08x})"
