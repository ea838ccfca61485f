"""The names under which a plugin class can be asked for. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ottla_sdk.plugin import Plugin, class_name

ENDINGS = ("Connector", "Converter", "Predicate", "Transformation", "Transform", "ConfigProvider")
"""Kafka Connect's short aliases leave these off (its `PluginUtils.prunedName`)."""
ALIKE = 0.7
"""How much alike a misspelt name is to the one that was meant, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A plugin class that somebody else has imported.

    Attributes:
        full_name: module and name.
        names: its others, as `names` returns them.
        kind: such as `SourceConnector`.
    """

    full_name: str
    names: Sequence[str]
    kind: type[Any]

    @property
    def bare_name(self) -> str:
        """The name without its module."""
        return self.full_name.rpartition(".")[2]


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
        return self.means_known(KnownClass(class_name(plugin), names(plugin), plugin))

    def means_known(self, plugin: KnownClass) -> bool:
        """Return whether it is a name of a class, as `means` does, which needs the class itself."""
        if self._name == plugin.full_name or self._name in plugin.names:
            return True
        return self._bare == plugin.bare_name and plugin.full_name.startswith(f"{self._package}.")

    def nearest(self, kind: type[Any], known: Iterable[KnownClass]) -> str | None:
        """Return the bare name of the class of a kind that may be meant where none has this name."""
        bare = {
            name: each.bare_name
            for each in known
            if issubclass(each.kind, kind)
            for name in (each.bare_name, *each.names)
        }
        return next((bare[each] for each in get_close_matches(self._bare, bare, 1, cutoff=ALIKE)), None)


def names(plugin: type[Plugin[Any]]) -> list[str]:
    """Return the names of a class besides its full one: the bare one, that without its ending, its aliases."""
    bare = plugin.__name__
    short = next((bare.removesuffix(each) for each in ENDINGS if bare.endswith(each) and bare != each), bare)
    return list(dict.fromkeys((bare, short, *plugin.aliases)))
