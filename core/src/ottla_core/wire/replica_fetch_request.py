"""Encoding of FetchRequest, version 17, as a follower sends it to the leader of its partitions. Pure.

Leaders of linked partitions ask with it too, in older versions where their source knows no other.

Written by hand because a follower sends one for every batch that it waits for. In an incremental session (KIP-227)
most requests name one partition, or none.

Source of the layout: Kafka's FetchRequest.json.
"""

import struct
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla_core.wire.primitives import INT32, NO_TAGGED_FIELDS, array_length, unsigned_varint

FETCH_KEY: Final = 1
FETCH_VERSION: Final = 17
OLDEST_VERSION: Final = 13
"""Names topics by their ids, as brokers since Kafka 3.1 do. Brokers of one cluster always use `FETCH_VERSION`."""
_FIRST_WITH_REPLICA_STATE: Final = 15

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

_FRAME_HEADER = struct.Struct(">ihhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_BEFORE_TOPICS = struct.Struct(">iiibii")
_PARTITION = struct.Struct(">iiqiqib")
_REPLICA_STATE = struct.Struct(">iqb")
_READ_UNCOMMITTED = 0
_REPLICA_STATE_TAG = 1
_NO_RACK = b"\x01"


class PartitionFetch(NamedTuple):
    """From where one partition is fetched, and how much of it.

    Attributes:
        partition: its index.
        current_leader_epoch: what the follower takes the leader epoch to be.
        fetch_offset: the follower's log end offset.
        last_fetched_epoch: the leader epoch of the last batch in its log, or -1.
        log_start_offset: the follower's log start offset.
        max_bytes: of records.
    """

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchLimits(NamedTuple):
    """When a fetch is answered: with `bytes_min` there or after `wait_ms_max`, and with `bytes_max` at most."""

    wait_ms_max: int
    bytes_min: int
    bytes_max: int


class ReplicaFetchRequestWriter:
    """Writes the requests of one follower.

    Args:
        client_id: the follower's name in the leader's logs.
        replica_id: the follower's broker id; -1 for a consumer.
        limits: the same for all requests.
    """

    __slots__ = ("_client_id", "_limits", "_replica_id")

    def __init__(self, client_id: str, replica_id: int, limits: FetchLimits) -> None:
        name = client_id.encode()
        self._client_id = _CLIENT_ID_LENGTH.pack(len(name)) + name + NO_TAGGED_FIELDS
        self._replica_id = replica_id
        self._limits = limits

    def write(
        self,
        correlation_id: int,
        replica_epoch: int,
        session: tuple[int, int],
        asked: Mapping[UUID, Collection[PartitionFetch]],
        forgotten: Mapping[UUID, Collection[int]],
    ) -> bytes:
        """Return a whole frame.

        Args:
            correlation_id: comes back in the response.
            replica_epoch: the follower's broker epoch.
            session: the id and the epoch of the fetch session.
            asked: the partitions, by topic id.
            forgotten: indexes of partitions that leave the session, by topic id.
        """
        frame = bytearray(_FRAME_HEADER.pack(0, FETCH_KEY, FETCH_VERSION, correlation_id))
        frame += self._client_id
        frame += self.body(replica_epoch, session, asked, forgotten)
        INT32.pack_into(frame, 0, len(frame) - INT32.size)
        return bytes(frame)

    def body(
        self,
        replica_epoch: int,
        session: tuple[int, int],
        asked: Mapping[UUID, Collection[PartitionFetch]],
        forgotten: Mapping[UUID, Collection[int]],
        *,
        version: int = FETCH_VERSION,
    ) -> bytearray:
        """Return what follows the header, in a version from `OLDEST_VERSION` on; see `write`."""
        frame = bytearray()
        if version < _FIRST_WITH_REPLICA_STATE:
            frame += INT32.pack(self._replica_id)
        frame += _BEFORE_TOPICS.pack(*self._limits, _READ_UNCOMMITTED, *session)
        frame += array_length(len(asked), flexible=True)
        for topic_id, partitions in asked.items():
            frame += topic_id.bytes
            frame += array_length(len(partitions), flexible=True)
            for partition in partitions:
                frame += _PARTITION.pack(*partition, 0)
            frame += NO_TAGGED_FIELDS
        frame += array_length(len(forgotten), flexible=True)
        for topic_id, indexes in forgotten.items():
            frame += topic_id.bytes
            frame += array_length(len(indexes), flexible=True)
            frame += b"".join(map(INT32.pack, indexes))
            frame += NO_TAGGED_FIELDS
        frame += _NO_RACK
        if version < _FIRST_WITH_REPLICA_STATE:
            frame += NO_TAGGED_FIELDS
            return frame
        frame += b"\x01"  # one tagged field
        frame += unsigned_varint(_REPLICA_STATE_TAG) + unsigned_varint(_REPLICA_STATE.size)
        frame += _REPLICA_STATE.pack(self._replica_id, replica_epoch, 0)
        return frame
