"""Who runs what after a rebalance: nothing runs twice, shares are even, a departed worker's work waits for it."""

import random
from collections.abc import Mapping

import pytest

from ottla_connect.group.assignment import Holding, IncrementalAssignor, Plan
from ottla_connect.group.view import GroupView
from ottla_connect.group.work import NO_WORK, Work, union
from ottla_connect.ids import TaskId

DELAY_MS = 10_000
ROUNDS_MAX = 40


class Group:
    """A group without a network: workers that hold work, and a leader that plans.

    Attributes:
        held: what each member runs, by its id.
        connectors: every connector and how many tasks it has.
        now_ms: the clock.
    """

    def __init__(self, connectors: Mapping[str, int], *, delay_ms: int = DELAY_MS):
        self.held: dict[str, Holding] = {}
        self.connectors = dict(connectors)
        self.now_ms = 1_000_000
        self._delay_ms = delay_ms
        self._generation = 0
        self._members = 0
        self.elect()

    def elect(self) -> None:
        """Another worker leads from now on, without memory."""
        self._assignor = IncrementalAssignor(self._delay_ms)
        self._completed = -1

    def join(self, *urls: str) -> list[str]:
        ids = []
        for url in urls:
            self._members += 1
            ids.append(f"m{self._members}")
            self.held[ids[-1]] = Holding(url=url, work=NO_WORK)
        return ids

    @property
    def configured(self) -> Work:
        return GroupView(0, self.connectors).work

    def round(self, *, deaf: frozenset[str] = frozenset(), leader_is_deaf: bool = False) -> Plan:
        """One round. Who is deaf does not get the assignment; if it is the leader, its next plan must know that."""
        self._generation += 1
        plan = self._assignor.plan(
            self.held,
            self.configured,
            generation=self._generation,
            last_generation=self._completed,
            now_ms=self.now_ms,
        )
        self._check(plan)
        if not leader_is_deaf:
            self._completed = self._generation
        for member, holding in list(self.held.items()):
            if member not in deaf:
                work = holding.work - plan.revoked[member] | plan.assigned[member]
                self.held[member] = Holding(url=holding.url, work=work)
        return plan

    def settle(self) -> int:
        """Rounds until nothing calls for another; returns how many there were."""
        for count in range(1, ROUNDS_MAX):
            plan = self.round()
            if not any(plan.revoked.values()):
                if not plan.delay_ms:
                    return count
                self.now_ms += plan.delay_ms
        raise AssertionError(f"no end after {ROUNDS_MAX} rounds: {self.held}")

    def work_at(self, url: str) -> Work:
        return union(holding.work for holding in self.held.values() if holding.url == url)

    def _check(self, plan: Plan) -> None:
        running = union(holding.work for holding in self.held.values())
        given = [work for work in plan.assigned.values() if work]
        assert not union(given) & running, "what somebody runs was given away"
        assert sum(len(work) for work in given) == len(union(given)), "something was given to two workers"
        assert not union(given) - self.configured, "something that is not configured was given away"
        for member, revoked in plan.revoked.items():
            assert not revoked - self.held[member].work, "something was revoked that the worker does not run"

    def check_balanced(self) -> None:
        """Everything runs once, and nobody runs more than one more than anybody else, of either kind."""
        works = [holding.work for holding in self.held.values()]
        assert union(works) == self.configured
        assert sum(map(len, works)) == len(self.configured)
        for counts in ([len(work.connectors) for work in works], [len(work.tasks) for work in works]):
            assert max(counts) - min(counts) <= 1, counts


@pytest.fixture
def trio() -> Group:
    """Three workers at URLs a, b and c, with six connectors of two tasks each, settled."""
    group = Group({f"c{number}": 2 for number in range(6)})
    group.join("a", "b", "c")
    group.settle()
    group.check_balanced()
    return group


def leave(group: Group, url: str) -> Work:
    """A worker is gone; returns what it ran."""
    work = group.work_at(url)
    group.held = {member: holding for member, holding in group.held.items() if holding.url != url}
    return work


def test_the_first_round_gives_everything_out_evenly():
    group = Group({"one": 3, "two": 2})
    group.join("a", "b")
    assert group.settle() == 1
    group.check_balanced()


def test_a_group_without_connectors_has_nothing_to_do():
    group = Group({})
    group.join("a", "b")
    assert group.settle() == 1
    assert union(holding.work for holding in group.held.values()) == NO_WORK


def test_a_round_in_which_nothing_changed_moves_nothing(trio: Group):
    plan = trio.round()
    assert not any(plan.revoked.values())
    assert not any(plan.assigned.values())
    assert plan.delay_ms == 0


def test_what_a_worker_ran_that_has_gone_is_held_back(trio: Group):
    lost = leave(trio, "c")
    plan = trio.round()
    assert plan.delay_ms == DELAY_MS
    assert not any(plan.assigned.values())
    trio.now_ms += 4_000
    assert trio.round().delay_ms == DELAY_MS - 4_000
    trio.now_ms += DELAY_MS - 4_000
    plan = trio.round()
    assert plan.delay_ms == 0
    assert union(plan.assigned.values()) == lost
    trio.check_balanced()


def test_a_worker_that_returns_in_time_gets_its_work_back_at_once(trio: Group):
    lost = leave(trio, "c")
    trio.round()
    trio.now_ms += 2_000
    trio.join("c")
    plan = trio.round()
    assert plan.delay_ms == 0
    assert trio.work_at("c") == lost
    assert not any(plan.revoked.values())


def test_a_worker_that_is_back_before_it_was_missed_gets_its_work_back(trio: Group):
    lost = leave(trio, "b")
    trio.join("b")
    assert trio.round().delay_ms == 0
    assert trio.work_at("b") == lost


def test_each_worker_that_has_gone_is_waited_for_by_itself(trio: Group):
    first, second = leave(trio, "c"), NO_WORK
    trio.round()
    trio.now_ms += 6_000
    second = leave(trio, "b")
    assert trio.round().delay_ms == 4_000
    trio.now_ms += 4_000
    plan = trio.round()
    assert union(plan.assigned.values()) == first
    assert plan.delay_ms == 6_000
    trio.now_ms += 6_000
    assert union(trio.round().assigned.values()) == second


def test_without_a_delay_nothing_is_held_back():
    group = Group({"c": 6}, delay_ms=0)
    group.join("a", "b", "c")
    group.settle()
    leave(group, "a")
    assert group.settle() == 1
    group.check_balanced()


def test_what_a_worker_did_not_hear_of_is_given_out_again_at_once(trio: Group):
    trio.connectors["new"] = 3
    plan = trio.round(deaf=frozenset(trio.held))
    assert union(plan.assigned.values()).connectors == {"new"}
    plan = trio.round()
    assert plan.delay_ms == 0
    trio.check_balanced()


def test_a_plan_that_the_coordinator_did_not_take_is_forgotten_and_the_one_before_is_not(trio: Group):
    lost = leave(trio, "c")
    trio.round(deaf=frozenset(trio.held), leader_is_deaf=True)
    trio.now_ms += 1_000
    plan = trio.round()
    assert plan.delay_ms == DELAY_MS
    assert not union(plan.assigned.values()) & lost


def test_a_new_leader_knows_of_nobody_who_has_gone(trio: Group):
    lost = leave(trio, "a")
    trio.elect()
    plan = trio.round()
    assert plan.delay_ms == 0
    assert union(plan.assigned.values()) == lost


def test_a_new_worker_gets_its_share_in_two_rounds(trio: Group):
    trio.join("d")
    plan = trio.round()
    moved = union(plan.revoked.values())
    assert (len(moved.connectors), len(moved.tasks)) == (1, 3)
    assert not any(plan.assigned.values()), "nothing is given away before it has stopped"
    assert trio.settle() == 1
    trio.check_balanced()
    assert trio.work_at("d") == moved


def test_nothing_moves_while_work_is_held_back(trio: Group):
    leave(trio, "c")
    trio.join("d")
    plan = trio.round()
    assert plan.delay_ms == DELAY_MS
    assert not any(plan.revoked.values())
    trio.now_ms += DELAY_MS
    trio.round()
    trio.check_balanced()


def test_moves_in_rounds_one_after_another_wait_longer_each_time():
    group = Group({"c": 100})
    group.join("a", "b")
    group.settle()
    group.join("d")
    assert any(group.round().revoked.values())
    delays = []
    for url in ("e", "f", "g", "h"):
        group.join(url)
        plan = group.round()
        assert not any(plan.revoked.values())
        delays.append(plan.delay_ms)
        group.now_ms += plan.delay_ms
        assert any(group.round().revoked.values())
    assert delays == [40, 1600, DELAY_MS, DELAY_MS]
    group.settle()
    group.check_balanced()


def test_a_round_before_the_wait_is_over_waits_for_the_rest_of_it(trio: Group):
    trio.join("d")
    trio.round()
    trio.join("e")
    assert trio.round().delay_ms == 40
    trio.now_ms += 30
    plan = trio.round()
    assert plan.delay_ms == 10
    assert not any(plan.revoked.values())


def test_what_was_deleted_is_revoked(trio: Group):
    del trio.connectors["c3"]
    trio.connectors["c4"] = 1
    plan = trio.round()
    revoked = union(plan.revoked.values())
    assert {"c3"} <= revoked.connectors
    assert {TaskId("c3", 0), TaskId("c3", 1), TaskId("c4", 1)} <= revoked.tasks
    trio.settle()
    trio.check_balanced()


def test_what_was_deleted_while_its_worker_was_away_is_not_waited_for(trio: Group):
    lost = leave(trio, "c")
    trio.round()
    trio.connectors = {name: 2 for name in trio.connectors if name not in {task.connector for task in lost.tasks}}
    trio.connectors = {name: count for name, count in trio.connectors.items() if name not in lost.connectors}
    assert trio.round().delay_ms == 0


def test_of_what_runs_twice_one_is_revoked(trio: Group):
    (first, holding), (second, other), *_ = trio.held.items()
    trio.held[second] = Holding(url=other.url, work=other.work | holding.work)
    plan = trio.round()
    assert (
        holding.work - plan.revoked[first] - plan.revoked[second] == NO_WORK or not plan.revoked[first] & holding.work
    )
    trio.settle()
    trio.check_balanced()


def test_a_revocation_that_was_not_heard_is_repeated(trio: Group):
    trio.join("d")
    moved = union(trio.round(deaf=frozenset(trio.held)).revoked.values())
    plan = trio.round()
    assert not union(plan.assigned.values()) & moved
    trio.now_ms += plan.delay_ms
    trio.settle()
    trio.check_balanced()


def _anything(group: Group, chance: random.Random) -> None:
    """Something that happens to a group."""
    match chance.choice(["join", "leave", "return", "create", "delete", "resize", "elect", "wait", "twice"]):
        case "join":
            group.join(f"url-{chance.randrange(1_000_000)}")
        case "leave" if len(group.held) > 1:
            leave(group, chance.choice(list(group.held.values())).url)
        case "return" if len(group.held) > 1:
            url = chance.choice(list(group.held.values())).url
            leave(group, url)
            if chance.random() < 0.5 or not group.held:
                group.round()
            group.join(url)
        case "create":
            group.connectors[f"c{chance.randrange(1_000)}"] = chance.randrange(6)
        case "delete" if group.connectors:
            del group.connectors[chance.choice(list(group.connectors))]
        case "resize" if group.connectors:
            group.connectors[chance.choice(list(group.connectors))] = chance.randrange(6)
        case "elect":
            group.elect()
        case "wait":
            group.now_ms += chance.randrange(2 * DELAY_MS)
        case "twice" if chance.random() < 0.2:
            member, holding = chance.choice(list(group.held.items()))
            other = chance.choice(list(group.held.values())).work
            group.held[member] = Holding(url=holding.url, work=holding.work | other)


@pytest.mark.parametrize("seed", range(150))
def test_after_any_history_everything_runs_once_and_evenly(seed: int):
    chance = random.Random(seed)
    group = Group({f"c{number}": chance.randrange(5) for number in range(chance.randrange(8))}, delay_ms=DELAY_MS)
    group.join(*(f"url-{number}" for number in range(chance.randrange(1, 6))))
    for _ in range(chance.randrange(1, 25)):
        _anything(group, chance)
        if chance.random() < 0.7:
            deaf = frozenset(member for member in group.held if chance.random() < 0.1)
            group.round(deaf=deaf, leader_is_deaf=chance.random() < 0.1)
    group.settle()
    group.check_balanced()
