"""The hooks of Ottla Connect: all there is to being a plugin.

A distribution declares an entry point in the group `ottla.plugins` that names a module; functions in it that are
decorated with `ottla_sdk.hookimpl` answer these hooks. A worker asks every plugin in a process of its own, so an
import that fails is reported and hurts nobody else.
"""

from collections.abc import Sequence
from typing import Any

import pluggy

from ottla_sdk.config_provider import ConfigProvider
from ottla_sdk.connectors import Connector
from ottla_sdk.converter import Converter
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
