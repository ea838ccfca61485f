"""ConsumerGroupHeartbeat: the one request of the consumer protocol (KIP-848), with which members do everything."""

from datetime import timedelta

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i32Timedelta

from ottla_core.errors import InvalidRequest
from ottla_group_coordinator.classic.responses import NO_THROTTLE
from ottla_group_coordinator.consumer.departure import leave
from ottla_group_coordinator.consumer.heartbeat import Heartbeat, take
from ottla_group_coordinator.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from ottla_group_coordinator.consumer.partitions import from_topics, to_topics
from ottla_group_coordinator.errors import UnsupportedAssignor
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState

FIRST_CLIENT_GENERATED_MEMBER_ID = 1
NO_INTERVAL = NO_THROTTLE
MILLISECOND = timedelta(milliseconds=1)


def handle(shard: ShardState, request: GroupRequest, turn: Turn) -> None:
    """Answer a ConsumerGroupHeartbeat."""
    message: ConsumerGroupHeartbeatRequest = request.newest()
    _check(message, request.api_version, shard.settings.consumer_assignors)
    if message.member_epoch in {LEAVING_EPOCH, STATIC_LEAVING_EPOCH}:
        leave(
            shard,
            turn,
            message.group_id,
            member_id=message.member_id,
            instance_id=message.instance_id,
            epoch=message.member_epoch,
        )
        turn.answer(request.token, _response(message.member_id, message.member_epoch, NO_INTERVAL, None))
        return
    member, tell_assignment = take(shard, turn, _read(shard, request, message))
    own = shard.cluster_state.group_configs.get(message.group_id)
    interval_ms = shard.settings.heartbeat_interval_ms_of(own)
    interval = i32Timedelta.parse(timedelta(milliseconds=interval_ms))
    assignment = _assignment(member) if tell_assignment else None
    turn.answer(request.token, _response(member.member_id, member.epoch, interval, assignment))


def _check(message: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """See that the request makes sense by itself.

    Raises:
        InvalidRequest, UnsupportedAssignor: it does not.
    """
    if api_version >= FIRST_CLIENT_GENERATED_MEMBER_ID or message.member_epoch != JOINING_EPOCH:
        _check_filled("MemberId", message.member_id)
    _check_filled("GroupId", message.group_id)
    _check_filled("InstanceId", message.instance_id)
    _check_filled("RackId", message.rack_id)
    if message.member_epoch == JOINING_EPOCH:
        _check_joining(message)
    elif message.member_epoch == STATIC_LEAVING_EPOCH and message.instance_id is None:
        raise InvalidRequest("InstanceId can't be null: only static members leave for a while")
    elif message.member_epoch < STATIC_LEAVING_EPOCH:
        raise InvalidRequest(f"MemberEpoch {message.member_epoch} is none")
    if message.server_assignor is not None and message.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {message.server_assignor} is not supported, only {', '.join(assignors)}"
        )


def _check_joining(message: ConsumerGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout < timedelta(0):
        raise InvalidRequest("RebalanceTimeoutMs must be given when joining")
    if message.topic_partitions is None or message.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when joining")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise InvalidRequest("SubscribedTopicNames or SubscribedTopicRegex must be given when joining")


def _check_filled(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise InvalidRequest(f"{name} can't be empty")


def _read(shard: ShardState, request: GroupRequest, message: ConsumerGroupHeartbeatRequest) -> Heartbeat:
    names = message.subscribed_topic_names
    rebalance_timeout_ms = message.rebalance_timeout // MILLISECOND
    return Heartbeat(
        group_id=message.group_id,
        member_id=message.member_id or str(shard.draw_uuid()),
        member_epoch=message.member_epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else None,
        subscribed_topic_names=None if names is None else frozenset(names),
        subscribed_topic_regex=message.subscribed_topic_regex,
        server_assignor=message.server_assignor,
        owned=None if message.topic_partitions is None else from_topics(message.topic_partitions),
        visible_topics=request.visible_topics,
    )


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic.topic_id, partitions=tuple(map(i32, topic.partitions)))
            for topic in to_topics(member.assigned)
        )
    )


def _response(
    member_id: str, member_epoch: int, interval: i32Timedelta, assignment: Assignment | None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=member_id,
        member_epoch=i32(member_epoch),
        heartbeat_interval=interval,
        assignment=assignment,
    )
