"""Which settings of a topic in the source a linked topic has as well. Pure.

Those that say what the log holds, and for how long, are followed: after a promotion the topic is used as it was.
What says how it is replicated, flushed and throttled is each cluster's own. A setting that the source's topic does
not have itself, but from its broker, is left to the defaults here.
"""

from collections.abc import Mapping
from typing import Final

from ottla_core.described_settings import TOPIC_CONFIG, TopicSetting

FOLLOWED: Final = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
    }
)


def followed_settings(source: Mapping[str, TopicSetting]) -> dict[str, str]:
    """Return which of the followed settings a topic in the source has itself."""
    return {
        name: setting.value
        for name, setting in source.items()
        if name in FOLLOWED and setting.source == TOPIC_CONFIG and setting.value is not None
    }


def with_followed(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Return a linked topic's settings as they shall be: followed ones as in the source, the others as they are."""
    own = {name: value for name, value in present.items() if name not in FOLLOWED}
    return own | {name: value for name, value in wanted.items() if name in FOLLOWED}
