"""DeleteAcls (key 31): the controller deletes the bindings that filters find, which the answer lists."""

from collections.abc import Sequence

from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers.api_versions import NO_THROTTLE
from ottla_broker.handlers.describe_acls import NO_AUTHORIZER, filter_of, operation_number
from ottla_broker.outcome import Parts
from ottla_core.acl_filters import AclFilter
from ottla_core.acls import AclBinding
from ottla_core.cluster.controller_rpc.acl_messages import binding_from_message, filter_to_message
from ottla_core.errors import CodedError, KafkaError
from ottla_proto.gen.ottla import acls_pb2 as pb


async def handle(broker: Broker, request: Request) -> Parts:
    """Have the controller delete what is found; this broker goes by it no more when it answers."""
    filters = request.newest().filters
    if not broker.authorization.uses_access_lists:
        refused = _refusal(CodedError(ErrorCode.security_disabled, NO_AUTHORIZER))
        return request.respond(
            DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(refused,) * len(filters))
        )
    results: list[DeleteAclsFilterResult | None] = [None] * len(filters)
    wanted: dict[int, AclFilter] = {}
    for index, each in enumerate(filters):
        try:
            wanted[index] = filter_of(
                each, kind=each.resource_type_filter, pattern=each.pattern_type_filter, name=each.resource_name_filter
            )
        except KafkaError as error:
            results[index] = _refusal(error)
    try:
        deleted = await _delete(broker, tuple(wanted.values()))
    except KafkaError as error:
        outcomes = [_refusal(error)] * len(wanted)
    else:
        outcomes = [_found(each) for each in deleted]
    for index, outcome in zip(wanted, outcomes, strict=True):
        results[index] = outcome
    return request.respond(
        DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=tuple(each for each in results if each))
    )


async def _delete(broker: Broker, filters: tuple[AclFilter, ...]) -> Sequence[Sequence[AclBinding]]:
    """Return what each filter found.

    Raises:
        KafkaError: nothing was deleted, or that is not known.
    """
    if not filters:
        return ()
    message = pb.AlterAclsRequest(deletions=[filter_to_message(each) for each in filters])
    answer = await broker.controller.forward("AlterAcls", message, timeout_s=broker.config.request_timeout_ms / 1000)
    return [[binding_from_message(each) for each in found.bindings] for found in answer.deleted]


def _found(bindings: Sequence[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none, error_message=None, matching_acls=tuple(_matching(each) for each in bindings)
    )


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=i8(binding.kind),
        resource_name=binding.name,
        pattern_type=i8(binding.pattern),
        principal=binding.principal,
        host=binding.host,
        operation=operation_number(binding),
        permission_type=i8(binding.permission),
    )


def _refusal(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=())
