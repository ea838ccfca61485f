"""Encoding of FetchResponse, versions 4 to 18, around record data that never enters Python. Pure.

The response is a list of parts: bytes for everything but the records, and for the records what the log
returned: mostly ranges of files, to be sent with sendfile.

Source of the layout: Kafka's FetchResponse.json.
"""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.wire.leader_hint import CurrentLeader, NodeEndpoint, encode_current_leader, encode_node_endpoints
from ottla_core.wire.primitives import (
    INT32,
    NO_TAGGED_FIELDS,
    array_length,
    null_array,
    string,
    tagged_fields,
    unsigned_varint,
)

NO_OFFSET = -1
NO_PREFERRED_REPLICA = -1
NO_SESSION = 0

_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")
_PARTITION_V12 = struct.Struct(">ihqqqBi")
_ABORTED = struct.Struct(">qq")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_DIVERGING_EPOCH = struct.Struct(">iq")
_DIVERGING_EPOCH_TAG = 0
_CURRENT_LEADER_TAG = 1


class RecordData(Protocol):
    """The bytes of record batches, in a file or elsewhere."""

    @property
    def size(self) -> int:
        """How many bytes."""


Records = TypeVar("Records", bound=RecordData)


@dataclass(slots=True)  # frozen ones take four times as long to make, and one is made per partition
class PartitionFetched(Generic[Records]):
    """The outcome of fetching from one partition.

    Attributes:
        read_committed: whether the reader asked for committed records only; it then gets a list of aborted
            transactions, if only an empty one.
        diverging_epoch: epoch and end offset up to which the reader's log agrees, if it does not agree throughout.
        current_leader: set where this broker is not the leader.
        preferred_replica: the replica that the reader had better read from, if it is another one (KIP-392).
        aborted: producer id and first offset of the aborted transactions among the records, in order of the offsets.
    """

    index: int
    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: Records | None = None
    read_committed: bool = False
    diverging_epoch: tuple[int, int] | None = None
    current_leader: CurrentLeader | None = None
    preferred_replica: int = NO_PREFERRED_REPLICA
    aborted: Sequence[tuple[int, int]] = ()


def encode_fetch_response(
    version: int,
    response_header: bytes,
    topics: Sequence[tuple[str | UUID, Sequence[PartitionFetched[Records]]]],
    *,
    error_code: ErrorCode = ErrorCode.none,
    session_id: int = NO_SESSION,
    node_endpoints: Collection[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[bytes | Records]:
    """Return a whole frame in parts.

    Args:
        version: the request's version.
        response_header: the encoded response header.
        topics: each topic's name (before version 13) or id, with its partitions; a topic may come several times.
        error_code: an error of the whole request.
        session_id: the reader's fetch session, if it has one.
        node_endpoints: the leaders named by `current_leader`; sent from version 16.
        throttle_ms: for how long the client is not read, as it is above a quota.
    """
    flexible = version >= 12
    parts: list[bytes | Records] = []
    pending = bytearray(4)
    pending += response_header
    pending += (
        _THROTTLE_ERROR_SESSION.pack(throttle_ms, error_code, session_id) if version >= 7 else INT32.pack(throttle_ms)
    )
    pending += array_length(len(topics), flexible=flexible)
    size = -4
    for topic, partitions in topics:
        pending += topic.bytes if isinstance(topic, UUID) else string(topic, flexible=flexible)
        pending += array_length(len(partitions), flexible=flexible)
        for partition in partitions:
            pending += _encode_before_records(version, partition)
            if partition.records is not None:
                size += len(pending) + partition.records.size
                parts += (bytes(pending), partition.records)
                pending.clear()
            if flexible:
                pending += _encode_tagged_fields(partition)
        if flexible:
            pending += NO_TAGGED_FIELDS
    if flexible:
        pending += encode_node_endpoints(node_endpoints if version >= 16 else ())
    if pending:
        size += len(pending)
        parts.append(bytes(pending))
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = INT32.pack(size) + first[4:]
    return parts


def _encode_before_records(version: int, fetched: PartitionFetched[Records]) -> bytes:
    """Return a partition up to the length of its records."""
    size = 0 if fetched.records is None else fetched.records.size
    if version >= 12:
        if fetched.aborted:
            return _encode_aborting(fetched) + unsigned_varint(size + 1)
        return _PARTITION_V12.pack(
            fetched.index,
            fetched.error_code,
            fetched.high_watermark,
            fetched.last_stable_offset,
            fetched.log_start_offset,
            1 if fetched.read_committed else 0,
            fetched.preferred_replica,
        ) + unsigned_varint(size + 1)
    common = (fetched.index, fetched.error_code, fetched.high_watermark, fetched.last_stable_offset)
    fixed = _PARTITION_V4.pack(*common) if version == 4 else _PARTITION_V5.pack(*common, fetched.log_start_offset)
    aborted = null_array(flexible=False)
    if fetched.read_committed:
        aborted = array_length(len(fetched.aborted), flexible=False) + b"".join(
            [_ABORTED.pack(*transaction) for transaction in fetched.aborted]
        )
    preferred_replica = INT32.pack(fetched.preferred_replica) if version >= 11 else b""
    return fixed + aborted + preferred_replica + INT32.pack(size)


def _encode_aborting(fetched: PartitionFetched[Records]) -> bytes:
    """Return a partition of version 12 and later, in which transactions were aborted, up to the records' length."""
    common = (fetched.index, fetched.error_code, fetched.high_watermark, fetched.last_stable_offset)
    return b"".join(
        [
            _PARTITION_V5.pack(*common, fetched.log_start_offset),
            array_length(len(fetched.aborted), flexible=True),
            *[_ABORTED.pack(*transaction) + NO_TAGGED_FIELDS for transaction in fetched.aborted],
            INT32.pack(fetched.preferred_replica),
        ]
    )


def _encode_tagged_fields(fetched: PartitionFetched[Records]) -> bytes:
    if fetched.diverging_epoch is None and fetched.current_leader is None:
        return NO_TAGGED_FIELDS
    fields: list[tuple[int, bytes]] = []
    if fetched.diverging_epoch is not None:
        fields.append((_DIVERGING_EPOCH_TAG, _DIVERGING_EPOCH.pack(*fetched.diverging_epoch) + NO_TAGGED_FIELDS))
    if fetched.current_leader is not None:
        fields.append((_CURRENT_LEADER_TAG, encode_current_leader(fetched.current_leader)))
    return tagged_fields(*fields)
