"""Metadata (key 3): the live brokers, and topics with their partitions and leaders.

Asking for an unknown topic by name creates it where both the client and `auto.create.topics.enable` allow that.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Outcome, Parts
from ottla_broker.groups.group_topic import new_group_topic
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_core.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ottla_core.cluster.controller_api import NewTopic
from ottla_core.cluster.model import NO_LEADER, PartitionState, Topic
from ottla_core.errors import InvalidTopic, KafkaError
from ottla_core.group_shards import GROUP_TOPIC, INTERNAL_TOPICS
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.topic_name import check_topic_name
from ottla_core.wire.conversion import convert

AUTO_CREATE_TIMEOUT_SECONDS = 2.0
"""How long creating topics may hold up what the client has sent behind; then it is told to ask again.

It holds for a whole request: one of a mebibyte names tens of thousands of topics.
"""


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the cluster state, after creating what was asked for and may be created."""
    message = request.newest()
    everything = message.topics is None or (request.version == 0 and not message.topics)
    if everything:
        return _respond(broker, request, [_describe(broker, topic) for topic in broker.state.topics.values()])
    absent = _creatable(broker, message)
    if absent:
        return _create_and_respond(broker, request, message, absent)
    return _respond(broker, request, [_look_up(broker, request, wanted) for wanted in message.topics])


def _creatable(broker: Broker, message: Any) -> list[str]:
    if not (message.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return []
    names = [wanted.name for wanted in message.topics if wanted.name is not None]
    return [name for name in names if name not in broker.state.topics and _is_valid(name)]


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


async def _create_and_respond(broker: Broker, request: Request, message: Any, names: Sequence[str]) -> Parts:
    timeout_s = AUTO_CREATE_TIMEOUT_SECONDS - request.elapsed_s
    failed = dict.fromkeys(names, ErrorCode.leader_not_available)
    if timeout_s > 0:
        failed = await _create(broker, names, timeout_s)
    topics = [_look_up(broker, request, wanted, failed) for wanted in message.topics]
    return _respond(broker, request, topics)


async def _create(broker: Broker, names: Sequence[str], timeout_s: float) -> dict[str, ErrorCode]:
    """Create topics, wait until their logs are there, and return the errors that there were."""
    new_topics = [_new_topic(broker, name) for name in dict.fromkeys(names)]
    try:
        results = await broker.controller.create_topics(new_topics, timeout_s=timeout_s)
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError:
        return dict.fromkeys(names, ErrorCode.leader_not_available)
    return {result.name: _retriable(result.error_code) for result in results if result.error_code != ErrorCode.none}


def _new_topic(broker: Broker, name: str) -> NewTopic:
    if name == GROUP_TOPIC:
        return new_group_topic(broker.config)
    return NewTopic(
        name=name,
        partition_count=broker.config.num_partitions,
        replication_factor=broker.config.default_replication_factor,
    )


def _retriable(code: ErrorCode) -> ErrorCode:
    """Return what to tell a client whose topic could not be created just now: to ask again."""
    transient = code in {ErrorCode.topic_already_exists, ErrorCode.not_controller, ErrorCode.request_timed_out}
    return ErrorCode.leader_not_available if transient else code


def _look_up(
    broker: Broker, request: Request, wanted: Any, failed: dict[str, ErrorCode] | None = None
) -> MetadataResponseTopic:
    by_id = wanted.name is None
    state = broker.state
    topic = state.topics_by_id.get(wanted.topic_id or ZERO_UUID) if by_id else state.topics.get(wanted.name)
    if topic is not None:
        return _describe(broker, topic)
    if by_id:
        return _unknown(None, wanted.topic_id, ErrorCode.unknown_topic_id)
    if not _is_valid(wanted.name):
        return _unknown(wanted.name, None, ErrorCode.invalid_topic_exception)
    return _unknown(wanted.name, None, (failed or {}).get(wanted.name, ErrorCode.unknown_topic_or_partition))


def _unknown(name: str | None, topic_id: UUID | None, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        partitions=(),
    )


def _describe(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(describe_partition(broker, partition) for partition in topic.partitions),
    )


def describe_partition(broker: Broker, partition: PartitionState) -> MetadataResponsePartition:
    """Return a partition as clients see it; a leader whose registration is gone is shown as no leader."""
    alive = broker.state.brokers
    leader_alive = partition.leader != NO_LEADER and partition.leader in alive
    return MetadataResponsePartition(
        error_code=ErrorCode.none if leader_alive else ErrorCode.leader_not_available,
        partition_index=i32(partition.index),
        leader_id=BrokerId(partition.leader if leader_alive else NO_LEADER),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=tuple(BrokerId(replica) for replica in partition.replicas),
        isr_nodes=tuple(BrokerId(replica) for replica in partition.isr),
        offline_replicas=tuple(BrokerId(replica) for replica in partition.replicas if replica not in alive),
    )


def _respond(broker: Broker, request: Request, topics: Sequence[MetadataResponseTopic]) -> Parts:
    brokers = tuple(
        MetadataResponseBroker(
            node_id=BrokerId(member.id), host=endpoint.host, port=i32(endpoint.port), rack=member.rack
        )
        for member, endpoint in broker.live_brokers(request.connection.listener_name)
    )
    response = MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=brokers,
        cluster_id=broker.state.cluster_id,
        controller_id=BrokerId(broker.id),
        topics=_with_operations(request, topics),
        error_code=ErrorCode.none,
    )
    if not getattr(request.message, "include_cluster_authorized_operations", False):
        return request.respond(response)
    # Only versions 8 to 10 have the field; the newest version's class, which handlers are written against, lacks it.
    old: Any = convert(response, request.codec.response_type)
    return request.respond(replace(old, cluster_authorized_operations=CLUSTER_OPERATIONS))


def _with_operations(request: Request, topics: Sequence[MetadataResponseTopic]) -> tuple[MetadataResponseTopic, ...]:
    if not request.newest().include_topic_authorized_operations:
        return tuple(topics)
    return tuple(
        topic
        if topic.error_code == ErrorCode.unknown_topic_id
        else replace(topic, topic_authorized_operations=TOPIC_OPERATIONS)
        for topic in topics
    )
