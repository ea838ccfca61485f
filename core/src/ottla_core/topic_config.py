"""The settings of a topic: Kafka's names, defaults, limits, and the broker setting each falls back to. Pure.

`TopicConfig` is the one list of them. A topic stores only what somebody set (its overrides); everything else
comes from the broker's own settings, whose names differ for historic reasons (`retention.ms` falls back to
`log.retention.ms`, then `.minutes`, then `.hours`). `parse_topic_configs` turns both into typed values.

Source of names, defaults and limits: Kafka's LogConfig, TopicConfig and ServerTopicConfigSynonyms (4.x).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ottla_core.config_definition import INT32_MAX, INT64_MAX, BrokerSynonym, ConfigDefinition, ConfigType
from ottla_core.errors import InvalidConfig

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


def _setting(
    default: object,
    type_: ConfigType,
    documentation: str,
    *synonyms: str | BrokerSynonym,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    pattern: str | None = None,
    form: str = "",
) -> Any:
    """Return a dataclass field that carries its definition; `Any`, as the annotation beside it decides."""
    return field(
        default=default,
        metadata={
            "type": type_,
            "documentation": documentation,
            "synonyms": tuple(BrokerSynonym(name) if isinstance(name, str) else name for name in synonyms),
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
            "pattern": pattern,
            "form": form,
        },
    )


def _replicas(documentation: str) -> Any:
    """Return a field that lists replicas, each by its partition and broker."""
    return _setting(
        frozenset(),
        LIST,
        documentation,
        pattern="[0-9]+:[0-9]+",
        form="a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = ConfigType


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """All settings of one topic, typed; a field's name is Kafka's with `_` for `.`; defaults are Kafka's."""

    cleanup_policy: frozenset[str] = _setting(
        frozenset({"delete"}),
        LIST,
        "Whether old segments are deleted, compacted to the last value per key, or both.",
        "log.cleanup.policy",
        choices=("compact", "delete"),
    )
    compression_type: str = _setting(
        "producer",
        STRING,
        "Codec of stored batches; 'producer' keeps what arrives.",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    compression_gzip_level: int = _setting(
        -1, INT, "Level when compression.type is gzip; -1 is the codec's default.", minimum=-1, maximum=9
    )
    compression_lz4_level: int = _setting(9, INT, "Level when compression.type is lz4.", minimum=1, maximum=17)
    compression_zstd_level: int = _setting(
        3, INT, "Level when compression.type is zstd.", minimum=-131072, maximum=22
    )
    delete_retention_ms: int = _setting(
        24 * HOUR_MS,
        LONG,
        "Milliseconds for which a tombstone stays after the compaction that applied it.",
        "log.cleaner.delete.retention.ms",
        minimum=0,
    )
    file_delete_delay_ms: int = _setting(
        MINUTE_MS,
        LONG,
        "Milliseconds between a segment's removal from the log and from the disk.",
        "log.segment.delete.delay.ms",
        minimum=0,
    )
    flush_messages: int = _setting(
        INT64_MAX,
        LONG,
        "Number of records after which the log is fsynced; at 1 an acknowledgement means fsynced.",
        "log.flush.interval.messages",
        minimum=1,
    )
    flush_ms: int = _setting(
        INT64_MAX,
        LONG,
        "Milliseconds after which appended records are fsynced.",
        "log.flush.interval.ms",
        minimum=0,
    )
    follower_replication_throttled_replicas: frozenset[str] = _replicas(
        "Followers, as partition:broker, whose fetching is held to follower.replication.throttled.rate; '*' for all."
    )
    index_interval_bytes: int = _setting(
        4096,
        INT,
        "Bytes of log between two entries of the offset index.",
        "log.index.interval.bytes",
        minimum=0,
    )
    leader_replication_throttled_replicas: frozenset[str] = _replicas(
        "Leaders, as partition:broker, whose followers are held to leader.replication.throttled.rate; '*' for all."
    )
    max_compaction_lag_ms: int = _setting(
        INT64_MAX,
        LONG,
        "Milliseconds after which a record of a compacted topic is compacted even if little else is dirty.",
        "log.cleaner.max.compaction.lag.ms",
        minimum=1,
    )
    max_message_bytes: int = _setting(
        1024 * 1024 + 12,
        INT,
        "Largest record batch, compressed as sent, in bytes.",
        "message.max.bytes",
        minimum=0,
        maximum=INT32_MAX,
    )
    message_timestamp_after_max_ms: int = _setting(
        HOUR_MS,
        LONG,
        "Milliseconds by which a record's timestamp may lie ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
        minimum=0,
    )
    message_timestamp_before_max_ms: int = _setting(
        INT64_MAX,
        LONG,
        "Milliseconds by which a record's timestamp may lie behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
        minimum=0,
    )
    message_timestamp_type: str = _setting(
        "CreateTime",
        STRING,
        "Whether a record's timestamp is the producer's or the time of the append.",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    )
    min_cleanable_dirty_ratio: float = _setting(
        0.5,
        DOUBLE,
        "Share of a compacted log that must be dirty before it is compacted again.",
        "log.cleaner.min.cleanable.ratio",
        minimum=0,
        maximum=1,
    )
    min_compaction_lag_ms: int = _setting(
        0,
        LONG,
        "Milliseconds for which a record stays uncompacted.",
        "log.cleaner.min.compaction.lag.ms",
        minimum=0,
    )
    min_insync_replicas: int = _setting(
        1,
        INT,
        "In-sync replicas that must hold a record before acks=all is answered.",
        "min.insync.replicas",
        minimum=1,
        maximum=INT32_MAX,
    )
    preallocate: bool = _setting(
        False, BOOLEAN, "Accepted for compatibility; segments grow as they are written.", "log.preallocate"
    )
    retention_bytes: int = _setting(
        -1,
        LONG,
        "Bytes above which a partition's oldest segments are deleted; negative: no limit.",
        "log.retention.bytes",
    )
    retention_ms: int = _setting(
        7 * 24 * HOUR_MS,
        LONG,
        "Milliseconds after which a segment is deleted; -1: never.",
        "log.retention.ms",
        BrokerSynonym("log.retention.minutes", MINUTE_MS),
        BrokerSynonym("log.retention.hours", HOUR_MS),
        minimum=-1,
    )
    segment_bytes: int = _setting(
        1024 * 1024 * 1024,
        INT,
        "Bytes at which a segment is closed and a new one begun.",
        "log.segment.bytes",
        minimum=14,
        maximum=INT32_MAX,
    )
    segment_index_bytes: int = _setting(
        10 * 1024 * 1024,
        INT,
        "Largest size of a segment's offset or time index, in bytes.",
        "log.index.size.max.bytes",
        minimum=4,
        maximum=INT32_MAX,
    )
    segment_jitter_ms: int = _setting(
        0,
        LONG,
        "Up to how many milliseconds earlier than segment.ms a segment is closed, drawn per segment.",
        "log.roll.jitter.ms",
        BrokerSynonym("log.roll.jitter.hours", HOUR_MS),
        minimum=0,
    )
    segment_ms: int = _setting(
        7 * 24 * HOUR_MS,
        LONG,
        "Milliseconds after which a segment is closed even if it is not full.",
        "log.roll.ms",
        BrokerSynonym("log.roll.hours", HOUR_MS),
        minimum=1,
    )
    unclean_leader_election_enable: bool = _setting(
        False,
        BOOLEAN,
        "Whether a replica outside the in-sync set may lead when no other is left; loses records.",
        "unclean.leader.election.enable",
    )


def _definition(name: str, metadata: Mapping[str, Any]) -> ConfigDefinition:
    return ConfigDefinition(
        name=name,
        type=metadata["type"],
        minimum=metadata["minimum"],
        maximum=metadata["maximum"],
        choices=metadata["choices"],
        synonyms=metadata["synonyms"],
        documentation=metadata["documentation"],
        pattern=metadata["pattern"],
        form=metadata["form"],
    )


TOPIC_CONFIG_DEFINITIONS: Mapping[str, ConfigDefinition] = {
    definition.name: definition
    for definition in (_definition(f.name.replace("_", "."), f.metadata) for f in fields(TopicConfig))
}


def definition_of(name: str) -> ConfigDefinition:
    """Return the definition of a topic setting.

    Raises:
        InvalidConfig: there is no such setting.
    """
    try:
        return TOPIC_CONFIG_DEFINITIONS[name]
    except KeyError:
        raise InvalidConfig(f"Unknown topic config name: {name}") from None


def parse_topic_configs(overrides: Mapping[str, str], defaults: TopicConfig | None = None) -> TopicConfig:
    """Return `defaults` with a topic's own settings put over them.

    Raises:
        InvalidConfig: names every unknown setting and every bad value, one after the other.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        try:
            definition = definition_of(name)
            values[definition.attribute] = definition.parse(text)
        except InvalidConfig as error:
            problems.append(error.message)
    if problems:
        raise InvalidConfig("; ".join(problems))
    config = replace(defaults or TopicConfig(), **values)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    return config


def topic_defaults(broker_settings: Mapping[str, str]) -> TopicConfig:
    """Return the settings of a topic without overrides on a broker with these settings, by Kafka's names.

    Raises:
        InvalidConfig: names every bad value.
    """
    overrides: dict[str, str] = {}
    problems: list[str] = []
    for definition in TOPIC_CONFIG_DEFINITIONS.values():
        for synonym in definition.synonyms:
            if (text := broker_settings.get(synonym.name)) is None:
                continue
            try:
                overrides[definition.name] = _converted(definition, synonym, text)
            except InvalidConfig as error:
                problems.append(error.message)
            break
    if problems:
        raise InvalidConfig("; ".join(problems))
    return parse_topic_configs(overrides)


def _converted(definition: ConfigDefinition, synonym: BrokerSynonym, text: str) -> str:
    try:
        converted = text if synonym.factor == 1 else str(_scaled(int(text), synonym.factor))
        definition.parse(converted)
    except (ValueError, InvalidConfig) as error:
        reason = error.message.rpartition(": ")[2] if isinstance(error, InvalidConfig) else "not a number"
        raise InvalidConfig(f"Invalid value {text} for configuration {synonym.name}: {reason}") from None
    return converted


def _scaled(value: int, factor: int) -> int:
    """Return the value in milliseconds; -1 keeps its meaning of "no limit"."""
    return value if value < 0 else value * factor
