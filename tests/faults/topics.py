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
LOAD_TOPICS = (
    LoadTopic("fruit", Keeps.EVERYTHING, {}),
    LoadTopic("metal", Keeps.EVERYTHING, {}),
    LoadTopic("recent", Keeps.NEWEST, {"segment.bytes": str(128 * 1024), "retention.bytes": str(RETENTION_BYTES)}),
    LoadTopic(
        "table",
        Keeps.LAST_VALUES,
        {"cleanup.policy": "compact", "segment.bytes": str(128 * 1024), "min.cleanable.dirty.ratio": "0.01"},
    ),
)
UNSURE_TOPIC = LoadTopic("unsure", Keeps.NOTHING_SURE, {})
JAVA_TOPIC = LoadTopic("java", Keeps.EVERYTHING, {})
ALL_TOPICS = (*LOAD_TOPICS, UNSURE_TOPIC, JAVA_TOPIC)
KEEPS = {topic.name: topic.keeps for topic in ALL_TOPICS}


def names_of(keeps: Keeps) -> list[str]:
    """The topics that keep this."""
    return [topic.name for topic in ALL_TOPICS if topic.keeps is keeps]
