"""What all brokers together know of links: how far partitions are, and how the links are kept in step.

Each partition's status is known to the broker that leads it, so a broker that is asked for all asks the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_broker.tls.connecting import PeerAccess
from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.links import LinkStatus, Question, ask_links, keep_links, link_status
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState, LinkKeeping, PartitionStatus
from ottla_core.cluster.state.model import ClusterState, Member
from ottla_core.errors import KafkaError

PEER_TIMEOUT_S: Final = 5.0
KEEP_TIMEOUT_S: Final = 50.0


class LinkStatuses:
    """Gathers statuses from all brokers.

    Args:
        config: this broker's settings.
        state: returns the newest cluster state.
        partitions: returns the status of what this broker leads of some links, or of all.
        keepings: returns how the links are kept in step that this broker keeps.
        look_now: brings these in step, and returns how that went.
        peers: how other brokers are reached.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        state: Callable[[], ClusterState],
        partitions: Callable[[Collection[str]], list[PartitionStatus]],
        keepings: Callable[[Collection[str]], list[LinkKeeping]],
        look_now: Callable[[Collection[str]], Awaitable[list[LinkKeeping]]],
        peers: PeerAccess,
    ) -> None:
        self._peers = peers
        self._config = config
        self._state = state
        self._partitions = partitions
        self._keepings = keepings
        self._look_now = look_now

    def own(self, names: Collection[str]) -> LinkStatus:
        """Return what this broker knows itself."""
        return LinkStatus(tuple(self._partitions(names)), (), tuple(self._keepings(names)))

    async def gathered(self, names: tuple[str, ...]) -> LinkStatus:
        """Return what all brokers know; of partitions of which none says anything, that nobody leads them."""
        others = [member for member in self._state().brokers.values() if member.id != self._config.node_id]
        answers = await asyncio.gather(
            *(self._ask(member, link_status(names, of_this_broker=True), PEER_TIMEOUT_S) for member in others)
        )
        silent = [member.id for member, answer in zip(others, answers, strict=True) if answer is None]
        told = [*(answer for answer in answers if answer is not None), self.own(names)]
        known = {(each.topic, each.index): each for answer in told for each in answer.partitions}
        for each in _unreported(self._state(), names):
            known.setdefault((each.topic, each.index), each)
        keepings = {each.link: each for answer in told for each in answer.keepings}
        return LinkStatus(
            tuple(sorted(known.values(), key=lambda each: (each.link, each.topic, each.index))),
            tuple(silent),
            tuple(keepings[link] for link in sorted(keepings)),
        )

    async def kept_now(self, names: tuple[str, ...]) -> LinkStatus:
        """Have links brought in step by the brokers that keep them."""
        others = [member for member in self._state().brokers.values() if member.id != self._config.node_id]
        asked = (self._ask(member, keep_links(names, of_this_broker=True), KEEP_TIMEOUT_S) for member in others)
        own, answers = await asyncio.gather(self.own_kept_now(names), asyncio.gather(*asked))
        silent = tuple(member.id for member, answer in zip(others, answers, strict=True) if answer is None)
        keepings = (*own.keepings, *(each for answer in answers if answer is not None for each in answer.keepings))
        return LinkStatus((), silent, keepings)

    async def own_kept_now(self, names: tuple[str, ...]) -> LinkStatus:
        """Bring links in step that this broker keeps."""
        return LinkStatus((), (), tuple(await self._look_now(names)))

    async def _ask(self, member: Member, question: Question[LinkStatus], timeout_s: float) -> LinkStatus | None:
        listener = self._config.inter_broker_listener
        endpoint = next((each for each in member.endpoints if each.listener == listener), None)
        if endpoint is None:
            return None
        client_id = f"broker-{self._config.node_id}-links"
        security = replace(self._peers.security, tls=self._peers.tls())
        try:
            async with asyncio.timeout(timeout_s):
                connection = await AsyncConnection.open(
                    endpoint.host, endpoint.port, security=security, client_id=client_id
                )
                try:
                    return await ask_links(connection, question, timeout_s=timeout_s)
                finally:
                    connection.close()
        except (Unreachable, AuthenticationFailed, UnsupportedByBroker, KafkaError, TimeoutError):
            return None


def _unreported(state: ClusterState, names: tuple[str, ...]) -> list[PartitionStatus]:
    by_id = {link.id: link.name for link in state.links.values() if not names or link.name in names}
    return [
        PartitionStatus(
            link=by_id[partition.link],
            topic=topic.name,
            index=partition.index,
            state=LinkedPartitionState.NO_LEADER,
            reason="nobody leads it here, or its leader does not answer",
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
        )
        for topic in state.topics.values()
        for partition in topic.partitions
        if partition.link in by_id
    ]
