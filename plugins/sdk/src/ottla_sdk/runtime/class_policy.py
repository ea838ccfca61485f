"""Which classes a worker runs for connectors: patterns of names that it allows and denies. Pure.

Users choose a class by any of its names, so that a rule about the name they wrote would be evaded by another one.
The rule is therefore about the class that was found, under all of its names: one that is denied under any name is
denied, and one that is allowed under any name is allowed unless it is denied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ottla_sdk.plugin import Plugin, class_name
from ottla_sdk.runtime.plugin_name import names


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """The rule of a worker.

    Attributes:
        allowed: patterns with ``*``, ``?`` and ``[…]``, of which a class has to match one.
        denied: patterns of which it may match none.
    """

    allowed: Sequence[str] = ("*",)
    denied: Sequence[str] = ()

    def problem(self, plugin: type[Plugin[Any]]) -> str | None:
        """Return why a class may not be used, as a sentence; None if it may."""
        all_names = _all_names(plugin)
        denying = next((each for each in self.denied if _matches(all_names, each)), None)
        if denying is not None:
            return (
                f"the worker's connector.classes.denied has {denying}, so that {class_name(plugin)} may not run; "
                "use another class, or ask whoever runs the worker"
            )
        if not any(_matches(all_names, each) for each in self.allowed):
            return (
                f"{class_name(plugin)} is not among the worker's connector.classes.allowed; use another class, or "
                "ask whoever runs the worker"
            )
        return None


def _all_names(plugin: type[Plugin[Any]]) -> list[str]:
    """Return every name that `PluginName.means` accepts: a class in `package.module` is also `package.Class`."""
    full = class_name(plugin)
    packages, bare = full.split(".")[:-1], full.rpartition(".")[2]
    shortened = (".".join([*packages[:count], bare]) for count in range(1, len(packages)))
    return [full, *names(plugin), *shortened]


def _matches(all_names: Sequence[str], pattern: str) -> bool:
    return any(fnmatchcase(each, pattern) for each in all_names)
