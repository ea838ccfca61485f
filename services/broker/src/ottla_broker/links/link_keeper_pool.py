"""The links that this broker keeps in step with their sources, as the cluster state says."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from ottla_broker.links.link_keeper import LinkKeeper
from ottla_core.background import start_awaited, start_detached
from ottla_core.cluster.controller_rpc.link_api import LinkKeeping
from ottla_core.cluster.state.link_properties import keeper_of
from ottla_core.cluster.state.model import ClusterState, Link

LOOK_TIMEOUT_S: Final = 45.0
"""For those who wait for a look; less than clients wait for an answer."""


class LinkKeeperPool:
    """Has a keeper for each link that this broker keeps.

    Args:
        broker_id: this broker.
        opened: opens the keeper of a link.
    """

    def __init__(self, broker_id: int, opened: Callable[[Link], LinkKeeper]) -> None:
        self._broker_id = broker_id
        self._opened = opened
        self._keepers: dict[UUID, LinkKeeper] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def follow(self, former: ClusterState, state: ClusterState) -> None:
        """Keep the links that the cluster state says this broker keeps."""
        if self._is_closed or (former.links is state.links and former.brokers is state.brokers):
            return
        before = {link.id: link for link in former.links.values()}
        mine = {
            link.id: link for link in state.links.values() if keeper_of(link.id, state.brokers) == self._broker_id
        }
        for link_id in self._keepers.keys() - mine.keys():
            self._close(self._keepers.pop(link_id))
        for link_id, link in mine.items():
            if link_id not in self._keepers:
                self._keepers[link_id] = self._opened(link)
            elif before.get(link_id) != link:
                self._keepers[link_id].altered()

    def keepings(self, names: Collection[str]) -> list[LinkKeeping]:
        """Return how some links are kept in step, or all if none is named."""
        found = [keeper.keeping for keeper in self._keepers.values()]
        return [each for each in found if not names or each.link in names]

    async def look_now(self, names: Collection[str]) -> list[LinkKeeping]:
        """Bring links in step that this broker keeps; return how that went (of late ones, the last round)."""
        keepers = [each for each in self._keepers.values() if not names or each.keeping.link in names]
        looking = [start_awaited("looking at a link's source", each.look_now()) for each in keepers]
        if looking:
            _, late = await asyncio.wait(looking, timeout=LOOK_TIMEOUT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
        return [each.keeping for each in keepers]

    async def close(self) -> None:
        """Keep no link any more."""
        self._is_closed = True
        keepers, self._keepers = tuple(self._keepers.values()), {}
        await asyncio.gather(*(keeper.close() for keeper in keepers), *self._closing)

    def _close(self, keeper: LinkKeeper) -> None:
        task = start_detached("closing a link keeper", keeper.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
