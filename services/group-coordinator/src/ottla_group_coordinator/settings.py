"""What the rules of groups depend on, as plain values; `config.py` reads them. Names and defaults are Kafka's.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_core.group_config import ConsumerGroupLimits, heartbeat_interval_ms, session_timeout_ms

INT32_MAX = 2**31 - 1
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Settings of all groups of a coordinator.

    Attributes:
        min_session_timeout_ms: shortest session timeout that a member of a classic group may ask for.
        max_session_timeout_ms: longest such.
        initial_rebalance_delay_ms: how long an empty group waits for further members before its first assignment.
        new_member_join_timeout_ms: how long a member that joined a rebalance in a long pause is kept without a
            heartbeat (five minutes in Kafka, not configurable there).
        group_max_size: most members of a classic group.
        consumer_session_timeout_ms: session timeout of members of the consumer protocol (KIP-848).
        consumer_min_session_timeout_ms: shortest that a single group may be given.
        consumer_max_session_timeout_ms: longest such.
        consumer_heartbeat_interval_ms: how often these members heartbeat.
        consumer_min_heartbeat_interval_ms: shortest interval that a single group may be given.
        consumer_max_heartbeat_interval_ms: longest such.
        consumer_group_max_size: most members of a group of the consumer protocol.
        consumer_assignors: names of the server-side assignors, the default first.
        consumer_migration_policy: ``bidirectional``, ``upgrade``, ``downgrade`` or ``disabled``.
        consumer_regex_refresh_ms: how old a resolved regular expression may become.
        offset_metadata_max_bytes: longest text beside a committed offset, in bytes.
        offsets_retention_ms: how long offsets are kept after a group has become empty or stopped committing.
        offsets_retention_check_ms: how often they are looked through.
        batch_bytes_max: what one turn may write; the `max.message.bytes` of the topic that keeps the groups.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 30 * MINUTE_MS
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
    group_max_size: int = INT32_MAX
    consumer_session_timeout_ms: int = 45_000
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_group_max_size: int = INT32_MAX
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_ms: int = 10 * MINUTE_MS
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_ms: int = 10 * MINUTE_MS
    batch_bytes_max: int = 1024 * 1024

    def session_timeout_ms_of(self, own: Mapping[str, str] | None) -> int:
        """Return the session timeout of a group of the consumer protocol that has settings of its own, or none."""
        return self.consumer_session_timeout_ms if own is None else session_timeout_ms(own, self._consumer_limits())

    def heartbeat_interval_ms_of(self, own: Mapping[str, str] | None) -> int:
        """Return how often the members of such a group heartbeat."""
        if own is None:
            return self.consumer_heartbeat_interval_ms
        return heartbeat_interval_ms(own, self._consumer_limits())

    def _consumer_limits(self) -> ConsumerGroupLimits:
        return ConsumerGroupLimits(
            session_timeout_ms=self.consumer_session_timeout_ms,
            session_timeout_ms_min=self.consumer_min_session_timeout_ms,
            session_timeout_ms_max=self.consumer_max_session_timeout_ms,
            heartbeat_interval_ms=self.consumer_heartbeat_interval_ms,
            heartbeat_interval_ms_min=self.consumer_min_heartbeat_interval_ms,
            heartbeat_interval_ms_max=self.consumer_max_heartbeat_interval_ms,
        )
