"""What a client may do with a topic, a group, the cluster and so on: operations, and how responses tell them. Pure.

A response has one bit for each operation that the client may do, and `NOT_ASKED` if the client did not want to know.

Source: Kafka's AclOperation and ResourceType (the numbers), and AclEntry.supportedOperations (which operations a kind
of resource has).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kio.static.primitive import i32

from ottla_core.acls import AclOperation, ResourceKind

NOT_ASKED: Final = i32(-(2**31))


OPERATIONS: Final[Mapping[ResourceKind, tuple[AclOperation, ...]]] = {
    ResourceKind.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceKind.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceKind.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceKind.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceKind.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceKind.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""Which operations a kind of resource has."""


def operation_bits(operations: Iterable[AclOperation]) -> i32:
    """Return the operations as a response tells them."""
    return i32(sum(1 << operation for operation in operations))


TOPIC_OPERATIONS: Final = operation_bits(OPERATIONS[ResourceKind.TOPIC])
GROUP_OPERATIONS: Final = operation_bits(OPERATIONS[ResourceKind.GROUP])
CLUSTER_OPERATIONS: Final = operation_bits(OPERATIONS[ResourceKind.CLUSTER])
