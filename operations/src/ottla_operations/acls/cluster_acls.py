"""The access control lists of a cluster, over Kafka's protocol (KIP-140, KIP-290)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from ottla_core.acls import ALL_OPERATIONS, AclBinding, Permission
from ottla_core.client.acl_messages import bindings_of, create_request, describe_request
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla_operations.cluster.cluster_admin import ClusterAdmin

BINDINGS_AT_ONCE: Final = 500
"""Bindings that are created or deleted by one request."""


class NoAuthorizer(OperationError):
    """The cluster has no access control lists: everybody may do everything."""


def all_bindings(admin: "ClusterAdmin") -> list[AclBinding]:
    """Return the bindings of a cluster.

    Raises:
        NoAuthorizer: there are none.
        OperationError: the cluster refuses, or has an element that this release does not know.
    """
    response = admin.ask(describe_request())
    if response.error_code is not ErrorCode.none:
        raise _refusal(response.error_code, response.error_message)
    try:
        return bindings_of(response)
    except ValueError as error:
        raise OperationError(
            f"the cluster has an access control list that this release does not know: {error}"
        ) from None


def create(admin: "ClusterAdmin", bindings: Iterable[AclBinding]) -> None:
    """Create bindings, denials first; those that are there stay.

    Raises:
        OperationError: the cluster refuses one; others may have been created.
    """
    for some in _chunks(sorted(bindings, key=lambda each: each.permission is Permission.ALLOW)):
        for result in admin.ask(create_request(some)).results:
            if result.error_code is not ErrorCode.none:
                raise _refusal(result.error_code, result.error_message)


def delete(admin: "ClusterAdmin", bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Delete bindings, denials last; return those that were there.

    Raises:
        OperationError: the cluster refuses; others may have been deleted.
    """
    found: list[AclBinding] = []
    for some in _chunks(sorted(bindings, key=lambda each: each.permission is Permission.DENY)):
        filters = tuple(
            DeleteAclsFilter(
                resource_type_filter=i8(each.kind),
                resource_name_filter=each.name,
                pattern_type_filter=i8(each.pattern),
                principal_filter=each.principal,
                host_filter=each.host,
                operation=i8(ALL_OPERATIONS if each.operation is None else each.operation),
                permission_type=i8(each.permission),
            )
            for each in some
        )
        results = admin.ask(DeleteAclsRequest(filters=filters)).filter_results
        for binding, result in zip(some, results, strict=True):
            if result.error_code is not ErrorCode.none:
                raise _refusal(result.error_code, result.error_message)
            if result.matching_acls:
                found.append(binding)
    return found


def _chunks(bindings: Sequence[AclBinding]) -> Iterable[Sequence[AclBinding]]:
    return (bindings[begin : begin + BINDINGS_AT_ONCE] for begin in range(0, len(bindings), BINDINGS_AT_ONCE))


def _refusal(code: ErrorCode, message: str | None) -> OperationError:
    if code is ErrorCode.security_disabled:
        return NoAuthorizer(
            "the cluster has no authorizer, so everybody may do everything: brokers need authorizer.class.name"
        )
    return OperationError(message or code.name)
