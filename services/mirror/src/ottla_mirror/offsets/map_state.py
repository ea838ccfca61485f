"""What the records of the offset map's topic say together, read in the order of the log. Pure.

Which session holds: the first in the log, then the first that replaces it, and so on. Which position counts: that of
the last writer. Which chunks make up its map: those of the writers that the position names.
"""

from bisect import bisect_right
from collections.abc import Iterable

from ottla_core.errors import InvalidRecord
from ottla_core.wire.records import Record
from ottla_mirror.offsets.map_chunk import MapChunk
from ottla_mirror.offsets.map_records import (
    ChunkKey,
    MapKey,
    PartitionName,
    Position,
    PositionKey,
    PositionWriter,
    SessionKey,
    decode_chunk,
    decode_key,
    decode_position,
    decode_session,
)
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy, begun

NO_WRITER = PositionWriter(-1, 0)


class _Kept:
    """The values of a partition's keys, undecoded: most are replaced before anybody asks for them."""

    __slots__ = ("chunks", "positions", "revision", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[SessionName, tuple[int, bytes, int]] = {}  # offset, value, version of the format
        self.positions: dict[PositionWriter, tuple[int, bytes]] = {}  # with the version of the format
        self.chunks: dict[int, dict[PositionWriter, bytes]] = {}
        self.revision = 0


class MapState:
    """The state as far as records were applied."""

    def __init__(self) -> None:
        self._kept: dict[PartitionName, _Kept] = {}
        self._keys: dict[bytes, MapKey] = {}
        self._revision = 0

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._keys.clear()

    def partitions(self) -> Iterable[PartitionName]:
        """Return the partitions about which something is known."""
        return self._kept.keys()

    def apply(self, record: Record) -> None:
        """Take note of a record.

        Raises:
            UnknownVersion: only a later version knows its format.
            InvalidRecord: it is no record of an offset map.
        """
        if record.key is None:
            raise InvalidRecord("has no key")
        key = self._keys.get(record.key)
        if key is None:
            key = decode_key(record.key)
            if record.value is not None:
                self._keys[record.key] = key
        if record.value is None:
            self._keys.pop(record.key, None)
            self._delete(key)
        else:
            self._put(key, record.value, record.offset)

    def revision(self, partition: PartitionName) -> int:
        """Return a number that is another after every record about a partition."""
        kept = self._kept.get(partition)
        return kept.revision if kept else 0

    def session(self, partition: PartitionName) -> Session | None:
        """Return the session that holds, None before the first.

        Raises:
            InvalidRecord: a session's record cannot be read.
        """
        held = self._held(partition)
        return held[-1] if held else None

    def _held(self, partition: PartitionName) -> list[Session]:
        """Return the sessions that have held, one after the other."""
        kept = self._kept.get(partition)
        held: list[Session] = []
        for name, (_, value, version) in kept.sessions.items() if kept else ():
            session = decode_session(name, value, version)
            if not held or session.replaces == held[-1].name:
                held.append(session)
        return held

    def copy(self, partition: PartitionName) -> StoredCopy | None:
        """Return how far the copy has come in the session that holds; None before the first.

        Raises:
            InvalidRecord: a record cannot be read.
        """
        held = self._held(partition)
        if not held:
            return None
        holder = held[-1]
        position = self.position(partition)
        if position is None:
            return begun(holder, None)
        chunks = [chunk for _, chunk in self.chunks(partition, position)]
        offsets = OffsetMap.from_chunks(chunks, position.bounds)
        names = [each.name for each in held]
        if position.session not in names:
            return begun(holder, None)
        place = names.index(position.session)
        copy = StoredCopy(
            session=held[place], next_sequence=position.next_sequence, map=offsets, epochs=position.epochs
        )
        for later in held[place + 1 :]:  # each of them, as one between may have begun before what the last one keeps
            copy = begun(later, copy)
        return copy

    def writer(self, partition: PartitionName) -> PositionWriter:
        """Return the last writer that has stored a position, or `NO_WRITER`; of two at once, who has come further.

        Raises:
            InvalidRecord: a position's record cannot be read.
        """
        kept = self._kept.get(partition)
        number = max((each.number for each in kept.positions), default=NO_WRITER.number) if kept else NO_WRITER.number
        at_once = [each for each in kept.positions if each.number == number] if kept else []
        if kept is None or len(at_once) <= 1:
            return at_once[0] if at_once else NO_WRITER
        ends = {each: _position(kept, each).bounds.source_end for each in at_once}
        return max(at_once, key=lambda each: (ends[each], each.nonce))

    def next_writer_number(self, partition: PartitionName) -> int:
        """Return a number for a worker that takes over: higher than the positions' and than the session's offset.

        Who begins a session takes the offset of its record in the log. That is higher than any number before, as each
        of them was followed by a record at least; so nobody else has it.

        Raises:
            InvalidRecord: a record cannot be read.
        """
        return max(self.writer(partition).number, self.session_offset(partition)) + 1

    def session_offset(self, partition: PartitionName) -> int:
        """Return the offset in the log of the record of the session that holds; -1 before the first.

        Raises:
            InvalidRecord: a session's record cannot be read.
        """
        holder = self.session(partition)
        return -1 if holder is None else self._kept[partition].sessions[holder.name][0]

    def chunks(self, partition: PartitionName, position: Position) -> list[tuple[ChunkKey, MapChunk]]:
        """Return the chunks of a position's map, in order, as far as they are there.

        Raises:
            InvalidRecord: a chunk's record cannot be read.
        """
        kept = self._kept.get(partition)
        found = []
        for number in sorted(kept.chunks) if kept else ():
            place = bisect_right(position.chunk_writers, number, key=_first_of_two) - 1
            if kept and place >= 0 and number <= position.bounds.last_chunk:
                key = ChunkKey(partition, position.chunk_writers[place][1], number)
                if (value := kept.chunks[number].get(key.writer)) is not None:
                    found.append((key, decode_chunk(key, value)))
        return found

    def position(self, partition: PartitionName) -> Position | None:
        """Return the position that counts.

        Raises:
            InvalidRecord: its record cannot be read.
        """
        writer = self.writer(partition)
        return None if writer == NO_WRITER else _position(self._kept[partition], writer)

    def keys(self, partition: PartitionName) -> list[MapKey]:
        """Return all keys of a partition."""
        kept = self._kept.get(partition)
        if kept is None:
            return []
        return [
            *(SessionKey(partition, name, version) for name, (_, _, version) in kept.sessions.items()),
            *(PositionKey(partition, writer, version) for writer, (version, _) in kept.positions.items()),
            *(ChunkKey(partition, writer, number) for number, by in kept.chunks.items() for writer in by),
        ]

    def _put(self, key: MapKey, value: bytes, offset: int) -> None:
        kept = self._kept.setdefault(key.partition, _Kept())
        self._revision += 1
        kept.revision = self._revision
        match key:
            case SessionKey(_, name, version):
                kept.sessions.setdefault(name, (offset, value, version))
            case PositionKey(_, writer, version):
                kept.positions[writer] = (version, value)
            case ChunkKey(_, writer, number):
                kept.chunks.setdefault(number, {})[writer] = value

    def _delete(self, key: MapKey) -> None:
        kept = self._kept.get(key.partition)
        if kept is None:
            return
        self._revision += 1
        kept.revision = self._revision
        match key:
            case SessionKey(_, name, _):
                kept.sessions.pop(name, None)
            case PositionKey(_, writer, _):
                kept.positions.pop(writer, None)
            case ChunkKey(_, writer, number):
                by_writer = kept.chunks.get(number, {})
                by_writer.pop(writer, None)
                if not by_writer:
                    kept.chunks.pop(number, None)
        if not (kept.sessions or kept.positions or kept.chunks):
            del self._kept[key.partition]


def _first_of_two(pair: tuple[int, PositionWriter]) -> int:
    return pair[0]


def _position(kept: _Kept, writer: PositionWriter) -> Position:
    version, value = kept.positions[writer]
    return decode_position(value, version)
