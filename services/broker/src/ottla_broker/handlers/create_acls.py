"""CreateAcls (key 30): bindings of the access control lists, created by the controller."""

from typing import Any

from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_acls import NO_AUTHORIZER
from ottla_broker.outcome import Parts
from ottla_core.acl_filters import check_binding, operation_of
from ottla_core.acls import AclBinding, PatternType, Permission, ResourceKind
from ottla_core.cluster.controller_rpc.acl_messages import binding_to_message
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_proto.gen.ottla import acls_pb2 as pb

CREATED = AclCreationResult(error_code=ErrorCode.none, error_message=None)


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller create what is valid; this broker goes by it when it answers."""
    creations = request.newest().creations
    if not broker.authorization.uses_access_lists:
        refused = AclCreationResult(error_code=ErrorCode.security_disabled, error_message=NO_AUTHORIZER)
        return request.respond(CreateAclsResponse(throttle_time=NO_THROTTLE, results=(refused,) * len(creations)))
    results: list[AclCreationResult | None] = [None] * len(creations)
    wanted: dict[int, AclBinding] = {}
    for index, creation in enumerate(creations):
        try:
            wanted[index] = _binding(creation)
        except KafkaError as error:
            results[index] = AclCreationResult(error_code=error.code, error_message=error.message)
    outcome = await _create(broker, tuple(wanted.values()))
    return request.respond(
        CreateAclsResponse(throttle_time=NO_THROTTLE, results=tuple(each or outcome for each in results))
    )


async def _create(broker: Broker, bindings: tuple[AclBinding, ...]) -> AclCreationResult:
    if not bindings:
        return CREATED
    message = pb.AlterAclsRequest(creations=[binding_to_message(each) for each in bindings])
    try:
        await broker.controller.forward("AlterAcls", message, timeout_s=broker.config.request_timeout_ms / 1000)
    except KafkaError as error:
        return AclCreationResult(error_code=error.code, error_message=error.message)
    return CREATED


def _binding(creation: Any) -> AclBinding:
    """Return what is to be created.

    Raises:
        InvalidRequest: it cannot be for anything.
    """
    try:
        binding = AclBinding(
            kind=ResourceKind(creation.resource_type),
            pattern=PatternType(creation.resource_pattern_type),
            name=creation.resource_name,
            principal=creation.principal,
            host=creation.host,
            operation=operation_of(creation.operation),
            permission=Permission(creation.permission_type),
        )
    except ValueError as error:
        raise InvalidRequest(f"CreatableAcls contain unknown elements: {error}") from None
    check_binding(binding)
    return binding
