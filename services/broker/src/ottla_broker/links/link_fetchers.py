"""All links of this broker: which of its partitions follow which link, kept in step with the cluster state.

Partitions tell of their roles through `ReplicationContext.on_link`, in the step that changes them: nothing is
appended on behalf of a former role, leader epoch or link after that. What the state says of the links themselves is
looked at whenever it changes.
"""

import asyncio
from collections.abc import Callable, Collection
from uuid import UUID

import structlog

from ottla_broker.config import BrokerConfig
from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.links.active_link import ActiveLink
from ottla_broker.links.epoch_raising import EpochRaising
from ottla_broker.links.group_rewind import Cut, GroupRewind
from ottla_broker.links.link_settings import Resolve
from ottla_broker.links.linked_partition import LinkedPartition
from ottla_broker.partition import Partition
from ottla_broker.replication.fetch_settings import FetchSettings
from ottla_core.background import start_detached
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.link_api import LeaderEpochRaise, PartitionStatus
from ottla_core.cluster.state.model import ClusterState, Link, PartitionState
from ottla_core.errors import KafkaError

logger = structlog.get_logger("links")


class LinkFetchers:
    """Fetches what this broker leads of linked topics.

    Args:
        config: the broker's settings; fetches go by those of followers.
        settings: of fetches.
        state: returns the newest cluster state.
        clock: for the time of appends.
        epochs: has leader epochs raised.
        resolve: puts secrets in the place of references in a link's settings.

    Attributes:
        groups: this cluster's, once its coordinators can be asked.
    """

    def __init__(
        self,
        config: BrokerConfig,
        settings: FetchSettings,
        *,
        state: Callable[[], ClusterState],
        clock: Clock,
        epochs: EpochRaising,
        resolve: Resolve,
    ) -> None:
        self._config = config
        self._settings = settings
        self._state = state
        self._clock = clock
        self._epochs = epochs
        self._resolve = resolve
        self.groups: GroupRewind | None = None
        self._runs: dict[UUID, ActiveLink] = {}
        self._waiting: dict[UUID, set[Partition]] = {}
        self._bytes_of_closed = 0
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def linked(self) -> tuple[LinkedPartition, ...]:
        """All partitions that are fetched."""
        return tuple(linked for run in self._runs.values() for linked in run.linked)

    @property
    def fetched_bytes(self) -> int:
        """Bytes of records fetched since the start."""
        return self._bytes_of_closed + sum(run.fetched_bytes for run in self._runs.values())

    def on_link(self, partition: Partition, former: PartitionState) -> None:
        """Fetch a partition, or fetch it no longer, as its new role says."""
        link_id = partition.state.link
        if former.link is not None and (link_id != former.link or not partition.leads):
            self._remove(partition, former.link)
        if link_id is None:
            if former.link is not None:
                self._begin_own_history(partition)
        elif partition.leads:
            self._add(partition, link_id)
        else:
            self._remove(partition, link_id)

    def links_changed(self, former: ClusterState, new: ClusterState) -> None:
        """Go by the links as they are now."""
        if former.links is new.links:
            return
        present = {link.id: link for link in new.links.values()}
        for link_id, run in tuple(self._runs.items()):
            link = present.get(link_id)
            if link is None:
                self._waiting.setdefault(link_id, set()).update(linked.partition for linked in run.linked)
                self._close(link_id, run)
            elif link != run.link:
                run.altered(link)
        for link_id in self._waiting.keys() & present.keys():
            for partition in self._waiting.pop(link_id):
                self._add(partition, link_id)

    def statuses(self, names: Collection[str]) -> list[PartitionStatus]:
        """Return how far the partitions of some links have come, or of all if none is named."""
        return [
            status for run in self._runs.values() if not names or run.link.name in names for status in run.statuses()
        ]

    async def close(self) -> None:
        """Fetch nothing any more."""
        runs, self._runs = tuple(self._runs.values()), {}
        await asyncio.gather(*(run.close() for run in runs), *self._closing, self._epochs.close())

    def _add(self, partition: Partition, link_id: UUID) -> None:
        state = self._state()
        link = state.link_of(link_id)
        topic = state.topics_by_id.get(partition.topic_id)
        if link is None or topic is None or topic.origin is None:
            self._waiting.setdefault(link_id, set()).add(partition)  # until its link is there
            return
        run = self._runs.get(link_id)
        if run is None:
            run = self._runs[link_id] = self._open(link)
        known = run.get(partition.topic_id, partition.topic_partition.partition)
        if known is None or known.partition is not partition:
            known = LinkedPartition(
                partition,
                link=link_id,
                source_topic=topic.origin.source_topic,
                source_topic_id=topic.origin.source_topic_id,
                now_ms=self._clock.time_ms(),
            )
        run.add(known)

    def _remove(self, partition: Partition, link_id: UUID) -> None:
        self._waiting.get(link_id, set()).discard(partition)
        run = self._runs.get(link_id)
        if run is None:
            return
        known = run.get(partition.topic_id, partition.topic_partition.partition)
        if known is not None and known.partition is partition:
            run.remove(partition.topic_id, partition.topic_partition.partition)
        if not len(run):
            self._close(link_id, run)

    def _begin_own_history(self, partition: Partition) -> None:
        """Begin a segment, with a snapshot that has none of the source's producers, so that no restart finds them."""
        try:
            partition.log.roll(self._clock.time_ms())
        except KafkaError as error:
            logger.warning(
                "no new segment for a promoted partition",
                partition=str(partition.topic_partition),
                error=error.message,
            )

    def _open(self, link: Link) -> ActiveLink:
        return ActiveLink(
            link,
            self._settings,
            client_id=f"link-{link.name}-broker-{self._config.node_id}",
            clock=self._clock,
            resolve=self._resolve,
            raise_epoch=self._raise_epoch,
            set_groups_back=self._set_groups_back,
        )

    async def _set_groups_back(self, topic_id: UUID, index: int, cut: Cut) -> None:
        if self.groups is None:
            raise NotCoordinator("this broker has only just been started")
        await self.groups.wait_for(topic_id, index, cut)

    def _close(self, link_id: UUID, run: ActiveLink) -> None:
        del self._runs[link_id]
        self._bytes_of_closed += run.fetched_bytes
        task = start_detached("closing a link", run.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _raise_epoch(self, linked: LinkedPartition) -> None:
        state = linked.partition.state
        if state.link is None:
            return
        self._epochs.want(
            LeaderEpochRaise(
                topic_id=linked.partition.topic_id,
                index=linked.topic_partition.partition,
                link_id=state.link,
                leader_epoch=state.leader_epoch,
                raised_to=linked.wanted_epoch,
            )
        )
