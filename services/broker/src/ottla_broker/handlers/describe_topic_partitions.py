"""DescribeTopicPartitions (key 75): topics with their partitions, page by page (KIP-966)."""

from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.metadata import describe_partition
from ottla_core.authorized_operations import TOPIC_OPERATIONS
from ottla_core.cluster.model import PartitionState
from ottla_core.errors import InvalidTopic
from ottla_core.group_shards import INTERNAL_TOPICS
from ottla_core.topic_name import check_topic_name

PARTITIONS_PER_PAGE_MAX = 2000


def handle(broker: Broker, request: Request) -> Parts:
    """Answer from the cluster state, in the order of names, from the cursor on."""
    message = request.message
    names = sorted({topic.name for topic in message.topics} or broker.state.topics)
    start = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        start = message.cursor.partition_index if names and names[0] == message.cursor.topic_name else 0
    left = max(1, min(message.response_partition_limit, PARTITIONS_PER_PAGE_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
    for name in names:
        if left == 0:
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(start))
            break
        described, total = _describe(broker, name, start, left)
        topics.append(described)
        left -= len(described.partitions)
        if start + len(described.partitions) < total:
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(start + len(described.partitions)))
            break
        start = 0
    return request.respond(
        DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics), next_cursor=next_cursor)
    )


def _describe(broker: Broker, name: str, start: int, limit: int) -> tuple[DescribeTopicPartitionsResponseTopic, int]:
    """Return a topic with at most `limit` partitions from `start` on, and how many it has in all."""
    topic = broker.state.topics.get(name)
    if topic is None:
        return _unknown(name), 0
    page = tuple(_describe_partition(broker, state) for state in topic.partitions[start : start + limit])
    return (
        DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.none,
            name=TopicName(name),
            topic_id=topic.id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=page,
            topic_authorized_operations=TOPIC_OPERATIONS,
        ),
        len(topic.partitions),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
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
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe_partition(broker: Broker, state: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    described = describe_partition(broker, state)
    return DescribeTopicPartitionsResponsePartition(
        error_code=described.error_code,
        partition_index=described.partition_index,
        leader_id=described.leader_id,
        leader_epoch=described.leader_epoch,
        replica_nodes=described.replica_nodes,
        isr_nodes=described.isr_nodes,
        eligible_leader_replicas=tuple(BrokerId(replica) for replica in state.eligible_leaders),
        last_known_elr=(),
        offline_replicas=described.offline_replicas,
    )
