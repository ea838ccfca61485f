"""What a client may do with a topic, a group or the cluster, as responses tell it: one bit per operation.

There are no access control lists yet, so everybody may do everything; that is also what Kafka answers without an
authorizer. Responses leave the field at `NOT_ASKED` when the client did not want to know.

Source: Kafka's AclOperation (the codes) and AclEntry.supportedOperations (which operations a kind of resource has).
"""

from collections.abc import Collection
from enum import IntEnum
from typing import Final

from kio.static.primitive import i32

NOT_ASKED: Final = i32(-(2**31))


class AclOperation(IntEnum):
    """An operation that can be allowed or denied; the numbers are Kafka's."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(operations: Collection[AclOperation]) -> i32:
    return i32(sum(1 << operation for operation in operations))


TOPIC_OPERATIONS: Final = _bits(
    (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)
GROUP_OPERATIONS: Final = _bits(
    (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)
CLUSTER_OPERATIONS: Final = _bits(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    )
)


def operations_if(asked: bool, operations: i32) -> i32:
    """Return the operations for a client that has asked for them, and `NOT_ASKED` for others."""
    return operations if asked else NOT_ASKED
