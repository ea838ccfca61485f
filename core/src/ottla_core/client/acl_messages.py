"""Access control lists in the messages by which clients list and create them. Pure."""

from collections.abc import Sequence
from typing import Any

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.static.primitive import i8

from ottla_core.acl_filters import ANY, PatternFilter, operation_of
from ottla_core.acls import ALL_OPERATIONS, AclBinding, PatternType, Permission, ResourceKind


def describe_request(kind: int = ANY) -> DescribeAclsRequest:
    """Return the request for all bindings of a kind of resource; `ANY`: of all kinds."""
    return DescribeAclsRequest(
        resource_type_filter=i8(kind),
        resource_name_filter=None,
        pattern_type_filter=i8(PatternFilter.ANY),
        principal_filter=None,
        host_filter=None,
        operation=i8(ANY),
        permission_type=i8(ANY),
    )


def bindings_of(response: Any) -> list[AclBinding]:
    """Return the bindings of a DescribeAclsResponse that has no error.

    Raises:
        ValueError: one has a kind, a pattern or a permission that this release does not know.
        InvalidRequest: the same of an operation.
    """
    return [
        AclBinding(
            kind=ResourceKind(resource.resource_type),
            pattern=PatternType(resource.pattern_type),
            name=resource.resource_name,
            principal=each.principal,
            host=each.host,
            operation=operation_of(each.operation),
            permission=Permission(each.permission_type),
        )
        for resource in response.resources
        for each in resource.acls
    ]


def create_request(bindings: Sequence[AclBinding]) -> CreateAclsRequest:
    """Return the request that creates bindings, whose results are in the same order."""
    return CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=i8(each.kind),
                resource_name=each.name,
                resource_pattern_type=i8(each.pattern),
                principal=each.principal,
                host=each.host,
                operation=i8(ALL_OPERATIONS if each.operation is None else each.operation),
                permission_type=i8(each.permission),
            )
            for each in bindings
        )
    )
