"""IncrementalAlterConfigs (key 44): change single settings of topics, brokers, groups and client metrics (KIP-339).

Levels of loggers are this broker's own and are changed here (KIP-412); all else is the controller's.
"""

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.loggers import change_levels, check_broker_id, check_level_changes
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredResource,
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceType,
)
from ottla_core.errors import InvalidRequest, KafkaError


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller make the changes."""
    message = request.newest()
    changes: list[ConfigResourceChange] = []
    decided: list[AlteredResource] = []
    for resource in message.resources:
        try:
            change = _change(resource)
            if change.type == ConfigResourceType.BROKER_LOGGER:
                decided.append(_alter_loggers(broker, change, validate_only=message.validate_only))
            else:
                changes.append(change)
        except KafkaError as error:
            decided.append(_refused(resource.resource_type, resource.resource_name, error))
    altered = await alter(broker, changes, validate_only=message.validate_only, replace_all=False)
    return request.respond(
        IncrementalAlterConfigsResponse(
            throttle_time=NO_THROTTLE,
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=result.error_code,
                    error_message=result.error_message,
                    resource_type=i8(result.type),
                    resource_name=result.name,
                )
                for result in (*altered, *decided)
            ),
        )
    )


async def alter(
    broker: Broker, changes: Sequence[ConfigResourceChange], *, validate_only: bool, replace_all: bool
) -> list[AlteredResource]:
    """Have the controller change settings, and wait until this broker goes by them."""
    timeout_s = broker.config.request_timeout_ms / 1000
    try:
        results = await broker.controller.alter_configs(
            changes, validate_only=validate_only, replace_all=replace_all, timeout_s=timeout_s
        )
        await broker.reconciler.wait_reached(broker.state.revision, timeout_s)
    except KafkaError as error:
        return [_refused(change.type, change.name, error) for change in changes]
    return results


def _alter_loggers(broker: Broker, change: ConfigResourceChange, *, validate_only: bool) -> AlteredResource:
    check_broker_id(change.name, broker.id)
    check_level_changes(change.changes)
    if not validate_only:
        change_levels(change.changes)
    return AlteredResource(type=change.type, name=change.name, error_code=ErrorCode.none)


def _change(resource: Any) -> ConfigResourceChange:
    known = set(ConfigOperation)
    for config in resource.configs:
        if config.config_operation not in known:
            raise InvalidRequest(f"Unknown operation {config.config_operation} for configuration {config.name}")
    return ConfigResourceChange(
        type=resource.resource_type,
        name=resource.resource_name,
        changes=tuple(
            ConfigChange(name=config.name, value=config.value, operation=ConfigOperation(config.config_operation))
            for config in resource.configs
        ),
    )


def _refused(resource_type: int, name: str, error: KafkaError) -> AlteredResource:
    return AlteredResource(type=resource_type, name=name, error_code=error.code, error_message=error.message)
