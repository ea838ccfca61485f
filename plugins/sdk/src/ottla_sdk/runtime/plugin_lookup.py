"""Finds plugin classes by the names that users write.

Entry points are looked through one after the other, those first that the name suggests, because importing all plugins
takes long. A plugin that cannot be imported is passed over, and mentioned if the search finds nothing.
"""

import importlib
import traceback
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from ottla_sdk import hookspecs
from ottla_sdk.connectors import Connector
from ottla_sdk.converter import Converter
from ottla_sdk.errors import FatalError
from ottla_sdk.hookspecs import ENTRY_POINT_GROUP
from ottla_sdk.plugin import Plugin
from ottla_sdk.runtime.class_policy import ClassPolicy
from ottla_sdk.runtime.plugin_name import KnownClass, PluginName
from ottla_sdk.transforms import Predicate, Transform

PluginT = TypeVar("PluginT", bound=type[Plugin[Any]])
ClassT = TypeVar("ClassT")

JUDGED = (Connector, Converter, Transform, Predicate)
"""What settings of connectors name, so that a policy is about it; config providers are the worker's."""
COMMON_ENTRY_POINT = "standard"
"""Has the converters and transforms that nearly every connector uses, and the filters of mirrors."""

CONNECT_HOOKS = (
    "ottla_connectors",
    "ottla_transforms",
    "ottla_predicates",
    "ottla_converters",
    "ottla_config_providers",
)
MIRROR_HOOKS = (
    "ottla_topic_filters",
    "ottla_group_filters",
    "ottla_config_property_filters",
    "ottla_replication_policies",
    "ottla_config_providers",
)
BROKER_HOOKS = ("ottla_authorizers", "ottla_principal_builders")


class PluginNotFound(FatalError):
    """No installed plugin has such a class."""


class PluginRefused(PluginNotFound):
    """There is such a class, which must not be used here."""


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """The classes behind an entry point.

    Attributes:
        classes: what its hooks answer with.
        distribution: name of the distribution that has it.
        version: that distribution's version.
    """

    classes: tuple[type[Plugin[Any]], ...]
    distribution: str
    version: str


def load(entry_point: EntryPoint, hooks: Sequence[str] = CONNECT_HOOKS) -> LoadedPlugin:
    """Import the plugin behind an entry point and ask some hooks; what goes wrong there is raised as it is."""
    module: ModuleType = importlib.import_module(entry_point.module)
    distribution = entry_point.dist
    return LoadedPlugin(
        classes_of(module, hooks),
        distribution.name if distribution is not None else "",
        distribution.version if distribution is not None else "",
    )


def classes_of(module: ModuleType, hooks: Sequence[str]) -> tuple[type[Plugin[Any]], ...]:
    """Return what the functions of a plugin's module answer to some hooks."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    answers = (answer for hook in hooks for answer in getattr(manager.hook, hook)())
    return tuple(dict.fromkeys(each for answer in answers for each in answer))


@dataclass(slots=True)
class PluginLookup:
    """Finds classes, and remembers within this process what was imported already.

    Attributes:
        hooks: which hooks of plugins are asked.
        known: what these hooks of all plugins have answered somebody else, if anybody. A name that is none of these
            classes' is then refused before all plugins are imported, and those that have it are imported first.
        own: what a service answers to these hooks itself; a plugin cannot take the names of these classes.
        policy: which classes may be found of the kinds that connectors name. Whoever makes one has asked here, so no
            process can run one that is refused, wherever its settings come from.
    """

    hooks: Sequence[str] = CONNECT_HOOKS
    known: Sequence[KnownClass] = ()
    own: Sequence[type[Plugin[Any]]] = ()
    policy: ClassPolicy = field(default_factory=ClassPolicy)
    _loaded: dict[EntryPoint, LoadedPlugin] = field(default_factory=dict)
    _broken: dict[EntryPoint, str] = field(default_factory=dict)
    _versions: dict[type[Any], str] = field(default_factory=dict)

    def find(self, name: str, kind: type[ClassT], *, is_workers: bool = False) -> type[ClassT]:
        """Return the class of a kind, such as `Connector`, that is called so.

        Args:
            name: one of its names.
            kind: of class.
            is_workers: whether the worker's own settings name it, which the policy is not about.

        Raises:
            PluginNotFound: there is none.
            PluginRefused: the policy does not let it run.
        """
        wanted = PluginName(name)
        for each in self.own:
            if issubclass(each, kind) and wanted.means(each):
                return each
        having = [each for each in self.known if wanted.means_known(each)]
        if self.known and not having:
            nearest = wanted.nearest(kind, self.known)
            meant = f"; did you mean {nearest}?" if nearest else ""
            raise PluginNotFound(f"no installed plugin has a {kind.__name__.lower()} {name}{meant}")
        for plugin in self._plugins(wanted, {_package(each.full_name) for each in having}):
            for each in plugin.classes:
                if issubclass(each, kind) and wanted.means(each):
                    is_judged = issubclass(each, JUDGED) and not is_workers
                    if is_judged and (problem := self.policy.problem(each)) is not None:
                        raise PluginRefused(problem)
                    self._versions[each] = each.version or plugin.version
                    return each
        broken = "".join(
            f"; the plugin {each.name} cannot be imported: {error}" for each, error in self._broken.items()
        )
        raise PluginNotFound(f"no installed plugin has a {kind.__name__.lower()} {name}{broken}")

    def classes(self, kind: type[ClassT]) -> list[type[ClassT]]:
        """Return the classes of a kind in all plugins that can be imported."""
        plugins = self._plugins(PluginName(""), ())
        return [each for plugin in plugins for each in plugin.classes if issubclass(each, kind)]

    def version(self, plugin: type[Any]) -> str:
        """Return the version of a class that `find` has returned."""
        return self._versions.get(plugin, "")

    def _plugins(self, wanted: PluginName, packages: Container[str]) -> Iterator[LoadedPlugin]:
        """Import plugins one by one: those first that the name suggests, and then those of packages that have it."""
        found = entry_points(group=ENTRY_POINT_GROUP)
        for each in sorted(
            found,
            key=lambda each: (
                not wanted.is_within(each.module),
                _package(each.module) not in packages,
                each.name != COMMON_ENTRY_POINT,
                each.name,
            ),
        ):
            if each in self._broken:
                continue
            if each not in self._loaded:
                try:
                    self._loaded[each] = load(each, self.hooks)
                except Exception as error:  # noqa: BLE001 - whatever a plugin does when it is imported
                    self._broken[each] = "".join(traceback.format_exception_only(error)).strip()
                    continue
            yield self._loaded[each]


def _package(name: str) -> str:
    """Return the package at the top of a module's or class's name."""
    return name.partition(".")[0]
