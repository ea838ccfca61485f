"""AlterReplicaLogDirs (key 34): move replicas of this broker to other log directories (KIP-113).

The answer comes when a move has begun; DescribeLogDirs shows how far it is.
"""

from pathlib import Path

from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.errors import KafkaError, ReplicaNotAvailable
from ottla_core.topic_partition import TopicPartition


async def handle(broker: Broker, request: Request) -> Parts:
    """Begin each move; a broker that holds no such replica remembers the wish, as Kafka's does."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.newest().dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = await _move(broker, TopicPartition(topic.name, index), Path(directory.path))
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=i32(index), error_code=error)
                )
    return request.respond(
        AlterReplicaLogDirsResponse(
            throttle_time=NO_THROTTLE,
            results=tuple(
                AlterReplicaLogDirTopicResult(topic_name=TopicName(topic), partitions=tuple(partitions))
                for topic, partitions in results.items()
            ),
        )
    )


async def _move(broker: Broker, topic_partition: TopicPartition, directory: Path) -> ErrorCode:
    try:
        await broker.store.move(topic_partition, directory)
    except ReplicaNotAvailable as error:
        topic = broker.state.topics.get(topic_partition.topic)
        is_known = topic is not None and 0 <= topic_partition.partition < len(topic.partitions)
        return error.code if is_known else ErrorCode.unknown_topic_or_partition
    except KafkaError as error:
        return error.code
    return ErrorCode.none
