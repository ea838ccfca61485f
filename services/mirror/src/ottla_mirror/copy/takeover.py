"""How far the target has come already: what is there of a session is paired with what the source has.

Who begins with a partition, or doubts where it stands, reads the target's log from the last stored position on, finds
the batches of the session there, and then goes through the source's batches in order as if to send them. Each is
found to be there already until all that was found is used up; from then on batches are sent, with the sequence that
follows.

The source may have changed since a batch was sent: compaction or retention have removed records of it, or all. So
what was found is passed over where the source has a gap of offsets that could hold it and has nothing there that
looks like it. Nothing is taken for copied but what is equal: in fingerprint, or in the records that are left. Where
that fails, the source's history has changed, and a new session begins where both part.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    RecordBatchHeader,
    decrement_sequence,
    increment_sequence,
    iterate_batches,
)
from ottla_core.wire.records import read_varint, records_section
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.offsets.map_chunk import Run
from ottla_mirror.offsets.stored_copy import SessionName

SEQUENCES_BEHIND_MAX: Final = 2**30
"""Half of all sequence numbers: what seems further ahead is behind."""


class FoundBatch(NamedTuple):
    """A batch of the session in the target's log.

    Attributes:
        target_offset: of its first record.
        removed_before: offsets of the target without a batch between it and the batch of the session before it, or
            the stored position.
        sequence: of its first record.
        record_count: when it was written; compaction may have removed some since.
        fingerprint: of its bytes without the header.
        records: a fingerprint of each record that is left, with its place in the batch, without its timestamp; None
            if nobody has looked at them.
    """

    target_offset: int
    removed_before: int
    sequence: int
    record_count: int
    fingerprint: int
    records: tuple[tuple[int, int], ...] | None = None


class Placement(Enum):
    """What is known of a batch of the source.

    Attributes:
        IS_THERE: the target has it.
        TO_SEND: the target does not have it, nor anything behind it.
        UNSURE: the records have to be compared: look again, with fingerprints of each.
        DIFFERS: the target has another batch in its place.
    """

    IS_THERE = auto()
    TO_SEND = auto()
    UNSURE = auto()
    DIFFERS = auto()


def fingerprint_of(batch: memoryview) -> int:
    """Return a number that two batches with other records hardly share."""
    return crc32c(batch[HEADER_SIZE_BYTES:])


def record_fingerprints(batch: memoryview, header: RecordBatchHeader) -> tuple[tuple[int, int], ...]:
    """Return for each record its place in the batch and a fingerprint of key, value and headers.

    Raises:
        InvalidRecord: the records cannot be read.
    """
    section = records_section(batch, header)
    found = []
    position = 0
    try:
        for _ in range(header.record_count):
            length, start = read_varint(section, position)
            position = start + length
            _, after = read_varint(section, start + 1)
            delta, after = read_varint(section, after)
            found.append((delta, hash(section[after:position])))
    except IndexError:
        raise InvalidRecord(f"A record of the batch at offset {header.base_offset} is cut short") from None
    return tuple(found)


class TargetScan:
    """Finds the batches of a session in the target's log, which is read from the stored position on.

    Args:
        session: the producer.
        next_sequence: of the stored position.
        target_offset: the stored position.
        with_records: whether each record is to have a fingerprint.

    Attributes:
        next_offset: the target offset from which to read on.
        found: the batches, in order.
    """

    __slots__ = ("_next_sequence", "_removed", "_session", "_with_records", "found", "next_offset")

    def __init__(
        self, session: SessionName, next_sequence: int, target_offset: int, *, with_records: bool = False
    ) -> None:
        self._session = session
        self._next_sequence = next_sequence
        self._with_records = with_records
        self._removed = 0
        self.next_offset = target_offset
        self.found: list[FoundBatch] = []

    def take(self, records: memoryview) -> None:
        """Take in what was fetched from `next_offset` on.

        Raises:
            CorruptMessage: it is damaged.
            InvalidRecord: the records of a batch of the session cannot be read.
            UnsupportedForMessageFormat: it is no log that takes idempotent producers.
        """
        for header, batch in iterate_batches(records):
            if header.next_offset <= self.next_offset:
                continue
            self.begin_at(header.base_offset)
            self.next_offset = header.next_offset
            self._take_batch(header, batch)

    def begin_at(self, target_offset: int) -> None:
        """Read on here: the log has nothing before."""
        self._removed += max(0, target_offset - self.next_offset)
        self.next_offset = max(target_offset, self.next_offset)

    def _take_batch(self, header: RecordBatchHeader, batch: memoryview) -> None:
        if (header.producer_id, header.producer_epoch) != self._session or header.is_control:
            return
        # What repeats sequences is left out: a target that has lost its producers' states may have it.
        if decrement_sequence(header.base_sequence, self._next_sequence) >= SEQUENCES_BEHIND_MAX:
            return
        records = record_fingerprints(batch, header) if self._with_records else None
        count = header.last_offset_delta + 1
        self.found.append(
            FoundBatch(header.base_offset, self._removed, header.base_sequence, count, fingerprint_of(batch), records)
        )
        self._removed = 0
        self._next_sequence = increment_sequence(header.base_sequence, count)


class Pairing:
    """Pairs batches of the source, in order, with those that were found at the target.

    Args:
        found: by a `TargetScan`.
        next_sequence: of the stored position.
        source_offset: the stored position.

    Attributes:
        next_sequence: of the first record that has not been paired.
        passed_over: records at the target that the source has lost since.
        doubtful_from: the first source offset from which a batch was paired by its records only; None for none.
    """

    __slots__ = ("_found", "_reached", "_room", "doubtful_from", "next_sequence", "passed_over")

    def __init__(self, found: Iterable[FoundBatch], next_sequence: int, source_offset: int) -> None:
        self._found = deque(found)
        self._reached = source_offset
        self._room = 0  # offsets without a batch at the source, since what was paired last
        self.next_sequence = next_sequence
        self.passed_over = 0
        self.doubtful_from: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether everything that was found is paired, or passed over."""
        return not self._found

    def skip(self, batch: SourceBatch) -> None:
        """Go on behind a batch that is not to be copied: what was found may lie before or behind it."""
        self._reach(batch.base_offset)
        self._reached = batch.next_offset

    def _reach(self, source_offset: int) -> None:
        self._room += max(0, source_offset - self._reached)
        self._reached = max(self._reached, source_offset)

    def place(self, batch: SourceBatch) -> tuple[Placement, Sequence[Run]]:
        """Return whether the target has the next batch, and if it does which record is where."""
        self._reach(batch.base_offset)
        while self._found:
            head = self._found[0]
            hidden = decrement_sequence(head.sequence, self.next_sequence)
            if hidden:
                # Retention or compaction of the target has removed batches; offsets and sequences show how many.
                if hidden > head.removed_before:
                    return Placement.DIFFERS, ()
                if hidden <= self._room:
                    self._pass_over(hidden)
                    continue
                if batch.record_count <= hidden:
                    self._pair(batch.record_count, batch)
                    self.doubtful_from = batch.base_offset if self.doubtful_from is None else self.doubtful_from
                    return Placement.IS_THERE, ()
                return Placement.DIFFERS, ()
            if (runs := self._equal(head, batch)) is not None:
                self._found.popleft()
                self._pair(head.record_count, batch)
                return Placement.IS_THERE, runs
            if batch.record_count <= head.record_count and head.records is None:
                return Placement.UNSURE, ()
            if head.record_count > self._room:
                return Placement.DIFFERS, ()
            self._found.popleft()
            self._pass_over(head.record_count)
        return Placement.TO_SEND, ()

    def _pair(self, record_count: int, batch: SourceBatch) -> None:
        self.next_sequence = increment_sequence(self.next_sequence, record_count)
        self._reached, self._room = batch.next_offset, 0

    def _pass_over(self, record_count: int) -> None:
        """Go on behind records that the source has lost since."""
        self.next_sequence = increment_sequence(self.next_sequence, record_count)
        self._room -= record_count
        self.passed_over += record_count

    def _equal(self, head: FoundBatch, batch: SourceBatch) -> list[Run] | None:
        """Return which record is where if one is the other, or what is left of it."""
        count = batch.record_count
        if head.record_count == count and head.fingerprint == fingerprint_of(batch.data):
            return _runs(batch, [(each, head.target_offset + each) for each in range(count)])
        if head.records is None or count > head.record_count:
            return None
        places = _places(head, batch)
        if places is None:
            return None
        self.doubtful_from = batch.base_offset if self.doubtful_from is None else self.doubtful_from
        return _runs(batch, [(number, head.target_offset + place) for number, place in places])


def _places(head: FoundBatch, batch: SourceBatch) -> list[tuple[int, int]] | None:
    """Return which record of the source is at which place of the target's batch; None if they are not the same."""
    assert head.records is not None
    wanted = record_fingerprints(batch.data, batch.header)
    if len(head.records) < head.record_count:
        # The target's compaction has removed records too: what both have must be in one order.
        there = {fingerprint: place for place, fingerprint in head.records}
        places = [(number, there[each]) for number, each in wanted if each in there]
        is_ordered = all(a[1] < b[1] for a, b in pairwise(places))
        return places if places and is_ordered else None
    left = iter(head.records)
    places = []
    for number, fingerprint in wanted:
        place = next((place for place, each in left if each == fingerprint), None)
        if place is None:
            return None
        places.append((number, place))
    return places


def _runs(batch: SourceBatch, places: list[tuple[int, int]]) -> list[Run]:
    """Return runs for records of a batch, given by their number in it and their target offset."""
    runs: list[Run] = []
    for number, target in places:
        source = batch.base_offset + number if batch.offsets is None else batch.offsets[number]
        if runs and (runs[-1].source_end, runs[-1].target_end) == (source, target):
            runs[-1] = runs[-1]._replace(record_count=runs[-1].record_count + 1)
        else:
            runs.append(Run(source, target, 1))
    return runs
