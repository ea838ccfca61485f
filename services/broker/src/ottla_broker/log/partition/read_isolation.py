"""How far into a log somebody may read; Kafka's FetchIsolation. Pure."""

from enum import Enum

READ_COMMITTED = 1
"""What requests say in `isolation_level` for read_committed; read_uncommitted is 0."""


class ReadIsolation(Enum):
    """What a read stops at."""

    LOG_END = "log end"
    """Followers read everything, and those who look into a log for its own sake."""

    HIGH_WATERMARK = "high watermark"
    """Consumers read what is replicated (read_uncommitted)."""

    LAST_STABLE_OFFSET = "last stable offset"
    """Consumers of committed records read what is replicated and before any open transaction (read_committed)."""


def isolation_of(*, is_replica: bool, read_committed: bool) -> ReadIsolation:
    """Return how far a reader may read: a replica, or a consumer by its `isolation.level`."""
    if is_replica:
        return ReadIsolation.LOG_END
    return ReadIsolation.LAST_STABLE_OFFSET if read_committed else ReadIsolation.HIGH_WATERMARK
