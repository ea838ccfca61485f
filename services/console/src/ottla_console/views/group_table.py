"""The list of groups: searched, filtered by state, and how far each has yet to read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla_operations.groups.inspection import EMPTY, GroupSummary, Partition
from ottla_operations.groups.several import GroupStanding

EVERY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group.

    Attributes:
        members, lag: None where not known; the lag is in records.
        problem: why something is not known, or None.
    """

    group: str
    state: str
    type: str
    members: int | None
    lag: int | None
    problem: str | None

    @property
    def grade(self) -> str:
        """How its state is marked."""
        return state_grade(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuery:
    """What of the groups is shown.

    Attributes:
        words: all of which a name has, whatever their case.
        state: that the groups have; empty for all.
    """

    words: str = ""
    state: str = EVERY


def selected_groups(groups: Sequence[GroupSummary], query: GroupQuery) -> list[GroupSummary]:
    """Return the groups that a query wants, by name."""
    words = query.words.lower().split()
    found = [
        each
        for each in groups
        if query.state in (EVERY, each.state) and all(word in each.group.lower() for word in words)
    ]
    return sorted(found, key=lambda each: each.group)


def states_of(groups: Sequence[GroupSummary]) -> list[str]:
    """Return the states that there are, to choose from."""
    return sorted({each.state for each in groups})


def group_rows(
    groups: Sequence[GroupSummary], standings: Mapping[str, GroupStanding], ends: Mapping[Partition, int]
) -> list[GroupRow]:
    """Return the rows of a page; the newer state, the standing's, wins."""
    rows = []
    for each in groups:
        standing = standings.get(each.group, GroupStanding())
        rows.append(
            GroupRow(
                group=each.group,
                state=standing.state or each.state,
                type=each.type,
                members=standing.members,
                lag=None if standing.committed is None else total_lag(standing.committed, ends),
                problem=standing.problem,
            )
        )
    return rows


def total_lag(committed: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int | None:
    """Return how many records a group has yet to read; None if the end of one of its partitions is not known."""
    if not committed.keys() <= ends.keys():
        return None
    return sum(max(0, ends[place] - offset) for place, offset in committed.items())


def state_grade(state: str) -> str:
    """Return the class of a state's badge: good, nothing, or advice while members come and go."""
    return {"stable": "good", EMPTY: "", "dead": "bad"}.get(state, "advice")
