"""DescribeAcls (key 29): refused until there are access control lists, as Kafka does without an authorizer."""

from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.outcome import Parts

NO_AUTHORIZER = "No Authorizer is configured on the broker"
"""Kafka's words: MirrorMaker 2 and Kafka's tools go on without access control lists when they read the error."""


def handle(_broker: Broker, request: Request) -> Parts:
    """Answer that security is disabled."""
    return request.respond(
        DescribeAclsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.security_disabled,
            error_message=NO_AUTHORIZER,
            resources=(),
        )
    )
