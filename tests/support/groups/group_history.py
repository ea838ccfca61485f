"""What consumers in groups were promised, checked against what they noted while coordinators came and went. Pure.

Members note when partitions are given to them and taken away, and every commit that was acknowledged; a watcher notes
what the coordinator says is committed. All times are seconds of one monotonic clock.

A member is taken to own a partition from the call that assigned it to the call that revoked it, or until its session
has run out by its own clock, whichever comes first: `session_timeout_s` after it last asked for something that the
coordinator granted to it as a member (a commit, or the assignment itself). From then on the coordinator may give
the partition to another. A commit counts as asked for at the moment it was handed to the client, so a claim ends
rather too early than too late, by as much as the client delayed it.
"""

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NOTHING_COMMITTED = -1


class Place(NamedTuple):
    """A partition as a group sees it."""

    group: str
    partition: int


@dataclass(slots=True, kw_only=True)
class Claim:
    """A member's word that it owns a partition.

    Attributes:
        until_s: when it was revoked or lost; infinite while it is not.
    """

    place: Place
    member: str
    since_s: float
    until_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that was acknowledged.

    Attributes:
        asked_s: before it was sent.
        granted_s: after its acknowledgement had come.
    """

    place: Place
    member: str
    offset: int
    asked_s: float
    granted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A committed offset as the coordinator told it; `NOTHING_COMMITTED` where it knew none."""

    place: Place
    offset: int
    asked_s: float
    answered_s: float


class GroupHistory:
    """Everything that was noted, from any number of threads.

    Attributes:
        claims: in the order of their beginning.
        commits: in the order of their acknowledgement.
        readings: in the order of their answers.
    """

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.commits: list[Commit] = []
        self.readings: list[Reading] = []
        self._open: dict[tuple[Place, str], Claim] = {}
        self._lock = threading.Lock()

    def assigned(self, group: str, member: str, partitions: Iterable[int], now_s: float) -> None:
        """Notes that a member owns partitions from now on."""
        with self._lock:
            for partition in partitions:
                claim = Claim(place=Place(group, partition), member=member, since_s=now_s)
                self.claims.append(claim)
                self._open[claim.place, member] = claim

    def taken(self, group: str, member: str, partitions: Iterable[int], now_s: float) -> None:
        """Notes that they were revoked or lost."""
        with self._lock:
            for partition in partitions:
                claim = self._open.pop((Place(group, partition), member), None)
                if claim is not None:
                    claim.until_s = now_s

    def committed(
        self, group: str, member: str, offsets: Mapping[int, int], *, asked_s: float, granted_s: float
    ) -> None:
        """Notes an acknowledged commit."""
        with self._lock:
            self.commits += [
                Commit(
                    place=Place(group, partition), member=member, offset=offset, asked_s=asked_s, granted_s=granted_s
                )
                for partition, offset in offsets.items()
            ]

    def told(self, group: str, offsets: Mapping[int, int], *, asked_s: float, answered_s: float) -> None:
        """Notes what the coordinator says; all partitions of a group, those without an offset included."""
        with self._lock:
            self.readings += [
                Reading(place=Place(group, partition), offset=offset, asked_s=asked_s, answered_s=answered_s)
                for partition, offset in offsets.items()
            ]

    def snapshot(self) -> "GroupHistory":
        """A copy that what is noted later leaves alone."""
        with self._lock:
            copy = GroupHistory()
            copy.claims = [
                Claim(place=each.place, member=each.member, since_s=each.since_s, until_s=each.until_s)
                for each in self.claims
            ]
            copy.commits, copy.readings = list(self.commits), list(self.readings)
            return copy


def ownership_problems(history: GroupHistory, session_timeout_s: float) -> list[str]:
    """Every partition that two live members owned at once."""
    proofs: dict[str, list[float]] = defaultdict(list)
    for commit in history.commits:
        proofs[commit.member].append(commit.asked_s)
    by_place: dict[Place, list[Claim]] = defaultdict(list)
    for claim in history.claims:
        by_place[claim.place].append(claim)
    return [
        problem
        for place, claims in sorted(by_place.items())
        for problem in _overlaps(place, claims, proofs, session_timeout_s)
    ]


def commit_problems(history: GroupHistory) -> list[str]:
    """Every committed offset that went back, by what members were granted or by what the watcher was told."""
    by_place: dict[Place, list[tuple[float, float, int, str]]] = defaultdict(list)
    for commit in history.commits:
        by_place[commit.place].append((commit.asked_s, commit.granted_s, commit.offset, f"{commit.member} committed"))
    for reading in history.readings:
        by_place[reading.place].append((reading.asked_s, reading.answered_s, reading.offset, "the coordinator told"))
    return [problem for place, events in sorted(by_place.items()) for problem in _steps_back(place, events)]


def stable_again_s(
    history: GroupHistory, places: Sequence[Place], *, fault_s: float, end_s: float = math.inf
) -> float:
    """When a group was stable again after a fault, for as long as is looked at; infinite if it was not.

    That is the moment from which on nothing was assigned or taken, each partition had exactly one owner, and each
    owner had got a commit through that it had asked for after the fault and as this owner.

    Args:
        history: what was noted.
        places: all partitions of one group.
        fault_s: when the fault happened.
        end_s: until when to look.
    """
    wanted = set(places)
    changes = [fault_s]
    owners: dict[Place, list[Claim]] = defaultdict(list)
    for claim in history.claims:
        if claim.place in wanted:
            changes += [at_s for at_s in (claim.since_s, claim.until_s) if fault_s < at_s < end_s]
            if claim.since_s < end_s <= claim.until_s:
                owners[claim.place].append(claim)
    if any(len(owners[place]) != 1 for place in places):
        return math.inf
    granted = [each for each in history.commits if each.place in wanted and fault_s <= each.granted_s < end_s]
    return max(*changes, *(_first_grant_s(granted, owners[place][0], fault_s) for place in places))


def _overlaps(
    place: Place, claims: list[Claim], proofs: Mapping[str, Sequence[float]], session_timeout_s: float
) -> Iterator[str]:
    spans = sorted(
        (claim.since_s, _live_until_s(claim, proofs[claim.member], session_timeout_s), claim.member)
        for claim in claims
    )
    latest_s, latest_member = -math.inf, ""
    for since_s, until_s, member in spans:
        if member != latest_member and since_s < latest_s:
            yield (
                f"{place}: {member} was given it at {since_s:.3f} while {latest_member} owned it until {latest_s:.3f}"
            )
        if until_s > latest_s:
            latest_s, latest_member = until_s, member


def _live_until_s(claim: Claim, proofs: Sequence[float], session_timeout_s: float) -> float:
    last_proof_s = max((at_s for at_s in proofs if claim.since_s <= at_s <= claim.until_s), default=claim.since_s)
    return min(claim.until_s, last_proof_s + session_timeout_s)


def _steps_back(place: Place, events: list[tuple[float, float, int, str]]) -> Iterator[str]:
    """Two events are in order only if the one was over before the other began."""
    ended = sorted(events, key=lambda event: event[1])
    position, highest, source = 0, NOTHING_COMMITTED, ""
    for asked_s, _, offset, what in sorted(events):
        while position < len(ended) and ended[position][1] < asked_s:
            if ended[position][2] > highest:
                highest, source = ended[position][2], ended[position][3]
            position += 1
        if offset < highest:
            yield f"{place}: {what} {offset} at {asked_s:.3f} after {source} {highest}"


def _first_grant_s(commits: Iterable[Commit], claim: Claim, fault_s: float) -> float:
    return min(
        (
            commit.granted_s
            for commit in commits
            if (commit.place, commit.member) == (claim.place, claim.member)
            and commit.asked_s >= max(fault_s, claim.since_s)
        ),
        default=math.inf,
    )
