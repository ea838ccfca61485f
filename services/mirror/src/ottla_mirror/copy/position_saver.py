"""Stores now and then how far partitions have come; what is lost with a crash is found again at the target.

What has changed is stored soon, everything from time to time: another worker that had the partition in between, and
has not come as far, may have stored its position last.

What the source has deleted is left out of the map, so that neither the map nor the store grows for ever.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import structlog

from ottla_core.errors import OttlaError
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.offsets.stored_copy import CopyStore

SAVE_ALL_EVERY_S: Final = 10.0

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
        self._known: dict[PartitionWork, None] = {}

    def note(self, work: PartitionWork) -> None:
        """Save a partition's position next time."""
        self._changed[work] = None
        self._known[work] = None

    async def run(self) -> None:
        """Save, for ever."""
        loop = asyncio.get_running_loop()
        saved_all_s = loop.time()
        while True:
            await asyncio.sleep(self._interval_s)
            if loop.time() - saved_all_s >= SAVE_ALL_EVERY_S:
                self._known = {work: None for work in self._known if self._is_ours(work)}
                self._changed |= self._known
                saved_all_s = loop.time()
            changed, self._changed = self._changed, {}
            if not await self.save(changed):
                self._changed = {work: None for work in (*changed, *self._changed) if self._is_ours(work)}

    async def save(self, works: Collection[PartitionWork]) -> bool:
        """Save positions now; return whether that was possible."""
        copies = {}
        for work in works:
            if work.copy is not None:
                work.copy.map.forget_below(work.source_start)
                copies[work.partition] = work.copy.copied
        if not copies:
            return True
        try:
            await self._store.save(copies)
        except OttlaError as error:
            log.warning("positions of copies cannot be stored", partitions=len(copies), reason=str(error))
            return False
        return True
