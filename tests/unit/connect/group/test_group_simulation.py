"""Whole groups in a simulated world, with everything that may happen to them; the simulation says what it checks."""

import pytest

from tests.support.connect.simulated_connect_group import DELAY_MS, SESSION_MS, SimulatedGroup

QUIET_MS = 90_000


def connectors(count: int, tasks: int = 2) -> dict[str, int]:
    return {f"c{number}": tasks for number in range(count)}


def settled(seed: int = 1, workers: int = 3) -> SimulatedGroup:
    group = SimulatedGroup(seed, connectors(6))
    for number in range(workers):
        group.start(f"w{number}")
    group.run(20_000)
    group.check_balanced()
    return group


def test_workers_that_start_share_the_work():
    settled()


def test_a_killed_workers_work_moves_when_its_session_and_the_delay_are_over():
    group = settled()
    group.kill(group.workers[0])
    group.run(SESSION_MS + DELAY_MS + 3_000)
    group.check_balanced()


def test_a_frozen_worker_stops_before_the_others_take_its_work_and_comes_back():
    group = settled()
    group.freeze(group.workers[1], 60_000)
    group.run(30_000)
    assert not group.running(group.workers[1])
    group.run(QUIET_MS)
    group.check_balanced()


def test_a_frozen_leader_is_replaced():
    group = settled()
    leader = next(each for each in group.workers if each.member.assignment and each.member.assignment.is_leader)
    group.freeze(leader, 60_000)
    group.configure(connectors(9))
    group.run(30_000)
    others = [each for each in group.workers if each is not leader]
    assert sum(len(group.running(each)) for each in others) == 27
    group.run(QUIET_MS)
    group.check_balanced()


def test_a_replaced_coordinator_changes_nothing():
    group = settled()
    before = [group.running(each) for each in group.workers]
    group.restart_coordinator()
    group.run(10_000)
    assert [group.running(each) for each in group.workers] == before


def test_workers_that_cannot_reach_the_coordinator_pause_and_go_on_with_the_same_afterwards():
    group = settled()
    before = [each.work for each in group.workers]
    group.loss = 1.0
    group.run(SESSION_MS + 500)
    assert not any(group.running(each) for each in group.workers)
    assert [each.work for each in group.workers] == before, "nothing is stopped"
    group.loss = 0.0
    group.run(QUIET_MS)
    group.check_balanced()


def test_a_worker_that_stops_slowly_does_not_lose_its_lease_nor_the_others_theirs():
    group = settled()
    for worker in group.workers:
        worker.stop_ms_max = 15_000
    group.start("w9")
    for _ in range(300):
        group.run(100)
        assert all(group.running(worker) == worker.work for worker in group.workers)
    group.run(QUIET_MS)
    group.check_balanced()


def _anything(group: SimulatedGroup) -> None:
    chance = group.chance
    match chance.choice(["start", "kill", "restart", "freeze", "bad network", "coordinator", "configure", "slow"]):
        case "start" if len(group.workers) < 6:
            group.start(f"w{chance.randrange(1_000)}")
        case "kill" if len(group.workers) > 1:
            group.kill(chance.choice(group.workers))
        case "restart":
            worker = chance.choice(group.workers)
            group.kill(worker)
            group.run(chance.randrange(3_000))
            group.start(worker.url)
        case "freeze":
            group.freeze(chance.choice(group.workers), chance.randrange(30_000))
        case "bad network":
            group.loss = chance.choice([0.0, 0.1, 0.5, 1.0])
        case "coordinator":
            group.restart_coordinator()
        case "configure":
            group.configure(connectors(chance.randrange(12), chance.randrange(4)))
        case "slow":
            chance.choice(group.workers).stop_ms_max = chance.choice([1, 500, 5_000, 30_000])
    group.run(chance.choice([10, 200, 3_000, 12_000]))


def run_history(seed: int) -> None:
    group = SimulatedGroup(seed, connectors(5))
    for number in range(1 + seed % 4):
        group.start(f"w{number}")
    for _ in range(group.chance.randrange(5, 25)):
        _anything(group)
    group.loss = 0.0
    for worker in group.workers:
        worker.stop_ms_max = 500  # who takes longer than a rebalance may is thrown out again and again
    group.run(QUIET_MS)
    group.check_balanced()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_nothing_runs_twice_and_in_the_end_all_runs(seed: int):
    run_history(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 1_400, 50))
def test_many_histories(first_seed: int):
    for seed in range(first_seed, first_seed + 50):
        run_history(seed)
