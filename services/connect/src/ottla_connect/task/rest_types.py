"""What Kafka Connect's REST API calls the kinds of plugin classes."""

from typing import Any

from ottla_sdk import (
    ConfigProvider,
    Connector,
    Converter,
    Plugin,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transform,
    class_name,
)

_TYPES: tuple[tuple[type[Plugin[Any]], tuple[str, ...]], ...] = (
    (SourceConnector, ("source",)),
    (SinkConnector, ("sink",)),
    (Transform, ("transformation",)),
    (Predicate, ("predicate",)),
    (Converter, ("converter", "header_converter")),
    (ConfigProvider, ("configprovider",)),
)


def rest_types(plugin: type[Plugin[Any]]) -> tuple[str, ...]:
    """Return a class's types as Kafka Connect's REST API calls them; a converter is also one for headers."""
    for kind, types in _TYPES:
        if issubclass(plugin, kind):
            return types
    kind_name = "SourceConnector or SinkConnector" if issubclass(plugin, Connector) else "kind of plugin"
    raise TypeError(f"{class_name(plugin)} is a subclass of no {kind_name}")


def kind_of(rest_type: str) -> type[Plugin[Any]]:
    """Return the class of which all that have a type are subclasses."""
    return next(kind for kind, types in _TYPES if rest_type in types)
