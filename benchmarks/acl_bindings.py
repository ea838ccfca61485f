"""The access control lists of a large cluster, of which a few are for the client of a benchmark."""

from collections.abc import Sequence
from typing import Final

from ottla_core.acls import CLUSTER_NAME, WILDCARD, AclBinding, AclOperation, PatternType, Permission, ResourceKind

CLIENT: Final = "User:ANONYMOUS"
TOPIC_PREFIXES: Final = ("benchmark", "b", "measured")
"""How topics of benchmarks begin."""


def bindings(count: int) -> Sequence[AclBinding]:
    """Return so many: those by which the client may do everything, and others for a hundred users."""
    own = [
        _allowing_all(ResourceKind.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
        _allowing_all(ResourceKind.GROUP, WILDCARD, PatternType.LITERAL),
        *(_allowing_all(ResourceKind.TOPIC, prefix, PatternType.PREFIXED) for prefix in TOPIC_PREFIXES),
    ]
    others = [
        AclBinding(
            kind=ResourceKind.TOPIC,
            pattern=PatternType.LITERAL if number % 3 else PatternType.PREFIXED,
            name=f"{'b' * (number % 7)}topic-{number}",
            principal=f"User:user-{number % 100}",
            host=WILDCARD,
            operation=AclOperation.READ if number % 2 else AclOperation.WRITE,
            permission=Permission.ALLOW if number % 10 else Permission.DENY,
        )
        for number in range(count - len(own))
    ]
    return [*own, *others]


def _allowing_all(kind: ResourceKind, name: str, pattern: PatternType) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=pattern,
        name=name,
        principal=CLIENT,
        host=WILDCARD,
        operation=None,
        permission=Permission.ALLOW,
    )
