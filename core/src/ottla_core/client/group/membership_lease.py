"""Until when nobody else runs what this worker runs. Pure.

The coordinator gives a member's work away when it has not heard of it for the session timeout, or when it has not
joined a rebalance, or not fetched its assignment, within the rebalance timeout. It counts from when it hears a
request or when a rebalance begins; here it is counted from before that: from when the request was sent, from when
the group was last known to be stable. So a lease always ends before the coordinator acts.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class MembershipLease:
    """What is known of the coordinator's patience; all times are of one clock, in milliseconds.

    Attributes:
        session_timeout_ms: how long it waits for a heartbeat.
        rebalance_timeout_ms: how long it waits for the answer to a rebalance.
    """

    session_timeout_ms: int
    rebalance_timeout_ms: int
    _heard_ms: int | None = None
    _answer_from_ms: int | None = None

    @property
    def until_ms(self) -> int | None:
        """When it ends; None if there is none."""
        if self._heard_ms is None or self._answer_from_ms is None:
            return None
        return min(self._heard_ms + self.session_timeout_ms, self._answer_from_ms + self.rebalance_timeout_ms)

    def heard(self, sent_ms: int) -> None:
        """Note that the coordinator has accepted a request of ours; a rebalance may be under way."""
        self._heard_ms = max(sent_ms, sent_ms if self._heard_ms is None else self._heard_ms)

    def in_order(self, sent_ms: int) -> None:
        """Note that it has, and that we owed it nothing when we sent it."""
        self.heard(sent_ms)
        self._answer_from_ms = max(sent_ms, sent_ms if self._answer_from_ms is None else self._answer_from_ms)

    def end(self) -> None:
        """Forget it: we are no member."""
        self._heard_ms = self._answer_from_ms = None
