"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

No coordinator runs in this cluster yet, and that is the answer: COORDINATOR_NOT_AVAILABLE, which clients take as a
reason to ask again later. The API is served nevertheless because librdkafka takes a broker that does not advertise
it for one too old to know lz4, and then stores such records uncompressed.
"""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse as FindCoordinatorResponseV3
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.connection import Parts
from ottla_broker.handlers.api_versions import NO_THROTTLE

FIRST_BATCHED_VERSION = 4
NO_BROKER = BrokerId(-1)
NO_PORT = i32(-1)
REASON = "no group or transaction coordinator runs in this cluster"


def handle(_broker: Broker, request: Request) -> Parts:
    """Answer that nobody coordinates what was asked for."""
    if request.version < FIRST_BATCHED_VERSION:
        return request.respond(
            FindCoordinatorResponseV3(
                throttle_time=NO_THROTTLE,
                error_code=ErrorCode.coordinator_not_available,
                error_message=REASON,
                node_id=NO_BROKER,
                host="",
                port=NO_PORT,
            )
        )
    return request.respond(
        FindCoordinatorResponse(
            throttle_time=NO_THROTTLE,
            coordinators=tuple(
                Coordinator(
                    key=key,
                    node_id=NO_BROKER,
                    host="",
                    port=NO_PORT,
                    error_code=ErrorCode.coordinator_not_available,
                    error_message=REASON,
                )
                for key in request.message.coordinator_keys
            ),
        )
    )
