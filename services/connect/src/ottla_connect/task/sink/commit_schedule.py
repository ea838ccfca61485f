"""When a sink task's offsets are committed: at intervals, and when the task asks; one commit at a time. Pure."""

FIRST_INTERVAL_S = 1.0
"""The first commit comes soon after the first records, for users who look where a new connector is."""


class CommitSchedule:
    """Knows when the next commit is due, and whether one is under way.

    Args:
        interval_s: seconds between commits.
        timeout_s: seconds after which a commit under way is given up.
        now_s: the time, by a monotonic clock.
    """

    def __init__(self, *, interval_s: float, timeout_s: float, now_s: float) -> None:
        self.timeout_s = timeout_s
        self._interval_s = interval_s
        self._due_s = now_s + min(FIRST_INTERVAL_S, interval_s)
        self._asked = False
        self._has_begun = False
        self._under_way_since_s: float | None = None

    def ask(self) -> None:
        """Have a commit soon."""
        self._asked = True

    def give_up_late(self, now_s: float) -> bool:
        """Return whether the commit under way has taken too long; if so, it is under way no longer."""
        if self._under_way_since_s is None or now_s < self._under_way_since_s + self.timeout_s:
            return False
        self._under_way_since_s = None
        return True

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time to commit, and no commit is under way."""
        return self._under_way_since_s is None and (self._asked or now_s >= self._due_s)

    def begin(self, now_s: float, *, has_offsets: bool) -> None:
        """A commit begins; intervals are the usual ones once there is something to commit."""
        self._asked = False
        self._has_begun |= has_offsets
        self._due_s = now_s + (self._interval_s if self._has_begun else min(FIRST_INTERVAL_S, self._interval_s))

    def sent(self, began_s: float) -> None:
        """A commit that has begun at this time is under way."""
        self._under_way_since_s = began_s

    def answered(self) -> float | None:
        """Return when the commit under way has begun, None if there is none; it is under way no longer."""
        began_s, self._under_way_since_s = self._under_way_since_s, None
        return began_s
