"""ListConfigResources (key 74): what has settings: topics, brokers, groups, client metrics (KIP-1142)."""

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.cluster.controller_rpc.controller_api import ConfigResourceType
from ottla_core.slices import in_slices, started

KNOWN = frozenset(ConfigResourceType)


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer with the resources of the wanted types; version 0 knows client metrics only."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    wanted = set(request.newest().resource_types) or KNOWN
    if request.version == 0:
        wanted = {ConfigResourceType.CLIENT_METRICS}
    brokers = [str(broker_id) for broker_id in broker.state.brokers]
    names = {
        ConfigResourceType.TOPIC: list(broker.state.topics),
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.CLIENT_METRICS: list(broker.state.client_metrics_configs),
        ConfigResourceType.GROUP: list(broker.state.group_configs),
    }
    error = ErrorCode.none if wanted <= KNOWN else ErrorCode.unsupported_version
    resources = await in_slices(
        ConfigResource(resource_name=name, resource_type=i8(resource_type))
        for resource_type in sorted(wanted)
        for name in names.get(resource_type, ())
    )
    response = ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE, error_code=error, config_resources=resources if not error else ()
    )
    return await respond_in_thread(request, response, len(resources))
