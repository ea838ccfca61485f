"""A store of copies in memory, for tests without a topic; several copiers of one process may share it."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, begun


class MemoryCopyStore:
    """Keeps what `CopyStore` promises, by a topic's name and a partition's number."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], StoredCopy] = {}

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        keys = {each: (each.topic, each.partition) for each in partitions}
        return {each: as_loaded(self.stored[key]) for each, key in keys.items() if key in self.stored}

    async def begin_session(self, partition: SourcePartition, session: Session) -> Session:
        key = (partition.topic, partition.partition)
        before = self.stored.get(key)
        if (None if before is None else before.session.name) == session.replaces:
            self.stored[key] = begun(session, None if before is None else as_loaded(before))
        return self.stored[key].session

    async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        for partition, copied in copies.items():
            key = (partition.topic, partition.partition)
            if key in self.stored and self.stored[key].session.name == copied.session.name:
                self.stored[key] = as_loaded(copied)


def as_loaded(stored: StoredCopy) -> StoredCopy:
    """A stored copy as one who loads it gets it: with a map of its own."""
    return replace(stored, map=OffsetMap.from_chunks(stored.map.chunks(), stored.map.bounds))
