"""AlterPartitionReassignments (key 45): move replicas to other brokers, or cancel such a move (KIP-455, KIP-860)."""

from collections import defaultdict
from typing import Any

from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import AlteredReassignment, Reassignment
from ottla_core.errors import KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller begin or cancel what is wanted; the moves themselves go on after the answer."""
    message = request.newest()
    error, error_message = ErrorCode.none, None
    results: list[AlteredReassignment] = []
    timeout_s = message.timeout.total_seconds()
    try:
        results, revision = await broker.controller.alter_reassignments(
            [_reassignment(topic, partition) for topic in message.topics for partition in topic.partitions],
            allow_replication_factor_change=message.allow_replication_factor_change,
            timeout_s=timeout_s,
        )
        await broker.reconciler.wait_reached(revision, timeout_s)
    except KafkaError as refused:
        error, error_message = refused.code, refused.message
    return request.respond(
        AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE,
            allow_replication_factor_change=message.allow_replication_factor_change,
            error_code=error,
            error_message=error_message,
            responses=_by_topic(results),
        )
    )


def _reassignment(topic: Any, partition: Any) -> Reassignment:
    replicas = partition.replicas
    return Reassignment(
        topic=topic.name, index=partition.partition_index, replicas=None if replicas is None else tuple(replicas)
    )


def _by_topic(results: list[AlteredReassignment]) -> tuple[ReassignableTopicResponse, ...]:
    topics: defaultdict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
    for result in results:
        topics[result.topic].append(
            ReassignablePartitionResponse(
                partition_index=i32(result.index), error_code=result.error_code, error_message=result.error_message
            )
        )
    return tuple(
        ReassignableTopicResponse(name=TopicName(topic), partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )
