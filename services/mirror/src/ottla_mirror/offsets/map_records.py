"""The records of the topic in which copies are kept, as bytes. Pure.

==========  ==========================================  ======================================================
record      key, after version and kind                 value
==========  ==========================================  ======================================================
session     topic, partition, producer id and epoch     the rest of `Session`
position    topic, partition, writer                    `Position`
chunk       topic, partition, writer, number            `MapChunk.encoded`
==========  ==========================================  ======================================================

Keys begin with the version of the record's format, so that no record of a later version passes for one of this.
Chunks have version 0. So have sessions, but for those that write in transactions, which have version 1: a worker that
does not know these would take for stored what is not committed. Positions had version 0 before they said the epochs
of the source's leaders, and have version 1 since then; those of version 0 are read as positions without epochs.

A *writer* is whoever writes the position of a partition: a number, higher than any before whenever another worker
takes over or a session begins, and one drawn by chance, as two workers may take over at once. So one that still
writes after that overwrites nothing of its successor's. All numbers are big-endian; a topic's name follows its length
in two bytes.
"""

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from ottla_core.errors import InvalidRecord
from ottla_mirror.offsets.leader_epochs import EpochStart, LeaderEpochs
from ottla_mirror.offsets.map_chunk import MapChunk, read_chunk
from ottla_mirror.offsets.offset_map import MapBounds
from ottla_mirror.offsets.stored_copy import Session, SessionName

POSITION_VERSION: Final = 1
TRANSACTIONAL_SESSION_VERSION: Final = 1
FIRST_POSITION_VERSION_WITH_EPOCHS: Final = 1

_HEAD: Final = struct.Struct(">hBH")
_PARTITION: Final = struct.Struct(">i")
_SESSION_KEY: Final = struct.Struct(">qh")
_POSITION_KEY: Final = struct.Struct(">qI")
_CHUNK_KEY: Final = struct.Struct(">qIq")
_SESSION: Final = struct.Struct(">16sq16sq?qh16s")
_NO_OWNER: Final = UUID(int=0)
_POSITION: Final = struct.Struct(">qhi8q")
_EPOCH_COUNT: Final = struct.Struct(">H")
_EPOCH: Final = struct.Struct(">iq")
_CHUNK_WRITER: Final = struct.Struct(">qqI")


class Kind(Enum):
    """What a record is about."""

    SESSION = 1
    POSITION = 2
    CHUNK = 3


VERSIONS: Final = {Kind.SESSION: TRANSACTIONAL_SESSION_VERSION, Kind.POSITION: POSITION_VERSION, Kind.CHUNK: 0}
"""The latest version of each record that we know."""


class PartitionName(NamedTuple):
    """A partition of the source, whatever topic has the name."""

    topic: str
    partition: int


class PositionWriter(NamedTuple):
    """Who writes the position of a partition.

    Attributes:
        number: the higher one is the later one.
        nonce: 32 bits by chance, those of a worker.
    """

    number: int
    nonce: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key of a session. It is no tuple, as keys of two kinds could be equal then."""

    partition: PartitionName
    name: SessionName
    version: int = 0


@dataclass(frozen=True, slots=True)
class PositionKey:
    """The key of a position; one of an older version is another key, to be deleted as such."""

    partition: PartitionName
    writer: PositionWriter
    version: int = POSITION_VERSION


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """The key of a chunk of a map."""

    partition: PartitionName
    writer: PositionWriter
    number: int


MapKey = SessionKey | PositionKey | ChunkKey


class Position(NamedTuple):
    """How far a copy has come.

    Attributes:
        session: in which.
        next_sequence: see `StoredCopy`.
        bounds: of its map.
        chunk_writers: who has written the map's chunks: a number, and the writer of that chunk and those after it up
            to the next number.
        epochs: see `StoredCopy`.
    """

    session: SessionName
    next_sequence: int
    bounds: MapBounds
    chunk_writers: tuple[tuple[int, PositionWriter], ...]
    epochs: LeaderEpochs = ()


class UnknownVersion(InvalidRecord):
    """A record has a format of a later version."""


def encode_key(key: MapKey) -> bytes:
    """Return a key as bytes."""
    match key:
        case SessionKey(partition, name, version):
            return _key_head(Kind.SESSION, partition, version) + _SESSION_KEY.pack(*name)
        case PositionKey(partition, writer, version):
            return _key_head(Kind.POSITION, partition, version) + _POSITION_KEY.pack(*writer)
        case ChunkKey(partition, writer, number):
            return _key_head(Kind.CHUNK, partition) + _CHUNK_KEY.pack(*writer, number)


def decode_key(key: bytes) -> MapKey:
    """Return the key that these bytes are.

    Raises:
        UnknownVersion: only a later version knows the format.
        InvalidRecord: the bytes are no key.
    """
    try:
        version, number, length = _HEAD.unpack_from(key)
        known = max(VERSIONS.values())
        if version <= known:  # a later one may have other kinds
            kind = Kind(number)
            known = VERSIONS[kind]
        if version > known:
            raise UnknownVersion(f"has version {version} of the format; this worker knows versions up to {known}")
        at = _HEAD.size + length
        (number,) = _PARTITION.unpack_from(key, at)
        partition = PartitionName(key[_HEAD.size : at].decode(), number)
        rest = key[at + _PARTITION.size :]
        match kind:
            case Kind.SESSION:
                return SessionKey(partition, SessionName(*_SESSION_KEY.unpack(rest)), version)
            case Kind.POSITION:
                return PositionKey(partition, PositionWriter(*_POSITION_KEY.unpack(rest)), version)
            case Kind.CHUNK:
                *writer, chunk = _CHUNK_KEY.unpack(rest)
                return ChunkKey(partition, PositionWriter(*writer), chunk)
    except (struct.error, ValueError) as error:
        raise InvalidRecord(f"is no record of an offset map: {error}") from None


def session_key(partition: PartitionName, session: Session) -> SessionKey:
    """Return the key of a session's record."""
    return SessionKey(partition, session.name, TRANSACTIONAL_SESSION_VERSION if session.is_transactional else 0)


def encode_session(session: Session) -> bytes:
    """Return the value of a session's record."""
    replaced = session.replaces or SessionName(-1, -1)
    return _SESSION.pack(
        session.source_topic_id.bytes,
        session.source_start_offset,
        session.target_topic_id.bytes,
        session.target_start_offset,
        session.replaces is not None,
        *replaced,
        (session.owner or _NO_OWNER).bytes,
    )


def decode_session(name: SessionName, value: bytes, version: int = 0) -> Session:
    """Return the session of a record whose key has this version.

    Raises:
        InvalidRecord: the value is malformed.
    """
    try:
        source_id, source_start, target_id, target_start, has_replaced, *replaced, owner = _SESSION.unpack(value)
    except struct.error as error:
        raise InvalidRecord(f"is no session of a copy: {error}") from None
    return Session(
        producer_id=name.producer_id,
        producer_epoch=name.producer_epoch,
        source_topic_id=UUID(bytes=source_id),
        source_start_offset=source_start,
        target_topic_id=UUID(bytes=target_id),
        target_start_offset=target_start,
        replaces=SessionName(*replaced) if has_replaced else None,
        owner=None if owner == _NO_OWNER.bytes else UUID(bytes=owner),
        is_transactional=version == TRANSACTIONAL_SESSION_VERSION,
    )


def encode_position(position: Position) -> bytes:
    """Return the value of a position's record, of the present version."""
    head = _POSITION.pack(*position.session, position.next_sequence, *position.bounds)
    epochs = _EPOCH_COUNT.pack(len(position.epochs)) + b"".join(_EPOCH.pack(*each) for each in position.epochs)
    return head + epochs + b"".join(_CHUNK_WRITER.pack(number, *writer) for number, writer in position.chunk_writers)


def decode_position(value: bytes, version: int = POSITION_VERSION) -> Position:
    """Return the position of a record whose key has this version.

    Raises:
        InvalidRecord: the value is malformed.
    """
    try:
        producer_id, producer_epoch, next_sequence, *bounds = _POSITION.unpack_from(value)
        at = _POSITION.size
        epochs: LeaderEpochs = ()
        if version >= FIRST_POSITION_VERSION_WITH_EPOCHS:
            (count,) = _EPOCH_COUNT.unpack_from(value, at)
            start, at = at + _EPOCH_COUNT.size, at + _EPOCH_COUNT.size + count * _EPOCH.size
            epochs = tuple(EpochStart(*each) for each in _EPOCH.iter_unpack(value[start:at]))
        writers = tuple(
            (number, PositionWriter(*writer)) for number, *writer in _CHUNK_WRITER.iter_unpack(value[at:])
        )
    except struct.error as error:
        raise InvalidRecord(f"is no position of a copy: {error}") from None
    return Position(SessionName(producer_id, producer_epoch), next_sequence, MapBounds(*bounds), writers, epochs)


def decode_chunk(key: ChunkKey, value: bytes) -> MapChunk:
    """Return the chunk of a record.

    Raises:
        InvalidRecord: the value is malformed.
    """
    return read_chunk(key.number, value)


def _key_head(kind: Kind, partition: PartitionName, version: int = 0) -> bytes:
    topic = partition.topic.encode()
    return _HEAD.pack(version, kind.value, len(topic)) + topic + _PARTITION.pack(partition.partition)
