"""DescribeTopicPartitions (key 75): topics with their partitions, page by page (KIP-966)."""

from collections.abc import Iterable
from heapq import nsmallest

from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.listener_view import ListenerView
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.cluster.state.model import PartitionState, Topic
from ottla_core.errors import InvalidTopic
from ottla_core.shards import INTERNAL_TOPICS
from ottla_core.slices import in_slices, started
from ottla_core.topic_name import check_topic_name

PARTITIONS_PER_PAGE_MAX = 2000


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the cluster state, in the order of names, from the cursor on."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    message, state = request.message, broker.state
    view = ListenerView(state, request.listener)
    cursor = message.cursor
    named = {topic.name for topic in message.topics}
    wanted: Iterable[str] = named or state.topics
    if not named and broker.authorization.is_on:
        seen = await in_slices((name, _may_see(broker, request, name, is_listing=True)) for name in state.topics)
        wanted = [name for name, is_seen in seen if is_seen]
    left = max(1, min(message.response_partition_limit, PARTITIONS_PER_PAGE_MAX))
    # Every topic but those without partitions (there are none) takes up room, so no more of them are looked at.
    names = nsmallest(left + 1, wanted if cursor is None else (name for name in wanted if name >= cursor.topic_name))
    begins_inside = cursor is not None and names and names[0] == cursor.topic_name
    start = max(0, cursor.partition_index) if begins_inside else 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
    for name in names:
        if left <= 0:
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(start))
            break
        if named and not _may_see(broker, request, name):
            topics.append(_hidden(name))
            left -= 1
            continue
        operations = broker.authorization.operations_on(request, ResourceKind.TOPIC, name)
        topic = state.topics.get(name)
        if topic is None:
            topics.append(_unknown(name, operations))
            left -= 1
            continue
        end = start + left
        page = await in_slices(_describe_partition(view, each) for each in topic.partitions[start:end])
        topics.append(_described(topic, page, operations))
        left -= len(page)
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(end))
            break
        start = 0
    return await respond_in_thread(
        request,
        DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor),
        len(topics) + PARTITIONS_PER_PAGE_MAX - left,
    )


def _may_see(broker: Broker, request: Request, topic: str, *, is_listing: bool = False) -> bool:
    return broker.authorization.permits(
        request, AclOperation.DESCRIBE, ResourceKind.TOPIC, topic, is_listing=is_listing
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=denial(ResourceKind.TOPIC).code, name=TopicName(name), topic_id=None, partitions=()
    )


def _described(
    topic: Topic, page: tuple[DescribeTopicPartitionsResponsePartition, ...], operations: i32
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=page,
        topic_authorized_operations=operations,
    )


def _unknown(name: str, operations: i32) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.unknown_topic_or_partition
    try:
        check_topic_name(name)
    except InvalidTopic as refused:
        error = refused.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=TopicName(name),
        topic_id=None,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _describe_partition(view: ListenerView, partition: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=view.error_of(partition),
        partition_index=i32(partition.index),
        leader_id=BrokerId(view.leader_of(partition)),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=_ids(partition.replicas),
        isr_nodes=_ids(partition.isr),
        eligible_leader_replicas=_ids(partition.eligible_leaders),
        last_known_elr=(),
        offline_replicas=_ids(view.offline_replicas_of(partition)),
    )


def _ids(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)
