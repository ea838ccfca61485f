"""Access control lists: who may, or may not, do what with which resources. Pure.

Source: Kafka's AclBinding, AclOperation, ResourceType, PatternType and AclPermissionType; numbers are those of
the protocol.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

WILDCARD: Final = "*"
"""As a name of a literal pattern, every resource of a kind; as a host, every address."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of the kind `CLUSTER`."""

ALL_OPERATIONS: Final = 2
"""In place of an operation in a binding: every operation."""


class AclOperation(IntEnum):
    """An operation that can be allowed or denied."""

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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    """What an operation is done with."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a binding stands for resources."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a binding does to whom it matches."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBinding:
    """One entry of the access control lists.

    Attributes:
        kind: of resource.
        name: of the resource, `WILDCARD`, or with `PatternType.PREFIXED` what names begin with.
        principal: as TYPE:NAME; the name may be `WILDCARD`.
        host: an address as clients are seen with, or `WILDCARD`.
        operation: None stands for all operations.
    """

    kind: ResourceKind
    pattern: PatternType
    name: str
    principal: str
    host: str
    operation: AclOperation | None
    permission: Permission
