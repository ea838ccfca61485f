"""Access control lists as the protobuf messages of the controller's service, and back. Pure."""

from ottla_core.acl_filters import ANY, AclFilter, PatternFilter, operation_of
from ottla_core.acls import ALL_OPERATIONS, AclBinding, PatternType, Permission, ResourceKind
from ottla_core.errors import InvalidRequest
from ottla_proto.gen.ottla import acls_pb2 as pb


def binding_to_message(binding: AclBinding) -> pb.AclBinding:
    """Return the message of a binding."""
    return pb.AclBinding(
        kind=binding.kind,
        pattern=binding.pattern,
        name=binding.name,
        principal=binding.principal,
        host=binding.host,
        operation=ALL_OPERATIONS if binding.operation is None else binding.operation,
        permission=binding.permission,
    )


def binding_from_message(message: pb.AclBinding) -> AclBinding:
    """Return the binding of a message.

    Raises:
        InvalidRequest: it has a number that stands for nothing here.
    """
    try:
        return AclBinding(
            kind=ResourceKind(message.kind),
            pattern=PatternType(message.pattern),
            name=message.name,
            principal=message.principal,
            host=message.host,
            operation=operation_of(message.operation),
            permission=Permission(message.permission),
        )
    except ValueError as error:
        raise InvalidRequest(f"no such binding: {error}") from None


def filter_to_message(wanted: AclFilter) -> pb.AclFilter:
    """Return the message of a filter."""
    return pb.AclFilter(
        kind=ANY if wanted.kind is None else wanted.kind,
        pattern=wanted.pattern,
        name=wanted.name,
        principal=wanted.principal,
        host=wanted.host,
        operation=ANY if wanted.operation is None else wanted.operation,
        permission=ANY if wanted.permission is None else wanted.permission,
    )


def filter_from_message(message: pb.AclFilter) -> AclFilter:
    """Return the filter of a message.

    Raises:
        InvalidRequest: it has a number that stands for nothing here.
    """
    try:
        return AclFilter(
            kind=None if message.kind == ANY else ResourceKind(message.kind),
            pattern=PatternFilter(message.pattern),
            name=message.name if message.HasField("name") else None,
            principal=message.principal if message.HasField("principal") else None,
            host=message.host if message.HasField("host") else None,
            operation=None if message.operation == ANY else message.operation,
            permission=None if message.permission == ANY else Permission(message.permission),
        )
    except ValueError as error:
        raise InvalidRequest(f"no such filter: {error}") from None
