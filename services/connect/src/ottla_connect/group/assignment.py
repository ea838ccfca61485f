"""Who runs what: the leader's part of a rebalance, incremental and cooperative (KIP-415). Pure.

Workers go on with what they run while they join, and say what it is. The leader gives away only what nobody runs, so
that nothing ever runs twice; to move something, it is revoked in one round, and given to another worker in the next.

- What a worker that has gone was running is held back for a while, since workers that are restarted come back. It is
  given away when one of the same URL has joined, or when `scheduled.rebalance.max.delay.ms` is over.
- Nothing is moved for the balance's sake while work is held back; nor in two rounds one after another, which would
  move too much while many workers come: the second waits, each time longer.
- What was deleted, or runs on several workers, is revoked.

The leader remembers what it has planned. The plan counts if its generation was completed; after a change of leaders
there is no memory, and nothing is held back.

Source: IncrementalCooperativeAssignor in Kafka. There, lost work goes to workers that came empty while it was held
back; here it goes to whoever has least, which is the same worker, and at once if it is the one that had gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_connect.group.work import NO_WORK, Work, union
from ottla_core.client.group.balance import excess, spread

BACKOFF_FIRST_MS = 40
BACKOFF_FACTOR = 40
WAITS_MAX = 10
"""Waits are not counted further: the delay is long past its maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A worker, and what it runs.

    Attributes:
        url: its REST API's, by which it is known again when it returns under another member id.
        work: what it runs.
    """

    url: str
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of a round; every mapping is by member id and has all members.

    Attributes:
        assigned: what each worker shall run in addition.
        revoked: what it shall stop.
        holdings: what it runs when both is done.
        delay_ms: in how many milliseconds there must be another round; 0: there need not.
    """

    assigned: Mapping[str, Work]
    revoked: Mapping[str, Work]
    holdings: Mapping[str, Holding]
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Absence:
    """A worker that has gone: its URL, its work, and until when that is held back."""

    url: str
    work: Work
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backoff:
    """How long nothing may be revoked for the balance's sake.

    Attributes:
        has_moved: whether something was revoked in this round.
        waits: how often in a row moving had to wait.
        moves_from_ms: nothing is moved before.
    """

    has_moved: bool = False
    waits: int = 0
    moves_from_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What the leader remembers of a round.

    Attributes:
        holdings: what was planned.
        absences: workers whose work is held back, by their former member ids.
        backoff: how long nothing may be revoked.
    """

    holdings: Mapping[str, Holding] = field(default_factory=dict)
    absences: Mapping[str, _Absence] = field(default_factory=dict)
    backoff: _Backoff = _Backoff()


class IncrementalAssignor:
    """Plans rounds, one after another, for as long as its worker leads."""

    def __init__(self, max_delay_ms: int) -> None:
        """Start without memory.

        Args:
            max_delay_ms: `scheduled.rebalance.max.delay.ms`; with 0 nothing is ever held back or waits.
        """
        self._max_delay_ms = max_delay_ms
        self._memories: dict[int, _Memory] = {}

    def plan(
        self,
        members: Mapping[str, Holding],
        configured: Work,
        *,
        generation: int,
        last_generation: int,
        now_ms: int,
    ) -> Plan:
        """Return who shall run what.

        Args:
            members: all workers, by member id, and what they say they run; at least one.
            configured: everything that shall run.
            generation: this round's.
            last_generation: the last one that this worker, the leader, has completed.
            now_ms: any clock's time that does not go back.
        """
        before = self._memories.get(last_generation, _Memory())
        running = union(holding.work for holding in members.values())
        missing = configured - running
        absences = self._absences(before, members, missing, now_ms)
        revoked = _surplus(members, configured)
        kept = {each: holding.work - revoked[each] for each, holding in members.items()}
        moved, backoff = self._moves(before.backoff, {} if absences else _excess(kept, configured), now_ms)
        for each, work in moved.items():
            revoked[each] |= work
            kept[each] -= work
        assigned = _given(missing - union(absence.work for absence in absences.values()), kept)
        holdings = {each: Holding(url=members[each].url, work=kept[each] | assigned[each]) for each in members}
        # Whether this plan counts is known when the next is made; if it does not, the one before it still does.
        self._memories = {
            last_generation: before,
            generation: _Memory(holdings=holdings, absences=absences, backoff=backoff),
        }
        times_ms = [backoff.moves_from_ms, *(absence.until_ms for absence in absences.values())]
        delay_ms = min((time_ms - now_ms for time_ms in times_ms if time_ms > now_ms), default=0)
        return Plan(assigned=assigned, revoked=revoked, holdings=holdings, delay_ms=delay_ms)

    def _absences(
        self, before: _Memory, members: Mapping[str, Holding], missing: Work, now_ms: int
    ) -> dict[str, _Absence]:
        """Return the workers whose work is to be held back."""
        known = dict(before.absences)
        for member_id, holding in before.holdings.items():
            if member_id not in members:
                known[member_id] = _Absence(url=holding.url, work=holding.work, until_ms=now_ms + self._max_delay_ms)
        come = {holding.url for member_id, holding in members.items() if member_id not in before.holdings}
        return {
            member_id: _Absence(url=absence.url, work=absence.work & missing, until_ms=absence.until_ms)
            for member_id, absence in known.items()
            if absence.work & missing and absence.url not in come and absence.until_ms > now_ms
        }

    def _moves(
        self, before: _Backoff, wanted: Mapping[str, Work], now_ms: int
    ) -> tuple[Mapping[str, Work], _Backoff]:
        """Return what of `wanted` is revoked now, which is all or nothing, and how it goes on."""
        if not wanted:
            return {}, _Backoff()
        if before.moves_from_ms > now_ms:
            return {}, _Backoff(waits=before.waits, moves_from_ms=before.moves_from_ms)
        if before.has_moved and self._max_delay_ms:
            backoff_ms = min(BACKOFF_FIRST_MS * BACKOFF_FACTOR**before.waits, self._max_delay_ms)
            return {}, _Backoff(waits=min(before.waits + 1, WAITS_MAX), moves_from_ms=now_ms + backoff_ms)
        return wanted, _Backoff(has_moved=True, waits=before.waits)


def _surplus(members: Mapping[str, Holding], configured: Work) -> dict[str, Work]:
    """Return what workers must stop in any case: what is not configured, and what another one runs too.

    Of several that run the same, the one that runs least keeps it.
    """
    surplus = {}
    seen = NO_WORK
    for member_id in sorted(members, key=lambda each: (len(members[each].work), each)):
        work = members[member_id].work
        surplus[member_id] = (work - configured) | (work & seen)
        seen |= work
    return surplus


def _excess(kept: Mapping[str, Work], configured: Work) -> dict[str, Work]:
    connectors = excess({each: work.connectors for each, work in kept.items()}, len(configured.connectors))
    tasks = excess({each: work.tasks for each, work in kept.items()}, len(configured.tasks))
    return {
        each: Work(connectors.get(each, frozenset()), tasks.get(each, frozenset()))
        for each in kept
        if each in connectors or each in tasks
    }


def _given(free: Work, kept: Mapping[str, Work]) -> dict[str, Work]:
    connectors = spread(free.connectors, {each: len(work.connectors) for each, work in kept.items()})
    tasks = spread(free.tasks, {each: len(work.tasks) for each, work in kept.items()})
    return {each: Work(connectors[each], tasks[each]) for each in kept}
