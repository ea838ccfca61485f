"""Settings of brokers that hold back the copying of replicas; they exist only at run time.

The rates are bytes per second for one broker. Those of replication hold for the replicas that a topic's
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` name, so that moving some
partitions does not slow down the others. Kafka's tools set all of them for the time of a reassignment.

Source of names, defaults and limits: Kafka's QuotaConfig and DynamicConfig (KIP-73, KIP-113).
"""

from collections.abc import Mapping
from typing import Final

from ottla_core.config_definition import INT64_MAX, ConfigDefinition, ConfigType

LEADER_THROTTLED_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRECTORY_MOVE_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

UNLIMITED: Final = INT64_MAX
EVERY_BROKER: Final = None


def _rate(name: str, documentation: str) -> ConfigDefinition:
    return ConfigDefinition(
        name=name,
        type=ConfigType.LONG,
        minimum=0,
        maximum=INT64_MAX,
        choices=None,
        synonyms=(),
        documentation=documentation,
    )


THROTTLE_DEFINITIONS: Final[Mapping[str, ConfigDefinition]] = {
    definition.name: definition
    for definition in (
        _rate(LEADER_THROTTLED_RATE, "Bytes per second that leaders here send to throttled replicas, all together."),
        _rate(FOLLOWER_THROTTLED_RATE, "Bytes per second that throttled replicas here fetch, all together."),
        _rate(LOG_DIRECTORY_MOVE_RATE, "Bytes per second that are copied between log directories, all together."),
    )
}


def throttle_rate(name: str, broker_id: int, broker_configs: Mapping[int | None, Mapping[str, str]]) -> int:
    """Return a rate in bytes per second, `UNLIMITED` if nobody set one.

    Args:
        name: the setting.
        broker_id: the broker it is to hold for.
        broker_configs: `ClusterState.broker_configs`; a broker's own setting comes before that of all brokers.
    """
    for owner in (broker_id, EVERY_BROKER):
        text = broker_configs.get(owner, {}).get(name)
        if text is not None:
            return int(text)
    return UNLIMITED
