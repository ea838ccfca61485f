"""Writes copies in transactions: those of each partition, and what commits the positions of idle ones."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Refused
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.dead_letters import dead_letters
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.copy.transactions.partition_transactions import PartitionTransactions, TransactionOwner
from ottla_mirror.copy.transactions.target_transactions import TargetTransactions
from ottla_mirror.copy.transactions.transaction_requests import Letters
from ottla_mirror.copy.transactions.transaction_rules import transactional_id
from ottla_mirror.copy.transactions.transactional_start import TransactionalStarts
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.stored_copy import Session, StoredCopy, TransactionalStore

COMMIT_IDLE_EVERY_S: Final = 10.0
"""Where the source has markers and gaps only, positions move without a record; they are committed this often."""
LETTERS_PARTITION: Final = 0


class TransactionalOwner(TransactionOwner, Protocol):
    """Whose partitions they are; see `Copier`."""

    def is_ours(self, work: PartitionWork) -> bool:
        """Return whether a partition is still to be copied."""


class CommittedCopies:
    """A `CopyStore` for those who do not write: what they would save is stored by transactions, or not at all.

    Args:
        store: where the copies are kept.
    """

    def __init__(self, store: TransactionalStore) -> None:
        self._store = store

    async def load(self, partitions: Collection[SourcePartition]) -> dict[SourcePartition, StoredCopy]:
        """Return how far copies have come; see `CopyStore`."""
        return await self._store.load(partitions)

    async def begin_session(self, partition: SourcePartition, session: Session) -> Session:
        """Store no session: it begins with its first transaction."""
        raise AssertionError(f"a session of {partition} is begun without a transaction: {session}")

    async def save(self, copies: Mapping[SourcePartition, StoredCopy]) -> None:
        """Save nothing: what is not committed does not count."""


class TransactionalWriting:
    """Writes the partitions of a copier.

    Args:
        owner: the copier.
        source: leaders of the source.
        target: leaders of the target.
        coordinators: clusters to ask coordinators of the target by; the maker closes them.
        store: where positions, sessions and maps are kept.
        settings: see there.
        worker: this worker, in this life of its process.

    Attributes:
        starts: takes partitions over.
        store: where the copies are kept.
        repeats: whether the copier is to send again what may be repeated.
    """

    repeats = False

    def __init__(
        self,
        owner: TransactionalOwner,
        source: ClusterView,
        target: ClusterView,
        *,
        coordinators: Collection[AsyncCluster],
        store: TransactionalStore,
        settings: CopySettings,
        worker: UUID,
    ) -> None:
        self.store = CommittedCopies(store)
        self._requests = TargetTransactions(tuple(coordinators), settings)
        self.starts = TransactionalStarts(
            source, target, self._requests, store=store, settings=settings, worker=worker
        )
        self._owner = owner
        self._cluster = target.cluster
        self._store = store
        self._settings = settings
        self._partitions: dict[PartitionWork, PartitionTransactions] = {}

    def background(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return what has to run, with what to call it."""
        return [("committing positions of copies", self._commit_idle)]

    def send(self, work: PartitionWork) -> None:
        """Send what a partition has."""
        self._of(work).wake()

    def note(self, work: PartitionWork) -> None:
        """Take note that a partition has begun, or may have come further; of the latter `_commit_idle` will see."""
        if self._settings.start == "latest" and self._owner.is_ours(work):
            self._of(work).wake()  # the position has to be stored before there is a record

    def is_settled(self, work: PartitionWork) -> bool:
        """Return whether a partition may be taken over; if not, see to it that it soon can be."""
        found = self._partitions.get(work)
        if found is None:
            return True
        found.wake()  # what it has done has to be committed before
        return not found.is_busy

    def is_busy(self, work: PartitionWork) -> bool:
        """Return whether something of a partition is under way."""
        found = self._partitions.get(work)
        return (work.copy is not None and work.copy.in_flight > 0) or (found is not None and found.is_busy)

    def finish(self, works: Collection[PartitionWork]) -> None:
        """Have partitions of which nothing more is sent come to an end."""
        for work in works:
            if (found := self._partitions.get(work)) is not None:
                found.commit()

    async def save(self, works: Collection[PartitionWork]) -> None:
        """Forget partitions that have come to an end."""
        for work in works:
            if (found := self._partitions.pop(work, None)) is not None:
                found.close()

    def close(self) -> None:
        """Close all connections; transactions under way are left to whoever takes over."""
        for each in self._partitions.values():
            each.close()
        self._requests.close()

    def _of(self, work: PartitionWork) -> PartitionTransactions:
        found = self._partitions.get(work)
        if found is None:
            found = self._partitions[work] = PartitionTransactions(
                work,
                transactional_id(self._settings.source_alias, work.partition),
                owner=self._owner,
                requests=self._requests,
                store=self._store,
                settings=self._settings,
                letters_of=None if self._settings.dead_letter_topic is None else self._letters,
            )
        return found

    async def _commit_idle(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_IDLE_EVERY_S)
            for work, each in list(self._partitions.items()):
                if self._owner.is_ours(work) and each.has_uncommitted and not each.is_busy:
                    each.commit()

    async def _letters(self, work: PartitionWork, refused: SourceBatch, reason: str) -> Letters:
        """Return what becomes of records that the target refuses.

        Raises:
            InvalidRecord: they cannot be read.
            Refused: there is no topic for them.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: the target does not answer.
        """
        topic = self._settings.dead_letter_topic
        assert topic is not None
        found = (await self._cluster.metadata([topic])).topics.get(topic)
        leader = found.partitions[LETTERS_PARTITION].leader if found is not None and found.partitions else -1
        if leader < 0:
            raise Refused(f"the dead letter topic {topic} has no partition 0 that could take it")
        letters = dead_letters(work.partition, refused, reason)
        return Letters((topic, LETTERS_PARTITION), leader, [each._replace(offset=0) for each in letters])
