"""Encoding of MetadataResponse, versions 0 to 13, piece by piece.

Written by hand because every client asks for it, again and again, and because a cluster may have 200,000 partitions:
kio's objects and its general writer take some 50 µs for each of them, this one about 2 µs. It gives pieces, so that
whoever puts a long response together can let others run in between.

Source of the layout: Kafka's MetadataResponse.json.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.authorized_operations import NOT_ASKED
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.wire.primitives import INT16, INT32, NO_TAGGED_FIELDS, array_length, string

_PARTITION_V0: Final = struct.Struct(">hii")
_PARTITION_V7: Final = struct.Struct(">hiii")
_NO_THROTTLE: Final = INT32.pack(0)
_TRUE, _FALSE = b"\1", b"\0"
_LISTS_KEPT: Final = 4096
"""Encoded lists of broker ids that are kept: partitions have the same few again and again."""


class BrokerMetadata(NamedTuple):
    """A broker as clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None


class TopicMetadata(NamedTuple):
    """What a response says of a topic beside its partitions.

    Attributes:
        name: None where a topic was asked for by an id that nobody knows.
        id: None where a topic was asked for by a name that nobody knows.
    """

    error_code: ErrorCode
    name: str | None
    id: UUID | None
    is_internal: bool = False
    operations: int = NOT_ASKED


class MetadataEncoder:
    """Encodes the pieces of a response of one version.

    The response is `beginning`, for each topic `topic_beginning`, its partitions and `topic_end`, then `end`; all of
    it behind the frame's length and the response header.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._flexible = version >= 9
        self._tags = NO_TAGGED_FIELDS if self._flexible else b""

    def beginning(
        self, brokers: Sequence[BrokerMetadata], *, cluster_id: str, controller_id: int, topic_count: int
    ) -> bytes:
        """Return everything before the first topic."""
        version, flexible = self._version, self._flexible
        pieces = [_NO_THROTTLE if version >= 3 else b"", array_length(len(brokers), flexible=flexible)]
        for broker in brokers:
            pieces += (INT32.pack(broker.id), string(broker.host, flexible=flexible), INT32.pack(broker.port))
            pieces += (string(broker.rack, flexible=flexible) if version >= 1 else b"", self._tags)
        pieces += (
            string(cluster_id, flexible=flexible) if version >= 2 else b"",
            INT32.pack(controller_id) if version >= 1 else b"",
            array_length(topic_count, flexible=flexible),
        )
        return b"".join(pieces)

    def topic_beginning(self, topic: TopicMetadata, partition_count: int) -> bytes:
        """Return what comes before a topic's partitions; versions before 12 know no topic without a name."""
        version, flexible = self._version, self._flexible
        name = topic.name if version >= 12 else topic.name or ""
        return b"".join(
            (
                INT16.pack(topic.error_code),
                string(name, flexible=flexible),
                (topic.id or ZERO_UUID).bytes if version >= 10 else b"",
                (_TRUE if topic.is_internal else _FALSE) if version >= 1 else b"",
                array_length(partition_count, flexible=flexible),
            )
        )

    def partition(
        self,
        error_code: ErrorCode,
        index: int,
        leader: int,
        leader_epoch: int,
        *,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        offline: tuple[int, ...],
    ) -> bytes:
        """Return a partition; the lists are of broker ids."""
        if self._flexible:
            return (
                _PARTITION_V7.pack(error_code, index, leader, leader_epoch)
                + _compact_ids(replicas)
                + _compact_ids(in_sync)
                + _compact_ids(offline)
                + NO_TAGGED_FIELDS
            )
        if self._version >= 7:
            fixed = _PARTITION_V7.pack(error_code, index, leader, leader_epoch)
        else:
            fixed = _PARTITION_V0.pack(error_code, index, leader)
        return fixed + _ids(replicas) + _ids(in_sync) + (_ids(offline) if self._version >= 5 else b"")

    def topic_end(self, topic: TopicMetadata) -> bytes:
        """Return what comes after a topic's partitions."""
        return (INT32.pack(topic.operations) if self._version >= 8 else b"") + self._tags

    def end(self, *, cluster_operations: int = NOT_ASKED) -> bytes:
        """Return everything after the last topic."""
        version = self._version
        operations = INT32.pack(cluster_operations) if 8 <= version <= 10 else b""
        return operations + (INT16.pack(ErrorCode.none) if version >= 13 else b"") + self._tags


@lru_cache(_LISTS_KEPT)
def _compact_ids(ids: tuple[int, ...]) -> bytes:
    return array_length(len(ids), flexible=True) + struct.pack(f">{len(ids)}i", *ids)


@lru_cache(_LISTS_KEPT)
def _ids(ids: tuple[int, ...]) -> bytes:
    return array_length(len(ids), flexible=False) + struct.pack(f">{len(ids)}i", *ids)
