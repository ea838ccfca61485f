"""The two times of a shard: one for deadlines, one for what is written into records. Pure.

Deadlines of members and rebalances go by `AwakeClock`, whatever the system's clock is set to, and stand still while
members cannot be answered, because a round of the shard takes long to be stored (`hold`).

Records need times that others understand and that outlast this process, and the retention of offsets is counted by
them. They follow the system's clock, but not its leaps: a clock that is set a month ahead must not make every offset
of a week's retention look old. So they go on with the deadlines' time, at most `CATCH_UP_RATE` times as fast while
the system's clock is ahead, and at half the speed while it is behind. A new owner begins at the newest record, as
nobody could have used the shard's groups since. So neither a clock that leaps while nobody looks nor a long outage
costs an offset that was not served for `1 / CATCH_UP_RATE` of its retention.
"""

from ottla_core.clock import Clock
from ottla_group_coordinator.runtime.awake_clock import AwakeClock

CATCH_UP_RATE = 8
SLOW_RATE = 0.5

HOLD_MS_MIN = 500
"""A round that takes less than this to be stored keeps nobody from being heard in time."""


class ShardTime:
    """The times of one ownership of a shard.

    Args:
        awake_clock: the time that this process was awake.
        clock: the system's clock.
    """

    def __init__(self, awake_clock: AwakeClock, clock: Clock) -> None:
        self._awake_clock = awake_clock
        self._clock = clock
        self._held_ms = 0
        self._latest_ms = awake_clock.now_ms()
        self._timestamp_ms = float(clock.time_ms())
        self._timestamp_at_ms = self._latest_ms

    def now_ms(self) -> int:
        """Return the time that deadlines are compared with; it may stand still, and never goes back."""
        self._latest_ms = max(self._latest_ms, self._awake_clock.now_ms() - self._held_ms)
        return self._latest_ms

    def until_ms(self, deadline_ms: int) -> int:
        """Return in how many milliseconds a deadline will be due."""
        return max(0, deadline_ms - (self._awake_clock.now_ms() - self._held_ms))

    def hold(self, duration_ms: int) -> None:
        """Let a stretch of time not count; of what has passed already, or of what is to come."""
        self._held_ms += duration_ms

    def timestamp_ms(self) -> int:
        """Return the time for records, in milliseconds since the epoch; it never goes back."""
        now_ms = self.now_ms()
        passed_ms, self._timestamp_at_ms = now_ms - self._timestamp_at_ms, now_ms
        ahead_ms = self._clock.time_ms() - self._timestamp_ms
        self._timestamp_ms += min(max(ahead_ms, passed_ms * SLOW_RATE), passed_ms * CATCH_UP_RATE)
        return int(self._timestamp_ms)

    def go_on_from(self, newest_ms: int) -> None:
        """Let timestamps go on from that of the newest record."""
        self._timestamp_ms = float(newest_ms)
