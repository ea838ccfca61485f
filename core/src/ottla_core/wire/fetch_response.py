"""Encoding of FetchResponse, versions 4 to 18, around record data that never enters Python.

The response is a list of parts: bytes for everything but the records, and for the records the file ranges that the
log returned, to be sent with sendfile.

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
    bytes_length,
    null_array,
    string,
    tagged_fields,
)

NO_OFFSET = -1
NO_PREFERRED_REPLICA = INT32.pack(-1)
SESSIONLESS = 0

_PARTITION = struct.Struct(">ihqqq")
_PARTITION_V4 = struct.Struct(">ihqq")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_DIVERGING_EPOCH = struct.Struct(">iq")
_DIVERGING_EPOCH_TAG = 0
_CURRENT_LEADER_TAG = 1


class FileRange(Protocol):
    """Bytes of a file."""

    @property
    def size(self) -> int:
        """How many bytes."""


Records = TypeVar("Records", bound=FileRange)


@dataclass(frozen=True, slots=True)
class PartitionFetched(Generic[Records]):
    """The outcome of fetching from one partition.

    Attributes:
        read_committed: whether the reader asked for committed records only; it then gets a list of aborted
            transactions, though an empty one.
        diverging_epoch: epoch and end offset up to which the reader's log agrees, if it does not agree throughout.
        current_leader: set where this broker is not the leader.
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


def encode_fetch_response(
    version: int,
    response_header: bytes,
    topics: Sequence[tuple[str | UUID, Sequence[PartitionFetched[Records]]]],
    *,
    error_code: ErrorCode = ErrorCode.none,
    node_endpoints: Collection[NodeEndpoint] = (),
) -> list[bytes | Records]:
    """Return a whole frame in parts.

    Args:
        version: the request's version.
        response_header: the encoded response header.
        topics: each topic's name (before version 13) or id, with its partitions.
        error_code: an error of the whole request.
        node_endpoints: the leaders named by `current_leader`; sent from version 16.
    """
    flexible = version >= 12
    parts: list[bytes | Records] = []
    pending = bytearray(response_header)
    pending += _THROTTLE_ERROR_SESSION.pack(0, error_code, SESSIONLESS) if version >= 7 else INT32.pack(0)
    pending += array_length(len(topics), flexible=flexible)
    for topic, partitions in topics:
        pending += topic.bytes if isinstance(topic, UUID) else string(topic, flexible=flexible)
        pending += array_length(len(partitions), flexible=flexible)
        for partition in partitions:
            pending += _encode_before_records(version, partition)
            if partition.records is not None:
                parts += (bytes(pending), partition.records)
                pending.clear()
            if flexible:
                pending += _encode_tagged_fields(partition)
        if flexible:
            pending += NO_TAGGED_FIELDS
    if flexible:
        pending += encode_node_endpoints(node_endpoints if version >= 16 else ())
    if pending:
        parts.append(bytes(pending))
    size = sum(len(part) if isinstance(part, bytes) else part.size for part in parts)
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = INT32.pack(size) + first
    return parts


def _encode_before_records(version: int, fetched: PartitionFetched[Records]) -> bytes:
    flexible = version >= 12
    common = (fetched.index, fetched.error_code, fetched.high_watermark, fetched.last_stable_offset)
    fixed = _PARTITION_V4.pack(*common) if version == 4 else _PARTITION.pack(*common, fetched.log_start_offset)
    aborted = array_length(0, flexible=flexible) if fetched.read_committed else null_array(flexible=flexible)
    preferred_replica = NO_PREFERRED_REPLICA if version >= 11 else b""
    size = 0 if fetched.records is None else fetched.records.size
    return fixed + aborted + preferred_replica + bytes_length(size, flexible=flexible)


def _encode_tagged_fields(fetched: PartitionFetched[Records]) -> bytes:
    fields: list[tuple[int, bytes]] = []
    if fetched.diverging_epoch is not None:
        fields.append((_DIVERGING_EPOCH_TAG, _DIVERGING_EPOCH.pack(*fetched.diverging_epoch) + NO_TAGGED_FIELDS))
    if fetched.current_leader is not None:
        fields.append((_CURRENT_LEADER_TAG, encode_current_leader(fetched.current_leader)))
    return tagged_fields(*fields) if fields else NO_TAGGED_FIELDS
