"""The loggers of a broker, and changes of their levels while it runs (KIP-412); a test compares the names.

Levels are this process's alone: they are not stored, and a restarted broker begins with `log.level`. Rules and
messages are Kafka's (ConfigAdminManager, LoggingController).
"""

from collections.abc import Iterable
from typing import Final

from ottla_broker.described_configs import CONFIG_TYPE_CODES, ConfigSource, DescribedConfig
from ottla_core.cluster.controller_rpc.controller_api import ConfigChange, ConfigOperation
from ottla_core.config_definition import ConfigType
from ottla_core.errors import InvalidConfig, InvalidRequest
from ottla_core.observe.log_levels import LEVEL_NUMBERS, LEVELS, ROOT, LogLevels

LOGGERS: Final = frozenset(
    {
        "asyncio",
        "audit",
        "authorizer",
        "background",
        "broker",
        "client metrics",
        "cluster copies",
        "cluster state",
        "connection",
        "election",
        "etcd",
        "groups",
        "lease",
        "links",
        "listener",
        "log",
        "log.background",
        "log.compaction",
        "log.directory",
        "log.duties",
        "log.loading",
        "log.moves",
        "log.recovery",
        "log.store",
        "membership",
        "metrics",
        "partitions",
        "produce",
        "producer-ids",
        "replication",
        "sasl",
        "rpc",
        "stop",
        "tls",
        "tokens",
        "transactions",
    }
)


def check_broker_id(name: str, broker_id: int) -> None:
    """See that a request about loggers is for this broker.

    Raises:
        InvalidRequest: it is for another one, or for all.
    """
    if name != str(broker_id):
        raise InvalidRequest(f"Unexpected broker id, expected {broker_id} but received {name!r}: ask that broker")


def describe_loggers(levels: LogLevels = LEVELS) -> list[DescribedConfig]:
    """Return the level of every logger."""
    return [
        DescribedConfig(
            name=name,
            value=levels.level_of(name),
            source=ConfigSource.BROKER_LOGGER,
            type_code=CONFIG_TYPE_CODES[ConfigType.STRING],
            documentation="Least severe level that this logger shows.",
        )
        for name in sorted({ROOT, *LOGGERS})
    ]


def check_level_changes(changes: Iterable[ConfigChange]) -> None:
    """See that changes of levels can be made.

    Raises:
        InvalidConfig: there is no such logger or level.
        InvalidRequest: the operation makes no sense for loggers.
    """
    for change in changes:
        if change.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise InvalidRequest(f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource")
        if change.name not in LOGGERS and change.name != ROOT:
            raise InvalidConfig(f"Logger {change.name} does not exist!")
        if change.operation is ConfigOperation.SET and change.value not in LEVEL_NUMBERS:
            raise InvalidConfig(
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level."
                f" Valid log levels are {', '.join(LEVEL_NUMBERS)}"
            )
        if change.operation is ConfigOperation.DELETE and change.name == ROOT:
            raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")


def change_levels(changes: Iterable[ConfigChange], levels: LogLevels = LEVELS) -> None:
    """Make changes that `check_level_changes` has let pass."""
    for change in changes:
        levels.set(change.name, change.value if change.operation is ConfigOperation.SET else None)
