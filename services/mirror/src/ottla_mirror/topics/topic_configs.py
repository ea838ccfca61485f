"""Which settings of topics go along. Pure.

What a topic itself says at the source goes to the target; what has its default there is left to the target's default,
unless the filter says otherwise. Settings that the filter keeps out are never touched.

Source: `MirrorSourceConnector.targetConfig` and `incrementalAlterConfigs` in Kafka 4.2.
"""

from collections.abc import Mapping
from typing import Any

from ottla_core.described_settings import DEFAULT_CONFIG, STATIC_BROKER_CONFIG, TOPIC_CONFIG, TopicSetting
from ottla_sdk import ConfigPropertyFilter


def wanted_settings(
    source: Mapping[str, TopicSetting], properties: ConfigPropertyFilter[Any]
) -> dict[str, str | None]:
    """Return what the target's topic should say of itself; None where it should say nothing."""
    wanted: dict[str, str | None] = {}
    for name, setting in source.items():
        if setting.is_fixed or setting.source == STATIC_BROKER_CONFIG:
            continue
        if not properties.should_replicate_config_property(name):
            continue
        is_default = setting.source == DEFAULT_CONFIG
        keeps_default = is_default and not properties.should_replicate_source_default(name)
        wanted[name] = None if keeps_default else setting.value
    return wanted


def settings_of_new_topic(
    source: Mapping[str, TopicSetting], properties: ConfigPropertyFilter[Any]
) -> dict[str, str]:
    """Return the settings with which a topic is made at the target."""
    return {name: value for name, value in wanted_settings(source, properties).items() if value is not None}


def changes(wanted: Mapping[str, str | None], target: Mapping[str, TopicSetting]) -> dict[str, str | None]:
    """Return which settings the target's topic has to get, and which it has to lose (None).

    Settings that the target does not know are left out.
    """
    found: dict[str, str | None] = {}
    for name, value in wanted.items():
        there = target.get(name)
        if there is None or there.is_fixed:
            continue
        is_own = there.source == TOPIC_CONFIG
        if (value is None and is_own) or (value is not None and there.value != value):
            found[name] = value
    return found
