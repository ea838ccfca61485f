"""The settings that a single group can have: Kafka's names, limits and defaults. Pure.

Those of the consumer protocol (KIP-848) take effect in the coordinator that owns the group's shard, within limits
that hold for all groups (`ConsumerGroupLimits`). Those of share and streams groups are checked and kept, for
the day when there are such groups.

Source: Kafka's GroupConfig and GroupCoordinatorConfig (4.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla_core.config_definition import INT32_MAX, ConfigDefinition, ConfigType
from ottla_core.errors import InvalidConfig

CONSUMER_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
BROKER_SYNONYMS: Final[Mapping[str, str]] = {
    CONSUMER_SESSION_TIMEOUT: "group.consumer.session.timeout.ms",
    CONSUMER_HEARTBEAT_INTERVAL: "group.consumer.heartbeat.interval.ms",
}
"""The setting of all groups that a group's own falls back to."""
KEPT: Final = "Kept for Kafka's tools; there are no such groups here yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupLimits:
    """What holds for all groups of the consumer protocol, in milliseconds; minima and maxima bind single groups."""

    session_timeout_ms: int = 45_000
    session_timeout_ms_min: int = 45_000
    session_timeout_ms_max: int = 60_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_ms_min: int = 5_000
    heartbeat_interval_ms_max: int = 15_000


class GroupConfigDefinition(NamedTuple):
    """One setting of a group with its default."""

    definition: ConfigDefinition
    default: str


def _setting(
    name: str,
    default: str,
    documentation: str,
    *,
    minimum: int | None = 1,
    choices: tuple[str, ...] | None = None,
    type_: ConfigType = ConfigType.INT,
) -> GroupConfigDefinition:
    is_number = type_ is ConfigType.INT
    definition = ConfigDefinition(
        name=name,
        type=type_,
        minimum=minimum if is_number else None,
        maximum=INT32_MAX if is_number else None,
        choices=choices,
        synonyms=(),
        documentation=documentation,
    )
    return GroupConfigDefinition(definition, default)


GROUP_CONFIG_DEFINITIONS: Final[Mapping[str, GroupConfigDefinition]] = {
    each.definition.name: each
    for each in (
        _setting(
            CONSUMER_SESSION_TIMEOUT,
            "45000",
            "Milliseconds without a heartbeat after which a member of the consumer protocol is removed.",
        ),
        _setting(
            CONSUMER_HEARTBEAT_INTERVAL,
            "5000",
            "Milliseconds between heartbeats of members of the consumer protocol.",
        ),
        _setting("share.auto.offset.reset", "latest", KEPT, type_=ConfigType.STRING),
        _setting("share.heartbeat.interval.ms", "5000", KEPT),
        _setting(
            "share.isolation.level",
            "read_uncommitted",
            KEPT,
            type_=ConfigType.STRING,
            choices=("read_committed", "read_uncommitted"),
        ),
        _setting("share.record.lock.duration.ms", "30000", KEPT, minimum=1000),
        _setting("share.session.timeout.ms", "45000", KEPT),
        _setting("streams.heartbeat.interval.ms", "5000", KEPT),
        _setting("streams.initial.rebalance.delay.ms", "3000", KEPT, minimum=0),
        _setting("streams.num.standby.replicas", "0", KEPT, minimum=0),
        _setting("streams.session.timeout.ms", "45000", KEPT),
    )
}


def group_definition(name: str) -> ConfigDefinition:
    """Return the definition of a group's setting.

    Raises:
        InvalidConfig: there is no such setting.
    """
    try:
        return GROUP_CONFIG_DEFINITIONS[name].definition
    except KeyError:
        raise InvalidConfig(f"Unknown group config name: {name}") from None


def check_group_configs(configs: Mapping[str, str], limits: ConsumerGroupLimits) -> None:
    """See that a group's settings are readable and within the limits.

    Raises:
        InvalidConfig: they are not; the message names the setting and the limit.
    """
    for name, text in configs.items():
        group_definition(name).parse(text)
    session_ms = int(configs.get(CONSUMER_SESSION_TIMEOUT, limits.session_timeout_ms))
    interval_ms = int(configs.get(CONSUMER_HEARTBEAT_INTERVAL, limits.heartbeat_interval_ms))
    sessions = (limits.session_timeout_ms_min, limits.session_timeout_ms_max)
    intervals = (limits.heartbeat_interval_ms_min, limits.heartbeat_interval_ms_max)
    sessions = (limits.session_timeout_ms_min, limits.session_timeout_ms_max)
    intervals = (limits.heartbeat_interval_ms_min, limits.heartbeat_interval_ms_max)
    bounds = (
        (CONSUMER_SESSION_TIMEOUT, session_ms, *sessions),
        (CONSUMER_HEARTBEAT_INTERVAL, interval_ms, *intervals),
    )
    for name, value, least, most in bounds:
        if name not in configs:
            continue
        kind = name.removeprefix("consumer.")
        if value < least:
            raise InvalidConfig(f"{name} must be greater than or equal to group.consumer.min.{kind} ({least})")
        if value > most:
            raise InvalidConfig(f"{name} must be less than or equal to group.consumer.max.{kind} ({most})")
    if session_ms <= interval_ms:
        raise InvalidConfig(
            f"{CONSUMER_SESSION_TIMEOUT} ({session_ms}) must be greater than"
            f" {CONSUMER_HEARTBEAT_INTERVAL} ({interval_ms})"
        )


def session_timeout_ms(configs: Mapping[str, str] | None, limits: ConsumerGroupLimits) -> int:
    """Return the session timeout of a group with these settings of its own.

    A value that was stored under other limits is brought within the present ones.
    """
    text = None if configs is None else configs.get(CONSUMER_SESSION_TIMEOUT)
    if text is None:
        return limits.session_timeout_ms
    return min(max(int(text), limits.session_timeout_ms_min), limits.session_timeout_ms_max)


def heartbeat_interval_ms(configs: Mapping[str, str] | None, limits: ConsumerGroupLimits) -> int:
    """Return how often the members of a group with these settings of its own are to heartbeat; limited likewise."""
    text = None if configs is None else configs.get(CONSUMER_HEARTBEAT_INTERVAL)
    if text is None:
        return limits.heartbeat_interval_ms
    return min(max(int(text), limits.heartbeat_interval_ms_min), limits.heartbeat_interval_ms_max)
