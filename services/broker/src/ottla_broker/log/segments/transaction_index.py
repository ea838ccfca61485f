"""The transaction index (`.txnindex`): the aborted transactions that end in a segment.

Each entry is 34 bytes: version, producer id, first and last offset (the last is the marker's), and the last stable
offset right after the abort, which is the first offset that was undecided then. Entries ascend by their last offset,
as markers do. The first entry whose last stable offset reaches an offset is the last one of a transaction that may
have records below it: there a search may stop. A segment without aborts has no such file.
Source: Kafka's AbortedTxn and TransactionIndex.
"""

import errno
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self

from ottla_broker.log.segments.index_file import IndexFile
from ottla_core.errors import CorruptMessage

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_LAST_OFFSET_COLUMN: Final = 3
_READ_ENTRIES: Final = 4096


class AbortedTransaction(NamedTuple):
    """One aborted transaction, as stored."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(IndexFile):
    """The aborted transactions of one segment.

    Attributes:
        has_file: whether there is a file, if only an empty one.
        is_named_for_sure: whether the file's name is known to be on the disk, as the file comes into being after its
            segment.
    """

    ENTRY: ClassVar[struct.Struct] = _ENTRY
    __slots__ = ("has_file", "is_named_for_sure")

    def __init__(self, path: Path, base_offset: int, written_count: int, *, has_file: bool) -> None:
        super().__init__(path, base_offset, written_count)
        self.has_file = has_file
        self.is_named_for_sure = False

    @classmethod
    def open(cls, path: Path, base_offset: int) -> Self:
        """Return the index of a file, which need not be there; raises OSError."""
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return cls(path, base_offset, 0, has_file=False)
        return cls(path, base_offset, size // cls.ENTRY.size, has_file=True)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add the transaction that has ended last."""
        self._add(aborted)

    def write_pending(self) -> None:
        """Write the waiting entries to the file; raises OSError, and then they go on waiting."""
        super().write_pending()
        self.has_file = self.has_file or bool(self._written_count)

    def count_below(self, offset: int) -> int:
        """Return how many entries end before an offset."""
        return self.last_number_at_most(offset - 1, _LAST_OFFSET_COLUMN) + 1

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the entries with records in a range, and whether later ones, in later segments too, have none.

        A transaction that was open for long may make the search pass over very many that were aborted meanwhile, so
        it goes by whole blocks. Raises OSError.
        """
        found: list[AbortedTransaction] = []
        number = self.count_below(start_offset)
        while number < self.entry_count:
            block = self.raw_entries(number, _READ_ENTRIES)
            if not block or len(block) % _ENTRY.size:
                raise OSError(errno.EIO, f"{self.path} has become shorter", str(self.path))
            for entry in _ENTRY.iter_unpack(block):
                if entry[2] < end_offset:
                    found.append(AbortedTransaction._make(entry))
                if entry[4] >= end_offset:
                    return found, True
            number += len(block) // _ENTRY.size
        return found, False


def problem_in_transaction_index(path: Path, base_offset: int, end_offset: int) -> str:
    """Return what is wrong with the size or the last entry of a file, or an empty string; raises OSError.

    Args:
        path: the index, which need not be there.
        base_offset: the segment's base offset.
        end_offset: where the segment ends.
    """
    index = TransactionIndex.open(path, base_offset)
    if index.has_file and path.stat().st_size % _ENTRY.size:
        return f"{path.name} has {path.stat().st_size} bytes, no multiple of {_ENTRY.size}"
    entry = index.last_entry()
    if entry is None:
        return ""
    last = AbortedTransaction._make(entry)
    is_within = base_offset <= last.last_offset < end_offset
    if last.version == _VERSION and last.first_offset <= last.last_offset and is_within:
        return ""
    return f"{path.name} ends with {last}, the segment with {end_offset}"


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a transaction index file."""
    return b"".join([_ENTRY.pack(*entry) for entry in entries])


def read_transaction_index(path: Path) -> list[AbortedTransaction]:
    """Return the entries of a transaction index file.

    Raises:
        CorruptMessage: the file has a part of an entry, or one of an unknown version.
    """
    data = path.read_bytes()
    if len(data) % _ENTRY.size:
        raise CorruptMessage(f"{path} holds {len(data)} bytes, no multiple of {_ENTRY.size}")
    entries = [AbortedTransaction(*fields) for fields in _ENTRY.iter_unpack(data)]
    for entry in entries:
        if entry.version != _VERSION:
            raise CorruptMessage(f"{path} has an entry of version {entry.version}, {_VERSION} is known")
    return entries
