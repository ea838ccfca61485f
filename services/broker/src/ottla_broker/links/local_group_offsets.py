"""Changing offsets of this cluster's own groups on behalf of links, through the coordinators that own them.

It is an OffsetCommit of nobody, which a coordinator takes only while the group has no members, with one rule more: no
offset goes back. Both are looked at in the coordinator's turn that stores them. So a request that is late, or comes
from a broker that keeps the link no more, cannot undo what consumers have committed here meanwhile. Topics are named
by their ids, so that it cannot be meant for a later topic of the same name either.

Where records of a partition are about to be cut off, all groups go back: that concerns those that somebody has listed
as little as those with members, so the coordinators do it for whole shards (their `offsets.setting_back`).
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from ottla_broker.groups.coordinator_topics import CoordinatorTopicCreation
from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.relay import GroupRelay, answer_or_raise
from ottla_broker.groups.routing import owner_of, shard_for, shards
from ottla_broker.links.group_rewind import Cuts, Refusals
from ottla_core.client.group.offset_requests import IN_USE, CommitResult, CommittedOffset
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import CodedError, InvalidRequest, KafkaError
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import RequestHeader, message_codec

TIMEOUT_S: Final = 10.0
OFFSETS_PER_REQUEST: Final = 1000
CLIENT_HOST: Final = "/127.0.0.1"
TURNS_MAX: Final = 10_000
"""So often a shard is asked to go on with setting groups back; each of its turns writes a batch."""
GOES_ON: Final = ErrorCode.request_timed_out
"""What a coordinator answers that has set groups back as far as its turn had room."""


class LocalGroupOffsets:
    """Changes offsets.

    Args:
        relay: the way to the coordinators.
        topic: makes the topic of groups where there is none yet.
        state: returns the newest cluster state.
        client_id: by which coordinators know who asks.
    """

    def __init__(
        self, relay: GroupRelay, topic: CoordinatorTopicCreation, state: Callable[[], ClusterState], client_id: str
    ) -> None:
        self._relay = relay
        self._topic = topic
        self._state = state
        self._client_id = client_id
        self._correlation_ids = itertools.count()

    async def take_forward(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, UUID]
    ) -> CommitResult:
        """Have a group without members go on at some offsets, where it is not there yet or further.

        Args:
            group: the group.
            offsets: where to.
            topic_ids: of their topics, when it was known that the offsets are right.

        Raises:
            KafkaError: the group's coordinator cannot be asked; ask again later.
            TimeoutError: it does not answer.
        """
        failures: dict[TopicPartition, str] = {}
        items = sorted(offsets.items())
        for start in range(0, len(items), OFFSETS_PER_REQUEST):
            result = await self._commit(group, dict(items[start : start + OFFSETS_PER_REQUEST]), topic_ids)
            if result.is_in_use:
                return result
            failures |= result.failures
        return CommitResult(is_in_use=False, failures=failures)

    async def set_all_back(self, cuts: Cuts) -> Refusals:
        """Have no group of this cluster go on behind some offsets, and no member of one be behind them.

        Returns:
            The partitions that a coordinator refuses; groups may go on behind their cuts.

        Raises:
            KafkaError: a coordinator cannot be asked, or not all was done; ask again later.
            TimeoutError: one does not answer.
        """
        state, refusals = self._state(), dict[tuple[UUID, int], KafkaError]()
        for shard in shards(state):
            owner_of(state, shard)  # nobody is disturbed while not all groups can be reached
        for shard in shards(state):
            for _ in range(TURNS_MAX):
                wanted = {key: cut for key, cut in cuts.items() if key not in refusals}
                if not wanted or await self._is_set_back(shard, wanted, refusals):
                    break
            else:
                raise NotCoordinator(f"the groups of shard {shard} are not set back in {TURNS_MAX} turns")
        return refusals

    async def _is_set_back(
        self, shard: TopicPartition, cuts: Cuts, refusals: dict[tuple[UUID, int], KafkaError]
    ) -> bool:
        """Set some groups of a shard back; return whether these were all, and add what is refused."""
        answer = await self._ask(shard, _set_back_request(cuts), sets_all_back=True)
        codes = {
            (topic.topic_id, int(each.partition_index)): ErrorCode(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        for key, code in codes.items():
            if code not in {ErrorCode.none, GOES_ON}:
                message = f"the coordinator of shard {shard} does not set groups back: {code.name}"
                refusals[key] = CodedError(code, message)
        return GOES_ON not in codes.values()

    async def _commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, UUID]
    ) -> CommitResult:
        try:
            shard = shard_for(self._state(), group)
        except NotCoordinator:
            self._topic.begin()
            raise
        answer = await self._ask(shard, _request(group, offsets, topic_ids), only_forward=True)
        return _result(answer, {topic_id: name for name, topic_id in topic_ids.items()})

    async def _ask(
        self,
        shard: TopicPartition,
        request: OffsetCommitRequest,
        *,
        only_forward: bool = False,
        sets_all_back: bool = False,
    ) -> Any:
        key, version = int(request.__api_key__), int(request.__version__)
        codec = message_codec(key, version)
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        header = RequestHeader(key, version, correlation_id, self._client_id, body_offset=0)
        frame = codec.encode_request(header, request)
        async with asyncio.timeout(TIMEOUT_S):
            answer = await self._relay.ask(
                shard, frame, CLIENT_HOST, answer_or_raise, only_forward=only_forward, sets_all_back=sets_all_back
            )
        if not answer:
            raise InvalidRequest("the group coordinator cannot make anything of offsets of a link")
        return codec.read_response(answer)


def _request(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset], topic_ids: Mapping[str, UUID]
) -> OffsetCommitRequest:
    by_topic: dict[str, list[object]] = {}
    for partition, offset in offsets.items():
        by_topic.setdefault(partition.topic, []).append(
            message_of(
                OffsetCommitRequestPartition,
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_metadata=offset.metadata,
            )
        )
    topics = tuple(
        message_of(OffsetCommitRequestTopic, topic_id=topic_ids[topic], partitions=tuple(partitions))
        for topic, partitions in by_topic.items()
    )
    return message_of(OffsetCommitRequest, group_id=group, member_id="", topics=topics)


def _set_back_request(cuts: Cuts) -> OffsetCommitRequest:
    by_topic: dict[UUID, list[object]] = {}
    for (topic_id, index), cut in cuts.items():
        by_topic.setdefault(topic_id, []).append(
            message_of(
                OffsetCommitRequestPartition,
                partition_index=index,
                committed_offset=cut.offset,
                committed_leader_epoch=cut.leader_epoch,
            )
        )
    topics = tuple(
        message_of(OffsetCommitRequestTopic, topic_id=topic_id, partitions=tuple(partitions))
        for topic_id, partitions in by_topic.items()
    )
    # A generation, as a coordinator that does not know yet what this is must refuse it: it would store a commit.
    return message_of(OffsetCommitRequest, group_id="", generation_id_or_member_epoch=0, member_id="", topics=topics)


def _result(response: Any, names: Mapping[UUID, str]) -> CommitResult:
    codes = {
        TopicPartition(names[topic.topic_id], int(each.partition_index)): ErrorCode(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }
    is_in_use = any(code in IN_USE for code in codes.values())
    failures = {each: code.name for each, code in codes.items() if code is not ErrorCode.none}
    return CommitResult(is_in_use, {} if is_in_use else failures)
