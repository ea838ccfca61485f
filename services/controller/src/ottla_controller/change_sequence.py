"""Changes of cluster state, one at a time.

A change looks at the state, lets pure functions decide, writes, and waits until the own state shows it. So each
decision sees all that were made before. A change that turns out to have been decided on an outdated state is decided
again. What a cut-short change leaves behind (partitions that no topic counts, shards of a topic that has gone) is
removed before the next one. `turns` says which change is next.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from ottla_controller.change_encoder import ChangeEncoder
from ottla_controller.fenced_writer import FencedWriter, Write, WriteConflict
from ottla_controller.priority_lock import PriorityLock, Urgency
from ottla_core.background import start_awaited
from ottla_core.cluster.etcd.errors import EtcdError
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, RequestTimedOut

OWN_WRITE_TIMEOUT_S = 10.0
CONFLICT_ATTEMPTS = 5

Result = TypeVar("Result")

log = structlog.get_logger("controller")


class StateKeptChanging(KafkaError):
    """A change met conflicts as often as it was decided."""


class ChangeSequence:
    """The changes of one term.

    Args:
        feed: this process's view of the state.
        writer: writes for this term.
        writes: makes writes of objects.

    Attributes:
        attend_first: what has to be done before every change, as a part of it.
    """

    def __init__(self, feed: ClusterStateFeed, writer: FencedWriter, writes: ChangeEncoder) -> None:
        self._feed = feed
        self._writer = writer
        self._writes = writes
        self._turns = PriorityLock()
        self._running: set[asyncio.Task[Any]] = set()
        self._may_have_orphans = True  # the term before may have ended in the middle of a change
        self.attend_first: Callable[[], Coroutine[None, None, None]] | None = None

    @property
    def state(self) -> ClusterState:
        """The newest state; within a change, one that shows every earlier change."""
        return self._feed.state

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until the state shows what somebody else has seen at this revision.

        Raises:
            RequestTimedOut: it did not in time.
        """
        await self._feed.wait_for_revision(revision, OWN_WRITE_TIMEOUT_S)

    async def make(
        self,
        change: Callable[[], Coroutine[None, None, Result]],
        *,
        urgency: Urgency = Urgency.ADMINISTRATION,
        timeout_s: float | None = None,
    ) -> Result:
        """Make a change when it is its turn. Once begun it is made to its end, even if its caller hangs up.

        Args:
            change: may be called again if the state has moved on since it decided.
            urgency: which changes it overtakes.
            timeout_s: how long the caller waits; a change whose turn comes later is not made. None: for ever.

        Raises:
            RequestTimedOut: its turn did not come in time.
            StateKeptChanging: it met a conflict whenever it was decided.
            KafkaError: the change is refused, this controller no longer leads, or etcd fails.
        """
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        await self._turns.take(urgency, deadline)
        task = start_awaited("change", self._decide(change, deadline))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._turns.pass_on()
        if not task.cancelled():
            task.exception()  # the caller hears of it; asyncio need not complain if that one has gone

    async def write(self, writes: Sequence[Write]) -> None:
        """Write in order, as part of a change; returns once the own state shows it."""
        revision = await self._writer.write(writes)
        await self._feed.wait_for_revision(revision, OWN_WRITE_TIMEOUT_S)

    async def write_each(self, writes: Sequence[Write]) -> WriteConflict | None:
        """Write what is independent of each other, as part of a change; return what conflicted.

        What was written has happened; the own state shows it, and what the conflicts were about.
        """
        revision, conflict = await self._writer.write_each(writes)
        await self._feed.wait_for_revision(revision, OWN_WRITE_TIMEOUT_S)
        return conflict

    async def _decide(self, change: Callable[[], Coroutine[None, None, Result]], deadline: float | None) -> Result:
        """Make a change, deciding anew when the state turns out to have moved on."""
        for _ in range(CONFLICT_ATTEMPTS):
            if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                raise RequestTimedOut("there was no time left to decide the change")
            try:
                await self._tidy_up()
                if self.attend_first is not None:
                    await self.attend_first()
                return await change()
            except WriteConflict as conflict:
                log.info("deciding again", reason=str(conflict))
                self._may_have_orphans = True
                await self._feed.wait_for_revision(conflict.revision, OWN_WRITE_TIMEOUT_S)
            except EtcdError as error:
                log.error("etcd failed a change", error=str(error))
                self._may_have_orphans = True
                raise KafkaError(f"the change could not be stored: {error}") from error
            except KafkaError:  # the term is over, or the own state does not follow
                self._may_have_orphans = True
                raise
        raise StateKeptChanging("the cluster's state kept changing underneath; try again")

    async def _tidy_up(self) -> None:
        """After a failure, remove what the change that failed has written; no part of it may come later than that."""
        if self._may_have_orphans:
            await self._writer.settle()
            await self._feed.wait_for_revision(self._writer.written_revision, OWN_WRITE_TIMEOUT_S)
            await self._remove_orphans()
            self._may_have_orphans = False

    async def _remove_orphans(self) -> None:
        orphans, orphan_shards = self._feed.orphans(), self._feed.orphan_shards()
        if orphans or orphan_shards:
            log.info(
                "removing what a change that was cut short left",
                partitions=len(orphans),
                shards=len(orphan_shards),
            )
            await self.write(
                [
                    *(self._writes.partition_deletion(partition) for partition in orphans),
                    *(self._writes.shard_deletion(shard) for shard in orphan_shards),
                ]
            )
