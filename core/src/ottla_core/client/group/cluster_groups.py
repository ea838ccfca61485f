"""Asks a cluster about groups, their offsets and its logs, and stores offsets of groups without members."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v1.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from ottla_core.client.cluster import ANSWER_TIMEOUT_S, AsyncCluster
from ottla_core.client.cluster_metadata import ClusterMetadata
from ottla_core.client.errors import Unreachable
from ottla_core.client.group.offset_requests import (
    ABSENT,
    CommitResult,
    CommittedOffset,
    ListedGroup,
    commit_request,
    committed,
    fetch_request,
    fetched,
    list_request,
    listed,
)
from ottla_core.errors import OttlaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of

EARLIEST: Final = -2
LATEST: Final = -1
LIST_RETRIES: Final = 20
LIST_PAUSE_S: Final = 0.25
_LOADING: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available})


class GroupError(OttlaError):
    """A cluster refuses something about a group; the message says what."""


class LogBounds(NamedTuple):
    """A partition's log: its first offset, and the one behind the last record that consumers may see."""

    start: int
    end: int


class ClusterGroups:
    """The groups of one cluster.

    Args:
        cluster: the cluster.
        timeout_s: for each request.
    """

    def __init__(self, cluster: AsyncCluster, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s

    async def list(self) -> dict[str, ListedGroup]:
        """Return all groups, of all brokers.

        Raises:
            GroupError: a broker does not say which groups it has.
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        found: dict[str, ListedGroup] = {}
        for broker_id in (await self._cluster.metadata((), timeout_s=self._timeout_s)).brokers:
            found |= listed(await self._list_one(broker_id))
        return found

    async def state(self, group: str) -> ListedGroup:
        """Return the state of one group, by a request that all brokers know.

        Raises:
            GroupError: its coordinator does not say it.
            Unreachable, AuthenticationFailed, UnsupportedByBroker, Refused: see `AsyncCluster`.
        """
        request = message_of(DescribeGroupsRequest, groups=(group,))
        response = await self._cluster.ask_coordinator_exactly(group, request, timeout_s=self._timeout_s)
        (found,) = response.groups
        if found.error_code is ErrorCode.group_id_not_found:
            return ABSENT
        if found.error_code is not ErrorCode.none:
            raise GroupError(f"{self._cluster}: group {group} is not described: {found.error_code.name}")
        return ListedGroup(found.group_state, found.protocol_type, "")

    async def offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets that a group has committed; none if there is no such group.

        Raises:
            GroupError: its coordinator does not say them.
            Unreachable, AuthenticationFailed, UnsupportedByBroker, Refused: see `AsyncCluster`.
        """
        response = await self._cluster.ask_coordinator_exactly(group, fetch_request(group), timeout_s=self._timeout_s)
        if response.error_code is ErrorCode.group_id_not_found:
            return {}
        if response.error_code is not ErrorCode.none:
            raise GroupError(f"{self._cluster}: offsets of group {group} are not told: {response.error_code.name}")
        return fetched(response)

    async def store(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> CommitResult:
        """Store offsets of a group without members; its coordinator refuses them if it has some.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker, Refused: see `AsyncCluster`; after the first
                they may have been stored.
        """
        request = commit_request(group, offsets)
        return committed(await self._cluster.ask_coordinator_exactly(group, request, timeout_s=self._timeout_s))

    async def metadata(self, topics: Collection[str]) -> ClusterMetadata:
        """Return what is known of topics; errors as with `list`."""
        return await self._cluster.metadata(topics, timeout_s=self._timeout_s)

    async def logs(
        self, partitions: Collection[TopicPartition], metadata: ClusterMetadata
    ) -> dict[TopicPartition, LogBounds]:
        """Return the bounds of logs; those without a leader are left out.

        Raises:
            Unreachable, AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            topic = metadata.topics.get(each.topic)
            if (
                topic is not None
                and each.partition in topic.partitions
                and topic.partitions[each.partition].leader >= 0
            ):
                by_leader.setdefault(topic.partitions[each.partition].leader, []).append(each)
        found: dict[TopicPartition, LogBounds] = {}
        for leader, own in by_leader.items():
            starts = await self._offsets_at(leader, own, EARLIEST)
            ends = await self._offsets_at(leader, own, LATEST)
            found |= {each: LogBounds(starts[each], ends[each]) for each in own if each in starts and each in ends}
        return found

    async def _list_one(self, broker_id: int) -> Any:
        for _ in range(LIST_RETRIES):
            response = await self._cluster.ask_broker(broker_id, list_request(), timeout_s=self._timeout_s)
            if response.error_code not in _LOADING:
                break
            await asyncio.sleep(LIST_PAUSE_S)
        if response.error_code is not ErrorCode.none:
            raise GroupError(
                f"{self._cluster}: broker {broker_id} does not list its groups: {response.error_code.name}"
            )
        return response

    async def _offsets_at(
        self, leader: int, partitions: Collection[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        by_topic: dict[str, list[object]] = {}
        for topic, partition in partitions:
            asked = message_of(ListOffsetsPartition, partition_index=partition, timestamp=timestamp)
            by_topic.setdefault(topic, []).append(asked)
        topics = tuple(
            message_of(ListOffsetsTopic, name=topic, partitions=tuple(each)) for topic, each in by_topic.items()
        )
        request = message_of(ListOffsetsRequest, replica_id=-1, topics=topics)
        try:
            response = await self._cluster.ask_broker_exactly(leader, request, timeout_s=self._timeout_s)
        except Unreachable:
            return {}  # asked again in the next round; the others' offsets need not wait
        return {
            TopicPartition(topic.name, int(each.partition_index)): int(each.offset)
            for topic in response.topics
            for each in topic.partitions
            if each.error_code is ErrorCode.none and each.offset >= 0
        }
