"""Refilling what a producer snapshot leaves out: the batches before each producer's last one, from the log itself.

A producer may have several requests in flight. If the broker stops before it has answered them, all of them are
sent again, and each has to be known as a retry. A snapshot tells of the last batch only, so that a client would be
told that its first retry is out of order, which is fatal for it. The headers of the batches in question are still in
the log, mostly right before the snapshot's offset. So the log is walked backwards from there in growing steps, each
from one index entry to the former one, until the producers that wrote last are known completely.

The cost is bounded, because this happens for every partition at a start. Knowing less is no failure: it is what Kafka
knows at best. So a producer whose batches are beyond the bounds keeps its last batch, and a walk ends at damage.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from ottla_broker.log.producers.producer_state import (
    RETAINED_BATCHES,
    ProducerBatch,
    ProducerEntry,
    carries_sequence,
)
from ottla_broker.log.segments.segment_list import SegmentList
from ottla_broker.log.segments.segment_scan import walk_headers
from ottla_core.errors import CorruptMessage
from ottla_core.wire.record_batch import NO_SEQUENCE

_NEAR_BYTES: Final = 256 * 1024
"""A producer that wrote last before so many bytes is not searched for: most clients that are gone are among those,
and one that still waits for answers has hardly let so much pass by."""

_FAR_BYTES: Final = 8 * 1024 * 1024
"""How far to go back for a producer: five batches of 1 MiB, the largest by default, and others in between."""

_HEADERS_MAX: Final = 512
"""Having walked so many batches, no further step is taken; a millisecond's work."""

_FIRST_STEP_BYTES: Final = 16 * 1024
"""The first step back: one read, and enough for a few small batches."""

_STEP_BYTES_MAX: Final = 1024 * 1024
"""Steps double up to this, so that the last one cannot go far beyond `_HEADERS_MAX`."""

_SEGMENTS_MAX: Final = 3
"""Segments to look into: an active one that may be short, the one before it, and one more if that is short, too."""

_logger: Final = structlog.get_logger("log.loading")


@dataclass(slots=True)
class _Refill:
    """A producer of the snapshot, and the batches found before its last one, in order."""

    entry: ProducerEntry
    found: list[ProducerBatch] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing more to find; sequence 0 is the epoch's first, but for once in 2^31 records.

        A transaction's offsets in a group's topic have no sequence, and are looked for by nobody.
        """
        first = self.found[0] if self.found else self.entry.batches[0]
        return (
            first.last_sequence == NO_SEQUENCE or first.first_sequence == 0 or len(self.found) >= RETAINED_BATCHES - 1
        )

    def prepend(self, earlier: Iterable[ProducerBatch]) -> None:
        """Put batches before the ones found so far, as many as are of use."""
        self.found = [*earlier, *self.found][-(RETAINED_BATCHES - 1) :]


def refill_batches(
    producers: Iterable[ProducerEntry], segments: SegmentList, offset: int, log_end_offset: int
) -> None:
    """Give producers from a snapshot, which have one batch each, the batches before it.

    Args:
        producers: what the snapshot held; changed in place.
        segments: the log.
        offset: the snapshot's offset.
        log_end_offset: the log's end.

    Raises:
        OSError: the disk failed.
    """
    refills = {entry.producer_id: _Refill(entry) for entry in producers if entry.batches}
    if all(refill.is_complete for refill in refills.values()):
        return
    walk = _WalkBack(segments)
    try:
        walk.go_to(offset, log_end_offset)
        walk.refill(refills)
    except CorruptMessage as error:
        _logger.warning("retries of idempotent producers may not be known again", problem=str(error))
    for refill in refills.values():
        refill.entry.batches.extendleft(reversed(refill.found))


class _WalkBack:
    """A place in the log that moves backwards, and what it has cost so far."""

    __slots__ = ("_end", "_header_count", "_number", "_segments", "_segments_left")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self._number = 0
        self._end = 0
        self._header_count = 0
        self._segments_left = _SEGMENTS_MAX - 1

    def go_to(self, offset: int, log_end_offset: int) -> None:
        """Begin after the last batch below `offset`; raises CorruptMessage."""
        self._number = self._segments.number_for(offset)
        segment = self._segments[self._number]
        if offset >= log_end_offset:
            self._end = segment.size_bytes
        elif offset > segment.base_offset:
            found = segment.find_batch(offset)
            self._end = segment.size_bytes if found is None else found[0]

    def refill(self, refills: dict[int, _Refill]) -> None:
        """Walk back until those who wrote last are complete, or a bound is reached; raises CorruptMessage."""
        near_offset = self._offset_before(_NEAR_BYTES)
        wanted = [refill for refill in refills.values() if refill.entry.last_offset >= near_offset]
        distance, step = 0, _FIRST_STEP_BYTES
        while distance < _FAR_BYTES and self._header_count < _HEADERS_MAX:
            wanted = [refill for refill in wanted if not refill.is_complete]
            if not wanted or (self._end == 0 and not self._go_to_former_segment()):
                return
            index = self._segments[self._number].offset_index
            start = index.position_at_most(max(0, self._end - step))
            size = self._end - start
            if not 0 < size <= _FAR_BYTES:
                return  # an index so sparse that headers would have to be read from far away
            self._take_in(refills, start)
            distance += size
            step = min(2 * step, _STEP_BYTES_MAX)

    def _go_to_former_segment(self) -> bool:
        if self._number == 0 or self._segments_left == 0:
            return False
        self._number -= 1
        self._segments_left -= 1
        self._end = self._segments[self._number].size_bytes
        return self._end > 0

    def _offset_before(self, size_bytes: int) -> int:
        """Return the last offset of a batch that lies about so many bytes back, or where the log begins."""
        number, position = self._number, self._end - size_bytes
        while position < 0 and number > 0:
            number -= 1
            position += self._segments[number].size_bytes
        segment = self._segments[number]
        entry_number = segment.offset_index.last_number_at_most(position, 1)
        if entry_number < 0:
            return segment.base_offset
        return segment.base_offset + segment.offset_index.entry(entry_number)[0]

    def _take_in(self, refills: dict[int, _Refill], start: int) -> None:
        """Walk from `start` to the former step's; if there is damage, what is before it counts for nothing."""
        earlier: dict[int, deque[ProducerBatch]] = {}
        for _, header in walk_headers(self._segments[self._number].file(), start, self._end):
            self._header_count += 1
            refill = refills.get(header.producer_id)
            if (
                refill is not None
                and header.producer_epoch == refill.entry.producer_epoch
                and header.last_offset < refill.entry.last_offset
                and carries_sequence(header)
            ):
                batch = ProducerBatch(
                    header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
                )
                earlier.setdefault(header.producer_id, deque(maxlen=RETAINED_BATCHES - 1)).append(batch)
        for producer_id, batches in earlier.items():
            refills[producer_id].prepend(batches)
        self._end = start
