"""Which batches of a fetch response a reader of committed records takes: no markers, no aborted records. Pure.

A response to a fetch of committed records names the aborted transactions that begin or go on in it, by producer and
first offset. A producer's batches from that offset on belong to the transaction, until the marker that ended it.
Source: KIP-98, and Kafka's CompletedFetch.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla_core.errors import InvalidRecord
from ottla_operations.mirror.comparable_records import Batch, comparable_records, key_of

ABORT_MARKER: Final = b"\x00\x00"
"""The type in the key of a marker that ended a transaction by aborting it."""


def committed_batches(batches: Sequence[Batch], aborted: Iterable[tuple[int, int]]) -> list[Batch]:
    """Return the batches with data that is committed.

    Args:
        batches: all of a response.
        aborted: producer ids and first offsets of the aborted transactions in it.

    Raises:
        InvalidRecord: a marker is damaged.
    """
    to_come = sorted(aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    found = []
    for batch in batches:
        header = batch.header
        while to_come and to_come[-1][1] <= header.last_offset:
            aborting.add(to_come.pop()[0])
        if header.is_control:
            if header.producer_id in aborting and _aborts(batch):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found.append(batch)
    return found


def _aborts(marker: Batch) -> bool:
    """Return whether a marker says that a transaction was aborted; its key is a version and a type."""
    records = comparable_records(marker)
    if not records:
        return False
    key = key_of(records[0].body)
    if key is None or len(key) < len(ABORT_MARKER) * 2:
        raise InvalidRecord(f"The marker at offset {marker.header.base_offset} has no type")
    return key[2:4] == ABORT_MARKER
