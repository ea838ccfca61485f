"""Which groups read one topic: no cluster tells that, so each group is asked what it has committed and what it reads.

With many groups this takes long, so they are asked in batches, for so many seconds at a time; the next look goes on
behind the last batch, and what earlier looks have found stays until its group is asked again, or is gone. A group is
gone if it is no longer listed, unless somebody could not tell its groups, such as a coordinator that is loading. Of a
group nothing is kept but its row for this topic.
"""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import GroupSummary, Partition, list_groups, log_offsets
from ottla_operations.groups.several import GroupStanding, standings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Row = TypeVar("Row")
BATCH_SIZE: Final = 100
WITHIN_S: Final = 5.0
"""No batch is begun after so many seconds."""
BATCH_WITHIN_S: Final = 5.0
GROUPS_MAX: Final = 10_000
"""Of more groups, the first by name are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConsumer:
    """A group that has a member or a committed offset in a topic.

    Attributes:
        members: those that read the topic.
        assigned: its partitions that they read.
        committed: its partitions with an offset.
        lag: records that are yet to be read; None where the group has no offset, or the end of one of these
            partitions is not known.
    """

    group: str
    state: str
    type: str
    members: int
    assigned: int
    committed: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConsumers:
    """What is known of a topic's consumers.

    Attributes:
        consumers: by group.
        looked_at: groups that were asked, in this look or an earlier one, and are there still.
        silent: of these, those that did not tell all, with the reason.
        groups: how many there are in the cluster.
        problems: what else could not be asked, a line each.
        last_asked: the group behind which the next look goes on.
    """

    consumers: Mapping[str, TopicConsumer] = field(default_factory=dict)
    looked_at: Set[str] = frozenset()
    silent: Mapping[str, str] = field(default_factory=dict)
    groups: int = 0
    problems: Sequence[str] = ()
    last_asked: str = ""

    @property
    def not_looked_at(self) -> int:
        """How many groups nobody has asked so far."""
        return self.groups - len(self.looked_at)

    @property
    def is_whole(self) -> bool:
        """Whether each group that is looked at was asked, and everybody could tell of groups and of ends."""
        return not self.problems and len(self.looked_at) >= min(self.groups, GROUPS_MAX)


class GroupSource(Protocol):
    """Who is asked."""

    def groups(self) -> tuple[Sequence[GroupSummary], Sequence[str]]:
        """Return all groups by name, and what could not be asked."""

    def standings(self, groups: Sequence[str]) -> Mapping[str, GroupStanding]:
        """Return how a batch of groups stands."""

    def ends(self, partitions: Set[Partition]) -> Mapping[Partition, int]:
        """Return the next offset of partitions."""


class KafkaGroups:
    """A cluster, asked by librdkafka's admin client."""

    def __init__(self, client: "AdminClient", bootstrap: str) -> None:
        self._client = client
        self._bootstrap = bootstrap

    def groups(self) -> tuple[Sequence[GroupSummary], Sequence[str]]:
        """Return all groups by name, and what could not be asked."""
        return list_groups(self._client, self._bootstrap)

    def standings(self, groups: Sequence[str]) -> Mapping[str, GroupStanding]:
        """Return how a batch of groups stands."""
        return standings(self._client, groups, self._bootstrap, timeout_s=BATCH_WITHIN_S)

    def ends(self, partitions: Set[Partition]) -> Mapping[Partition, int]:
        """Return the next offset of partitions."""
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        return log_offsets(self._client, partitions, OffsetSpec.latest(), self._bootstrap, all_led=False)  # type: ignore[no-untyped-call]


def look_for_consumers(
    source: GroupSource,
    topic: str,
    former: TopicConsumers,
    *,
    within_s: float = WITHIN_S,
    clock: Callable[[], float] = time.monotonic,
) -> TopicConsumers:
    """Return the consumers of a topic, as far as there is time to ask.

    Args:
        source: who is asked.
        topic: whose consumers are wanted.
        former: the look before, on which this one goes on.
        within_s: after how long no batch is begun; the first always is.
        clock: seconds, by a clock that does not jump.

    Raises:
        OperationError: the groups cannot be listed, or the client cannot send requests.
    """
    until_s = clock() + within_s
    every, listing_problems = source.groups()
    problems = list(listing_problems)
    there = {each.group: each for each in every[:GROUPS_MAX]}
    looked_at, last_asked = _still_there(former, there, is_partial=bool(problems)), former.last_asked
    consumers = {name: each for name, each in former.consumers.items() if name in looked_at}
    silent = {name: why for name, why in former.silent.items() if name in looked_at}
    order = groups_in_turn(there, behind=last_asked)
    for first in range(0, len(order), BATCH_SIZE):
        if first and clock() >= until_s:
            break
        batch = order[first : first + BATCH_SIZE]
        found = source.standings(batch)
        ends = _ends(source, topic, found, problems)
        for name in batch:
            row = consumer_of(topic, there[name], found[name], ends)
            if row is not None or found[name].problem is None:  # else it is not told whether it reads the topic still
                _replace(consumers, name, row)
            _replace(silent, name, found[name].problem)
        looked_at.update(batch)
        last_asked = batch[-1]
    return TopicConsumers(
        consumers=consumers,
        looked_at=frozenset(looked_at),
        silent=silent,
        groups=len(looked_at | {each.group for each in every}),
        problems=tuple(dict.fromkeys(problems)),
        last_asked=last_asked,
    )


def _still_there(former: TopicConsumers, there: Mapping[str, GroupSummary], *, is_partial: bool) -> set[str]:
    """Return the groups that earlier looks have asked and that are not known to be gone."""
    every = former.looked_at | there.keys()
    return set(former.looked_at if is_partial and len(every) <= GROUPS_MAX else former.looked_at & there.keys())


def groups_in_turn(groups: Mapping[str, GroupSummary], *, behind: str) -> list[str]:
    """Return the names of groups, those behind one first."""
    ordered = sorted(groups)
    return [each for each in ordered if each > behind] + [each for each in ordered if each <= behind]


def consumer_of(
    topic: str, summary: GroupSummary, standing: GroupStanding, ends: Mapping[Partition, int]
) -> TopicConsumer | None:
    """Return what a group is to a topic; None if it has no member and no offset there."""
    read = [sum(name == topic for name, _ in each) for each in standing.assignments]
    committed = {place: offset for place, offset in (standing.committed or {}).items() if place[0] == topic}
    if not any(read) and not committed:
        return None
    is_lag_known = bool(committed) and committed.keys() <= ends.keys()
    return TopicConsumer(
        group=summary.group,
        state=standing.state or summary.state,
        type=summary.type,
        members=sum(map(bool, read)),
        assigned=sum(read),
        committed=len(committed),
        lag=sum(max(0, ends[place] - offset) for place, offset in committed.items()) if is_lag_known else None,
    )


def _ends(
    source: GroupSource, topic: str, found: Mapping[str, GroupStanding], problems: list[str]
) -> Mapping[Partition, int]:
    """Return where a topic's partitions end; asked after the offsets, so that no lag is too small."""
    places = {place for each in found.values() for place in each.committed or () if place[0] == topic}
    try:
        return source.ends(places) if places else {}
    except OperationError as error:  # the lag is not known then; the groups are
        problems.append(str(error))
        return {}


def _replace(rows: dict[str, Row], name: str, row: Row | None) -> None:
    if row is None:
        rows.pop(name, None)
    else:
        rows[name] = row
