"""Who leads what in one cluster: asked for when somebody needs it, and for many topics at once."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker

REFRESH_PAUSE_S: Final = 0.1
REFRESH_TIMEOUT_S: Final = 15.0
log = structlog.get_logger("mirror")


class ClusterView:
    """What is known of some topics of a cluster.

    Args:
        cluster: whom to ask.
        role: source or target, for messages.
        on_change: called after each answer.
        age_s_max: after which it is asked again.

    Attributes:
        problem: why the cluster could not be asked the last time, if so.
    """

    def __init__(self, cluster: AsyncCluster, role: str, on_change: Callable[[], None], *, age_s_max: float) -> None:
        self.cluster = cluster
        self.role = role
        self.problem: str | None = None
        self._on_change = on_change
        self._age_s_max = age_s_max
        self._topics: dict[str, TopicMetadata] = {}
        self._wanted: set[str] = set()
        self._is_stale = asyncio.Event()

    def want(self, topics: Iterable[str]) -> None:
        """Watch these topics and no others."""
        self._wanted = set(topics)
        self._topics = {name: each for name, each in self._topics.items() if name in self._wanted}
        self._is_stale.set()

    def refresh(self) -> None:
        """Ask soon: something said that what we know is not so."""
        self._is_stale.set()

    async def look(self) -> None:
        """Ask now: what is about to be decided depends on how things are; `problem` says if nobody answers."""
        if self._wanted:
            await self._ask()

    def topic(self, name: str) -> TopicMetadata | None:
        """Return what is known of a topic; None if nobody has answered yet."""
        return self._topics.get(name)

    def partition(self, name: str, number: int) -> PartitionMetadata | None:
        """Return what is known of a partition; None if it has no leader as far as we know."""
        topic = self._topics.get(name)
        partition = topic.partitions.get(number) if topic is not None else None
        return partition if partition is not None and partition.leader >= 0 else None

    async def run(self) -> None:
        """Keep it up to date, for ever."""
        while True:
            try:
                async with asyncio.timeout(self._age_s_max):
                    await self._is_stale.wait()
            except TimeoutError:
                pass
            self._is_stale.clear()
            if self._wanted:
                await self._ask()
            await asyncio.sleep(REFRESH_PAUSE_S)

    async def _ask(self) -> None:
        wanted = sorted(self._wanted)
        try:
            metadata = await self.cluster.metadata(wanted, timeout_s=REFRESH_TIMEOUT_S)
        except (Unreachable, AuthenticationFailed, UnsupportedByBroker) as error:
            if self.problem is None:
                log.warning("a cluster cannot be asked for its leaders", role=self.role, reason=str(error))
            self.problem = str(error)
            self._is_stale.set()
        else:
            self.problem = None
            self._topics = {name: each for name, each in metadata.topics.items() if name in self._wanted}
        self._on_change()
