"""Which records of a log count, of those that producers with and without transactions have written. Pure.

What is read is the log up to its high watermark, not up to the last stable offset, behind which nothing is seen while
any transaction before it is open, whoever has it. Here only the records of the transaction itself have to wait: those
of a producer are given out when its commit marker is read, and forgotten with its abort marker. So whoever has fenced
a producer, and thereby had its last transaction ended, knows all that it has committed as soon as he has read to the
end, though others go on.

A producer has one transaction at a time, and its marker is behind all of its records; compaction removes no marker
before these.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import RecordBatchHeader
from ottla_core.wire.records import Record, iterate_records

_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class ReadBatch(NamedTuple):
    """A batch of the log.

    Attributes:
        header: of the batch.
        records: in order, those that were asked for; of a marker, its one record.
    """

    header: RecordBatchHeader
    records: list[Record]


class DecidedRecords:
    """Gives out the records that count, as soon as that is known."""

    def __init__(self) -> None:
        self._open: dict[int, list[Record]] = {}

    def copy(self) -> "DecidedRecords":
        """Return one that may go on by itself."""
        other = DecidedRecords()
        other._open = {producer_id: records.copy() for producer_id, records in self._open.items()}
        return other

    def clear(self) -> None:
        """Forget everything: the log is read again from its start."""
        self._open.clear()

    @property
    def undecided(self) -> int:
        """How many records wait for the ends of their transactions."""
        return sum(map(len, self._open.values()))

    def take(self, batches: Iterable[ReadBatch]) -> list[Record]:
        """Return the records that count now, given what follows in the log.

        Raises:
            InvalidRecord: a marker cannot be read.
        """
        decided: list[Record] = []
        for header, records in batches:
            if header.is_control:
                found = self._open.pop(header.producer_id, [])
                decided += found if found and _is_commit(records) else []
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(records)
            else:
                decided += records
        return decided


def read_batch(header: RecordBatchHeader, batch: memoryview, from_offset: int) -> ReadBatch:
    """Return a batch as it is to be taken, with its records from an offset on.

    Raises:
        InvalidRecord: the records cannot be read.
    """
    return ReadBatch(header, [each for each in iterate_records(batch, header) if each.offset >= from_offset])


def _is_commit(marker: list[Record]) -> bool:
    key = marker[0].key if marker else None
    if key is None or len(key) < _CONTROL_KEY.size:
        raise InvalidRecord("a control batch has no type")
    kind = _CONTROL_KEY.unpack_from(key)[1]
    if kind not in (_ABORT, _COMMIT):
        raise InvalidRecord(f"a control batch of a transaction has the type {kind}")
    return bool(kind == _COMMIT)
