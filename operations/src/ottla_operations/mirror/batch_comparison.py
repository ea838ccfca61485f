"""Comparing a partition that is a byte-exact copy, batch by batch: same offsets, same bytes, same leader epochs.

Both sides are read one after the other and offered as they come. A batch's CRC covers all of it but its first 16
bytes: base offset, length and leader epoch, which are compared by themselves. CRCs are compared with the bytes first,
because two equal CRCs over bytes that are damaged at one side would tell nothing.

Pure.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from ottla_operations.mirror.comparable_records import Batch
from ottla_operations.mirror.differences import Difference, Kind

_COMPARED: Final = (
    ("last_offset_delta", "last offset"),
    ("record_count", "records"),
    ("batch_length", "bytes"),
    ("crc", "CRC"),
)


class BatchComparison:
    """Compares two sequences of batches.

    Attributes:
        difference: the first one, if there is any; nothing is compared after it.
        records: how many records have been compared.
        batches: how many batches have been.
    """

    def __init__(self) -> None:
        self.difference: Difference | None = None
        self.records = 0
        self.batches = 0
        self._source: deque[Batch] = deque()
        self._target: deque[Batch] = deque()

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
        """The offset of the source's first batch that had no counterpart yet."""
        return self._source[0].header.base_offset if self._source else None

    @property
    def target_left(self) -> int | None:
        """The offset of the target's first batch that had no counterpart yet."""
        return self._target[0].header.base_offset if self._target else None

    def add_source(self, batches: Iterable[Batch]) -> None:
        """Offer what the source has next."""
        self._source.extend(batches)
        self._compare()

    def add_target(self, batches: Iterable[Batch]) -> None:
        """Offer what the target has next."""
        self._target.extend(batches)
        self._compare()

    def _compare(self) -> None:
        while self._source and self._target and self.difference is None:
            source, target = self._source[0], self._target[0]
            self.difference = _difference(source, target)
            if self.difference is None:
                self.batches += 1
                self.records += source.header.record_count
                self._source.popleft()
                self._target.popleft()


def _difference(source: Batch, target: Batch) -> Difference | None:
    here, there = source.header, target.header
    if here.base_offset < there.base_offset:
        return Difference(
            kind=Kind.MISSING,
            source_offset=here.base_offset,
            target_offset=there.base_offset,
            detail=f"the batch with offsets {here.base_offset} to {here.last_offset}",
        )
    if here.base_offset > there.base_offset:
        return Difference(
            kind=Kind.EXTRA,
            source_offset=here.base_offset,
            target_offset=there.base_offset,
            detail=f"a batch with offsets {there.base_offset} to {there.last_offset}",
        )
    place = {"source_offset": here.base_offset, "target_offset": there.base_offset}
    for side, batch in (("source", source), ("target", target)):
        if not batch.is_intact:
            return Difference(kind=Kind.CORRUPT, detail=f"at the {side} the CRC does not match the bytes", **place)
    unlike = [
        f"{name} {getattr(here, field)} at the source and {getattr(there, field)} at the target"
        for field, name in _COMPARED
        if getattr(here, field) != getattr(there, field)
    ]
    if unlike:
        return Difference(kind=Kind.BYTES, detail="; ".join(unlike), **place)
    if here.leader_epoch != there.leader_epoch:
        detail = f"{here.leader_epoch} at the source and {there.leader_epoch} at the target, the bytes are equal"
        return Difference(kind=Kind.LEADER_EPOCH, detail=detail, **place)
    return None
