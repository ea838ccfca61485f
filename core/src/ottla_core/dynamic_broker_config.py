"""Settings of brokers' processes that change at run time, for one broker or for all. Pure.

Of those that Kafka can change there are three kinds. `APPLIED` take effect in the running broker. Those in `AT_START`
are stored, and a broker goes by them when it is started. What has no meaning here (`KEPT`) is stored and shown, so
that Kafka's tools and scripts go on: the controller notes in its log that nothing follows from it.
`principal.builder.class` cannot be changed at run time here. The defaults of
topics' settings and the throttles of replication have files of their own.

Source: Kafka's DynamicBrokerConfig.AllDynamicConfigs (4.2).
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from ottla_core.config_definition import INT32_MAX, INT64_MAX, ConfigDefinition, ConfigType
from ottla_core.errors import InvalidConfig
from ottla_core.plain_address import plain_address

MAX_CONNECTIONS: Final = "max.connections"
CREATION_RATE: Final = "max.connection.creation.rate"
LISTENER_LIMIT: Final = re.compile(
    rf"listener\.name\.([^.]+)\.({re.escape(MAX_CONNECTIONS)}|{re.escape(CREATION_RATE)})"
)
"""Limits that a listener may have of its own, its name in lower case; they take effect in the running broker."""
OVERRIDES: Final = "max.connections.per.ip.overrides"
NOTHING_FOLLOWS: Final = "Kept for Kafka's tools; nothing follows from it."
DEDUPE_BUFFER_BYTES_MIN: Final = 1024 * 1024


def _number(
    name: str,
    documentation: str,
    *,
    minimum: float,
    maximum: float = INT32_MAX,
    type_: ConfigType = ConfigType.INT,
) -> ConfigDefinition:
    return ConfigDefinition(
        name=name,
        type=type_,
        minimum=minimum,
        maximum=maximum,
        choices=None,
        synonyms=(),
        documentation=documentation,
    )


def _text(name: str, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(
        name=name,
        type=ConfigType.STRING,
        minimum=None,
        maximum=None,
        choices=None,
        synonyms=(),
        documentation=documentation,
    )


def _by_name(*definitions: ConfigDefinition) -> Mapping[str, ConfigDefinition]:
    return {definition.name: definition for definition in definitions}


APPLIED: Final = _by_name(
    _number(MAX_CONNECTIONS, "Client connections at once.", minimum=1),
    _number("max.connections.per.ip", "Connections at once from one address.", minimum=1),
    _text(OVERRIDES, "Connections at once from addresses that are named: ADDRESS:COUNT, separated by commas."),
    _number(CREATION_RATE, "Connections that are accepted per second.", minimum=1),
    _number("log.cleaner.threads", "Logs that are compacted at once, each by a process of its own.", minimum=1),
    _number(
        "log.cleaner.dedupe.buffer.size",
        "Bytes for the keys of the logs that are being compacted, over all processes.",
        minimum=DEDUPE_BUFFER_BYTES_MIN,
        maximum=INT64_MAX,
        type_=ConfigType.LONG,
    ),
    _number(
        "log.cleaner.io.buffer.load.factor",
        "Share of the bytes for keys that may be in use.",
        minimum=sys.float_info.min,
        maximum=1.0,
        type_=ConfigType.DOUBLE,
    ),
    _number("log.cleaner.io.buffer.size", "Bytes read and written at a time in compaction.", minimum=0),
    _number(
        "log.cleaner.io.max.bytes.per.second",
        "Bytes per second that compaction reads and writes at most, over all processes.",
        minimum=sys.float_info.min,
        maximum=sys.float_info.max,
        type_=ConfigType.DOUBLE,
    ),
    _number(
        "log.cleaner.backoff.ms",
        "Milliseconds until logs are looked at again when there was none to compact.",
        minimum=0,
        maximum=INT64_MAX,
        type_=ConfigType.LONG,
    ),
)
AT_START: Final = _by_name(
    _number("num.replica.fetchers", "Connections over which this broker fetches from each leader.", minimum=1),
    _number("num.recovery.threads.per.data.dir", "Threads per log directory that open and recover logs.", minimum=1),
    _number("producer.id.expiration.ms", "Milliseconds after which a silent producer is forgotten.", minimum=1),
)
_KEPT_NUMBERS = ("background.threads", "num.io.threads", "num.network.threads")
_KEPT_TEXTS = (
    "config.providers",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "metric.reporters",
    "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
    "transaction.partition.verification.enable",
)
KEPT: Final = _by_name(
    *(_number(name, NOTHING_FOLLOWS, minimum=1) for name in _KEPT_NUMBERS),
    *(_text(name, NOTHING_FOLLOWS) for name in _KEPT_TEXTS),
)
PROCESS_DEFINITIONS: Final[Mapping[str, ConfigDefinition]] = {**APPLIED, **AT_START, **KEPT}


def listener_limit(name: str) -> ConfigDefinition | None:
    """Return what a setting is that begins with `listener.name.`, if it is a limit of a listener's connections."""
    found = LISTENER_LIMIT.fullmatch(name)
    if found is None:
        return None
    listener, limit = found.groups()
    return replace(APPLIED[limit], name=name, documentation=f"{limit} of the listener {listener.upper()}.")


def listener_limit_problem(name: str) -> str | None:
    """Return why a limit of a listener would hold for none, as a sentence; None if it may hold for one."""
    if listener_limit(name) is None or name == name.lower():
        return None
    return f"{name}: write the name of a listener in lower case in its settings, {name.lower()}"


def process_definition(name: str) -> ConfigDefinition | None:
    """Return what can be changed at run time under a name, None if nothing can."""
    return PROCESS_DEFINITIONS.get(name) or listener_limit(name)


def is_applied(name: str) -> bool:
    """Return whether a setting takes effect in the running broker."""
    return name in APPLIED or listener_limit(name) is not None


def address_limits(text: str) -> Mapping[str, int]:
    """Return the limits that `max.connections.per.ip.overrides` gives addresses.

    Raises:
        InvalidConfig: it is not ADDRESS:COUNT, separated by commas.
    """
    limits: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = item.rpartition(":")
        try:
            limits[plain_address(str(ip_address(address.strip("[]"))))] = limit = int(count)
        except ValueError:
            limit = -1
        if limit < 0:
            raise InvalidConfig(
                f"{OVERRIDES}: {item!r} is not ADDRESS:COUNT with a count of 0 or more; name addresses, not hosts"
            )
    return limits


def check_process_configs(configs: Mapping[str, str]) -> None:
    """See that what a broker's process, or every one, is told at run time is readable and goes together.

    Raises:
        InvalidConfig: it is not, or does not.
    """
    for name, text in configs.items():
        if problem := listener_limit_problem(name):
            raise InvalidConfig(problem)
        if (definition := process_definition(name)) is not None:
            definition.parse(text)
    address_limits(configs.get(OVERRIDES, ""))
    if "log.cleaner.threads" in configs and "log.cleaner.dedupe.buffer.size" in configs:
        share_bytes = int(configs["log.cleaner.dedupe.buffer.size"]) // int(configs["log.cleaner.threads"])
        if share_bytes < DEDUPE_BUFFER_BYTES_MIN:
            raise InvalidConfig(
                f"log.cleaner.dedupe.buffer.size leaves {share_bytes} bytes for each of log.cleaner.threads;"
                f" it must be at least {DEDUPE_BUFFER_BYTES_MIN}"
            )
