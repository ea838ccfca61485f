"""Stores now and then how far partitions have come; what is lost with a crash is found again at the target."""

import asyncio
from collections.abc import Callable, Collection

import structlog

from ottla_core.errors import OttlaError
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.offsets.stored_copy import CopyStore

log = structlog.get_logger("mirror")


class PositionSaver:
    """Saves positions.

    Args:
        store: where.
        interval_s: between two saves.
        is_ours: whether a partition is still to be copied.
    """

    def __init__(self, store: CopyStore, interval_s: float, is_ours: Callable[[PartitionWork], bool]) -> None:
        self._store = store
        self._interval_s = interval_s
        self._is_ours = is_ours
        self._changed: dict[PartitionWork, None] = {}

    def note(self, work: PartitionWork) -> None:
        """Save a partition's position next time."""
        self._changed[work] = None

    async def run(self) -> None:
        """Save, for ever."""
        while True:
            await asyncio.sleep(self._interval_s)
            changed, self._changed = self._changed, {}
            if not await self.save(changed):
                self._changed = {work: None for work in (*changed, *self._changed) if self._is_ours(work)}

    async def save(self, works: Collection[PartitionWork]) -> bool:
        """Save positions now; return whether that was possible."""
        copies = {work.partition: work.copy.copied for work in works if work.copy is not None}
        if not copies:
            return True
        try:
            await self._store.save(copies)
        except OttlaError as error:
            log.warning("positions of copies cannot be stored", partitions=len(copies), reason=str(error))
            return False
        return True
