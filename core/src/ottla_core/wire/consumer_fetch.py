"""FetchRequest and FetchResponse, versions 4 to 17, as a consumer writes and reads them, without copying the records.

For programs that move whole batches: what comes back are views into the frame. `replica_fetch_request.py` and
`replica_fetch_response.py` are what followers use, of one version only. Version 4 is the oldest that knows batches of
format 2, 7 the first with sessions (KIP-227), 13 the first that names topics by their ids.

Every length is checked against the frame as it is read.

Source of the layouts: Kafka's FetchRequest.json and FetchResponse.json.
"""

import struct
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest, InvalidResponse
from ottla_core.wire.bounds import ITEMS_MAX, TAGGED_FIELDS_MAX, read_unsigned_varint, skip_tagged_fields
from ottla_core.wire.primitives import INT16, INT32, NO_TAGGED_FIELDS, array_length, string
from ottla_core.wire.replica_fetch_request import FIRST_EPOCH, NO_SESSION, FetchLimits
from ottla_core.wire.response_values import error_code_of, topic_id_of

FETCH_KEY: Final = 1
OLDEST_VERSION: Final = 4
NEWEST_VERSION: Final = 17
FIRST_VERSION_WITH_LOG_START: Final = 5
FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_VERSION_WITH_LEADER_EPOCH: Final = 9
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_FLEXIBLE_VERSION: Final = 12
FIRST_VERSION_BY_TOPIC_ID: Final = 13
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15

CONSUMER: Final = -1
NO_LOG_START_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1

_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_ASKED_V4 = struct.Struct(">iqi")
_ASKED_V5 = struct.Struct(">iqqi")
_ASKED_V9 = struct.Struct(">iiqqi")
_ASKED_V12 = struct.Struct(">iiqiqib")

_ERROR_AND_SESSION = struct.Struct(">hi")
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iq")
_DIVERGING_EPOCH_TAG: Final = 0

TopicKey = str | UUID
"""A topic's name, or from version 13 on its id."""
NO_SESSION_OPENED: Final = (NO_SESSION, FIRST_EPOCH)


class IsolationLevel(IntEnum):
    """Whether records of transactions are returned that are not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchAsked(NamedTuple):
    """From where one partition is fetched, and how much of it.

    Attributes:
        partition: its number.
        current_leader_epoch: what the consumer takes the leader epoch to be, or -1.
        fetch_offset: of the first record wanted.
        last_fetched_epoch: the leader epoch of the batch before that offset, or -1; the leader compares its history.
        max_bytes: of records.
    """

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: all records of the producer from this offset to its next marker."""

    producer_id: int
    first_offset: int


class PartitionAnswer(NamedTuple):
    """What came of one partition.

    Attributes:
        topic: as it was named in the request.
        partition: its number.
        error_code: of this partition.
        high_watermark: end of what is replicated, or -1.
        last_stable_offset: end of what is decided, or -1.
        log_start_offset: -1 before version 5.
        aborted: transactions whose records are to be left out.
        records: whole batches, but for one that may be cut at the end; a view into the frame.
        diverging_epoch: epoch and end offset up to which both histories agree, if the consumer's departs.
    """

    topic: TopicKey
    partition: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview
    diverging_epoch: tuple[int, int] | None


class FetchAnswer(NamedTuple):
    """A whole response.

    Attributes:
        throttle_ms: how long the broker wants not to be asked again.
        error_code: of the whole request, such as a session that is gone; then there are no partitions.
        session_id: of the fetch session, 0 for none.
        partitions: all, in a session those that have something new.
    """

    throttle_ms: int
    error_code: ErrorCode
    session_id: int
    partitions: list[PartitionAnswer]


def fetch_request_body(
    version: int,
    limits: FetchLimits,
    *,
    isolation_level: IsolationLevel,
    session: tuple[int, int],
    asked: Mapping[TopicKey, Collection[FetchAsked]],
    forgotten: Mapping[TopicKey, Collection[int]],
) -> bytes:
    """Return what follows the header of a request.

    Args:
        version: of the API.
        limits: when it is answered, and how large the answer is.
        isolation_level: see there.
        session: id and epoch; of no effect before version 7.
        asked: partitions by topic.
        forgotten: numbers of partitions that leave the session, by topic.
    """
    flexible = version >= FIRST_FLEXIBLE_VERSION
    body = bytearray()
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        body += INT32.pack(CONSUMER)
    body += _LIMITS.pack(*limits, isolation_level)
    if version >= FIRST_VERSION_WITH_SESSIONS:
        body += _SESSION.pack(*session)
    body += array_length(len(asked), flexible=flexible)
    for topic, partitions in asked.items():
        body += _topic_key(topic, version)
        body += array_length(len(partitions), flexible=flexible)
        for each in partitions:
            body += _asked(each, version)
        if flexible:
            body += NO_TAGGED_FIELDS
    if version >= FIRST_VERSION_WITH_SESSIONS:
        body += array_length(len(forgotten), flexible=flexible)
        for topic, numbers in forgotten.items():
            body += _topic_key(topic, version)
            body += array_length(len(numbers), flexible=flexible)
            body += b"".join(map(INT32.pack, numbers))
            if flexible:
                body += NO_TAGGED_FIELDS
    if version >= FIRST_VERSION_WITH_RACK:
        body += string("", flexible=flexible)
    if flexible:
        body += NO_TAGGED_FIELDS
    return bytes(body)


def read_fetch_response(frame: memoryview, version: int) -> FetchAnswer:
    """Return the response that a frame holds, from its correlation id on.

    Raises:
        InvalidResponse: the bytes are no such response.
    """
    try:
        return _Reader(frame, version).read()
    except (IndexError, struct.error):
        raise InvalidResponse(f"FetchResponse v{version} ends before it is complete") from None
    except UnicodeDecodeError:
        raise InvalidResponse(f"FetchResponse v{version} has a topic that is not UTF-8") from None
    except InvalidRequest as error:  # what the shared primitives raise
        raise InvalidResponse(f"malformed FetchResponse v{version}: {error.message}") from None


def _topic_key(topic: TopicKey, version: int) -> bytes:
    assert isinstance(topic, UUID) == (version >= FIRST_VERSION_BY_TOPIC_ID), f"v{version} does not name topics so"
    return topic.bytes if isinstance(topic, UUID) else string(topic, flexible=version >= FIRST_FLEXIBLE_VERSION)


def _asked(each: FetchAsked, version: int) -> bytes:
    partition, current_epoch, offset, last_epoch, max_bytes = each
    if version >= FIRST_FLEXIBLE_VERSION:
        return _ASKED_V12.pack(partition, current_epoch, offset, last_epoch, NO_LOG_START_OFFSET, max_bytes, 0)
    if version >= FIRST_VERSION_WITH_LEADER_EPOCH:
        return _ASKED_V9.pack(partition, current_epoch, offset, NO_LOG_START_OFFSET, max_bytes)
    if version >= FIRST_VERSION_WITH_LOG_START:
        return _ASKED_V5.pack(partition, offset, NO_LOG_START_OFFSET, max_bytes)
    return _ASKED_V4.pack(partition, offset, max_bytes)


class _Reader:
    """Reads one response from its beginning to its end."""

    __slots__ = ("_flexible", "_frame", "_position", "_version")

    def __init__(self, frame: memoryview, version: int) -> None:
        self._frame = frame
        self._version = version
        self._flexible = version >= FIRST_FLEXIBLE_VERSION
        self._position = INT32.size

    def read(self) -> FetchAnswer:
        frame = self._frame
        if self._flexible:
            self._position = skip_tagged_fields(frame, self._position)
        (throttle_ms,) = INT32.unpack_from(frame, self._position)
        self._position += INT32.size
        error, session_id = 0, NO_SESSION
        if self._version >= FIRST_VERSION_WITH_SESSIONS:
            error, session_id = _ERROR_AND_SESSION.unpack_from(frame, self._position)
            self._position += _ERROR_AND_SESSION.size
        partitions: list[PartitionAnswer] = []
        for _ in range(self._count()):
            topic = self._topic()
            partitions += [self._partition(topic) for _ in range(self._count())]
            self._skip_tags()
        self._skip_tags()
        if self._position != len(frame):
            raise InvalidResponse(f"{len(frame) - self._position} bytes follow a FetchResponse")
        return FetchAnswer(throttle_ms, error_code_of(error), session_id, partitions)

    def _partition(self, topic: TopicKey) -> PartitionAnswer:
        frame, version = self._frame, self._version
        log_start_offset = NO_LOG_START_OFFSET
        if version >= FIRST_VERSION_WITH_LOG_START:
            found = _PARTITION_V5.unpack_from(frame, self._position)
            partition, error, high_watermark, last_stable_offset, log_start_offset = found
            self._position += _PARTITION_V5.size
        else:
            partition, error, high_watermark, last_stable_offset = _PARTITION_V4.unpack_from(frame, self._position)
            self._position += _PARTITION_V4.size
        aborted = self._aborted()
        if version >= FIRST_VERSION_WITH_RACK:
            self._position += INT32.size  # the preferred replica, which is named to those with a rack only
        size = self._size()
        records = self._slice(max(size, 0))
        diverging_epoch = self._partition_tags()
        return PartitionAnswer(
            topic,
            partition,
            error_code_of(error),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            records,
            diverging_epoch,
        )

    def _aborted(self) -> tuple[AbortedTransaction, ...]:
        count = self._count()
        if not count:
            return ()
        found = []
        for _ in range(count):
            found.append(AbortedTransaction._make(_ABORTED.unpack_from(self._frame, self._position)))
            self._position += _ABORTED.size
            self._skip_tags()
        return tuple(found)

    def _partition_tags(self) -> tuple[int, int] | None:
        if not self._flexible:
            return None
        frame = self._frame
        if frame[self._position] == 0:
            self._position += 1
            return None
        count, self._position = read_unsigned_varint(frame, self._position)
        if count > TAGGED_FIELDS_MAX:
            raise InvalidResponse(f"{count} tagged fields; {TAGGED_FIELDS_MAX} is the most")
        diverging_epoch: tuple[int, int] | None = None
        for _ in range(count):
            tag, self._position = read_unsigned_varint(frame, self._position)
            size, self._position = read_unsigned_varint(frame, self._position)
            value = self._slice(size)
            if tag == _DIVERGING_EPOCH_TAG:
                diverging_epoch = _EPOCH_END.unpack_from(value)
        return diverging_epoch

    def _topic(self) -> TopicKey:
        if self._version >= FIRST_VERSION_BY_TOPIC_ID:
            return topic_id_of(bytes(self._slice(16)))
        if self._flexible:
            size = self._size()
        else:
            (size,) = INT16.unpack_from(self._frame, self._position)
            self._position += INT16.size
        if size < 0:
            raise InvalidResponse("a topic of a FetchResponse has no name")
        return str(self._slice(size), "utf-8")

    def _size(self) -> int:
        """Return a length, -1 for null."""
        if not self._flexible:
            (size,) = INT32.unpack_from(self._frame, self._position)
            self._position += INT32.size
            return int(size)
        size = self._frame[self._position]
        if size < 0x80:
            self._position += 1
        else:
            size, self._position = read_unsigned_varint(self._frame, self._position)
        return int(size) - 1

    def _count(self) -> int:
        """Return an array's count, 0 for null, if so many items can follow."""
        count = max(self._size(), 0)
        if count > min(ITEMS_MAX, len(self._frame) - self._position):
            raise InvalidResponse(f"{count} items are announced in a FetchResponse, which cannot follow")
        return count

    def _slice(self, size: int) -> memoryview:
        end = self._position + size
        if end > len(self._frame):
            raise InvalidResponse(f"{size} bytes are announced, {len(self._frame) - self._position} follow")
        found = self._frame[self._position : end]
        self._position = end
        return found

    def _skip_tags(self) -> None:
        if self._flexible:
            self._position = skip_tagged_fields(self._frame, self._position)
