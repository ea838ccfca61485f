"""Simulated clusters with transactions in trouble, each from its own seed, and proof that they notice broken rules.

`OTTLA_SIMULATION_SEEDS` is as of the simulation of replication; a quarter of that many seeds are run here, as each
takes longer. `OTTLA_TEST_SEED` is the first of them. `python -m tests.simulation.transactions SEED` shows all of a
run.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.transactions.__main__ import HASH_SEED
from tests.simulation.transactions.broken_rules import BROKEN_RULES
from tests.simulation.transactions.trial import Outcome, simulate

SEEDS = max(1, int(os.environ.get("OTTLA_SIMULATION_SEEDS", "2500")) // 4)
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "0"))
SEEDS_PER_TASK = 5
FAILURES_SHOWN_MAX = 3
SEEDS_UNTIL_NOTICED_MAX = 400

SEEDS_THAT_NOTICED: Mapping[str, int] = {
    "guards are never void": 78,
    "markers end whatever is open": 99,
    "markers of any owner count": 149,
    "ends are not stored": 7,
    "answers come before they are stored": 16,
    "markers are sent before the end is stored": 6,
}
"""Where to look first for what few seeds notice. Any change of the simulation moves it, and only costs time."""


def run_seeds(seeds: range) -> tuple[list[Outcome], list[str]]:
    """Run some seeds in a worker process; return the outcomes, and what was violated."""
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for seed in seeds:
        try:
            outcomes.append(simulate(seed))
        except AssertionError as violated:
            failures.append(str(violated))
    return outcomes, failures


@pytest.mark.slow
def test_no_seed_breaks_a_rule_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", HASH_SEED)
    tasks = [
        range(start, min(start + SEEDS_PER_TASK, FIRST_SEED + SEEDS))
        for start in range(FIRST_SEED, FIRST_SEED + SEEDS, SEEDS_PER_TASK)
    ]
    outcomes: list[Outcome] = []
    failures: list[str] = []
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as workers:
        for finished, failed in workers.map(run_seeds, tasks):
            outcomes += finished
            failures += failed
    if failures:
        shown = "\n\n".join(failures[:FAILURES_SHOWN_MAX])
        pytest.fail(f"{len(failures)} of {SEEDS} seeds broke a rule\n\n{shown}", pytrace=False)
    # A simulation in which nothing happens would pass as well.
    assert sum(each.committed for each in outcomes) > 10 * len(outcomes)
    assert sum(each.aborted for each in outcomes) > 2 * len(outcomes)
    assert sum(each.faults for each in outcomes) > 5 * len(outcomes)
    assert sum(each.shards_moved for each in outcomes) > len(outcomes)


def replayed(seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run seeds in a process of their own."""
    command = [sys.executable, "-m", "tests.simulation.transactions", str(seed), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_seed_is_the_same_each_time() -> None:
    first, second = replayed(7), replayed(7)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr
    assert "trace_hash" in first.stdout
    assert first.stdout == second.stdout


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    if rule in SEEDS_THAT_NOTICED and replayed(SEEDS_THAT_NOTICED[rule], "--rule", rule).returncode == 1:
        return
    done = replayed(FIRST_SEED, "--rule", rule, "--count", str(SEEDS_UNTIL_NOTICED_MAX))
    assert done.returncode == 1, f"{rule}: not noticed by {SEEDS_UNTIL_NOTICED_MAX} seeds\n{done.stdout}{done.stderr}"
