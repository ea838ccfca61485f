"""CreateTopics (key 19): forwarded to the controller; answered when this broker knows the new topics."""

from typing import Any

from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32

from ottla_broker.broker import Broker, Request
from ottla_broker.described_configs import describe_topic
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_configs import broker_settings
from ottla_broker.outcome import Parts
from ottla_broker.quotas.mutations import REFUSAL, admitted
from ottla_core.cluster.controller_rpc.controller_api import CreatedTopic, NewTopic, PartitionAssignment
from ottla_core.cluster.state.model import Topic
from ottla_core.errors import KafkaError
from ottla_core.random_ids import random_uuid

UNKNOWN = -1
CONFIGS_SINCE_VERSION = 5
FIRST_STRICT_VERSION = 6

Configs = tuple[CreatableTopicConfigs, ...]
Descriptions = dict[frozenset[tuple[str, str]], Configs]
"""By what a topic sets itself."""


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller create the topics, and wait until this broker has opened its logs of them."""
    message = request.newest()
    timeout_s = message.timeout.total_seconds()
    wanted, refused = admitted(
        broker.quotas,
        request.connection,
        request.header.client_id,
        message.topics,
        lambda topic: _partition_count(broker, topic),
        is_strict=request.version >= FIRST_STRICT_VERSION,
    )
    try:
        results = await broker.controller.create_topics(
            [_new_topic(topic) for topic in wanted],
            validate_only=message.validate_only,
            timeout_s=timeout_s,
        )
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        results = [
            CreatedTopic(name=topic.name, error_code=error.code, error_message=error.message) for topic in wanted
        ]
    results += [
        CreatedTopic(name=topic.name, error_code=REFUSAL.code, error_message=REFUSAL.message) for topic in refused
    ]
    described: Descriptions = {}
    tells_configs = request.version >= CONFIGS_SINCE_VERSION
    topics = tuple(
        _encode(result, _configs_of(broker, result, described) if tells_configs else ()) for result in results
    )
    return request.respond(CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=topics))


def _partition_count(broker: Broker, topic: Any) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else broker.config.num_partitions


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        topic_id=random_uuid(),
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            PartitionAssignment(index=assignment.partition_index, broker_ids=tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ),
        configs={config.name: config.value for config in topic.configs},
    )


def _encode(result: CreatedTopic, configs: Configs) -> CreatableTopicResult:
    created = result.error_code == ErrorCode.none
    return CreatableTopicResult(
        name=TopicName(result.name),
        topic_id=result.topic_id if created else None,
        error_code=result.error_code,
        error_message=result.error_message,
        num_partitions=i32(result.partition_count if created else UNKNOWN),
        replication_factor=i16(result.replication_factor if created else UNKNOWN),
        configs=configs,
    )


def _configs_of(broker: Broker, result: CreatedTopic, described: Descriptions) -> Configs:
    """Return the settings of a new topic; `described` keeps them for the others of the request that have the same."""
    if result.error_code != ErrorCode.none:
        return ()
    own = frozenset(result.configs.items())
    if own not in described:
        described[own] = _describe(broker, result)
    return described[own]


def _describe(broker: Broker, result: CreatedTopic) -> Configs:
    settings = broker_settings(broker)
    topic = Topic(name=result.name, id=result.topic_id, partitions=(), configs=result.configs)
    return tuple(
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=i8(config.source),
            is_sensitive=config.is_sensitive,
        )
        for config in describe_topic(topic, broker.partitions.topic_config(topic), settings)
    )
