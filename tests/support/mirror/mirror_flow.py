"""A flow between two running clusters for tests of groups: its stores and topics, without workers."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.group.cluster_groups import ClusterGroups
from ottla_core.client.group.offset_requests import CommittedOffset
from ottla_core.topic_partition import TopicPartition
from ottla_mirror.groups.group_sync import GroupSync
from ottla_mirror.groups.translator import Translator
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.offsets.map_topic import MapTopic, map_topic_name
from tests.support.clients.client_cluster import opened_cluster
from tests.support.mirror.mirrored_topic import MirroredTopic


@dataclass
class MirrorFlow:
    """A flow with the alias of its source, and what it mirrors.

    Attributes:
        alias: of the source; its groups' names begin with it.
        leads: whether the worker leads.
    """

    alias: str
    source_cluster: AsyncCluster
    target_cluster: AsyncCluster
    source: ClusterGroups
    target: ClusterGroups
    maps: MapTopic
    checkpoints: InternalTopic
    topics: list[MirroredTopic] = field(default_factory=list)
    leads: bool = True

    async def topic(self) -> MirroredTopic:
        """Makes a topic that is mirrored."""
        made = await MirroredTopic.begin(self.source_cluster, self.target_cluster, self.maps, alias=self.alias)
        self.topics.append(made)
        return made

    async def sync(self, *, stores_offsets: bool = True, includes: Callable[[str], bool] | None = None) -> GroupSync:
        """A new leader's groups."""
        sync = GroupSync(
            source=self.source,
            target=self.target,
            translator=Translator(source=self.source, target=self.target, maps=self.maps),
            checkpoints=self.checkpoints,
            topics=lambda: {each.name: each.remote_name for each in self.topics},
            includes=includes or (lambda group: group.startswith(self.alias)),
            stores_offsets=stores_offsets,
            leads=lambda: self.leads,
        )
        await sync.start()
        return sync

    def group(self) -> str:
        """A name for a group."""
        return f"{self.alias}-{uuid.uuid4().hex[:6]}"

    async def commit(self, group: str, topic: MirroredTopic, offset: int) -> None:
        """Commits an offset at the source, for a group without members."""
        result = await self.source.store(group, {TopicPartition(topic.name, 0): CommittedOffset(offset, "note")})
        assert not result.failures

    async def stored(self, group: str, topic: MirroredTopic) -> int | None:
        """The group's offset at the target."""
        found = (await self.target.offsets(group)).get(TopicPartition(topic.remote_name, 0))
        return found.offset if found else None


@asynccontextmanager
async def mirror_flow(source_bootstrap: str, bootstrap: str) -> AsyncIterator[MirrorFlow]:
    """Yields a flow from one cluster to the other."""
    alias = f"a{uuid.uuid4().hex[:6]}"
    async with opened_cluster(source_bootstrap) as source, opened_cluster(bootstrap) as target:
        maps = MapTopic(InternalTopic(target, map_topic_name(alias), replication_factor=None))
        await maps.start()
        yield MirrorFlow(
            alias=alias,
            source_cluster=source,
            target_cluster=target,
            source=ClusterGroups(source),
            target=ClusterGroups(target),
            maps=maps,
            checkpoints=InternalTopic(target, f"{alias}.checkpoints.internal", replication_factor=None),
        )
