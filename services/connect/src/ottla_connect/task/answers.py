"""Answers the questions for which a worker starts a short-lived process, because they need plugin code."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from ottla_connect.processes.messages import (
    CheckOffsets,
    ConfigDescribed,
    DescribeConfig,
    ListPlugins,
    OffsetsChecked,
    PluginDescription,
    PluginsListed,
    Validate,
    Validated,
)
from ottla_connect.sink_offset_documents import PARTITION_KEY, TOPIC_KEY, OffsetsMalformed, sink_offsets
from ottla_connect.task.channel import Channel
from ottla_connect.task.process import Process
from ottla_connect.task.rest_types import kind_of, rest_types
from ottla_connect.task.settings.config_infos import key_info, key_infos
from ottla_connect.task.settings.connector_settings import TYPES, SinkSettings, SourceSettings
from ottla_connect.task.settings.validation import CLASS_KEY, Validation
from ottla_sdk import (
    ENTRY_POINT_GROUP,
    ConnectError,
    Connector,
    InvalidConfig,
    Plugin,
    Problem,
    SinkConnector,
    SourceConnector,
    TopicPartition,
    Transform,
    class_name,
)
from ottla_sdk.runtime.plugin_lookup import PluginNotFound, load
from ottla_sdk.runtime.plugin_name import KnownClass, names
from ottla_sdk.runtime.redaction import Redaction

Pair = tuple[dict[str, Any], dict[str, Any] | None]


def list_plugins(purpose: ListPlugins) -> PluginsListed:
    """Return the classes behind an entry point, or the trace of the error with which it cannot be imported."""
    found = [each for each in entry_points(group=ENTRY_POINT_GROUP) if each.name == purpose.entry_point]
    if not found:
        return PluginsListed(plugins=[], error=f"there is no entry point {purpose.entry_point} any more")
    distribution = found[0].dist.name if found[0].dist is not None else ""
    try:
        loaded = load(found[0])
        plugins = [
            PluginDescription(
                class_name=class_name(each), type=kind, version=each.version or loaded.version, aliases=names(each)
            )
            for each in loaded.classes
            for kind in rest_types(each)
        ]
    except BaseException:  # noqa: BLE001 - whatever a plugin does when it is imported
        return PluginsListed(plugins=[], distribution=distribution, error=traceback.format_exc())
    return PluginsListed(plugins=plugins, distribution=distribution)


def validate(channel: Channel, redaction: Redaction, purpose: Validate) -> Validated:
    """Return what is wrong with a connector's settings."""
    known = [KnownClass(each.class_name, each.aliases, kind_of(each.type)) for each in purpose.plugins]
    process = Process.make(channel, redaction, purpose.worker, known=known)
    validation = Validation(
        purpose.settings,
        worker=process.worker,
        lookup=process.lookup,
        providers=process.providers,
        redaction=redaction,
    )
    return Validated(infos=validation.run())


def describe_config(channel: Channel, redaction: Redaction, purpose: DescribeConfig) -> ConfigDescribed:
    """Return the settings of a plugin class, for a connector with those that all connectors have."""
    process = Process.make(channel, redaction, purpose.worker)
    try:
        plugin = process.lookup.find(purpose.plugin, Plugin)
    except PluginNotFound as error:
        return ConfigDescribed(settings=[], error=redaction.text(str(error)))
    described = {each["name"]: each for each in key_infos(plugin.config_model, group=plugin.__name__)}
    if issubclass(plugin, Connector):
        model = SinkSettings if issubclass(plugin, SinkConnector) else SourceSettings
        common = {each["name"]: each for each in key_infos(model, types=TYPES)}
        described = {**common, **described}
    elif issubclass(plugin, Transform):
        group = plugin.__name__
        described |= {
            "predicate": key_info("predicate", "STRING", "Name of a predicate.", group=group, order=1),
            "negate": key_info(
                "negate",
                "BOOLEAN",
                "Whether the transform applies where the predicate does not hold.",
                group=group,
                order=2,
                default="false",
            ),
        }
    return ConfigDescribed(settings=list(described.values()))


def check_offsets(channel: Channel, redaction: Redaction, purpose: CheckOffsets) -> OffsetsChecked:
    """Return what a connector finds wrong with offsets."""
    offsets = list(purpose.offsets)
    try:
        connector = configured(Process.make(channel, redaction, purpose.worker), purpose.settings)
        if purpose.removes_all and isinstance(connector, SinkConnector):
            offsets += _removals(connector.kept_offsets(), beside=sink_offsets([*offsets]))
        problems = list(_offset_problems(connector, offsets))
    except InvalidConfig as error:
        problems = list(error.problems)
    except (OffsetsMalformed, ConnectError) as error:
        problems = [Problem("", str(error))]
    return OffsetsChecked(problems=[redaction.text(str(each)) for each in problems], offsets=offsets)


def configured(process: Process, settings: Mapping[str, str]) -> Connector[Any]:
    """Return a connector with these settings, which is not started."""
    resolved = process.providers.resolve(settings)
    connector: Connector[Any] = process.lookup.find(resolved.get(CLASS_KEY, ""), Connector)()
    connector.configure(resolved)
    return connector


def _removals(kept: Mapping[TopicPartition, int], *, beside: Mapping[TopicPartition, int | None]) -> list[Pair]:
    """Return the removal of what a sink keeps of other partitions than those `beside`."""
    return [
        ({TOPIC_KEY: each.topic, PARTITION_KEY: each.partition}, None) for each in sorted(kept.keys() - beside.keys())
    ]


def _offset_problems(connector: Connector[Any], offsets: Sequence[Pair]) -> Iterator[Problem]:
    if isinstance(connector, SourceConnector):
        yield from connector.check_offsets([*offsets])
    elif isinstance(connector, SinkConnector):
        yield from connector.check_offsets(sink_offsets([*offsets]))
