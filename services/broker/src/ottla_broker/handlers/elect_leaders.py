"""ElectLeaders (key 43): elections on request, for the preferred leader or for any live one (KIP-460)."""

from collections import defaultdict
from typing import Any

from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import ElectedLeader, ElectionType
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.topic_partition import TopicPartition


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller hold the elections, and wait until this broker goes by their outcome."""
    message = request.newest()
    wanted = _wanted_partitions(message.topic_partitions)
    error = ErrorCode.none
    timeout_s = message.timeout.total_seconds()
    try:
        results, revision = await broker.controller.elect_leaders(
            _election_type(message.election_type), wanted, timeout_s=timeout_s
        )
        await broker.reconciler.wait_reached(revision, timeout_s)
    except KafkaError as refused:
        error = refused.code
        results = [_refused(partition, refused) for partition in wanted or ()]
    return request.respond(
        ElectLeadersResponse(throttle_time=NO_THROTTLE, error_code=error, replica_election_results=_by_topic(results))
    )


def _wanted_partitions(topics: Any) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]


def _election_type(number: int) -> ElectionType:
    try:
        return ElectionType(number)
    except ValueError:
        raise InvalidRequest(f"Unknown election type {number}") from None


def _refused(partition: TopicPartition, error: KafkaError) -> ElectedLeader:
    return ElectedLeader(
        topic=partition.topic, index=partition.partition, error_code=error.code, error_message=error.message
    )


def _by_topic(results: list[ElectedLeader]) -> tuple[ReplicaElectionResult, ...]:
    topics: defaultdict[str, list[PartitionResult]] = defaultdict(list)
    for result in results:
        topics[result.topic].append(
            PartitionResult(
                partition_id=i32(result.index), error_code=result.error_code, error_message=result.error_message
            )
        )
    return tuple(
        ReplicaElectionResult(topic=TopicName(topic), partition_result=tuple(partitions))
        for topic, partitions in topics.items()
    )
