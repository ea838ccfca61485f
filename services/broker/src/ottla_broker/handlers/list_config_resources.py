"""ListConfigResources (key 74): which topics and brokers have settings (KIP-1142)."""

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE

BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
KNOWN = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def handle(broker: Broker, request: Request) -> Parts:
    """Answer with the resources of the wanted types; version 0 knows client metrics only, of which there are none."""
    wanted = set(request.newest().resource_types) or set(KNOWN)
    if request.version == 0:
        wanted = {CLIENT_METRICS_RESOURCE}
    names = {TOPIC_RESOURCE: list(broker.state.topics), BROKER_RESOURCE: [str(id_) for id_ in broker.state.brokers]}
    error = ErrorCode.none if wanted <= set(KNOWN) else ErrorCode.unsupported_version
    resources = tuple(
        ConfigResource(resource_name=name, resource_type=i8(resource_type))
        for resource_type in sorted(wanted)
        for name in names.get(resource_type, ())
    )
    return request.respond(
        ListConfigResourcesResponse(
            throttle_time=NO_THROTTLE, error_code=error, config_resources=resources if not error else ()
        )
    )
