"""DescribeAcls (key 29): the bindings of the access control lists that a filter finds, by resource."""

from collections import defaultdict
from typing import Any

from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.long_responses import respond_in_thread
from ottla_broker.outcome import Outcome, Parts
from ottla_core.acl_filters import ANY, AclFilter, PatternFilter
from ottla_core.acls import ALL_OPERATIONS, AclBinding, PatternType, Permission, ResourceKind
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.slices import in_slices, started

NO_AUTHORIZER = "No Authorizer is configured on the broker"
"""Kafka's words: MirrorMaker 2 and Kafka's tools go on without access control lists when they read the error."""


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the cluster state."""
    return started(_handle(broker, request))


async def _handle(broker: Broker, request: Request) -> Parts:
    if not broker.authorization.uses_access_lists:
        return request.respond(_refusal(ErrorCode.security_disabled, NO_AUTHORIZER))
    message = request.newest()
    try:
        wanted = filter_of(
            message,
            kind=message.resource_type_filter,
            pattern=message.pattern_type_filter,
            name=message.resource_name_filter,
        )
    except KafkaError as error:
        return request.respond(_refusal(error.code, error.message))
    bindings = broker.state.security.acls.values()
    found = await in_slices((binding, wanted.finds(binding)) for binding in bindings)
    by_resource: dict[tuple[ResourceKind, PatternType, str], list[AclBinding]] = defaultdict(list)
    for binding, is_found in found:
        if is_found:
            by_resource[binding.kind, binding.pattern, binding.name].append(binding)
    resources = tuple(
        DescribeAclsResource(
            resource_type=i8(kind),
            resource_name=name,
            pattern_type=i8(pattern),
            acls=tuple(_described(each) for each in each_of),
        )
        for (kind, pattern, name), each_of in by_resource.items()
    )
    response = DescribeAclsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, resources=resources
    )
    return await respond_in_thread(request, response, len(found))


def filter_of(message: Any, *, kind: int, pattern: int, name: str | None) -> AclFilter:
    """Return the filter of a message that has the fields of entries; those of resources are called otherwise.

    Raises:
        InvalidRequest: it has a number that stands for nothing.
    """
    try:
        return AclFilter(
            kind=None if kind == ANY else ResourceKind(kind),
            pattern=PatternFilter(pattern),
            name=name,
            principal=message.principal_filter,
            host=message.host_filter,
            operation=None if message.operation == ANY else int(message.operation),
            permission=None if message.permission_type == ANY else Permission(message.permission_type),
        )
    except ValueError as error:
        raise InvalidRequest(f"The filter has an unknown element: {error}") from None


def operation_number(binding: AclBinding) -> i8:
    """Return the number of a binding's operation."""
    return i8(ALL_OPERATIONS if binding.operation is None else binding.operation)


def _described(binding: AclBinding) -> AclDescription:
    return AclDescription(
        principal=binding.principal,
        host=binding.host,
        operation=operation_number(binding),
        permission_type=i8(binding.permission),
    )


def _refusal(code: ErrorCode, text: str) -> DescribeAclsResponse:
    return DescribeAclsResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=text, resources=())
