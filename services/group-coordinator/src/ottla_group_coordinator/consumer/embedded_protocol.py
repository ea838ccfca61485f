"""What consumers say to each other inside JoinGroup and SyncGroup, which the coordinator reads during a migration.

A member's metadata is a ``ConsumerProtocolSubscription`` and its assignment a ``ConsumerProtocolAssignment``, each
after two bytes of version. Versions only add fields at the end, so a version that is not known yet is read as the
newest one that is.
"""

import struct
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.errors import InvalidRequest, OttlaError
from ottla_core.wire.bounds import ITEMS_MAX, bounds_checker
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, Partitions

NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


class MalformedConsumerProtocol(OttlaError):
    """The bytes are no subscription or assignment of a consumer."""


class EmbeddedSubscription(NamedTuple):
    """What a member subscribes to, and what it owned when it joined."""

    topics: frozenset[str]
    owned: Partitions
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    """What a member was assigned, and what the assignor added for its own use."""

    partitions: Partitions
    user_data: bytes


def read_subscription(data: bytes, topics: Mapping[str, Topic]) -> EmbeddedSubscription:
    """Return a member's metadata; partitions of topics that do not exist are left out.

    Raises:
        MalformedConsumerProtocol: it is something else.
    """
    message = _read("Subscription", data)
    return EmbeddedSubscription(
        frozenset(message.topics or ()),
        _partitions(getattr(message, "owned_partitions", None), topics),
        getattr(message, "rack_id", None),
    )


def read_assignment(data: bytes, topics: Mapping[str, Topic]) -> EmbeddedAssignment:
    """Return a member's assignment; no bytes are an empty one.

    Raises:
        MalformedConsumerProtocol: it is something else.
    """
    if not data:
        return EmbeddedAssignment(NO_PARTITIONS, b"")
    message = _read("Assignment", data)
    return EmbeddedAssignment(_partitions(message.assigned_partitions, topics), message.user_data or b"")


def write_assignment(partitions: Partitions, metadata: bytes, state: ClusterState) -> bytes:
    """Return an assignment for a member, in the version in which it wrote its metadata."""
    version = _version(metadata)
    module = _module("assignment", version)
    named = sorted(
        (state.topics_by_id[topic_id].name, tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
        if topic_id in state.topics_by_id
    )
    message = module.ConsumerProtocolAssignment(
        assigned_partitions=tuple(module.TopicPartition(topic=name, partitions=indexes) for name, indexes in named),
        user_data=None,
    )
    output = bytearray(_VERSION.pack(version))
    writer: Any = entity_writer(module.ConsumerProtocolAssignment)
    writer(_Appender(output), message)
    return bytes(output)


class _Appender:
    """What kio writes to."""

    def __init__(self, output: bytearray) -> None:
        self._output = output

    def write(self, data: bytes) -> int:
        self._output += data
        return len(data)


def _version(data: bytes) -> int:
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct.error:
        raise MalformedConsumerProtocol(f"{len(data)} bytes hold no version") from None
    if version < 0:
        raise MalformedConsumerProtocol(f"there is no version {version}")
    return int(min(version, NEWEST_VERSION))


def _module(part: str, version: int) -> Any:
    return import_module(f"kio.schema.consumer_protocol_{part}.v{version}.data")


def _read(part: str, data: bytes) -> Any:
    version = _version(data)
    message_type = getattr(_module(part.lower(), version), f"ConsumerProtocol{part}")
    read: Any = entity_reader(message_type)
    frame = memoryview(data)
    try:
        bounds_checker(message_type)(frame, _VERSION.size, ITEMS_MAX)  # as of a request: a count can end the process
        return read(frame, _VERSION.size)[0]
    except (InvalidRequest, SerialError, UnicodeDecodeError, ValueError) as error:
        raise MalformedConsumerProtocol(f"version {version} cannot be read: {error}") from None


def _partitions(named: Any, topics: Mapping[str, Topic]) -> Partitions:
    found: dict[Any, frozenset[int]] = {}
    for entry in named or ():
        topic = topics.get(entry.topic)
        if topic is not None and entry.partitions:
            found[topic.id] = found.get(topic.id, frozenset()) | frozenset(entry.partitions)
    return found
