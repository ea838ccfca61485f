"""Writes offset syncs of the partitions that this worker copies, beside the copying: nobody waits for them."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from ottla_core.background import start_recurring
from ottla_core.errors import OttlaError
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_syncs import OffsetSync, OffsetSyncs
from ottla_mirror.offsets.stored_copy import CopyStore, Prepared, Session, StoredCopy, TransactionalStore

INTERVAL_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 5.0

log = structlog.get_logger("offset syncs")


class OffsetSyncWriter:
    """Writes into one topic.

    Args:
        topic: MirrorMaker's `mm2-offset-syncs.….internal`, at the source or the target.
        offset_lag_max: so many records may follow the last sync of a partition.
    """

    def __init__(self, topic: InternalTopic, *, offset_lag_max: int) -> None:
        self._topic = topic
        self._syncs = OffsetSyncs(offset_lag_max)
        self._is_made = False
        self._problem = ""
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the topic is made when it can be."""
        self._task = start_recurring("offset syncs", self._run, until=self._ending, topic=self._topic.name)

    def note(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Take note of how far partitions were copied, once that is stored."""
        for partition, copy in copies.items():
            self._syncs.note(partition, copy)

    async def close(self) -> None:
        """Write what is pending, if that succeeds soon, and stop."""
        self._ending.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._write(self._syncs.pending(), CLOSE_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            due = self._syncs.due(asyncio.get_running_loop().time())
            await self._write(due, None)

    async def _write(self, syncs: Collection[OffsetSync], timeout_s: float | None) -> None:
        """Write syncs; those that cannot be written are due again."""
        if not syncs:
            return
        timing = {} if timeout_s is None else {"timeout_s": timeout_s}
        try:
            if not self._is_made:
                await self._topic.ensure(**timing)
                self._is_made = True
            await self._topic.append([sync.entry() for sync in syncs], **timing)
        except OttlaError as error:
            if str(error) != self._problem:
                log.warning("offset syncs cannot be written", topic=self._topic.name, reason=str(error))
            self._problem = str(error)
            self._is_made = False  # it may have been deleted
            return
        self._problem = ""
        self._syncs.written(syncs, asyncio.get_running_loop().time())


class OffsetSyncingTransactions:
    """A `TransactionalStore` that tells a writer of offset syncs what was committed.

    Args:
        store: the store.
        writer: the writer, started; closed by its maker.
    """

    def __init__(self, store: TransactionalStore, writer: OffsetSyncWriter) -> None:
        self._store = store
        self._writer = writer

    @property
    def topic(self) -> str:
        """See `TransactionalStore`."""
        return self._store.topic

    async def leader(self) -> int:
        """Return the broker to write to; see `TransactionalStore`."""
        return await self._store.leader()

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """Return how far copies have come; see `CopyStore`."""
        return await self._store.load(partitions)

    def prepare(self, partition: SourcePartition, copied: StoredCopy) -> Prepared:
        """Return what a transaction has to write; see `TransactionalStore`."""
        return self._store.prepare(partition, copied)

    def on_committed(self, partition: SourcePartition, copied: StoredCopy, prepared: Prepared) -> None:
        """Take note of a transaction; see `TransactionalStore`."""
        self._store.on_committed(partition, copied, prepared)
        self._writer.note({partition: copied})


class OffsetSyncingStore:
    """A `CopyStore` that tells a writer of offset syncs what was stored.

    Args:
        store: the store.
        writer: the writer, started; closed by its maker.
    """

    def __init__(self, store: CopyStore, writer: OffsetSyncWriter) -> None:
        self._store = store
        self._writer = writer

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """Return how far copies have come; see `CopyStore`."""
        return await self._store.load(partitions)

    async def begin_session(self, partition: SourcePartition, session: Session) -> Session:
        """Store a session; see `CopyStore`."""
        return await self._store.begin_session(partition, session)

    async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Store how far copies have come; see `CopyStore`."""
        await self._store.save(copies)
        self._writer.note(copies)
