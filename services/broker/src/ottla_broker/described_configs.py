"""What the settings of topics and brokers are, and where each value comes from.

A setting has one value and several places it may come from, the most specific first: the topic, this broker's
dynamic settings, the dynamic defaults of all brokers, the broker's file, the built-in default. DescribeConfigs
shows the value, its source and, on request, every place that has a say ("synonyms").
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla_broker.config import TOPIC_DEFAULT_KEYS, BrokerConfig
from ottla_core.cluster.model import Topic
from ottla_core.throttle_config import THROTTLE_DEFINITIONS, UNLIMITED
from ottla_core.topic_config import (
    TOPIC_CONFIG_DEFINITIONS,
    BrokerSynonym,
    ConfigDefinition,
    ConfigType,
    TopicConfig,
)

SENSITIVE_KEYS = {"etcd.password"}
BUILT_IN = TopicConfig()


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are Kafka's."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


CONFIG_TYPE_CODES: Mapping[ConfigType, int] = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place that gives a setting a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One setting of a topic or broker; `synonyms[0]` is the place that decides."""

    name: str
    value: str | None
    source: ConfigSource
    type_code: int
    documentation: str
    read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A broker's settings in the order in which they count."""

    dynamic: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]

    def values_of(self, name: str) -> Iterator[ConfigSynonym]:
        """Yield every place that sets `name`."""
        for settings, source in (
            (self.dynamic, ConfigSource.DYNAMIC_BROKER),
            (self.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.static, ConfigSource.STATIC_BROKER),
        ):
            if name in settings:
                yield ConfigSynonym(name, settings[name], source)


def describe_topic(topic: Topic, effective: TopicConfig, broker: BrokerSettings) -> list[DescribedConfig]:
    """Return every setting of a topic.

    Args:
        topic: the topic with its own settings.
        effective: the settings that result.
        broker: the settings of the broker that answers.
    """
    return [
        _describe_topic_config(definition, topic.configs, effective, broker)
        for definition in TOPIC_CONFIG_DEFINITIONS.values()
    ]


def _describe_topic_config(
    definition: ConfigDefinition, overrides: Mapping[str, str], effective: TopicConfig, broker: BrokerSettings
) -> DescribedConfig:
    synonyms: list[ConfigSynonym] = []
    if definition.name in overrides:
        synonyms.append(ConfigSynonym(definition.name, overrides[definition.name], ConfigSource.TOPIC))
    for synonym in definition.synonyms:
        synonyms += broker.values_of(synonym.name)
    default = definition.format(getattr(BUILT_IN, definition.attribute))
    default_name = definition.synonyms[0].name if definition.synonyms else definition.name
    synonyms.append(ConfigSynonym(default_name, default, ConfigSource.DEFAULT))
    return DescribedConfig(
        name=definition.name,
        value=overrides.get(definition.name, definition.format(getattr(effective, definition.attribute))),
        source=synonyms[0].source,
        type_code=CONFIG_TYPE_CODES[definition.type],
        documentation=definition.documentation,
        synonyms=tuple(synonyms),
    )


def describe_broker(config: BrokerConfig, settings: BrokerSettings) -> list[DescribedConfig]:
    """Return every setting of a broker: its own, its throttles, and those that give topics their defaults."""
    return [*_describe_own_settings(config), *_describe_throttles(settings), *_describe_topic_defaults(settings)]


def describe_dynamic_defaults(settings: BrokerSettings) -> list[DescribedConfig]:
    """Return the dynamic settings that hold for every broker."""
    defaults = BrokerSettings({}, settings.dynamic_default, {})
    return [
        config
        for config in (*_describe_throttles(defaults), *_describe_topic_defaults(defaults))
        if config.source == ConfigSource.DYNAMIC_DEFAULT_BROKER
    ]


def _describe_own_settings(config: BrokerConfig) -> Iterator[DescribedConfig]:
    static = config.static_properties()
    values = config.as_properties()
    for key, name in config.fields_by_key().items():
        if key in TOPIC_DEFAULT_KEYS:
            continue
        source = ConfigSource.STATIC_BROKER if key in static else ConfigSource.DEFAULT
        sensitive = key in SENSITIVE_KEYS
        value = None if sensitive else values.get(key)
        yield DescribedConfig(
            name=key,
            value=value,
            source=source,
            type_code=_type_code(getattr(config, name)),
            documentation=type(config).model_fields[name].description or "",
            read_only=True,
            is_sensitive=sensitive,
            synonyms=(ConfigSynonym(key, value, source),),
        )


def _type_code(value: object) -> int:
    match value:
        case bool():
            return CONFIG_TYPE_CODES[ConfigType.BOOLEAN]
        case int():
            return CONFIG_TYPE_CODES[ConfigType.LONG]
        case tuple():
            return CONFIG_TYPE_CODES[ConfigType.LIST]
        case _:
            return CONFIG_TYPE_CODES[ConfigType.STRING]


def _describe_throttles(settings: BrokerSettings) -> Iterator[DescribedConfig]:
    for name, definition in THROTTLE_DEFINITIONS.items():
        synonyms = [*settings.values_of(name), ConfigSynonym(name, str(UNLIMITED), ConfigSource.DEFAULT)]
        yield DescribedConfig(
            name=name,
            value=synonyms[0].value,
            source=synonyms[0].source,
            type_code=CONFIG_TYPE_CODES[definition.type],
            documentation=definition.documentation,
            synonyms=tuple(synonyms),
        )


def _describe_topic_defaults(settings: BrokerSettings) -> Iterator[DescribedConfig]:
    for definition in TOPIC_CONFIG_DEFINITIONS.values():
        for synonym in definition.synonyms:
            synonyms = [*settings.values_of(synonym.name)]
            if synonym is definition.synonyms[-1]:
                synonyms.append(ConfigSynonym(synonym.name, _built_in(definition, synonym), ConfigSource.DEFAULT))
            yield DescribedConfig(
                name=synonym.name,
                value=synonyms[0].value if synonyms else None,
                source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
                type_code=CONFIG_TYPE_CODES[definition.type],
                documentation=f"Default of the topic setting {definition.name}. {definition.documentation}",
                synonyms=tuple(synonyms),
            )


def _built_in(definition: ConfigDefinition, synonym: BrokerSynonym) -> str:
    value = getattr(BUILT_IN, definition.attribute)
    if synonym.factor != 1 and value > 0:
        value //= synonym.factor
    return definition.format(value)
