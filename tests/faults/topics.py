"""The topics of a trial's load: what each of them has to keep, and with which settings. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

PARTITIONS = 3
GROUP_LOAD_TOPIC = "for-groups"
GROUP_TOPIC = "__consumer_offsets"


class Keeps(StrEnum):
    """What a cluster promises to keep of the acknowledged records of a topic."""

    EVERYTHING = "everything"
    NEWEST = "newest"
    """The newest, as many bytes as `retention.bytes` says."""
    LAST_VALUES = "last values"
    """The last one of each key."""
    NOTHING_SURE = "nothing sure"
    """What is acknowledged by one replica may be lost when another one leads, and what is led outside the in-sync
    set; that is counted."""


class LoadTopic(NamedTuple):
    """One topic."""

    name: str
    keeps: Keeps
    configs: Mapping[str, str]


FOR_EVER = str((1 << 63) - 1)
COMMON_CONFIGS = {
    "segment.bytes": str(256 * 1024),
    "retention.ms": "-1",
    # A broker whose clock is behind takes these for the future; it has to take them all the same.
    "message.timestamp.after.max.ms": FOR_EVER,
}
RETENTION_BYTES = 512 * 1024
FORGETFUL = {"segment.bytes": str(128 * 1024), "retention.bytes": str(RETENTION_BYTES)}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(128 * 1024), "min.cleanable.dirty.ratio": "0.01"}
FRUIT = LoadTopic("fruit", Keeps.EVERYTHING, {})
METAL = LoadTopic("metal", Keeps.EVERYTHING, {})
RECENT = LoadTopic("recent", Keeps.NEWEST, FORGETFUL)
TABLE = LoadTopic("table", Keeps.LAST_VALUES, COMPACTED)
LOAD_TOPICS = (FRUIT, METAL, RECENT, TABLE)
UNSURE_TOPIC = LoadTopic("unsure", Keeps.NOTHING_SURE, {})
JAVA_TOPIC = LoadTopic("java", Keeps.EVERYTHING, {})
ALL_TOPICS = (*LOAD_TOPICS, UNSURE_TOPIC, JAVA_TOPIC)
SOURCE, TARGET = "west", "east"
"""The clusters of a trial of mirrors."""
COPIED_TOPICS = (FRUIT, RECENT, TABLE)
"""Those of the load that mirror workers copy."""
LINKED_TOPICS = (
    METAL,
    LoadTopic("linked-recent", Keeps.NEWEST, FORGETFUL),
    LoadTopic("linked-table", Keeps.LAST_VALUES, COMPACTED),
)
"""Those of the load that the target's leaders follow."""

LEDGER = LoadTopic("ledger", Keeps.EVERYTHING, {})
LINKED_LEDGER = LoadTopic("linked-ledger", Keeps.EVERYTHING, {})
LEDGERS = (LEDGER, LINKED_LEDGER)
"""Those that are written in transactions: mirror workers copy the first, the target's leaders follow the other."""


def copy_name(topic: str) -> str:
    """What mirror workers call the copy of a topic."""
    return f"{SOURCE}.{topic}"


KEEPS = {topic.name: topic.keeps for topic in (*ALL_TOPICS, *LINKED_TOPICS)}
KEEPS |= {copy_name(topic.name): topic.keeps for topic in COPIED_TOPICS}


def names_of(keeps: Keeps) -> list[str]:
    """The topics that keep this."""
    return [topic.name for topic in ALL_TOPICS if topic.keeps is keeps]
