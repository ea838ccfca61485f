"""The requests that a sink task still has to send, in order. Pure: the time is an argument.

Records are gathered into batches. Batches are in lanes, none of them empty: those of one lane are sent one after
another, those of several lanes in any order, also at once. A lane is a partition where each record is a request, and
a target where several records share one; so what has to stay in order does.
"""

import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla_sdk import SinkRecord, TopicPartition


class Target(NamedTuple):
    """Where a request goes."""

    method: str
    url: str


class Entry(NamedTuple):
    """A record, and what stands for it in a body."""

    record: SinkRecord
    body: bytes


@dataclass(slots=True, eq=False)
class Batch:
    """A request to be.

    Attributes:
        target: where it goes.
        entries: its records.
        size: bytes of what stands for them.
        begun_s: when its first record came.
        is_full: whether no more records fit.
        attempts: how often it was sent in vain.
        not_before_s: when it may be sent again.
    """

    target: Target
    begun_s: float
    entries: list[Entry] = field(default_factory=list)
    size: int = 0
    is_full: bool = False
    attempts: int = 0
    not_before_s: float = 0.0


class Outbox:
    """Batches that were not sent yet."""

    def __init__(self, *, records_max: int, bytes_max: int, linger_s: float) -> None:
        """Start empty.

        Args:
            records_max: most records in a batch; with 1 each record is a request of its own.
            bytes_max: most bytes in a batch; a longer record is alone in one.
            linger_s: how long a batch waits for more records.
        """
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._linger_s = linger_s
        self._lanes: dict[Hashable, list[Batch]] = {}

    def __len__(self) -> int:
        """Return how many records wait."""
        return sum(len(batch.entries) for batch in self._batches())

    def add(self, target: Target, entry: Entry, now_s: float) -> None:
        """Add a record behind all others."""
        lane = self._lanes.setdefault(self._lane_key(target, entry), [])
        batch = lane[-1] if lane else None
        if batch is not None and batch.size + len(entry.body) > self._bytes_max:
            batch.is_full = True
        if batch is None or batch.is_full or batch.target != target or batch.attempts:
            batch = Batch(target, now_s)
            lane.append(batch)
        batch.entries.append(entry)
        batch.size += len(entry.body)
        batch.is_full = len(batch.entries) >= self._records_max or batch.size >= self._bytes_max

    def due(self, now_s: float, *, all_of_them: bool, busy: Collection[Batch] = ()) -> Iterator[Batch]:
        """Return the batches that may be sent now, one after the other: the first of each lane.

        Args:
            now_s: the time.
            all_of_them: whether those count too that wait for more records.
            busy: batches that are being sent.
        """
        for lane in self._lanes.values():
            first = lane[0]
            if (
                first not in busy
                and first.not_before_s <= now_s
                and (all_of_them or first.is_full or len(lane) > 1 or now_s - first.begun_s >= self._linger_s)
            ):
                yield first

    def next_try_s(self) -> float | None:
        """Return when the first of those may be sent again that were sent in vain; None if there are none."""
        waiting = [lane[0].not_before_s for lane in self._lanes.values() if lane[0].attempts]
        return min(waiting, default=None)

    def remove(self, batch: Batch) -> None:
        """Take out a batch that is done."""
        key = self._key_of(batch)
        lane = self._lanes[key]
        lane.remove(batch)
        if not lane:
            del self._lanes[key]  # there may be as many as keys of records, and all are looked through

    def split(self, batch: Batch) -> None:
        """Put two halves in a batch's place, which are not added to any more."""
        lane = self._lanes[self._key_of(batch)]
        place, middle = lane.index(batch), len(batch.entries) // 2
        assert middle, "a batch of one record cannot be split"
        halves = []
        for entries in (batch.entries[:middle], batch.entries[middle:]):
            size = sum(len(entry.body) for entry in entries)
            halves.append(Batch(batch.target, batch.begun_s, entries=entries, size=size, is_full=True))
        lane[place : place + 1] = halves

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of partitions."""
        for lane in self._lanes.values():
            for batch in lane:
                batch.entries = [entry for entry in batch.entries if entry.record.origin not in partitions]
                batch.size = sum(len(entry.body) for entry in batch.entries)
            lane[:] = [batch for batch in lane if batch.entries]
        self._lanes = {key: lane for key, lane in self._lanes.items() if lane}

    def first_offsets(self) -> Mapping[TopicPartition, int]:
        """Return the offset of the first record that waits, of each partition of which any does."""
        found: dict[TopicPartition, int] = {}
        for batch in self._batches():
            for entry in batch.entries:
                record = entry.record
                origin = record.origin
                found[origin] = min(found.get(origin, record.offset), record.offset)
        return found

    def _batches(self) -> Iterator[Batch]:
        return itertools.chain.from_iterable(self._lanes.values())

    def _lane_key(self, target: Target, entry: Entry) -> Hashable:
        return entry.record.origin if self._records_max == 1 else target

    def _key_of(self, batch: Batch) -> Hashable:
        return self._lane_key(batch.target, batch.entries[0])
