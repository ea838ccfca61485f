"""The offsets of source connectors, kept in the offset topic, or in a file by a standalone worker."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from ottla_connect.state.config_records import BadRecord, Write
from ottla_connect.state.keyed_log import Entry, KeyedLog, LogError
from ottla_connect.state.offset_records import (
    NotStorable,
    Offset,
    Partition,
    SourcePartition,
    decode_key,
    decode_value,
    key_of,
    source_partition,
    value_of,
)

READ_TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 35.0
"""A little more than the producer tries for: behind it, nothing is on its way any more."""

log = structlog.get_logger("offset store")


@dataclass(frozen=True, slots=True)
class _Stored:
    """An offset as it was read, and how late, compared with those under other keys of its source partition.

    Such keys lie in any partitions of the topic, which a start reads in any order, so the time goes before the order.
    """

    offset: dict[str, Any]
    lateness: tuple[int, int]


class OffsetStore:
    """How far source connectors have come.

    Args:
        records: the offset topic.
    """

    def __init__(self, records: KeyedLog) -> None:
        self._log = records
        # By connector and partition, the offset under each key that stands for it: other programs may have written
        # the names of the partition in another order.
        self._offsets: dict[str, dict[SourcePartition, dict[bytes, _Stored]]] = {}
        self._order = itertools.count()

    async def start(self) -> None:
        """Read everything.

        Raises:
            LogError: it cannot be read.
        """
        await self._log.start(self._take)

    async def close(self) -> None:
        """Stop reading and writing."""
        await self._log.close()

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Mapping[str, Any] | None]:
        """Return the offset of each partition, or None, as it was when this was called or later.

        Raises:
            LogError: they cannot be read, or a partition is malformed.
        """
        sources = [_source(connector, partition) for partition in partitions]
        await self._log.read_to_end(READ_TIMEOUT_S)
        return [self._current(source) for source in sources]

    async def keys(self, connector: str, partitions: Sequence[Partition]) -> list[list[bytes]]:
        """Return under which key the offset of each partition is to be written, and other keys that are to end.

        Raises:
            LogError: they cannot be read, or a partition is malformed.
        """
        sources = [_source(connector, partition) for partition in partitions]
        await self._log.read_to_end(READ_TIMEOUT_S)
        return [self._keys(source) for source in sources]

    async def all(self, connector: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Return all partitions of a connector that have an offset, with it.

        Raises:
            LogError: they cannot be read.
        """
        await self._log.read_to_end(READ_TIMEOUT_S)
        sources = sorted(self._offsets.get(connector, {}))
        return [(source.partition(), offset) for source in sources if (offset := self._current(source)) is not None]

    async def write(self, connector: str, pairs: Sequence[tuple[Partition, Offset | None]]) -> None:
        """Store the offsets of partitions, and return when that is acknowledged; no offset removes a partition's.

        Raises:
            LogError: they are not stored, or it is not known whether they are; or one cannot be.
        """
        writes = [
            write for partition, offset in pairs for write in self._writes(_source(connector, partition), offset)
        ]
        await self._log.write(writes, WRITE_TIMEOUT_S)

    async def remove(self, connector: str) -> None:
        """Remove all offsets of a connector; raises as `write` does."""
        await self.write(connector, [(partition, None) for partition, _ in await self.all(connector)])

    def _current(self, source: SourcePartition) -> Mapping[str, Any] | None:
        stored = self._offsets.get(source.connector, {}).get(source)
        return max(stored.values(), key=lambda each: each.lateness).offset if stored else None

    def _writes(self, source: SourcePartition, offset: Offset | None) -> list[Write]:
        """Return what is to be written: under the key that is in use, and the end of others for the partition."""
        key, *others = self._keys(source)
        try:
            value = None if offset is None else value_of(offset)
        except NotStorable as problem:
            raise LogError(f"connector {source.connector}: {problem}") from None
        return [Write(key, value), *(Write(other, None) for other in others)]

    def _keys(self, source: SourcePartition) -> list[bytes]:
        stored = self._offsets.get(source.connector, {}).get(source, {})
        return sorted(stored, key=lambda each: stored[each].lateness, reverse=True) or [key_of(source)]

    def _take(self, entry: Entry) -> None:
        try:
            source = decode_key(entry.key)
            offset = None if entry.value is None else decode_value(entry.value)
        except BadRecord as problem:
            log.warning("a record of the offset topic is ignored", offset=entry.offset, reason=str(problem))
            return
        if source is None or entry.key is None:
            return
        partitions = self._offsets.setdefault(source.connector, {})
        stored = partitions.setdefault(source, {})
        if offset is not None:
            stored[entry.key] = _Stored(offset, (entry.timestamp_ms, next(self._order)))
            return
        stored.pop(entry.key, None)
        if not stored:
            del partitions[source]
        if not partitions:
            del self._offsets[source.connector]


def _source(connector: str, partition: Partition) -> SourcePartition:
    try:
        return source_partition(connector, partition)
    except NotStorable as problem:
        raise LogError(f"connector {connector}: {problem}") from None
