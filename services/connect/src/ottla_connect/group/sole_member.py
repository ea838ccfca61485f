"""The membership of a worker that runs alone: it leads, runs everything, and nobody can take anything from it."""

import asyncio
from collections.abc import Awaitable, Callable

from ottla_connect.group.view import Assignment, GroupView, Revoked, work_of
from ottla_core.background import start_vital

SOLE_MEMBER_ID = "standalone"
ENDLESS_LEASE_S = 1e12
"""A time of CLOCK_BOOTTIME that does not come; JSON has no infinity."""


class SoleMember:
    """Stands in for `Membership` without a group; see there for the callbacks.

    Attributes:
        assignment: what the worker runs; None before `start`.
        failed: never gets anything.
    """

    def __init__(
        self,
        *,
        url: str,
        view: Callable[[], GroupView],
        on_assigned: Callable[[Assignment, Revoked], Awaitable[None]],
        on_lease: Callable[[float], None],
    ) -> None:
        self.assignment: Assignment | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._url = url
        self._view = view
        self._on_assigned = on_assigned
        self._on_lease = on_lease
        self._generation = 0
        self._rebalance_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; the first assignment comes by `on_assigned`."""
        self._on_lease(ENDLESS_LEASE_S)
        self._rebalance_wanted.set()
        self._task = start_vital("assignment", self._rebalance_when_wanted())

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.failed.cancel()

    def request_rejoin(self, reason: str = "") -> None:
        """Have a new assignment soon, of what is configured then."""
        self._rebalance_wanted.set()

    async def _rebalance_when_wanted(self) -> None:
        while True:
            await self._rebalance_wanted.wait()
            self._rebalance_wanted.clear()
            view, before = self._view(), work_of(self.assignment)
            work = view.work
            self._generation += 1
            self.assignment = Assignment(
                connectors=work.connectors,
                tasks=work.tasks,
                leader_id=SOLE_MEMBER_ID,
                leader_url=self._url,
                is_leader=True,
                generation=self._generation,
                config_offset=view.config_offset,
                member_urls={SOLE_MEMBER_ID: self._url},
                connector_urls=dict.fromkeys(work.connectors, self._url),
                task_urls=dict.fromkeys(work.tasks, self._url),
                held=before | work,
            )
            revoked = before - work
            await self._on_assigned(self.assignment, revoked)
            if revoked:
                self._rebalance_wanted.set()  # another round says that it has stopped, as in a group
