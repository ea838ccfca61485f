"""The plugin classes that a flow's settings name, made and configured; and the config providers of the worker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla_mirror.config.flow_settings import FlowSettings
from ottla_sdk import ConfigPropertyFilter, GroupFilter, InvalidConfig, Plugin, ReplicationPolicy, TopicFilter
from ottla_sdk.runtime.config_providers import PROVIDERS_KEY, ConfigProviders
from ottla_sdk.runtime.plugin_lookup import MIRROR_HOOKS, PluginLookup, PluginNotFound
from ottla_sdk.runtime.redaction import Redaction

DEFAULT_PROVIDER_CLASSES = {"file": "FileConfigProvider", "env": "EnvVarConfigProvider"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlugins:
    """What decides in a flow."""

    topics: TopicFilter[Any]
    groups: GroupFilter[Any]
    properties: ConfigPropertyFilter[Any]
    policy: ReplicationPolicy[Any]


class MirrorPlugins:
    """Makes what settings name."""

    def __init__(self) -> None:
        self._lookup = PluginLookup(MIRROR_HOOKS)

    def providers(self, settings: Mapping[str, str], redaction: Redaction) -> ConfigProviders:
        """Return the worker's config providers; `file` and `env` are there although nobody has named a class."""
        names = settings.get(PROVIDERS_KEY, ",".join(DEFAULT_PROVIDER_CLASSES))
        classes = {f"{PROVIDERS_KEY}.{name}.class": each for name, each in DEFAULT_PROVIDER_CLASSES.items()}
        return ConfigProviders({**classes, **settings, PROVIDERS_KEY: names}, self._lookup, redaction)

    def configured(
        self, settings: FlowSettings, written: Mapping[str, str]
    ) -> tuple[FlowPlugins | None, list[str], frozenset[str]]:
        """Return a flow's plugins, or what is wrong with them, and the keys that they have.

        Args:
            settings: name the classes.
            written: all settings of the flow, resolved, and the aliases of its clusters.
        """
        kinds: tuple[tuple[str, str, type[Plugin[Any]]], ...] = (
            ("topics", "topic.filter.class", TopicFilter),
            ("groups", "group.filter.class", GroupFilter),
            ("properties", "config.property.filter.class", ConfigPropertyFilter),
            ("policy", "replication.policy.class", ReplicationPolicy),
        )
        named = settings.as_properties()
        made: dict[str, Any] = {}
        problems: list[str] = []
        keys: set[str] = set()
        for field, key, kind in kinds:
            try:
                plugin = self._lookup.find(named[key], kind)
                keys.update(plugin.config_model.keys())
                made[field] = plugin()
                made[field].configure(written)
            except PluginNotFound as error:
                problems.append(f"{key}: {error}")
            except InvalidConfig as error:
                problems += _problems(error)
        return (None if problems else FlowPlugins(**made)), problems, frozenset(keys)


def _problems(error: InvalidConfig) -> Iterable[str]:
    return [str(problem) for problem in error.problems]
