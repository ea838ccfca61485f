"""The names under which a plugin class can be asked for."""

from typing import Any

from ottla_sdk.plugin import Plugin, class_name

ENDINGS = ("Connector", "Converter", "Predicate", "Transformation", "Transform", "ConfigProvider")
"""Kafka Connect's short aliases leave these off (its `PluginUtils.prunedName`)."""


class PluginName:
    """A name that a user wrote: `package.Class`, the bare `Class`, or an alias."""

    def __init__(self, name: str) -> None:
        self._name = name.strip()
        self._package, _, self._bare = self._name.rpartition(".")

    def is_within(self, module: str) -> bool:
        """Return whether the name's package is that of a module, or one beside it."""
        top = self._package.partition(".")[0]
        return bool(top) and top == module.partition(".")[0]

    def means(self, plugin: type[Plugin[Any]]) -> bool:
        """Return whether it is a name of a class; a class in `package.module` also goes by `package.Class`."""
        if self._name == class_name(plugin) or self._name in names(plugin):
            return True
        return self._bare == plugin.__name__ and plugin.__module__.startswith(f"{self._package}.")


def names(plugin: type[Plugin[Any]]) -> list[str]:
    """Return the names of a class besides its full one: the bare one, that without its ending, its aliases."""
    bare = plugin.__name__
    short = next((bare.removesuffix(each) for each in ENDINGS if bare.endswith(each) and bare != each), bare)
    return list(dict.fromkeys((bare, short, *plugin.aliases)))
