"""A process's view of the cluster: one immutable `ClusterState`, kept current by a watch on etcd.

The feed lists the cluster's keys at one revision and watches from the next; `StateTracker` turns what comes into
states. Readers take `state` without waiting. Listeners are called, synchronously and in order, with the former and
the new state after each change; a listener that raises is reported and does not stop the feed.

When etcd no longer has the history that the watch needs, the feed lists again; listeners then see one big step.
When the cluster comes to a level of features or a format that this release lacks, or etcd turns out to hold another
cluster or to have lost history that this process has seen, the feed stops for good with the state as it was, and
`wait_failed` tells: what follows would be the deletion of everything.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import count
from typing import Protocol

import structlog

from ottla_core.background import note_failure, start_recurring, start_vital
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.connection import RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, StoreWentBack, WatchHistoryLost
from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.etcd.watch import EtcdWatch, WatchBatch
from ottla_core.cluster.state.feature_check import LevelUnsupported, check_supported
from ottla_core.cluster.state.json_fields import BadValue, UnknownFormat
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState, PartitionState, Shard
from ottla_core.cluster.state.state_tracker import ClusterReplaced, StateTracker
from ottla_core.cluster.view.freshness import ViewFreshness
from ottla_core.errors import OttlaError, RequestTimedOut

Listener = Callable[[ClusterState, ClusterState], None]

log = structlog.get_logger("cluster state")


class StateCopier(Protocol):
    """Who keeps what etcd tells, key by key, and hears of it before anybody can act by it. Neither method raises."""

    async def listed(self, entries: Sequence[KeyValue], revision: int) -> None:
        """Keep a complete listing, in place of everything before."""

    def changed(self, changes: Sequence[KeyChange], revision: int) -> None:
        """Keep changes, which make what is kept complete up to a revision."""


class ClusterStateFeed:
    """Cluster state as this process has seen it so far.

    Args:
        etcd: where it is.
        cluster_name: whose.
        age_max_ms: from which age on the state counts as out of date; None: etcd is not asked for that.
        clock: for tests.
        copier: who keeps what etcd tells.
        cluster_id: the id of the cluster whose state is expected; "" for whichever is there.
        own_key: where this process registers itself, which it may write.
    """

    def __init__(
        self,
        etcd: EtcdClient,
        cluster_name: str,
        *,
        age_max_ms: int | None = None,
        clock: Clock | None = None,
        copier: StateCopier | None = None,
        cluster_id: str = "",
        own_key: str | None = None,
    ) -> None:
        self._etcd = etcd
        self._clock = clock or SystemClock()
        self._key_space = KeySpace(cluster_name)
        self._tracker = StateTracker(self._key_space, cluster_id)
        self._copier = copier
        self._listeners: list[Listener] = []
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiter_numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._watch: EtcdWatch | None = None
        self._freshness: ViewFreshness | None = None
        self._freshness_task: asyncio.Task[None] | None = None
        if age_max_ms is not None:
            self._freshness = ViewFreshness(
                etcd,
                [*([own_key] if own_key is not None else []), self._key_space.cluster_id],
                age_max_s=age_max_ms / 1000,
                wait_for_revision=self.wait_for_revision,
                break_off=self._break_off,
                clock=self._clock,
            )
        self._failure: asyncio.Future[OttlaError] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """List the cluster's keys and start to watch.

        Raises:
            EtcdError: etcd cannot be reached or refuses.
            LevelUnsupported: the cluster is at a level that this release does not have.
            ClusterReplaced: etcd has another cluster than the expected one.
        """
        await self._list()
        self._task = start_vital("cluster state feed", self._run())
        if self._freshness is not None:
            self._freshness_task = start_recurring("freshness of the view", self._freshness.keep)

    async def wait_failed(self) -> OttlaError:
        """Return when the state can no longer be followed, with what happened; this process must end then.

        It is a `ClusterReplaced` when etcd was emptied, restored or given to another cluster.
        """
        return await asyncio.shield(self._failure)

    async def close(self) -> None:
        """Stop watching; waits for a revision are cancelled."""
        for task in (self._freshness_task, self._task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._freshness_task = self._task = None
        for _, _, waiter in self._waiters:
            waiter.cancel()
        self._waiters.clear()

    def is_fresh(self) -> bool:
        """Return whether the state shows all that was known `age_max_ms` ago; always true without that limit."""
        return self._freshness is None or self._freshness.is_fresh()

    @property
    def state(self) -> ClusterState:
        """The newest state."""
        return self._tracker.state

    def orphans(self) -> list[PartitionState]:
        """Return partitions that no topic counts; see `StateTracker.orphans`."""
        return self._tracker.orphans()

    def orphan_shards(self) -> list[Shard]:
        """Return shards of a topic that has gone; see `StateTracker.orphan_shards`."""
        return self._tracker.orphan_shards()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(former, new)` whenever the revision has grown; returns what ends the subscription.

        etcd's progress notifications count: then only the revision differs.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    async def wait_for_revision(self, revision: int, timeout_s: float) -> ClusterState:
        """Return the state once it reflects `revision`, a revision at which one of this cluster's keys changed.

        Raises:
            RequestTimedOut: it did not in time.
        """
        if self.state.revision < revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (revision, next(self._waiter_numbers), waiter))
            try:
                async with asyncio.timeout(timeout_s):
                    await waiter
            except TimeoutError:
                raise RequestTimedOut(
                    f"cluster state is at revision {self.state.revision}; {revision} has not arrived "
                    f"within {timeout_s:.1f} s"
                ) from None
        return self.state

    async def wait_for(self, condition: Callable[[ClusterState], bool], timeout_s: float) -> ClusterState:
        """Return the state once it fulfils a condition.

        Raises:
            RequestTimedOut: it did not in time.
        """
        if condition(self.state):
            return self.state
        fulfilled = asyncio.Event()

        def look(_former: ClusterState, new: ClusterState) -> None:
            if condition(new):
                fulfilled.set()

        unsubscribe = self.subscribe(look)
        try:
            async with asyncio.timeout(timeout_s):
                await fulfilled.wait()
        except TimeoutError:
            raise RequestTimedOut(f"cluster state did not become what was awaited within {timeout_s:.1f} s") from None
        finally:
            unsubscribe()
        return self.state

    async def _run(self) -> None:
        """Follow until that is impossible; a bug must not leave the process with a view that never changes again."""
        try:
            await self._follow()
        except (ClusterReplaced, StoreWentBack) as error:
            log.error("etcd is not what it was; cluster state is not followed any more", error=str(error))
            failure = error if isinstance(error, ClusterReplaced) else ClusterReplaced(str(error))
            self._failure.set_result(failure)
        except LevelUnsupported as error:
            log.error("this release cannot go on in this cluster", error=str(error))
            self._failure.set_result(error)
        except Exception as error:
            log.exception("cluster state cannot be followed any more")
            self._failure.set_result(OttlaError(f"cluster state cannot be followed any more: {error!r}"))

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_watch()
            except (ClusterReplaced, StoreWentBack, LevelUnsupported):
                raise
            except (WatchHistoryLost, EtcdError) as error:
                log.warning("listing cluster state again", reason=str(error))
            except Exception:
                log.exception("watching cluster state failed; listing it again")
                await asyncio.sleep(RETRY_DELAY_S)
            await self._list_patiently()

    async def _follow_watch(self) -> None:
        self._watch = self._etcd.prefix_watch(
            self._key_space.prefix, self.state.revision + 1, on_resume=self._check_same_cluster
        )
        async with aclosing(self._watch.batches()) as batches:
            async for batch in batches:
                self._advance(batch)

    def _break_off(self) -> None:
        if self._watch is not None:
            self._watch.break_off()

    async def _check_same_cluster(self) -> None:
        """See that etcd was not exchanged while the watch was broken.

        A store that was emptied and has been written to since may have passed our revision already.
        """
        self._tracker.check_cluster_id(await self._etcd.read(self._key_space.cluster_id))
        self._tracker.check_recovery(await self._etcd.read(self._key_space.recovery))

    async def _list(self) -> None:
        asked_s = self._clock.monotonic()
        listing = await self._etcd.list_prefix(self._key_space.prefix)
        if self._freshness is not None:
            self._freshness.listed(asked_s)
        if self._copier is not None:
            self._tracker.check_listing(listing.entries, listing.revision)  # or the copy of our cluster would go
            await self._copier.listed(listing.entries, listing.revision)
        former = self.state
        _report(self._tracker.reload(listing.entries, listing.revision))
        self._publish(former)

    async def _list_patiently(self) -> None:
        while True:
            try:
                await self._list()
            except EtcdError as error:
                log.warning("cluster state not listed; trying again", error=str(error))
                await asyncio.sleep(RETRY_DELAY_S)
            else:
                return

    def _advance(self, batch: WatchBatch) -> None:
        former = self.state
        if self._copier is not None and batch.changes:
            self._tracker.check_changes(batch.changes)
            self._copier.changed(batch.changes, batch.revision)  # before anybody acknowledges records by it
        _report(self._tracker.advance(batch.changes, batch.revision))
        if batch.changes or self.state.revision > former.revision:
            self._publish(former)

    def _publish(self, former: ClusterState) -> None:
        new = self.state
        check_supported(new.features)  # before anybody goes by a state that this release cannot read
        for listener in tuple(self._listeners):
            try:
                listener(former, new)
            except Exception as error:  # noqa: BLE001 - the others have to hear of the state all the same
                note_failure("listener of the cluster state", error, revision=new.revision)
        while self._waiters and self._waiters[0][0] <= new.revision:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)


def _report(bad_values: list[BadValue]) -> None:
    """Log values that were passed over.

    Raises:
        LevelUnsupported: one has the format of a later release; to go by what its key held before would be wrong.
    """
    for bad_value in bad_values:
        if isinstance(bad_value, UnknownFormat):
            raise LevelUnsupported(f"{bad_value}: start a release that has it") from bad_value
        log.error("unreadable value in etcd is ignored", error=str(bad_value))
