"""What the settings of topics and brokers are, and where each value comes from. Pure.

A setting has one value and several places it may come from, the most specific first: the topic, this broker's
dynamic settings, the dynamic defaults of all brokers, the broker's file, the built-in default. DescribeConfigs
shows the value, its source and, on request, every place that has a say ("synonyms").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ottla_broker.config import TOPIC_DEFAULT_KEYS, BrokerConfig
from ottla_broker.sasl import sasl_settings
from ottla_broker.tls import tls_settings
from ottla_core.client_metrics_config import CLIENT_METRICS_CONFIG_DEFINITIONS
from ottla_core.cluster.state.model import Topic
from ottla_core.config_definition import BrokerSynonym, ConfigDefinition, ConfigType
from ottla_core.dynamic_broker_config import PROCESS_DEFINITIONS, listener_limit
from ottla_core.group_config import BROKER_SYNONYMS, GROUP_CONFIG_DEFINITIONS
from ottla_core.throttle_config import THROTTLE_DEFINITIONS, UNLIMITED
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, TopicConfig

BUILT_IN = TopicConfig()


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are Kafka's."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


CONFIG_TYPE_CODES: Mapping[ConfigType, int] = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
}


PASSWORD_TYPE_CODE = 9


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


def describe_group(own: Mapping[str, str], config: BrokerConfig) -> list[DescribedConfig]:
    """Return every setting of a group.

    Args:
        own: the group's own settings.
        config: the settings of the broker that answers; it is told what the coordinators are told.
    """
    values = config.as_properties()
    described = []
    for name, (definition, default) in GROUP_CONFIG_DEFINITIONS.items():
        behind = ConfigSynonym(name, values.get(BROKER_SYNONYMS.get(name, ""), default), ConfigSource.DEFAULT)
        # Kafka does not show what is behind a group's own value.
        decides = ConfigSynonym(name, own[name], ConfigSource.GROUP) if name in own else behind
        described.append(
            DescribedConfig(
                name=name,
                value=decides.value,
                source=decides.source,
                type_code=CONFIG_TYPE_CODES[definition.type],
                documentation=definition.documentation,
                synonyms=(decides,),
            )
        )
    return described


def describe_client_metrics(own: Mapping[str, str]) -> list[DescribedConfig]:
    """Return every setting of a subscription to clients' metrics, given those that it has itself."""
    described = []
    for name, setting in CLIENT_METRICS_CONFIG_DEFINITIONS.items():
        source = ConfigSource.CLIENT_METRICS if name in own else ConfigSource.DEFAULT
        decides = ConfigSynonym(name, own.get(name, setting.default), source)
        described.append(_described(name, setting.definition, [decides]))
    return described


def describe_broker(config: BrokerConfig, settings: BrokerSettings) -> list[DescribedConfig]:
    """Return every setting of a broker: its own, its throttles, and those that give topics their defaults."""
    return [
        *_describe_own_settings(config),
        *_describe_listener_settings(config),
        *_describe_process_settings(config, settings),
        *_describe_throttles(settings),
        *_describe_topic_defaults(settings),
    ]


def describe_dynamic_defaults(config: BrokerConfig, settings: BrokerSettings) -> list[DescribedConfig]:
    """Return the dynamic settings that hold for every broker."""
    defaults = BrokerSettings({}, settings.dynamic_default, {})
    return [
        described
        for described in (
            *_describe_process_settings(config, defaults),
            *_describe_throttles(defaults),
            *_describe_topic_defaults(defaults),
        )
        if described.source == ConfigSource.DYNAMIC_DEFAULT_BROKER
    ]


def _describe_own_settings(config: BrokerConfig) -> Iterator[DescribedConfig]:
    static = config.static_properties()
    values = config.as_properties()
    for key, name in config.fields_by_key().items():
        if key in TOPIC_DEFAULT_KEYS or key in PROCESS_DEFINITIONS:
            continue
        source = ConfigSource.STATIC_BROKER if key in static else ConfigSource.DEFAULT
        sensitive = config.is_secret(key)
        value = None if sensitive else values.get(key)
        yield DescribedConfig(
            name=key,
            value=value,
            source=source,
            type_code=PASSWORD_TYPE_CODE if sensitive else _type_code(getattr(config, name)),
            documentation=type(config).model_fields[name].description or "",
            read_only=True,
            is_sensitive=sensitive,
            synonyms=(ConfigSynonym(key, value, source),),
        )


def _describe_listener_settings(config: BrokerConfig) -> Iterator[DescribedConfig]:
    """Yield the settings of TLS and SASL that hold for all listeners."""
    for key, (_, meaning) in {**tls_settings.DESCRIPTIONS, **sasl_settings.DESCRIPTIONS}.items():
        given = config.listener_values.get(key)
        sensitive = config.is_secret(key)
        value = None if sensitive else given
        source = ConfigSource.DEFAULT if given is None else ConfigSource.STATIC_BROKER
        yield DescribedConfig(
            name=key,
            value=value,
            source=source,
            type_code=PASSWORD_TYPE_CODE if sensitive else CONFIG_TYPE_CODES[ConfigType.STRING],
            documentation=meaning,
            read_only=True,
            is_sensitive=sensitive,
            synonyms=(ConfigSynonym(key, value, source),),
        )


def _describe_process_settings(config: BrokerConfig, settings: BrokerSettings) -> Iterator[DescribedConfig]:
    """Yield what can be changed at run time; of what is kept for Kafka's tools, what somebody has set."""
    fields, models = config.fields_by_key(), type(config).model_fields
    for name, definition in PROCESS_DEFINITIONS.items():
        synonyms = [*settings.values_of(name)]
        if (field_name := fields.get(name)) is not None:
            synonyms.append(ConfigSynonym(name, str(models[field_name].get_default()), ConfigSource.DEFAULT))
        if synonyms:
            yield _described(name, definition, synonyms)
    for name in {**settings.dynamic, **settings.dynamic_default, **config.listener_values}:
        if (limit := listener_limit(name)) is not None:
            given = (
                [ConfigSynonym(name, text, ConfigSource.STATIC_BROKER)]
                if (text := config.listener_values.get(name)) is not None
                else []
            )
            yield _described(name, limit, [*settings.values_of(name), *given])


def _described(name: str, definition: ConfigDefinition, synonyms: Sequence[ConfigSynonym]) -> DescribedConfig:
    """Return a setting whose value is that of the first synonym."""
    return DescribedConfig(
        name=name,
        value=synonyms[0].value,
        source=synonyms[0].source,
        type_code=CONFIG_TYPE_CODES[definition.type],
        documentation=definition.documentation,
        synonyms=tuple(synonyms),
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
        yield _described(name, definition, synonyms)


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
