"""The transaction index (`.txnindex`): the aborted transactions that end in a segment.

Each entry is 34 bytes: version, producer id, first and last offset, and the last stable offset at the time of
the abort. The broker refuses transactional batches for now, so it only ever meets these files in directories
that Kafka wrote; it checks and shows them. Source: Kafka's AbortedTxn.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from ottla_core.errors import CorruptMessage

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction, as stored."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


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
