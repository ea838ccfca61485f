"""What a plugin of Ottla Connect, of mirrors, or of brokers is written against.

`ottla connect new-plugin NAME` writes a project to start from. `hookspecs.py` has the hooks, `connectors.py` the
classes of connectors and tasks, `jobs.py` tasks that move their data by themselves, `transforms.py`, `converter.py`
and `config_provider.py` the others, `mirror.py` and `broker.py` what mirrors and brokers let one replace,
`conformance/` the tests.

Its names are imported when they are first asked for: whoever needs `ottla_sdk.kafka` only, such as a command, does
not wait for Pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla_sdk.broker import (
        AccessControlLists,
        AccessRequest,
        AuthenticatedClient,
        Authorizer,
        AuthorizerContext,
        Operation,
        Principal,
        PrincipalBuilder,
        PrincipalRefused,
        ResourceType,
    )
    from ottla_sdk.config import CommaSeparated, Importance, PluginConfig, Width, setting
    from ottla_sdk.config_provider import ConfigProvider
    from ottla_sdk.connectors import Connector, SinkConnector, SinkTask, SourceConnector, SourceTask
    from ottla_sdk.context import (
        ChangePermit,
        ConnectorContext,
        Context,
        JobTaskContext,
        Metrics,
        OffsetReader,
        SinkTaskContext,
        SourceConnectorContext,
        SourceTaskContext,
        TaskContext,
        TransactionContext,
    )
    from ottla_sdk.converter import NO_VALUE, Converter, Role, SchemaAndValue
    from ottla_sdk.errors import (
        ConnectError,
        DataError,
        FatalError,
        InvalidConfig,
        NotPermitted,
        Problem,
        RetriableError,
    )
    from ottla_sdk.hookspecs import ENTRY_POINT_GROUP, hookimpl
    from ottla_sdk.jobs import JobTask
    from ottla_sdk.mirror import ConfigPropertyFilter, GroupFilter, ReplicationPolicy, TopicFilter
    from ottla_sdk.plugin import Plugin, class_name
    from ottla_sdk.records import ConnectRecord, Header, SinkRecord, SourceRecord, TopicPartition
    from ottla_sdk.schema import Field, Schema, Type
    from ottla_sdk.topic_identity import TopicIdentity, is_another
    from ottla_sdk.transforms import Predicate, Transform

__all__ = [
    "ENTRY_POINT_GROUP",
    "NO_VALUE",
    "AccessControlLists",
    "AccessRequest",
    "AuthenticatedClient",
    "Authorizer",
    "AuthorizerContext",
    "ChangePermit",
    "CommaSeparated",
    "ConfigPropertyFilter",
    "ConfigProvider",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "Context",
    "Converter",
    "DataError",
    "FatalError",
    "Field",
    "GroupFilter",
    "Header",
    "Importance",
    "InvalidConfig",
    "JobTask",
    "JobTaskContext",
    "Metrics",
    "NotPermitted",
    "OffsetReader",
    "Operation",
    "Plugin",
    "PluginConfig",
    "Predicate",
    "Principal",
    "PrincipalBuilder",
    "PrincipalRefused",
    "Problem",
    "ReplicationPolicy",
    "ResourceType",
    "RetriableError",
    "Role",
    "Schema",
    "SchemaAndValue",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "TaskContext",
    "TopicFilter",
    "TopicIdentity",
    "TopicPartition",
    "TransactionContext",
    "Transform",
    "Type",
    "Width",
    "class_name",
    "hookimpl",
    "is_another",
    "setting",
]

_NAMES_OF = {
    "broker": (
        "AccessControlLists",
        "AccessRequest",
        "AuthenticatedClient",
        "Authorizer",
        "AuthorizerContext",
        "Operation",
        "Principal",
        "PrincipalBuilder",
        "PrincipalRefused",
        "ResourceType",
    ),
    "config": ("CommaSeparated", "Importance", "PluginConfig", "Width", "setting"),
    "config_provider": ("ConfigProvider",),
    "connectors": ("Connector", "SinkConnector", "SinkTask", "SourceConnector", "SourceTask"),
    "context": (
        "ChangePermit",
        "ConnectorContext",
        "Context",
        "JobTaskContext",
        "Metrics",
        "OffsetReader",
        "SinkTaskContext",
        "SourceConnectorContext",
        "SourceTaskContext",
        "TaskContext",
        "TransactionContext",
    ),
    "converter": ("NO_VALUE", "Converter", "Role", "SchemaAndValue"),
    "errors": (
        "ConnectError",
        "DataError",
        "FatalError",
        "InvalidConfig",
        "NotPermitted",
        "Problem",
        "RetriableError",
    ),
    "hookspecs": ("ENTRY_POINT_GROUP", "hookimpl"),
    "jobs": ("JobTask",),
    "mirror": ("ConfigPropertyFilter", "GroupFilter", "ReplicationPolicy", "TopicFilter"),
    "plugin": ("Plugin", "class_name"),
    "records": ("ConnectRecord", "Header", "SinkRecord", "SourceRecord", "TopicPartition"),
    "schema": ("Field", "Schema", "Type"),
    "topic_identity": ("TopicIdentity", "is_another"),
    "transforms": ("Predicate", "Transform"),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return what this package has under a name, and keep it."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
