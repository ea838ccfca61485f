"""Thousands of simulated clusters in trouble, each from its own seed, and proof that they notice broken rules.

`OTTLA_SIMULATION_SEEDS` is how many seeds are run (2,500), `OTTLA_TEST_SEED` the first of them (0). A failure shows
the seed, the rule that was broken, and the end of the trace; `python -m tests.simulation SEED` shows all of it.
"""

import asyncio
import gc
import multiprocessing
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from shlex import quote

import pytest

from ottla_broker.replication.leader_fetcher import LeaderFetcher
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.view.feed import ClusterStateFeed
from tests.simulation.broken_rules import BROKEN_RULES, broken, without_defence
from tests.simulation.clients import Consumer
from tests.simulation.cluster import Outcome, SimulatedCluster, SimulationFailed, simulate
from tests.simulation.histories import HISTORIES
from tests.simulation.noticing import failure, failure_of_history, failure_that_shows
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.simulated_broker import SimulatedBroker
from tests.simulation.virtual_loop import VirtualLoop

SEEDS = int(os.environ.get("OTTLA_SIMULATION_SEEDS", "2500"))
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "0"))
SEEDS_PER_TASK = 50
SEEDS_PER_COLLECTION = 25
FAILURES_SHOWN_MAX = 3
SEEDS_PER_HISTORY = 5

SEEDS_UNTIL_NOTICED_MAX = 1_500
"""Most broken rules are noticed by one of the first few seeds, the least likely ones by one in some hundred."""


def run_seeds(seeds: range) -> tuple[list[Outcome], list[str]]:
    """Run some seeds in a worker process; return the outcomes, and what was violated."""
    outcomes: list[Outcome] = []
    failures: list[str] = []
    gc.disable()  # a seventh of the time otherwise
    gc.freeze()  # what is imported stays
    for seed in seeds:
        if seed % SEEDS_PER_COLLECTION == 0:
            gc.collect()
        try:
            outcomes.append(simulate(seed))
        except SimulationFailed as failed:
            failures.append(str(failed))
    return outcomes, failures


def in_workers(first: int, count: int) -> Iterator[tuple[list[Outcome], list[str]]]:
    """Run seeds on all processors, in fresh processes: a fork would inherit the heap of all the tests before."""
    tasks = [
        range(start, min(start + SEEDS_PER_TASK, first + count))
        for start in range(first, first + count, SEEDS_PER_TASK)
    ]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as workers:
        yield from workers.map(run_seeds, tasks)


@pytest.mark.slow
def test_no_seed_breaks_a_rule_of_replication() -> None:
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for finished, failed in in_workers(FIRST_SEED, SEEDS):
        outcomes += finished
        failures += failed
    if failures:
        shown = "\n\n".join(failures[:FAILURES_SHOWN_MAX])
        pytest.fail(f"{len(failures)} of {SEEDS} seeds broke a rule\n\n{shown}", pytrace=False)
    # A simulation in which nothing happens would pass as well.
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * SEEDS
    assert sum(outcome.consumed for outcome in outcomes) > 30 * SEEDS
    assert sum(outcome.elections for outcome in outcomes) > 2 * SEEDS
    assert sum(not outcome.is_available for outcome in outcomes) < SEEDS / 10 + 5


def test_a_seed_replays_exactly_whatever_the_process() -> None:
    program = (
        "from tests.simulation.cluster import SimulatedCluster\n"
        "for seed in range(5):\n"
        "    cluster = SimulatedCluster(seed)\n"
        "    cluster.run()\n"
        "    print(cluster.schedule.trace_hash())\n"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert len(hashes) == 1
    assert len(set(hashes.pop().split())) == 5  # and seeds differ


def test_a_failure_tells_seed_rule_and_what_happened_last() -> None:
    with BROKEN_RULES["acks=all is answered at once"]():
        failed = next(found for seed in range(50) if (found := failure(seed)) is not None)

    message = str(failed)
    assert f"seed {failed.seed} at" in message
    assert "violated: only committed records are acknowledged: record " in message
    assert f"replay: python -m tests.simulation {failed.seed}" in message
    assert "etcd         revision " in message


def test_the_same_seed_breaks_the_same_rule_again() -> None:
    with BROKEN_RULES["acks=all is answered at once"]():
        runs = [SimulatedCluster(1), SimulatedCluster(1)]
        for cluster in runs:
            with pytest.raises(SimulationFailed):
                cluster.run()

    assert runs[0].schedule.trace_hash() == runs[1].schedule.trace_hash()


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    with broken(rule):
        failed = failure_that_shows(rule, FIRST_SEED, SEEDS_UNTIL_NOTICED_MAX)
    assert failed is not None, f"nothing shows it; look with: python -m tests.simulation SEED --rule {quote(rule)}"
    assert failed.is_violation, failed


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_harmless_while_its_rule_is_kept(name: str) -> None:
    with without_defence(name):
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_PER_HISTORY):
            failed = failure_of_history(name, seed)
            assert failed is None, failed


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_shows_that_its_rule_is_broken_whatever_the_seed(name: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_PER_HISTORY):
        with broken(name):
            failed = failure_of_history(name, seed, name)
        assert failed is not None, f"seed {seed}"
        assert failed.is_violation, failed


def test_a_failure_tells_the_command_that_replays_it() -> None:
    rule = "a lost log is not noticed"
    with broken(rule):
        failed = failure_that_shows(rule, 0, SEEDS_UNTIL_NOTICED_MAX)

    command = str(failed).splitlines()[-1].removeprefix("replay: ")
    replayed = subprocess.run(
        [sys.executable, *shlex.split(command)[1:], "--lines", "1"], capture_output=True, text=True, check=False
    )
    assert failed is not None
    assert replayed.stdout.splitlines()[-1] == f"violated: {failed.rule}", replayed.stderr


def test_a_run_that_never_ends_fails_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: Consumer) -> None:
        self.after(0.0, again, self)

    monkeypatch.setattr(Consumer, "on_start", again)
    failed = failure(3)

    assert failed is not None
    assert "seed 3 at" in str(failed)
    assert "events have not brought the run to its end" in str(failed)


def test_a_process_that_does_not_come_to_rest_fails_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin(_: SimulatedBroker, __: EtcdClient, ___: ClusterStateFeed) -> str:
        while True:
            await asyncio.sleep(0)

    monkeypatch.setattr(SimulatedBroker, "serve", spin)
    failed = failure(3)

    assert failed is not None
    assert "seed 3 at" in str(failed)
    assert "does not come to rest" in str(failed)


def test_a_timer_is_due_when_the_clock_of_its_process_says_so() -> None:
    schedule = Schedule(1)
    process = Process("any", schedule)
    process.start()
    loop = VirtualLoop.of(process)
    early_s: list[float] = []

    def happen(due_s: float) -> None:
        early_s.append(due_s - loop.time())

    for _ in range(1_000):
        due_s = loop.time() + schedule.between(0, 10)
        loop.call_at(due_s, happen, due_s)
    schedule.run_until(20_000, lambda: None)

    assert len(early_s) == 1_000
    assert max(early_s) < 1e-9  # of a second; else whoever waits for a deadline waits again and again


def test_what_a_shell_reports_as_unexpected_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(LeaderFetcher, "_take", fail)
    failed = failure(0)

    assert failed is not None
    assert failed.rule.startswith("nothing fails unexpectedly: ")
    assert "RuntimeError: a bug" in failed.rule
