"""Comparing a partition with its copy, record by record in their order; offsets and batches may differ. Pure.

Both sides are read one after the other and offered as they come. As long as a batch of the source and one of the
target begin with the same record and have the same bytes, which is so where a mirror copies batches as they are, no
record is looked at. Else records are compared as they are encoded, and only those that differ are decoded.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from ottla_operations.mirror.comparable_records import (
    Batch,
    ComparableRecord,
    comparable_records,
    content_of,
    has_own_timestamps,
    have_equal_records,
)
from ottla_operations.mirror.differences import Difference, Kind

LOOK_AHEAD: Final = 1000
"""How many records of each side are searched for where the other one goes on, after a difference."""
SHOWN_BYTES_MAX: Final = 40


class _Side:
    """What one side has next: batches, and records of the batch that has been opened."""

    def __init__(self, *, ignores_append_times: bool) -> None:
        self.batches: deque[Batch] = deque()
        self.records: deque[ComparableRecord] = deque()
        self.has_own_timestamps = False
        self._ignores_append_times = ignores_append_times

    def __bool__(self) -> bool:
        return bool(self.records or self.batches)

    @property
    def offset(self) -> int | None:
        """The offset of the next record."""
        if self.records:
            return self.records[0].offset
        return self.batches[0].header.base_offset if self.batches else None

    def add(self, batches: Iterable[Batch]) -> None:
        self.batches.extend(each for each in batches if each.header.record_count)

    def open(self) -> None:
        """Have at least one record, if there is any."""
        while not self.records and self.batches:
            self._open_next()

    def next_records(self, count: int) -> Sequence[ComparableRecord]:
        """Return the next records without taking them, as far as they have been read."""
        while len(self.records) < count and self.batches:
            self._open_next()
        return list(self.records)[:count]

    def _open_next(self) -> None:
        batch = self.batches.popleft()
        records = comparable_records(batch)
        if self._ignores_append_times and has_own_timestamps(batch):
            self.has_own_timestamps = True
            records = [each._replace(timestamp=None) for each in records]
        self.records.extend(records)


class RecordComparison:
    """Compares two sequences of records.

    Args:
        skips_at_source: whether records of the source before the target's first one are left out.
        skips_at_target: whether records of the target before the source's first one are left out.

    Attributes:
        difference: the first one, if there is any; nothing is compared after it.
        records: how many records were equal.
        batches: how many batches of the source were equal as a whole.
        skipped: how many records were left out before the first that both sides have.
    """

    def __init__(self, *, skips_at_source: bool = False, skips_at_target: bool = False) -> None:
        self.difference: Difference | None = None
        self.records = 0
        self.batches = 0
        self._source = _Side(ignores_append_times=False)
        self._target = _Side(ignores_append_times=True)
        self._former: ComparableRecord | None = None
        self._skipping = self._target if skips_at_target else self._source if skips_at_source else None
        self.skipped = 0

    @property
    def wants_source(self) -> bool:
        """Whether nothing more can be compared without more of the source."""
        return not self._source

    @property
    def wants_target(self) -> bool:
        """Whether nothing more can be compared without more of the target."""
        return not self._target

    @property
    def source_left(self) -> int | None:
        """The offset of the source's first record that had no counterpart yet."""
        return self._source.offset

    @property
    def target_left(self) -> int | None:
        """The offset of the target's first record that had no counterpart yet."""
        return self._target.offset

    @property
    def target_has_own_timestamps(self) -> bool:
        """Whether the target stores the time when it received a record, which cannot be compared."""
        return self._target.has_own_timestamps

    def add_source(self, batches: Iterable[Batch]) -> None:
        """Offer what the source has next.

        Raises:
            InvalidRecord, UnsupportedCompressionType: it cannot be read.
        """
        self._source.add(batches)
        self._compare()

    def add_target(self, batches: Iterable[Batch]) -> None:
        """Offer what the target has next; errors as with `add_source`."""
        self._target.add(batches)
        self._compare()

    def _compare(self) -> None:
        source, target = self._source, self._target
        while source and target and self.difference is None:
            if self._take_equal_batches():
                continue
            source.open()
            target.open()
            here, there = source.records[0], target.records[0]
            if not _are_equal(here, there):
                if self._skipping is not None:
                    self._skipping.records.popleft()
                    self.skipped += 1
                    continue
                self.difference = self._explained(here, there)
                return
            self._former, self._skipping = there, None
            self.records += 1
            source.records.popleft()
            target.records.popleft()

    def _take_equal_batches(self) -> bool:
        source, target = self._source, self._target
        if source.records or target.records or not have_equal_records(source.batches[0], target.batches[0]):
            return False
        if has_own_timestamps(target.batches[0]):
            target.has_own_timestamps = True
        batch = source.batches.popleft()
        target.batches.popleft()
        self.batches += 1
        self.records += batch.header.record_count
        self._former = self._skipping = None
        return True

    def _explained(self, here: ComparableRecord, there: ComparableRecord) -> Difference:
        place = {"source_offset": here.offset, "target_offset": there.offset}
        if self._former is not None and _are_equal(self._former, there):
            return Difference(kind=Kind.REPEATED, detail="the record before it, once more", **place)
        for count, each in enumerate(self._source.next_records(LOOK_AHEAD)):
            if _are_equal(each, there):
                detail = f"{_counted(count)}, up to source offset {each.offset}, where it goes on"
                return Difference(kind=Kind.MISSING, detail=detail, **place)
        for count, each in enumerate(self._target.next_records(LOOK_AHEAD)):
            if _are_equal(here, each):
                detail = f"{_counted(count)}, up to target offset {each.offset}, where it goes on"
                return Difference(kind=Kind.EXTRA, detail=detail, **place)
        kind, detail = unlike_fields(here, there)
        return Difference(kind=kind, detail=detail, **place)


def unlike_fields(here: ComparableRecord, there: ComparableRecord) -> tuple[Kind, str]:
    """Return in what two records differ, and how; several fields count as another record."""
    one, other = content_of(here.body), content_of(there.body)
    unlike = []
    if one.key != other.key:
        unlike.append((Kind.KEY, f"{_shown(one.key)} at the source and {_shown(other.key)} at the target"))
    if one.value != other.value:
        unlike.append((Kind.VALUE, f"{_shown(one.value)} at the source and {_shown(other.value)} at the target"))
    if one.headers != other.headers:
        unlike.append((Kind.HEADERS, f"{len(one.headers)} at the source and {len(other.headers)} at the target"))
    if here.timestamp != there.timestamp and there.timestamp is not None:
        unlike.append((Kind.TIMESTAMP, f"{here.timestamp} at the source and {there.timestamp} at the target"))
    if len(unlike) == 1:
        return unlike[0]
    return Kind.RECORD, "; ".join(f"{kind}: {detail}" for kind, detail in unlike)


def _are_equal(here: ComparableRecord, there: ComparableRecord) -> bool:
    return _have_equal_content(here.body, there.body) and (
        there.timestamp is None or here.timestamp == there.timestamp
    )


def _have_equal_content(one: bytes, other: bytes) -> bool:
    """Return whether two records are equal, though a client may encode a number with more bytes than needed."""
    return one == other or content_of(one) == content_of(other)


def _counted(count: int) -> str:
    return "a record" if count == 1 else f"{count} records"


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = repr(data[:SHOWN_BYTES_MAX])[1:]
    return text if len(data) <= SHOWN_BYTES_MAX else f"{text}… ({len(data)} bytes)"
