"""The plugins of this worker's environment: what classes there are, learnt without importing any of them here.

Every entry point of the group `ottla.plugins` is asked in a process of its own, so that one that cannot be imported,
or brings its process down, is listed as broken and hurts no other. Entry points are looked at again whenever the list
is asked for; only those that are new or changed are asked again, so a plugin that was installed meanwhile appears.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

import structlog

from ottla_connect.herder.api import ConnectorType, PluginInfo
from ottla_connect.processes.host import ProcessFailed, ProcessHost
from ottla_connect.processes.messages import ListPlugins, PluginDescription, PluginsListed
from ottla_sdk import ENTRY_POINT_GROUP

LIST_TIMEOUT_S = 60.0
BROKEN = "broken"
CONNECTOR_KINDS = {"source": ConnectorType.SOURCE, "sink": ConnectorType.SINK}

log = structlog.get_logger("plugins")

type_order = (
    "sink",
    "source",
    "transformation",
    "predicate",
    "converter",
    "header_converter",
    "configprovider",
    BROKEN,
)


@dataclass(frozen=True, slots=True)
class _Installed:
    """What identifies an installed entry point: it is asked again when any of this changes."""

    name: str
    target: str
    distribution: str
    version: str

    @classmethod
    def of(cls, entry_point: EntryPoint) -> "_Installed":
        distribution = entry_point.dist
        return cls(
            entry_point.name,
            entry_point.value,
            distribution.name if distribution is not None else "",
            distribution.version if distribution is not None else "",
        )


class PluginCatalog:
    """Knows the plugin classes by all their names."""

    def __init__(self, host: ProcessHost, worker_settings: Mapping[str, str]) -> None:
        self._host = host
        self._worker_settings = dict(worker_settings)
        self._listed: dict[_Installed, PluginsListed] = {}
        self._by_name: dict[str, PluginDescription] = {}
        self._looking = asyncio.Lock()

    async def refresh(self) -> None:
        """Look for plugins that were installed or removed."""
        async with self._looking:
            installed = {_Installed.of(each) for each in entry_points(group=ENTRY_POINT_GROUP)}
            new = [each for each in installed if each not in self._listed]
            answers = await asyncio.gather(*map(self._ask, new))
            kept = {each: listed for each, listed in self._listed.items() if each in installed}
            self._listed = kept | dict(zip(new, answers, strict=True))
            self._by_name = {
                name: plugin
                for listed in self._listed.values()
                for plugin in listed.plugins
                for name in (*plugin.aliases, plugin.class_name)
            }

    def plugins(self) -> list[PluginInfo]:
        """Return all classes, and the entry points that could not be imported, in a stable order."""
        known = [
            PluginInfo(class_name=plugin.class_name, type=plugin.type, version=plugin.version)
            for listed in self._listed.values()
            for plugin in listed.plugins
        ]
        broken = [
            PluginInfo(class_name=each.target, type=BROKEN, version=each.version, error=listed.error)
            for each, listed in self._listed.items()
            if listed.error
        ]
        return sorted(known + broken, key=lambda each: (type_order.index(each.type), each.class_name))

    def find(self, name: str) -> PluginDescription | None:
        """Return the plugin class of this name or alias."""
        return self._by_name.get(name)

    async def all_classes(self, names: Iterable[str]) -> list[PluginDescription]:
        """Return the classes of all plugins, after another look if one of the names is unknown.

        Returns:
            Nothing if a plugin could not be imported, since a class that is asked for may be one of its.
        """
        if any(self.find(name.strip()) is None for name in names):
            await self.refresh()
        listed = list(self._listed.values())
        return [] if any(each.error for each in listed) else [plugin for each in listed for plugin in each.plugins]

    def connector_type(self, name: str) -> ConnectorType:
        """Return what a connector class does."""
        plugin = self.find(name)
        return (
            CONNECTOR_KINDS.get(plugin.type, ConnectorType.UNKNOWN) if plugin is not None else ConnectorType.UNKNOWN
        )

    async def _ask(self, installed: _Installed) -> PluginsListed:
        purpose = ListPlugins(entry_point=installed.name, worker=self._worker_settings)
        try:
            answer = await self._host.ask(purpose, timeout_s=LIST_TIMEOUT_S)
        except ProcessFailed as error:
            answer = PluginsListed(plugins=[], error=f"the process that imported it {error}")
        assert isinstance(answer, PluginsListed), answer
        if answer.error:
            log.warning("a plugin cannot be used", plugin=installed.target, reason=answer.error)
        return answer
