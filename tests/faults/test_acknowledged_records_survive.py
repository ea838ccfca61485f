"""A cluster under load loses, doubles and disorders nothing, whatever happens to its processes and their network.

A short run of what `make faults MINUTES=60` does for long. `OTTLA_TEST_SEED` repeats a seed,
`OTTLA_TEST_FAULT_SECONDS` is how long faults happen.
"""

import os
import random
from pathlib import Path

import pytest

from tests.faults.trial import TrialPlan, run_trial

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("OTTLA_TEST_FAULT_SECONDS", "25"))


def test_a_fault_schedule_costs_no_acknowledged_record(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 24)))
    outcome = run_trial(TrialPlan(seed=seed, directory=tmp_path / f"seed-{seed}", seconds=SECONDS))
    print(outcome.summary())
    assert not outcome.problems, outcome.report()


def test_without_network_namespaces_processes_still_fail_and_recover(tmp_path: Path) -> None:
    seed = random.randrange(1 << 24)
    plan = TrialPlan(seed=seed, directory=tmp_path / f"seed-{seed}", seconds=12, loopback=True)
    outcome = run_trial(plan)
    print(outcome.summary())
    assert not outcome.problems, outcome.report()
