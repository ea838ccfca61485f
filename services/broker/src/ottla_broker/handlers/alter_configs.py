"""AlterConfigs (key 33): replace all settings of topics and brokers; superseded by IncrementalAlterConfigs."""

from typing import Any

from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.incremental_alter_configs import alter
from ottla_broker.outcome import Parts
from ottla_core.cluster.controller_rpc.controller_api import ConfigChange, ConfigResourceChange


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller replace the settings; what is not named loses its value."""
    message = request.newest()
    changes = [_change(resource) for resource in message.resources]
    altered = await alter(broker, changes, validate_only=message.validate_only, replace_all=True)
    return request.respond(
        AlterConfigsResponse(
            throttle_time=NO_THROTTLE,
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=result.error_code,
                    error_message=result.error_message,
                    resource_type=i8(result.type),
                    resource_name=result.name,
                )
                for result in altered
            ),
        )
    )


def _change(resource: Any) -> ConfigResourceChange:
    return ConfigResourceChange(
        type=resource.resource_type,
        name=resource.resource_name,
        changes=tuple(ConfigChange(name=config.name, value=config.value) for config in resource.configs),
    )
