"""Access control lists as a page filters them, and forms that create and delete some. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.acl_filters import AclFilter, PatternFilter, check_binding
from ottla_core.acls import WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.errors import InvalidRequest
from ottla_operations.acls.binding_words import (
    binding_of,
    operation_word,
    principal_of,
    resource_of,
    sorted_bindings,
)
from ottla_operations.errors import OperationError

FILTERS: Final = ("principal", "resource", "operation", "permission", "host")
PLANNED_MAX: Final = 500
"""Bindings that one form creates or deletes."""
PERMISSIONS: Final = {"allow": Permission.ALLOW, "deny": Permission.DENY}


class BadAcl(ValueError):
    """A field cannot be used; the message says what to write."""


def selected_bindings(bindings: Sequence[AclBinding], wanted: Mapping[str, str]) -> list[AclBinding]:
    """Return the bindings that a filter finds, sorted.

    Args:
        bindings: all that there are.
        wanted: fields of `FILTERS`; a resource finds prefixes and wildcards that are for it, too; one that ends in
            ``*`` is meant as it is written. Empty ones find everything.

    Raises:
        BadAcl: the resource is none.
    """
    resource = wanted.get("resource", "").strip()
    rule = AclFilter()
    if resource:
        try:
            kind, pattern, name = resource_of(resource)
        except OperationError as error:
            raise BadAcl(f"Resource: {error}") from None
        is_literal = not resource.endswith(WILDCARD)
        found = PatternFilter.MATCH if is_literal else PatternFilter(int(pattern))
        rule = AclFilter(kind=kind, pattern=found, name=name)
    principal, operation, permission, host = (
        wanted.get(each, "").strip() for each in ("principal", "operation", "permission", "host")
    )
    return [
        each
        for each in sorted_bindings(bindings)
        if rule.finds(each)
        and (not principal or each.principal == principal_of(principal))
        and (not operation or operation_word(each) == operation.lower())
        and (not permission or each.permission.name.lower() == permission)
        and (not host or each.host == host)
    ]


def typed_bindings(form: Mapping[str, str]) -> list[AclBinding]:
    """Return the bindings that a form describes: of each operation and each resource one.

    Raises:
        BadAcl: names the field.
    """
    principal = form.get("principal", "").strip()
    operations = form.get("operations", "").replace(",", " ").split()
    resources = [line.strip() for line in form.get("resources", "").splitlines() if line.strip()]
    for title, given in (("Who", principal), ("What", operations), ("Of what", resources)):
        if not given:
            raise BadAcl(f"{title}: it is empty")
    if len(operations) * len(resources) > PLANNED_MAX:
        raise BadAcl(f"that is more than {PLANNED_MAX} access control lists")
    permission = PERMISSIONS.get(form.get("permission", "allow"))
    if permission is None:
        raise BadAcl("Permission: allow or deny")
    host = form.get("host", "").strip() or WILDCARD
    try:
        found = {
            binding_of(resource, principal, operation, host=host, permission=permission)
            for resource in resources
            for operation in operations
        }
        for each in found:
            check_binding(each)
    except (OperationError, InvalidRequest) as error:
        raise BadAcl(str(error)) from None
    return sorted_bindings(found)


def plan_text(bindings: Sequence[AclBinding]) -> str:
    """Return a plan as a form carries it from its preview to its effect."""
    return json.dumps(
        [
            [each.kind, each.pattern, each.name, each.principal, each.host, each.operation, each.permission]
            for each in bindings
        ]
    )


def planned_bindings(text: str) -> list[AclBinding]:
    """Return the bindings of a plan.

    Raises:
        BadAcl: it is none.
    """
    try:
        rows = json.loads(text)
        if not isinstance(rows, list) or not 0 < len(rows) <= PLANNED_MAX:
            raise ValueError
        return [_planned(*row) for row in rows]
    except (ValueError, TypeError, RecursionError):
        raise BadAcl("the plan cannot be read: load the preview again") from None


def _planned(  # noqa: PLR0917 - as a row has them
    kind: int, pattern: int, name: str, principal: str, host: str, operation: int | None, permission: int
) -> AclBinding:
    if not all(isinstance(each, str) for each in (name, principal, host)):
        raise ValueError
    return AclBinding(
        kind=ResourceKind(kind),
        pattern=PatternType(pattern),
        name=name,
        principal=principal,
        host=host,
        operation=None if operation is None else AclOperation(operation),
        permission=Permission(permission),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan:
    """What creating or deleting bindings would do.

    Attributes:
        bindings: that are created or deleted.
        idle: of those to create, the ones that are there already.
        own: whether some are of whoever asks, who may lock themselves out.
    """

    bindings: Sequence[AclBinding]
    idle: Sequence[AclBinding] = ()
    own: bool = False


def creation_plan(wanted: Sequence[AclBinding], present: Sequence[AclBinding], user: str) -> AclPlan:
    """Return what creating bindings would do."""
    there = set(present)
    denied = [each for each in wanted if each.permission is Permission.DENY]
    return AclPlan(
        bindings=[each for each in wanted if each not in there],
        idle=[each for each in wanted if each in there],
        own=_concern(denied, user),
    )


def deletion_plan(found: Sequence[AclBinding], user: str) -> AclPlan:
    """Return what deleting bindings would do."""
    return AclPlan(
        bindings=found, own=_concern([each for each in found if each.permission is Permission.ALLOW], user)
    )


def _concern(bindings: Sequence[AclBinding], user: str) -> bool:
    return bool(user) and any(each.principal in (principal_of(user), principal_of(WILDCARD)) for each in bindings)
