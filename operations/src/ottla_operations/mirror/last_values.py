"""Comparing a compacted partition: the last value of each key, since either side may have removed what came before.

Compaction runs on both sides when it likes, so records are not comparable one by one. The last record of a key is.
Keys and records are kept as digests, and only a share of the keys at a time: the partition is read once per share, so
memory is bounded whatever the number of keys.

A source that is being written to is read up to an end, then the target to its end, and then the source to where it
ends now. A key is equal if the target has the value that the source had at the first end, or one that it had since.

Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from ottla_operations.mirror.comparable_records import (
    Batch,
    comparable_records,
    has_own_timestamps,
    is_tombstone,
    key_of,
)
from ottla_operations.mirror.differences import Difference, Kind

DIGEST_BYTES: Final = 16
_SHARE_BYTES: Final = 4


class LastRecord(NamedTuple):
    """The last record of a key; timestamp None as with `ComparableRecord`."""

    offset: int
    timestamp: int | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class KeyShare:
    """Which keys are looked at in one reading: those whose digest falls into this share of several."""

    index: int
    count: int

    def __contains__(self, key_digest: bytes) -> bool:
        return int.from_bytes(key_digest[:_SHARE_BYTES], "big") % self.count == self.index


def share_count(records: int, keys_max: int) -> int:
    """Return in how many readings so many records are compared, with about `keys_max` keys in each at most."""
    return max(1, -(-records // keys_max))


class LastValues:
    """Compares the last values of a share of the keys.

    Args:
        share: the keys that are looked at.
        with_offsets: whether offsets have to be the same, too.

    Attributes:
        keyless: how many records had no key, which compaction removes; of both sides together, and not compared.
    """

    def __init__(self, share: KeyShare, *, with_offsets: bool) -> None:
        self.keyless = 0
        self._share = share
        self._with_offsets = with_offsets
        self._source: dict[bytes, LastRecord] = {}
        self._target: dict[bytes, LastRecord] = {}

    @property
    def keys(self) -> int:
        """How many keys the source has."""
        return len(self._source)

    def add_source(self, batches: Iterable[Batch]) -> None:
        """Take note of what the source has.

        Raises:
            InvalidRecord, UnsupportedCompressionType: it cannot be read.
        """
        self._add(self._source, batches, ignores_append_times=False)

    def add_target(self, batches: Iterable[Batch]) -> None:
        """Take note of what the target has; errors as with `add_source`."""
        self._add(self._target, batches, ignores_append_times=True)

    def unequal(self) -> dict[bytes, tuple[LastRecord | None, LastRecord | None]]:
        """Return the last records of both sides of the keys in which they differ."""
        keys = self._source.keys() | self._target.keys()
        found = {key: (self._source.get(key), self._target.get(key)) for key in keys}
        return {key: pair for key, pair in found.items() if not self._are_equal(*pair)}

    def pardon(
        self, batches: Iterable[Batch], unequal: dict[bytes, tuple[LastRecord | None, LastRecord | None]]
    ) -> None:
        """Take out of `unequal` what the target has of newer records of the source, offered in their order."""
        for batch in batches:
            for record in comparable_records(batch):
                key = key_of(record.body)
                digest = b"" if key is None else _digest(key)
                if digest not in unequal:
                    continue
                source = (
                    None
                    if is_tombstone(record.body)
                    else LastRecord(record.offset, record.timestamp, _digest(record.body))
                )
                if self._are_equal(source, unequal[digest][1]):
                    del unequal[digest]

    def _are_equal(self, source: LastRecord | None, target: LastRecord | None) -> bool:
        if source is None or target is None:
            return source is target
        return (
            source.digest == target.digest
            and (target.timestamp is None or source.timestamp == target.timestamp)
            and (not self._with_offsets or source.offset == target.offset)
        )

    def _add(self, known: dict[bytes, LastRecord], batches: Iterable[Batch], *, ignores_append_times: bool) -> None:
        for batch in batches:
            has_timestamps = not (ignores_append_times and has_own_timestamps(batch))
            for record in comparable_records(batch):
                key = key_of(record.body)
                if key is None:
                    self.keyless += 1
                    continue
                digest = _digest(key)
                if digest not in self._share:
                    continue
                if is_tombstone(record.body):  # either side may have removed it, with all that came before
                    known.pop(digest, None)
                else:
                    timestamp = record.timestamp if has_timestamps else None
                    known[digest] = LastRecord(record.offset, timestamp, _digest(record.body))


def first_difference(unequal: dict[bytes, tuple[LastRecord | None, LastRecord | None]]) -> Difference | None:
    """Return the difference that comes first, by the source's offsets, then by the target's."""
    if not unequal:
        return None
    pairs = sorted(unequal.values(), key=_position)
    source, target = pairs[0]
    more = f"; {len(pairs)} keys differ" if len(pairs) > 1 else ""
    if target is None and source is not None:
        return Difference(kind=Kind.MISSING, source_offset=source.offset, detail=f"the last record of a key{more}")
    if source is None and target is not None:
        detail = f"a key that the source does not have or has deleted{more}"
        return Difference(kind=Kind.EXTRA, target_offset=target.offset, detail=detail)
    assert source is not None
    assert target is not None
    kind = Kind.RECORD if source.digest != target.digest else Kind.TIMESTAMP
    if kind is Kind.TIMESTAMP and source.timestamp == target.timestamp:
        kind = Kind.OFFSET
    detail = f"the last record of a key{more}"
    return Difference(kind=kind, source_offset=source.offset, target_offset=target.offset, detail=detail)


def _position(pair: tuple[LastRecord | None, LastRecord | None]) -> tuple[bool, int]:
    source, target = pair
    if source is not None:
        return (False, source.offset)
    return (True, 0 if target is None else target.offset)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
