"""Which batches of the source are copied: no control batches, no records of aborted transactions, nothing empty.

A fetch with read_committed returns aborted records too, and says beside them which transactions they belong to. As in
Kafka's consumer (CompletedFetch), a transaction of the list counts from its first offset to the producer's next
abort marker.
"""

import struct
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from ottla_core.errors import InvalidRecord
from ottla_core.wire.consumer_fetch import AbortedTransaction
from ottla_core.wire.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatchHeader
from ottla_core.wire.records import iterate_records

_ABORT: Final = 0
_CONTROL_KEY: Final = struct.Struct(">hh")
_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


class DeliverableBatches:
    """Says of each batch of one answer, in order, whether it is copied.

    Args:
        aborted: the transactions that the answer lists.
    """

    __slots__ = ("_aborting", "_to_come")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
        self._aborting: set[int] = set()

    def includes(self, header: RecordBatchHeader, batch: memoryview) -> bool:
        """Return whether a batch is copied.

        Raises:
            InvalidRecord: it is a control batch that cannot be read.
        """
        if not header.attributes & _TRANSACTIONAL_OR_CONTROL:
            return header.record_count > 0
        last_offset = header.last_offset
        while self._to_come and self._to_come[-1].first_offset <= last_offset:
            self._aborting.add(self._to_come.pop().producer_id)
        if header.is_control:
            if self._aborting and header.record_count and _is_abort(header, batch):
                self._aborting.discard(header.producer_id)
            return False
        return header.record_count > 0 and header.producer_id not in self._aborting


def _is_abort(header: RecordBatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch ends a transaction by aborting it."""
    key = next(iterate_records(batch, header)).key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise InvalidRecord(f"The control batch at offset {header.base_offset} has no type")
    return bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)
