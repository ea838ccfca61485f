"""DeleteAcls (key 31): every filter is refused until there are access control lists."""

from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsResponse
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_acls import NO_AUTHORIZER
from ottla_broker.outcome import Parts


def handle(_broker: Broker, request: Request) -> Parts:
    """Answer for each filter that security is disabled."""
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER, matching_acls=()
    )
    results = (refused,) * len(request.message.filters)
    return request.respond(DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=results))
