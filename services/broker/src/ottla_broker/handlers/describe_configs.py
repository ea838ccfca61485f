"""DescribeConfigs (key 32): the settings of topics, groups, client metrics and this broker, with their sources."""

from typing import Any

from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.described_configs import (
    BrokerSettings,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_dynamic_defaults,
    describe_group,
    describe_topic,
)
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.loggers import check_broker_id, describe_loggers
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import ConfigResourceType
from ottla_core.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from ottla_core.topic_name import check_topic_name

EVERY_BROKER = ""


def handle(broker: Broker, request: Request) -> Parts:
    """Answer for each resource on its own."""
    message = request.newest()
    results = tuple(_describe(broker, message, resource) for resource in message.resources)
    return request.respond(DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results))


def broker_settings(broker: Broker) -> BrokerSettings:
    """Return this broker's settings in the order in which they count."""
    dynamic = broker.state.broker_configs
    return BrokerSettings(dynamic.get(broker.id, {}), dynamic.get(None, {}), broker.config.static_properties())


def _describe(broker: Broker, message: Any, resource: Any) -> DescribeConfigsResult:
    error, error_message, configs = ErrorCode.none, None, []
    try:
        configs = _configs_of(broker, resource.resource_type, resource.resource_name)
    except KafkaError as refused:
        error, error_message = refused.code, refused.message
    wanted = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_code=error,
        error_message=error_message,
        resource_type=i8(resource.resource_type),
        resource_name=resource.resource_name,
        configs=tuple(_encode(message, config) for config in configs if not wanted or config.name in wanted),
    )


def _configs_of(broker: Broker, resource_type: int, name: str) -> list[DescribedConfig]:
    if resource_type == ConfigResourceType.TOPIC:
        check_topic_name(name)
        topic = broker.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Topic {name} does not exist.")
        return describe_topic(topic, broker.partitions.topic_config(topic), broker_settings(broker))
    if resource_type == ConfigResourceType.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return describe_group(broker.state.group_configs.get(name, {}), broker.config)
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return describe_client_metrics(broker.state.client_metrics_configs.get(name, {}))
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        check_broker_id(name, broker.id)
        return describe_loggers()
    if resource_type != ConfigResourceType.BROKER:
        raise InvalidRequest(
            f"Settings of {ConfigResourceType.name_of(resource_type)} '{name}' cannot be described here."
        )
    if name == EVERY_BROKER:
        return describe_dynamic_defaults(broker.config, broker_settings(broker))
    if name != str(broker.id):
        raise InvalidRequest(
            f"Unexpected broker id, expected {broker.id} or empty string, but received {name!r}: ask that broker"
        )
    return describe_broker(broker.config, broker_settings(broker))


def _encode(message: Any, config: DescribedConfig) -> DescribeConfigsResourceResult:
    synonyms = config.synonyms if message.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=i8(config.source),
        is_sensitive=config.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=i8(synonym.source))
            for synonym in synonyms
        ),
        config_type=i8(config.type_code),
        documentation=config.documentation if message.include_documentation else None,
    )
