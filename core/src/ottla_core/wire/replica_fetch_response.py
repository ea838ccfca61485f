"""Decoding of FetchResponse, versions 13 to 17, while it arrives and without copying the records. Pure.

A response to a follower may have ten megabytes. The reader is given one buffer for the whole frame and told how much
of it is there; it returns each partition as soon as its last byte has come, and one with many records in several
pieces of whole batches. So a follower checks and writes records while the leader still sends the next ones, and
while they are in the processor's cache.

Every length is checked against the frame as it is read. What is announced beyond the frame's end is a broken
response; what merely has not arrived yet is read later, from the beginning of the item at hand.

Source of the layout: Kafka's FetchResponse.json.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest, InvalidResponse
from ottla_core.wire.bounds import ITEMS_MAX, TAGGED_FIELDS_MAX, read_unsigned_varint, skip_tagged_fields
from ottla_core.wire.primitives import INT32
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, LENGTH_OFFSET, LOG_OVERHEAD_BYTES
from ottla_core.wire.response_values import error_code_of, topic_id_of

_AFTER_HEADER = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_DIVERGING_EPOCH = struct.Struct(">iq")
_ABORTED_TRANSACTION_BYTES: Final = 16
_PREFERRED_REPLICA_BYTES: Final = 4
_TOPIC_ID_BYTES: Final = 16
_DIVERGING_EPOCH_TAG: Final = 0
PIECE_BYTES_MIN: Final = 256 * 1024


class FetchedHead(NamedTuple):
    """What a response says before its partitions.

    Attributes:
        error_code: an error of the whole request; then no partitions follow.
        session_id: the fetch session, 0 for none.
    """

    error_code: ErrorCode
    session_id: int


class PartitionFetched(NamedTuple):
    """What came of one partition.

    Attributes:
        partition: its index.
        records: whole batches; a view into the frame, which is good only until the frame's buffer is used again.
        diverging_epoch: epoch and end offset up to which the follower's log agrees with the leader's, if it departs.
        is_last: whether no further piece of this partition follows.
    """

    topic_id: UUID
    partition: int
    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: tuple[int, int] | None
    is_last: bool = True


class _OpenPartition(NamedTuple):
    """A partition whose records have begun to arrive; where they end, and what came before them."""

    partition: int
    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    records_end: int


class _NotThereYetError(Exception):
    """The item at hand goes on behind what has arrived."""


class ReplicaFetchResponseReader:
    """Reads one response.

    Args:
        frame: the buffer of the whole frame without its length prefix; read-only views of it are handed out.
        correlation_id: the request's.
        piece_bytes_min: how many records of a partition have to be there for a piece of them to be returned.

    Attributes:
        head: what came before the partitions, once it is there.
        is_complete: whether everything has been read.
    """

    __slots__ = (
        "_correlation_id", "_frame", "_open", "_partitions_left", "_piece_bytes_min", "_position", "_topic_id",
        "_topics_left", "head", "is_complete",
    )  # fmt: skip

    def __init__(self, frame: memoryview, correlation_id: int, *, piece_bytes_min: int = PIECE_BYTES_MIN) -> None:
        self._frame = frame.toreadonly()
        self._correlation_id = correlation_id
        self._position = 0
        self._topics_left = 0
        self._partitions_left = 0
        self._open: _OpenPartition | None = None
        self._piece_bytes_min = piece_bytes_min
        self._topic_id = UUID(int=0)
        self.head: FetchedHead | None = None
        self.is_complete = False

    def read_next(self, received: int) -> PartitionFetched | None:
        """Return the next partition or piece of one, or None if it has not arrived, or if there are no more.

        Args:
            received: how many bytes of the frame are there.

        Raises:
            InvalidResponse: the bytes are no such response.
        """
        there = self._frame[:received]
        try:
            return self._read_next(there)
        except (_NotThereYetError, IndexError, struct.error):
            if received < len(self._frame):
                return None
            raise InvalidResponse("a FetchResponse ends before it is complete") from None
        except InvalidRequest as error:  # what the shared primitives raise
            if received < len(self._frame):  # a tagged field that has not arrived looks like one that is too long
                return None
            raise InvalidResponse(f"malformed FetchResponse: {error.message}") from None

    def _read_next(self, there: memoryview) -> PartitionFetched | None:
        if self.head is None:
            self._read_head(there)
        while not self._partitions_left:
            if not self._topics_left:
                self._read_end(there)
                return None
            self._read_topic(there)
        opened = self._open
        if opened is None:
            opened = self._open = self._open_partition(there)
        if opened.records_end > len(there):
            return self._read_piece(there, opened)
        return self._read_rest(there, opened)

    def _read_head(self, there: memoryview) -> None:
        position = skip_tagged_fields(there, 4)  # the header's
        (correlation_id,) = INT32.unpack_from(there)
        if correlation_id != self._correlation_id:
            raise InvalidResponse(f"request {self._correlation_id} was asked, an answer to {correlation_id} came")
        _, error_code, session_id = _AFTER_HEADER.unpack_from(there, position)
        topic_count, position = self._read_count(there, position + _AFTER_HEADER.size)
        self._position, self._topics_left = position, topic_count
        self.head = FetchedHead(error_code_of(error_code), session_id)

    def _read_topic(self, there: memoryview) -> None:
        position = self._position
        topic_id = topic_id_of(bytes(_slice(there, position, _TOPIC_ID_BYTES)))
        count, position = self._read_count(there, position + _TOPIC_ID_BYTES)
        if not count:
            position = skip_tagged_fields(there, position)
            self._topics_left -= 1
        self._topic_id, self._partitions_left, self._position = topic_id, count, position

    def _read_end(self, there: memoryview) -> None:
        if self.is_complete:
            return
        end = skip_tagged_fields(there, self._position)
        if end != len(self._frame):
            raise InvalidResponse(f"{len(self._frame) - end} bytes follow a FetchResponse")
        self._position = end
        self.is_complete = True

    def _open_partition(self, there: memoryview) -> _OpenPartition:
        """Read a partition up to its records."""
        partition, error_code, high_watermark, _, log_start_offset = _PARTITION.unpack_from(there, self._position)
        aborted_count, position = self._read_count(there, self._position + _PARTITION.size)
        for _ in range(aborted_count):
            position = skip_tagged_fields(there, position + _ABORTED_TRANSACTION_BYTES)
        size, position = _read_size(there, position + _PREFERRED_REPLICA_BYTES)
        self._check_fits(position, size)
        self._position = position
        return _OpenPartition(
            partition, error_code_of(error_code), high_watermark, log_start_offset, position + max(size, 0)
        )

    def _read_piece(self, there: memoryview, opened: _OpenPartition) -> PartitionFetched | None:
        """Return the whole batches that are there, if it is enough of them."""
        begin = end = self._position
        if len(there) - begin < self._piece_bytes_min:
            return None
        while end + LOG_OVERHEAD_BYTES <= len(there):
            size = LOG_OVERHEAD_BYTES + INT32.unpack_from(there, end + LENGTH_OFFSET)[0]
            if size < HEADER_SIZE_BYTES or end + size > len(there):
                break  # what is no batch is found by who appends it
            end += size
        if end == begin:
            return None
        self._position = end
        return self._fetched(opened, there[begin:end], None, is_last=False)

    def _read_rest(self, there: memoryview, opened: _OpenPartition) -> PartitionFetched:
        """Return what is left of a partition whose records have arrived."""
        position = opened.records_end
        diverging_epoch = None
        if there[position] == 0:
            position += 1
        else:
            diverging_epoch, position = _read_partition_tags(there, position)
        if self._partitions_left == 1:
            position = skip_tagged_fields(there, position)  # the topic's
            self._topics_left -= 1
        records = there[self._position : opened.records_end]
        self._partitions_left -= 1
        self._position = position
        self._open = None
        return self._fetched(opened, records, diverging_epoch, is_last=True)

    def _fetched(
        self,
        opened: _OpenPartition,
        records: memoryview,
        diverging_epoch: tuple[int, int] | None,
        *,
        is_last: bool,
    ) -> PartitionFetched:
        return PartitionFetched(
            self._topic_id,
            opened.partition,
            opened.error_code,
            opened.high_watermark,
            opened.log_start_offset,
            records,
            diverging_epoch,
            is_last,
        )

    def _read_count(self, there: memoryview, position: int) -> tuple[int, int]:
        """Return an array's count (null counts as empty) if so many items can follow in the frame."""
        count, position = _read_size(there, position)
        if count > ITEMS_MAX:
            raise InvalidResponse(f"{count} items in an array of a FetchResponse; {ITEMS_MAX} is the most")
        self._check_fits(position, count)
        return max(count, 0), position

    def _check_fits(self, position: int, size: int) -> None:
        if size > len(self._frame) - position:
            raise InvalidResponse(
                f"a FetchResponse announces {size} items or bytes, {len(self._frame) - position} bytes follow"
            )


def _read_size(there: memoryview, position: int) -> tuple[int, int]:
    """Return a compact length, -1 for null."""
    size = there[position]
    if size < 0x80:
        return size - 1, position + 1
    size, position = read_unsigned_varint(there, position)
    return size - 1, position


def _slice(there: memoryview, position: int, size: int) -> memoryview:
    end = position + size
    if end > len(there):
        raise _NotThereYetError
    return there[position:end]


def _read_partition_tags(there: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    """Return the diverging epoch, if it is there, and the position behind the tagged fields."""
    count, position = read_unsigned_varint(there, position)
    if count > TAGGED_FIELDS_MAX:
        raise InvalidResponse(f"{count} tagged fields; {TAGGED_FIELDS_MAX} is the most")
    diverging_epoch: tuple[int, int] | None = None
    for _ in range(count):
        tag, position = read_unsigned_varint(there, position)
        size, position = read_unsigned_varint(there, position)
        value = _slice(there, position, size)
        if tag == _DIVERGING_EPOCH_TAG:
            if size < _DIVERGING_EPOCH.size:
                raise InvalidResponse(f"a diverging epoch of {size} bytes")
            diverging_epoch = _DIVERGING_EPOCH.unpack_from(value)
        position += size
    return diverging_epoch, position
