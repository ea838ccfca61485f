"""Consumers of a topic: asked in batches, as far as there is time, and further the next time."""

from collections.abc import Mapping, Sequence, Set

from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import GroupSummary, Partition
from ottla_operations.groups.several import GroupStanding
from ottla_operations.groups.topic_consumers import (
    BATCH_SIZE,
    GROUPS_MAX,
    TopicConsumer,
    TopicConsumers,
    groups_in_turn,
    look_for_consumers,
)


class FakeGroups:
    """Groups that answer at once, by a clock that goes on by a second with each batch."""

    def __init__(self, standings: Mapping[str, GroupStanding], ends: Mapping[Partition, int]) -> None:
        self.known = dict(standings)
        self.known_ends: Mapping[Partition, int] | None = ends
        self.asked: list[str] = []
        self.now_s = 0.0
        self.untold: Mapping[str, str] = {}

    def groups(self) -> tuple[Sequence[GroupSummary], Sequence[str]]:
        told = sorted(self.known.keys() - self.untold.keys())
        return [GroupSummary(group=name, state="empty", type="classic") for name in told], [*self.untold.values()]

    def standings(self, groups: Sequence[str]) -> Mapping[str, GroupStanding]:
        self.now_s += 1
        self.asked += groups
        return {name: self.known[name] for name in groups}

    def ends(self, partitions: Set[Partition]) -> Mapping[Partition, int]:
        if self.known_ends is None:
            raise OperationError("the leader does not answer")
        return {place: end for place, end in self.known_ends.items() if place in partitions}

    def look(self, former: TopicConsumers | None = None, *, within_s: float = 60.0) -> TopicConsumers:
        self.asked.clear()
        return look_for_consumers(
            self, "flights", former or TopicConsumers(), within_s=within_s, clock=lambda: self.now_s
        )


def offsets(*places: tuple[str, int, int]) -> GroupStanding:
    return GroupStanding(
        state="empty", members=0, committed={(topic, partition): offset for topic, partition, offset in places}
    )


def test_groups_with_an_offset_or_a_member_in_the_topic_are_consumers_of_it() -> None:
    reading = GroupStanding(
        state="stable",
        members=3,
        assignments=((("flights", 0), ("flights", 1), ("other", 0)), (("flights", 2),), (("other", 1),)),
        committed={("flights", 0): 4, ("other", 0): 1},
    )
    source = FakeGroups(
        {"reading": reading, "resting": offsets(("flights", 1, 90)), "elsewhere": offsets(("other", 0, 0))},
        {("flights", 0): 10, ("flights", 1): 100},
    )
    found = source.look()
    assert found.consumers == {
        "reading": TopicConsumer(
            group="reading", state="stable", type="classic", members=2, assigned=3, committed=1, lag=6
        ),
        "resting": TopicConsumer(
            group="resting", state="empty", type="classic", members=0, assigned=0, committed=1, lag=10
        ),
    }
    assert (found.groups, found.not_looked_at, found.problems) == (3, 0, ())


def test_a_lag_is_not_told_where_an_end_or_the_offsets_are_not() -> None:
    source = FakeGroups(
        {
            "cut": offsets(("flights", 0, 4), ("flights", 7, 1)),
            "refused": GroupStanding(state="stable", assignments=((("flights", 0),),), problem="not authorized"),
        },
        {("flights", 0): 10},
    )
    found = source.look()
    assert {name: each.lag for name, each in found.consumers.items()} == {"cut": None, "refused": None}
    assert found.silent == {"refused": "not authorized"}
    source.known_ends = None
    assert source.look().problems == ("the leader does not answer",)


def test_the_next_look_goes_on_where_the_time_was_up() -> None:
    total = 5 * BATCH_SIZE
    source = FakeGroups(
        {f"g-{number:04}": offsets(("flights", 0, 1)) for number in range(total)}, {("flights", 0): 2}
    )
    first = source.look(within_s=2.0)
    assert (len(source.asked), first.not_looked_at) == (2 * BATCH_SIZE, 3 * BATCH_SIZE)
    second = source.look(first, within_s=2.0)
    assert source.asked[0] == f"g-{2 * BATCH_SIZE:04}"
    assert (len(second.consumers), second.not_looked_at) == (4 * BATCH_SIZE, BATCH_SIZE)
    third = source.look(second, within_s=2.0)
    assert (len(third.consumers), third.not_looked_at, source.asked[-1]) == (total, 0, f"g-{BATCH_SIZE - 1:04}")
    slow = source.look(within_s=0.0)
    assert len(slow.looked_at) == BATCH_SIZE  # one batch is asked in any case


def test_groups_that_are_gone_or_read_the_topic_no_more_are_left_out() -> None:
    source = FakeGroups({each: offsets(("flights", 0, 1)) for each in ("gone", "moved", "silent")}, {})
    former = source.look()
    del source.known["gone"]
    source.known["moved"] = offsets(("other", 0, 1))
    source.known["silent"] = GroupStanding(problem="timed out")
    found = source.look(former)
    assert set(found.consumers) == {"silent"}
    assert found.looked_at == {"moved", "silent"}


def test_of_too_many_groups_the_first_are_looked_at() -> None:
    source = FakeGroups({f"g-{number:06}": GroupStanding(committed={}) for number in range(GROUPS_MAX + 7)}, {})
    found = source.look(within_s=1e9)
    assert (found.groups, found.not_looked_at, len(source.asked)) == (GROUPS_MAX + 7, 7, GROUPS_MAX)


def test_groups_take_turns() -> None:
    groups = {each: GroupSummary(group=each, state="empty", type="classic") for each in ("b", "a", "c")}
    assert groups_in_turn(groups, behind="") == ["a", "b", "c"]
    assert groups_in_turn(groups, behind="a") == ["b", "c", "a"]
    assert groups_in_turn(groups, behind="x") == ["a", "b", "c"]


def test_groups_that_are_not_listed_stay_while_somebody_cannot_tell_its_groups() -> None:
    standings = {name: offsets(("flights", 0, 4)) for name in ("billing", "shipping")}
    source = FakeGroups(standings, {("flights", 0): 10})
    whole = source.look()
    source.untold = {"billing": "broker 2: the coordinator is loading"}
    partial = source.look(whole)
    assert partial.consumers == whole.consumers
    assert (partial.groups, partial.not_looked_at, partial.is_whole) == (2, 0, False)
    assert partial.problems == ("broker 2: the coordinator is loading",)
    assert source.asked == ["shipping"]
    source.untold = {}
    del source.known["billing"]
    after = source.look(partial)
    assert (set(after.consumers), after.groups, after.is_whole) == ({"shipping"}, 1, True)


def test_a_look_is_whole_once_all_groups_were_asked() -> None:
    standings = {f"group-{number:03}": offsets(("flights", 0, 4)) for number in range(BATCH_SIZE + 1)}
    source = FakeGroups(standings, {("flights", 0): 10})
    part = source.look(within_s=0.0)
    assert not part.is_whole
    assert source.look(part, within_s=0.0).is_whole
