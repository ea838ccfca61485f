"""What programs of the load have to be allowed in a cluster that denies everything else, by their users. Pure.

A program has no right that it does not use, so that one that is refused something shows a check that is too strict,
and one that goes on without a right would have to be looked for among those of others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind

GROUP_OF_READERS = "not-used"
"""librdkafka asks for the coordinator of a group that its reader never joins."""

Rights = Mapping[str, Sequence[AclBinding]]
"""By the name of a user."""


def allowed(
    user: str, operation: AclOperation, kind: ResourceKind, names: Iterable[str], *, prefixed: bool = False
) -> Iterator[AclBinding]:
    """What allows a user one operation on some resources, from wherever."""
    for name in names:
        yield AclBinding(
            kind=kind,
            pattern=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            name=name,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission=Permission.ALLOW,
        )


def may_write(user: str, topics: Iterable[str]) -> list[AclBinding]:
    """Of a producer without transactions; an idempotent one needs no more since Kafka 3.0 (KIP-679)."""
    return list(allowed(user, AclOperation.WRITE, ResourceKind.TOPIC, topics))


def may_read(
    user: str, topics: Iterable[str], *, group: str = GROUP_OF_READERS, prefixed: bool = False
) -> list[AclBinding]:
    """Of a consumer of a group, or of groups whose names begin alike."""
    return [
        *allowed(user, AclOperation.READ, ResourceKind.TOPIC, topics),
        *allowed(user, AclOperation.READ, ResourceKind.GROUP, [group], prefixed=prefixed),
    ]


def may_look(user: str, topics: Iterable[str]) -> list[AclBinding]:
    """Of a program that asks where partitions end."""
    return list(allowed(user, AclOperation.DESCRIBE, ResourceKind.TOPIC, topics))


def may_transact(user: str, transactional_id: str, *, prefixed: bool = False) -> list[AclBinding]:
    """Of a transactional producer, beside what it writes."""
    return list(
        allowed(user, AclOperation.WRITE, ResourceKind.TRANSACTIONAL_ID, [transactional_id], prefixed=prefixed)
    )
