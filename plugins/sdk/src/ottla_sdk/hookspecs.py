"""The hooks of Ottla Connect, of mirrors and of brokers: all there is to being a plugin.

A distribution declares an entry point in the group `ottla.plugins` that names a module; functions in it that are
decorated with `ottla_sdk.hookimpl` answer these hooks. A worker asks every plugin in a process of its own, so an
import that fails is reported and hurts nobody else.
"""

from collections.abc import Sequence
from typing import Any

import pluggy

from ottla_sdk.broker import Authorizer, PrincipalBuilder
from ottla_sdk.config_provider import ConfigProvider
from ottla_sdk.connectors import Connector
from ottla_sdk.converter import Converter
from ottla_sdk.mirror import ConfigPropertyFilter, GroupFilter, ReplicationPolicy, TopicFilter
from ottla_sdk.transforms import Predicate, Transform

ENTRY_POINT_GROUP = "ottla.plugins"
PROJECT = "ottla"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ottla_connectors() -> Sequence[type[Connector[Any]]]:  # type: ignore[empty-body]
    """Return the connector classes of the plugin: subclasses of `SourceConnector` and `SinkConnector`."""


@hookspec
def ottla_transforms() -> Sequence[type[Transform[Any]]]:  # type: ignore[empty-body]
    """Return the single message transforms of the plugin."""


@hookspec
def ottla_predicates() -> Sequence[type[Predicate[Any]]]:  # type: ignore[empty-body]
    """Return the predicates of the plugin."""


@hookspec
def ottla_converters() -> Sequence[type[Converter[Any]]]:  # type: ignore[empty-body]
    """Return the converters of the plugin, for keys, values and headers."""


@hookspec
def ottla_config_providers() -> Sequence[type[ConfigProvider[Any]]]:  # type: ignore[empty-body]
    """Return the config providers of the plugin."""


@hookspec
def ottla_topic_filters() -> Sequence[type[TopicFilter[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say which topics a mirror copies."""


@hookspec
def ottla_group_filters() -> Sequence[type[GroupFilter[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say which consumer groups a mirror translates."""


@hookspec
def ottla_config_property_filters() -> Sequence[type[ConfigPropertyFilter[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say which settings of topics a mirror copies."""


@hookspec
def ottla_replication_policies() -> Sequence[type[ReplicationPolicy[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say what topics are called at the target of a mirror."""


@hookspec
def ottla_authorizers() -> Sequence[type[Authorizer[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say what clients of a broker may do."""


@hookspec
def ottla_principal_builders() -> Sequence[type[PrincipalBuilder[Any]]]:  # type: ignore[empty-body]
    """Return the plugin's classes that say who a client of a broker is."""
