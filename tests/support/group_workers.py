"""Connect workers that run nothing but their membership, and note everything that it tells them.

What a worker would run is only noted, together with the lease, so that a test can ask at any time who works on what:
`running` is empty when the lease is over, as it is in a real worker, whose tasks stop by themselves then.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping

from ottla_connect.config import WorkerConfig
from ottla_connect.group.membership import Assignment, GroupView, Membership, Revoked
from ottla_connect.group.work import NO_WORK, Work


class GroupWorker:
    """One worker of a group.

    Attributes:
        membership: its membership.
        work: what it runs, as far as its lease allows it.
        assignments: all that it was told.
        losses: how often it was told that the membership is lost.
    """

    def __init__(self, url: str, settings: Mapping[str, str], connectors: dict[str, int], *, stop_s: float = 0.0):
        self.url = url
        self.connectors = connectors
        self.work = NO_WORK
        self.assignments: list[Assignment] = []
        self.losses = 0
        self.lease_s = 0.0
        self.stop_s = stop_s
        self.config_offset = 0
        self.membership = Membership(
            WorkerConfig.parse(settings),
            url=url,
            view=lambda: GroupView(self.config_offset, dict(self.connectors)),
            on_assigned=self._take,
            on_lost=self._lose,
            on_lease=self._keep,
        )

    @property
    def running(self) -> Work:
        """What it works on at this moment."""
        return self.work if time.monotonic() < self.lease_s else NO_WORK

    @property
    def is_leader(self) -> bool:
        return self.membership.assignment is not None and self.membership.assignment.is_leader

    def configure(self, connectors: Mapping[str, int]) -> None:
        """Lets it read another configuration, and ask for a rebalance, as a herder does."""
        self.connectors = dict(connectors)
        self.config_offset += 1
        self.membership.request_rejoin("the connectors have changed")

    async def _take(self, assignment: Assignment, revoked: Revoked) -> None:
        if revoked:
            await asyncio.sleep(self.stop_s)
        self.work = assignment.work
        self.assignments.append(assignment)

    async def _lose(self) -> None:
        self.work = NO_WORK
        self.losses += 1

    def _keep(self, until_s: float) -> None:
        self.lease_s = until_s


def shared(workers: Iterable[GroupWorker]) -> Work:
    """What more than one of them works on at this moment; there should never be anything."""
    seen, twice = NO_WORK, NO_WORK
    for worker in workers:
        twice |= seen & worker.running
        seen |= worker.running
    return twice
