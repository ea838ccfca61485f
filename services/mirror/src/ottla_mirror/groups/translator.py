"""Translates offsets by the maps as they are stored, and the logs and topics as they are now."""

from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla_core.client.cluster_metadata import NO_TOPIC_ID, ClusterMetadata
from ottla_core.client.group.cluster_groups import ClusterGroups, LogBounds
from ottla_core.errors import InvalidRecord
from ottla_core.topic_partition import TopicPartition
from ottla_mirror.groups.translation import Translated, is_of, translated
from ottla_mirror.internal_topics.errors import InternalTopicError
from ottla_mirror.offsets.map_topic import MapTopic
from ottla_mirror.offsets.stored_copy import StoredCopy


class _Kept(NamedTuple):
    revision: int
    copy: StoredCopy | None


class Translator:
    """The partitions of one flow.

    Args:
        source: asks the source.
        target: asks the target.
        maps: the store of the flow's copies; only read.
    """

    def __init__(self, *, source: ClusterGroups, target: ClusterGroups, maps: MapTopic) -> None:
        self._source = source
        self._target = target
        self._maps = maps
        self._copies: dict[TopicPartition, _Kept] = {}
        self._usable: dict[TopicPartition, tuple[StoredCopy, LogBounds]] = {}
        self._source_metadata: ClusterMetadata | None = None

    async def source_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """Return which topics of the source have these names now; to be asked before offsets of groups in them.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        metadata = await self._source.metadata(topics)
        return {topic: _id(metadata, topic) for topic in topics}

    async def look(
        self, partitions: Collection[TopicPartition], topics: Mapping[str, str], source_ids: Mapping[str, UUID]
    ) -> None:
        """Find out what `translate` has to know of some partitions of the source.

        Args:
            partitions: of the source.
            topics: what its topics are called at the target.
            source_ids: of which topics the offsets are that are to be translated: a later one of the same name has
                other records at them.

        Raises:
            InternalTopicError: the maps cannot be read.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        names = {each.topic for each in partitions}
        remote = {each: TopicPartition(topics[each.topic], each.partition) for each in partitions}
        # The logs are looked at after the maps, so that they hold all that the maps say.
        await self._maps.read()
        self._source_metadata = await self._source.metadata(names)
        there = await self._target.metadata({topics[name] for name in names})
        bounds = await self._target.logs(remote.values(), there)
        self._usable = {}
        for each in partitions:
            copy = self._copy(each)
            target = bounds.get(remote[each])
            if copy is None or target is None:
                continue
            source_id = _id(self._source_metadata, each.topic)
            if source_id == source_ids[each.topic] and is_of(copy, source_id, _id(there, topics[each.topic])):
                self._usable[each] = (copy, target)

    def translate(self, partition: TopicPartition, source_offset: int) -> Translated | None:
        """Return what an offset is at the target; None while nothing is known of the partition.

        Raises:
            InternalTopicError: its map cannot be read.
        """
        known = self._usable.get(partition)
        if known is None:
            return None
        try:
            return translated(source_offset, *known)
        except InvalidRecord as error:
            raise InternalTopicError(f"The map of {partition} cannot be read: {error.message}") from error

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset of the source to be copied; None while nothing is known of the partition."""
        known = self._usable.get(partition)
        return None if known is None else known[0].next_source_offset

    async def source_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """Return the bounds of the source's logs at this moment, of partitions that were looked at.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        if self._source_metadata is None:
            return {}
        return await self._source.logs(partitions, self._source_metadata)

    def _copy(self, partition: TopicPartition) -> StoredCopy | None:
        """Return the copy as it is stored; read again only if it has changed."""
        revision = self._maps.revision(*partition)
        kept = self._copies.get(partition)
        if kept is None or kept.revision != revision:
            kept = self._copies[partition] = _Kept(revision, self._maps.copy(*partition))
        return kept.copy


def _id(metadata: ClusterMetadata, topic: str) -> UUID:
    found = metadata.topics.get(topic)
    return NO_TOPIC_ID if found is None else found.id
