"""Whose log is the longest, before a replica leads that may lack records which others have. Pure.

When nobody is believed to have every committed record any more, the controller elects a replica although its disk
may have lost some: after a power failure, say, or with a log whose end is gone. Others may well have more. They
merely left the in-sync set earlier, perhaps because their leases ended a moment before, or lost power as well and
fewer records by it. If the elected one led at once, they would cut their logs to the end of its own, and what only
they have would be lost everywhere.

So it neither leads nor serves anybody at first. The others try to fetch, and are refused, but each fetch tells how
far its sender's log reaches. (One whose log has a gap says so, and cuts it only when a leader answers, because what
is behind the gap may be nowhere else.) When all have been heard, the replica with the longest log is named to the
controller, which has it lead, alone in the in-sync set. The longest log is the one whose last leader epoch is the
latest, and that has the highest end among those: it has everything that is in the others and was ever committed,
because only a leader with every committed record, or with the longest log, begins an epoch. A log that retention has
emptied may not know its last epoch any more. All that it had was committed, so no log that ends before it counts.

Source: KIP-966 (unclean recovery); Raft compares logs in the same way when it votes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import Member

NO_EPOCH = -1


class LogReach(NamedTuple):
    """How far a log reaches; a larger one reaches further.

    Attributes:
        last_epoch: the latest leader epoch in it, -1 for a log without records.
        end_offset: the offset that its next record gets.
        is_whole: whether it lacks nothing further in front, as far as its replica knows.
    """

    last_epoch: int
    end_offset: int
    is_whole: bool = True


class LongestLog(NamedTuple):
    """Who has the longest log, under which registration, and how far it reaches."""

    broker_id: int
    broker_epoch: int
    reach: LogReach


class LongestLogSearch:
    """What one elected replica has heard of the others' logs in one leader epoch.

    Attributes:
        leader_epoch: the one in which it was elected.
        own: the replica's own log, which does not change meanwhile.
    """

    __slots__ = ("_begun_ms", "_broker_id", "_heard", "leader_epoch", "own")

    def __init__(self, broker_id: int, leader_epoch: int, own: LogReach, now_ms: int) -> None:
        self._broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.own = own
        self._begun_ms = now_ms
        self._heard: dict[int, LongestLog] = {}

    def heard(self, contact: FollowerContact, reach: LogReach) -> None:
        """Note how far a replica's log reaches, which it has told in this leader epoch."""
        self._heard[contact.broker_id] = LongestLog(contact.broker_id, contact.broker_epoch, reach)

    def missing(self, replicas: Collection[int], members: Mapping[int, Member]) -> tuple[int, ...]:
        """Return who has not been heard under its present registration; it may have lost records since another."""
        return tuple(each for each in replicas if each != self._broker_id and not self._is_known(each, members))

    def _is_known(self, broker_id: int, members: Mapping[int, Member]) -> bool:
        heard, member = self._heard.get(broker_id), members.get(broker_id)
        return heard is not None and member is not None and heard.broker_epoch == member.epoch

    def longest(
        self,
        replicas: Collection[int],
        members: Mapping[int, Member],
        *,
        now_ms: int,
        wait_ms: int | None,
    ) -> LongestLog | None:
        """Return who has the longest log, or None while others are still waited for.

        Args:
            replicas: all replicas of the partition.
            members: the registered brokers.
            now_ms: the monotonic clock.
            wait_ms: how long to wait for those that are away; None for as long as it takes.
        """
        own = members.get(self._broker_id)
        is_over = wait_ms is not None and now_ms - self._begun_ms >= wait_ms
        if own is None or (self.missing(replicas, members) and not is_over):
            return None
        known = (self._heard[each] for each in replicas if self._is_known(each, members))
        return _longest_of([LongestLog(self._broker_id, own.epoch, self.own), *known])


def _longest_of(found: Sequence[LongestLog]) -> LongestLog:
    """Return who has the longest log; the first of equal ones."""
    emptied_up_to = max((each.reach.end_offset for each in found if each.reach.last_epoch == NO_EPOCH), default=0)
    return max((each for each in found if each.reach.end_offset >= emptied_up_to), key=lambda each: each.reach)
