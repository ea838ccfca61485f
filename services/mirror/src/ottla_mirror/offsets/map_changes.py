"""Which records have to be written for a copy to be stored, given what of it is stored already. Pure.

A writer stores the chunks of its map that have changed, then the position, then deletes what nobody needs any more:
chunks of its own that are gone, and the sessions, positions and chunks that it has superseded.

A worker may be away for so long that another one takes its partition over, and have it again without having heard of
that. What it stores does not count from then on (`is_overtaken`), until it takes the partition over in its turn.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.offsets.leader_epochs import LeaderEpochs
from ottla_mirror.offsets.map_chunk import MapChunk
from ottla_mirror.offsets.map_records import (
    ChunkKey,
    MapKey,
    PartitionName,
    Position,
    PositionKey,
    PositionWriter,
    SessionKey,
    encode_key,
    encode_position,
    encode_session,
    session_key,
)
from ottla_mirror.offsets.map_state import MapState
from ottla_mirror.offsets.offset_map import MapBounds
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy

CHUNK_WRITERS_MAX: Final = 64
"""A map whose chunks are of more writers is written anew, so that its position stays short."""


@dataclass(slots=True)
class StoredByWriter:
    """What a writer knows to be stored of its partition.

    Attributes:
        writer: it.
        chunks: by number, the chunk's key and its bytes.
        position: as it was written last; None if this writer has written none.
        superseded: keys to be deleted with the next position.
    """

    writer: PositionWriter
    chunks: dict[int, tuple[ChunkKey, bytes]] = field(default_factory=dict)
    position: Position | None = None
    superseded: set[MapKey] = field(default_factory=set)


class Snapshot(NamedTuple):
    """A copy at one moment.

    Attributes:
        session: the session's name.
        next_sequence: see `StoredCopy`.
        bounds: of its map.
        chunks: of its map.
        epochs: see `StoredCopy`.
    """

    session: SessionName
    next_sequence: int
    bounds: MapBounds
    chunks: tuple[MapChunk, ...]
    epochs: LeaderEpochs = ()


def snapshot(copy: StoredCopy) -> Snapshot:
    """Return a copy as it is now; its map may go on changing."""
    return Snapshot(copy.session.name, copy.next_sequence, copy.map.bounds, tuple(copy.map.chunks()), copy.epochs)


def is_overtaken(state: MapState, partition: PartitionName, copy: Snapshot, written: StoredByWriter) -> bool:
    """Return whether a later writer counts who has not come as far as this one, in the session that holds.

    Raises:
        InvalidRecord: a stored record cannot be read.
    """
    holder, position = state.session(partition), state.position(partition)
    if holder is None or holder.name != copy.session or position is None:
        return False
    if state.writer(partition).number <= written.writer.number:
        return False
    return position.session != copy.session or position.bounds.source_end < copy.bounds.source_end


def taken_over(state: MapState, partition: PartitionName, writer: PositionWriter) -> StoredByWriter:
    """Return what a new writer of a partition finds.

    Raises:
        InvalidRecord: a stored record cannot be read.
    """
    position = state.position(partition)
    found = state.chunks(partition, position) if position else []
    chunks = {key.number: (key, chunk.encoded) for key, chunk in found}
    holder = state.session(partition)
    needed: set[MapKey] = {key for key, _ in chunks.values()}
    if holder is not None:
        needed.add(session_key(partition, holder))
    return StoredByWriter(writer, chunks, None, set(state.keys(partition)) - needed)


def changes(partition: PartitionName, copy: Snapshot, written: StoredByWriter) -> tuple[list[Entry], StoredByWriter]:
    """Return what has to be appended, in order, and what is stored once it is. Nothing if nothing has changed."""
    entries: list[Entry] = []
    superseded = set(written.superseded)
    chunks: dict[int, tuple[ChunkKey, bytes]] = {}
    for chunk in copy.chunks:
        key, encoded = written.chunks.get(chunk.number, (None, b""))
        if key is None or encoded != chunk.encoded:
            if key is not None and key.writer != written.writer:
                superseded.add(key)
            key = ChunkKey(partition, written.writer, chunk.number)
            entries.append(Entry(encode_key(key), chunk.encoded))
        chunks[chunk.number] = (key, chunk.encoded)
    superseded.update(key for number, (key, _) in written.chunks.items() if number not in chunks)
    writers = _chunk_writers([key for key, _ in chunks.values()])
    position = Position(copy.session, copy.next_sequence, copy.bounds, writers, copy.epochs)
    if position == written.position and not entries:
        return [], written
    if len(writers) > CHUNK_WRITERS_MAX:
        return changes(partition, copy, replace(written, chunks={}, superseded=superseded | _keys(written)))
    entries.append(Entry(encode_key(PositionKey(partition, written.writer)), encode_position(position)))
    # Behind the position, which is what counts at a crash: a former one may name what is deleted here, and would have
    # a hole in its map. What remains of it, if the deletions do not arrive, `taken_over` finds.
    entries += deletions(superseded)
    return entries, StoredByWriter(written.writer, chunks, position)


def first_changes(
    partition: PartitionName, copy: StoredCopy, written: StoredByWriter, before: Session | None
) -> tuple[list[Entry], StoredByWriter]:
    """Return what `changes` does for a session that is stored together with its first position.

    Args:
        partition: of the source.
        copy: at its first position.
        written: what this writer has found.
        before: the session that holds up to then; its record goes, as no position names it any more.
    """
    replaced = set() if before is None else {session_key(partition, before)}
    found = replace(written, superseded=written.superseded | replaced)
    entries, after = changes(partition, snapshot(copy), found)
    key = encode_key(session_key(partition, copy.session))
    return [Entry(key, encode_session(copy.session)), *entries], after


def _chunk_writers(keys: Sequence[ChunkKey]) -> tuple[tuple[int, PositionWriter], ...]:
    """Return who has written chunks, in order, as a position says it."""
    found: list[tuple[int, PositionWriter]] = []
    for key in keys:
        if not found or found[-1][1] != key.writer:
            found.append((key.number, key.writer))
    return tuple(found)


def _keys(written: StoredByWriter) -> set[MapKey]:
    return {key for key, _ in written.chunks.values() if key.writer != written.writer}


def deletions(keys: Collection[MapKey]) -> list[Entry]:
    """Return the records that delete keys; a session's comes last, as a position may name it until then."""
    ordered = sorted(keys, key=lambda key: (isinstance(key, SessionKey), encode_key(key)))
    return [Entry(encode_key(key), None) for key in ordered]
