"""ConsumerGroupDescribe: the state, the epochs and the members of groups of the consumer protocol (KIP-848)."""

from dataclasses import replace

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from ottla_core.authorized_operations import GROUP_OPERATIONS
from ottla_core.cluster.state.model import ClusterState
from ottla_group_coordinator.classic.responses import NO_THROTTLE
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import ConsumerMember
from ottla_group_coordinator.consumer.partitions import NO_PARTITIONS, Partitions, to_topics
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

CLASSIC_MEMBER = i8(0)
CONSUMER_MEMBER = i8(1)


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer a ConsumerGroupDescribe."""
    message: ConsumerGroupDescribeRequest = request.newest()
    groups = tuple(_describe(shard, group_id) for group_id in message.group_ids)
    if message.include_authorized_operations:
        groups = tuple(map(_with_operations, groups))
    turn.answer(request.token, ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=groups))


def _with_operations(group: DescribedGroup) -> DescribedGroup:
    if group.error_code is not ErrorCode.none:
        return group
    return replace(group, authorized_operations=GROUP_OPERATIONS)


def _describe(shard: ShardState, group_id: GroupId) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not group_id:
        return _refused(group_id, ErrorCode.invalid_group_id, "The group id is empty.")
    if not isinstance(group, ConsumerGroup):
        reason = "not found" if group is None else "is not a consumer group"
        return _refused(group_id, ErrorCode.group_id_not_found, f"Group {group_id} {reason}.")
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=group.preferred_assignor(shard.settings.consumer_assignors),
        members=tuple(_described_member(shard.cluster_state, group, member) for member in group.members.values()),
    )


def _described_member(state: ClusterState, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(TopicName, sorted(member.subscribed_topic_names))),
        subscribed_topic_regex=member.subscribed_topic_regex or None,
        assignment=_described_assignment(state, member.assigned),
        target_assignment=_described_assignment(state, group.target.get(member.member_id, NO_PARTITIONS)),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _described_assignment(state: ClusterState, partitions: Partitions) -> Assignment:
    """Return partitions with the names of their topics; those of topics that have gone are left out."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic.topic_id,
                topic_name=TopicName(state.topics_by_id[topic.topic_id].name),
                partitions=tuple(map(i32, topic.partitions)),
            )
            for topic in to_topics(partitions)
            if topic.topic_id in state.topics_by_id
        )
    )


def _refused(group_id: GroupId, error: ErrorCode, text: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=text,
        group_id=group_id,
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )
