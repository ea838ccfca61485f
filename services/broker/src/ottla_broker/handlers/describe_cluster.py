"""DescribeCluster (key 60): the cluster's id and its live brokers."""

from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts
from ottla_core.authorized_operations import NOT_ASKED

BROKERS = 1


def handle(broker: Broker, request: Request) -> Parts:
    """Answer from the cluster state; controllers are not reachable for clients, so only brokers can be asked for."""
    asked = request.newest()
    wanted = asked.endpoint_type
    error, message = ErrorCode.none, None
    brokers: list[DescribeClusterBroker] = []
    if wanted != BROKERS:
        error = ErrorCode.unsupported_endpoint_type
        message = f"endpoint type {wanted} is not served here; only brokers (1) are"
    else:
        brokers = [
            DescribeClusterBroker(
                broker_id=BrokerId(member.id),
                host=endpoint.host,
                port=i32(endpoint.port),
                rack=member.rack,
                is_fenced=False,
            )
            for member, endpoint in broker.live_brokers(request.listener)
        ]
    operations = NOT_ASKED
    if asked.include_cluster_authorized_operations:
        operations = broker.authorization.operations_on_cluster(request)
    return request.respond(
        DescribeClusterResponse(
            throttle_time=NO_THROTTLE,
            error_code=error,
            error_message=message,
            endpoint_type=i8(BROKERS),
            cluster_id=broker.state.cluster_id,
            controller_id=BrokerId(broker.id),
            brokers=tuple(brokers),
            cluster_authorized_operations=operations,
        )
    )
