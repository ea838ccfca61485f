"""How old a process's view of the cluster may be: what etcd knows, compared with what the watch has brought.

A lease says nothing about the view. It may be renewed through one etcd member while another, which stalls, serves the
watch: the process then goes on by what it saw last, and nobody need have waited for it, because its lease is valid.
So the revision of a linearizable read is compared now and then with that of the view. A view that has reached it is
as fresh as the moment *before* the read.

etcd's revision also grows by keys that are not watched, such as another cluster's. Where the view stays behind for a
moment, a watched key is written anew, unchanged: the watch must bring that. It is the process's own key, which it may
write whatever rights its user has in etcd, and the cluster id before there is one. (A requested progress notification
would do as well, but etcd before 3.5.8 may send it ahead of events.) A watch that does not is broken off, and goes on
at another member.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from ottla_core.clock import Clock
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.errors import EtcdAccessDenied, EtcdError
from ottla_core.errors import RequestTimedOut

PROBES_PER_AGE_MAX = 4
UNWATCHED_GRACE_S = 0.3
"""For so long a view may be behind a read before a watched key is written."""

WATCH_DELAY_MAX_S = 1.0
"""A watch that takes longer to bring a change is broken off."""

log = structlog.get_logger("cluster state")

WaitForRevision = Callable[[int, float], Awaitable[object]]


class ViewFreshness:
    """Knows how old a view is, and keeps it from growing old.

    Args:
        etcd: whom to compare with.
        touched_keys: watched keys, of which the first is written anew that exists and that this process may write.
        age_max_s: from which age on a view is not fresh any more.
        wait_for_revision: returns when the view shows a revision; raises `RequestTimedOut`.
        break_off: has the watch go on elsewhere.
        clock: the monotonic one.
    """

    def __init__(
        self,
        etcd: EtcdClient,
        touched_keys: Sequence[str],
        *,
        age_max_s: float,
        wait_for_revision: WaitForRevision,
        break_off: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._etcd = etcd
        self._touched_keys = touched_keys
        self._age_max_s = age_max_s
        self._wait_for_revision = wait_for_revision
        self._break_off = break_off
        self._clock = clock
        self._fresh_at_s = clock.monotonic()
        self._was_fresh = True

    def is_fresh(self) -> bool:
        """Return whether the view shows all that was known `age_max_s` ago; a comparison with the clock."""
        return self._clock.monotonic() - self._fresh_at_s < self._age_max_s

    def listed(self, asked_s: float) -> None:
        """Note that the view was listed, by a linearizable read that was sent at `asked_s`."""
        self._fresh_at_s = max(self._fresh_at_s, asked_s)

    async def keep(self) -> None:
        """Compare again and again."""
        while True:
            await asyncio.sleep(self._age_max_s / PROBES_PER_AGE_MAX)
            try:
                async with asyncio.timeout(self._age_max_s):
                    await self._probe()
            except (EtcdError, TimeoutError) as error:
                log.debug("etcd does not tell how fresh the view is", error=str(error))
            if self._was_fresh and not self.is_fresh():
                log.warning("the view of the cluster is out of date", seconds=round(self._age_max_s, 1))
            self._was_fresh = self.is_fresh()

    async def _probe(self) -> None:
        asked_s = self._clock.monotonic()
        try:
            await self._wait_for_revision(await self._etcd.newest_revision(), UNWATCHED_GRACE_S)
        except RequestTimedOut:
            asked_s = self._clock.monotonic()
            try:
                touched = await self._touch()
                if touched is None:
                    return  # the cluster id has gone; the feed will say what that means
                await self._wait_for_revision(touched, WATCH_DELAY_MAX_S)
            except (RequestTimedOut, EtcdAccessDenied):  # where nothing may be written, the watch is not believed
                self._break_off()
                return
        self._fresh_at_s = max(self._fresh_at_s, asked_s)

    async def _touch(self) -> int | None:
        """Return the revision of what was written; None if none of the keys exists.

        Raises:
            EtcdAccessDenied: none that exists may be written.
        """
        for key in self._touched_keys:
            touched = await self._etcd.touch(key)
            if touched is not None:
                return touched
        return None
