"""CreateAcls (key 30): every creation is refused until there are access control lists."""

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_acls import NO_AUTHORIZER
from ottla_broker.outcome import Parts


def handle(_broker: Broker, request: Request) -> Parts:
    """Answer for each creation that security is disabled."""
    refused = AclCreationResult(error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER)
    results = (refused,) * len(request.message.creations)
    return request.respond(CreateAclsResponse(throttle_time=NO_THROTTLE, results=results))
