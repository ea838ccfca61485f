"""Bindings of access control lists as people write them. Pure.

A resource is written ``topic:NAME``; ``topic:PREFIX*`` stands for all whose names begin so, and ``topic:*`` for all.
The cluster is ``cluster``. An operation is a word such as ``read`` or ``describe-configs``; ``all`` stands for each.
"""

from collections.abc import Iterable
from typing import Final

from ottla_core.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceKind,
)
from ottla_core.principal import USER
from ottla_operations.errors import OperationError

KINDS: Final = {kind.name.lower().replace("_", "-"): kind for kind in ResourceKind}
OPERATIONS: Final = {operation.name.lower().replace("_", "-"): operation for operation in AclOperation}
ALL_WORD: Final = "all"


def binding_of(
    resource: str,
    principal: str,
    operation: str,
    *,
    host: str = WILDCARD,
    permission: Permission = Permission.ALLOW,
) -> AclBinding:
    """Return the binding that words stand for.

    Raises:
        OperationError: a word stands for nothing.
    """
    kind, pattern, name = resource_of(resource)
    return AclBinding(
        kind=kind,
        pattern=pattern,
        name=name,
        principal=principal_of(principal),
        host=host,
        operation=operation_of(operation),
        permission=permission,
    )


def resource_of(text: str) -> tuple[ResourceKind, PatternType, str]:
    """Return the kind, pattern and name of a resource.

    Raises:
        OperationError: it is none.
    """
    word, colon, name = text.partition(":")
    kind = KINDS.get(word.lower())
    if kind is None:
        raise OperationError(f"{text}: no kind of resource is called {word!r}; there are {', '.join(sorted(KINDS))}")
    if kind is ResourceKind.CLUSTER and not colon:
        return kind, PatternType.LITERAL, CLUSTER_NAME
    if not name:
        raise OperationError(f"{text}: a resource has a name, such as {word}:flights, {word}:flights-* or {word}:*")
    if name != WILDCARD and name.endswith(WILDCARD):
        return kind, PatternType.PREFIXED, name[:-1]
    return kind, PatternType.LITERAL, name


def principal_of(text: str) -> str:
    """Return a principal as TYPE:NAME; a name alone is a user's."""
    return text if ":" in text else f"{USER}:{text}"


def operation_of(text: str) -> AclOperation | None:
    """Return an operation, None for all.

    Raises:
        OperationError: there is none of that name.
    """
    word = text.strip().lower().replace("_", "-")
    if word == ALL_WORD:
        return None
    if word not in OPERATIONS:
        raise OperationError(f"no operation is called {text!r}; there are all, {', '.join(sorted(OPERATIONS))}")
    return OPERATIONS[word]


def resource_words(binding: AclBinding) -> str:
    """Return a binding's resource as it is written."""
    word = binding.kind.name.lower().replace("_", "-")
    if binding.kind is ResourceKind.CLUSTER:
        return word
    return f"{word}:{binding.name}{WILDCARD if binding.pattern is PatternType.PREFIXED else ''}"


def operation_word(binding: AclBinding) -> str:
    """Return a binding's operation as it is written."""
    return ALL_WORD if binding.operation is None else binding.operation.name.lower().replace("_", "-")


def document_of(binding: AclBinding) -> dict[str, str]:
    """Return a binding as JSON and files have it."""
    return {
        "resource": resource_words(binding),
        "principal": binding.principal,
        "operation": operation_word(binding),
        "permission": binding.permission.name.lower(),
        "host": binding.host,
    }


def sorted_bindings(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Return bindings in the order in which they are shown."""
    return sorted(bindings, key=lambda each: tuple(document_of(each).values()))
