"""Filters of access control lists, by which bindings are listed and deleted, and what makes a binding valid. Pure.

Source: Kafka's AclBindingFilter, ResourcePatternFilter (KIP-290) and AclBinding's checks in its AclApis.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla_core.acls import (
    ALL_OPERATIONS,
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceKind,
)
from ottla_core.errors import InvalidRequest
from ottla_core.plain_address import plain_address

ANY: Final = 1
"""In place of a kind, an operation or a permission: whichever it is."""


class PatternFilter(IntEnum):
    """Which patterns a filter finds, besides those of `PatternType`."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which bindings are meant; None stands for whichever it is.

    Attributes:
        pattern: `MATCH` finds all bindings that are for a resource of the name.
        operation: 2 finds bindings for all operations, and those alone.
    """

    kind: ResourceKind | None = None
    pattern: PatternFilter = PatternFilter.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int | None = None
    permission: Permission | None = None

    def finds(self, binding: AclBinding) -> bool:
        """Return whether a binding is meant."""
        operation = ALL_OPERATIONS if binding.operation is None else binding.operation
        return (
            self.kind in {None, binding.kind}
            and self.principal in {None, binding.principal}
            and (self.host is None or plain_address(self.host) == plain_address(binding.host))
            and self.operation in {None, operation}
            and self.permission in {None, binding.permission}
            and self._finds_pattern(binding)
        )

    def _finds_pattern(self, binding: AclBinding) -> bool:
        if self.pattern in {PatternFilter.LITERAL, PatternFilter.PREFIXED} and int(self.pattern) != int(
            binding.pattern
        ):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternFilter.MATCH:
            return self.name == binding.name
        if binding.pattern is PatternType.LITERAL:
            return binding.name in {self.name, WILDCARD}
        return self.name.startswith(binding.name)


def check_binding(binding: AclBinding) -> None:
    """See that a binding can be for something.

    Raises:
        InvalidRequest: it cannot.
    """
    if binding.kind is ResourceKind.CLUSTER and binding.name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not binding.name:
        raise InvalidRequest("Invalid empty resource name")
    kind, colon, name = binding.principal.partition(":")
    if not (kind and colon and name):
        raise InvalidRequest(f"the principal {binding.principal!r} is not of the form TYPE:NAME, such as User:ada")
    if not binding.host:
        raise InvalidRequest("the host is empty; * stands for every address")


def operation_of(number: int) -> AclOperation | None:
    """Return the operation of a binding, by its number in the protocol; None for all operations.

    Raises:
        InvalidRequest: there is none of that number.
    """
    if number == ALL_OPERATIONS:
        return None
    try:
        return AclOperation(number)
    except ValueError:
        raise InvalidRequest(f"there is no operation of number {number}") from None
