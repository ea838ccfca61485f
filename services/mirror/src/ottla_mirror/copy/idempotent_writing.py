"""Writes copies without transactions: a producer for each broker of the target, and positions stored now and then."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Protocol
from uuid import UUID

from ottla_core.client.cluster import AsyncCluster
from ottla_mirror.copy.cluster_view import ClusterView
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_start import PartitionStarts
from ottla_mirror.copy.partition_work import NO_LEADER, PartitionWork
from ottla_mirror.copy.position_saver import PositionSaver
from ottla_mirror.copy.target_producer import ProduceOwner, TargetProducer
from ottla_mirror.offsets.stored_copy import CopyStore


class WritingOwner(ProduceOwner, Protocol):
    """Whose partitions they are; see `Copier`."""

    def is_ours(self, work: PartitionWork) -> bool:
        """Return whether a partition is still to be copied."""


class IdempotentWriting:
    """Writes the partitions of a copier.

    Args:
        owner: the copier.
        source: leaders of the source.
        target: leaders of the target.
        store: where positions, sessions and maps are kept.
        settings: see there.
        worker: this worker, in this life of its process.

    Attributes:
        starts: takes partitions over.
        store: where the copies are kept.
        repeats: whether the copier is to send again what may be repeated.
    """

    repeats = True

    def __init__(
        self,
        owner: WritingOwner,
        source: ClusterView,
        target: ClusterView,
        *,
        store: CopyStore,
        settings: CopySettings,
        worker: UUID,
    ) -> None:
        self.store = store
        self.starts = PartitionStarts(source, target, store, settings, worker)
        self._owner = owner
        self._cluster: AsyncCluster = target.cluster
        self._settings = settings
        self._saver = PositionSaver(store, settings.save_interval_s, owner.is_ours)
        self._producers: dict[int, TargetProducer] = {}
        self._kicked: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    def background(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return what has to run, with what to call it."""
        return [("saving positions of copies", self._saver.run)]

    def send(self, work: PartitionWork) -> None:
        """Have a producer send what a partition has, together with what others get in this turn of the loop."""
        if not work.has_to_send or work.target_leader == NO_LEADER:
            return
        self._producer(work.target_leader).add(work)
        if work.target_leader not in self._kicked:
            self._kicked.add(work.target_leader)
            self._loop.call_soon(self._kick, work.target_leader)

    def note(self, work: PartitionWork) -> None:
        """Take note that a partition may have come further."""
        self._saver.note(work)

    def is_settled(self, work: PartitionWork) -> bool:
        """Return whether a partition may be taken over from what is stored and what its state machine says."""
        return True

    def is_busy(self, work: PartitionWork) -> bool:
        """Return whether something of a partition is under way."""
        return work.copy is not None and work.copy.in_flight > 0

    def finish(self, works: Collection[PartitionWork]) -> None:
        """Have partitions of which nothing more is sent come to an end."""

    async def save(self, works: Collection[PartitionWork]) -> None:
        """Store where partitions stand that have come to an end."""
        await self._saver.save(works)

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for producer in self._producers.values():
            producer.close()

    def _kick(self, broker_id: int) -> None:
        self._kicked.discard(broker_id)
        if not self._is_closed:
            self._producer(broker_id).kick()

    def _producer(self, broker_id: int) -> TargetProducer:
        producer = self._producers.get(broker_id)
        if producer is None:
            producer = self._producers[broker_id] = TargetProducer(
                self._cluster, broker_id, self._settings, self._owner
            )
        return producer
