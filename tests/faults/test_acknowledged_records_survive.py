"""A cluster under load loses, doubles and disorders nothing, whatever happens to its processes and their network.

A short run, always with the same faults, of what `make faults MINUTES=60` does for long with others.
`OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_FAULT_SECONDS` how long faults happen.
"""

import os
from pathlib import Path

import pytest

from tests.faults.trial import TrialPlan, run_trial

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("OTTLA_TEST_SEED", "2005"))
SECONDS = float(os.environ.get("OTTLA_TEST_FAULT_SECONDS", "25"))


@pytest.mark.requires("network namespaces", "small disk", "faketime")
def test_a_fault_schedule_costs_no_acknowledged_record(tmp_path: Path) -> None:
    outcome = run_trial(TrialPlan(seed=SEED, directory=tmp_path / f"seed-{SEED}", seconds=SECONDS))
    print(outcome.summary())
    assert not outcome.problems, outcome.report()


def test_certificates_between_processes_cost_no_acknowledged_record_either(tmp_path: Path) -> None:
    plan = TrialPlan(seed=SEED, directory=tmp_path / f"seed-{SEED}", seconds=12, loopback=True, secure=True)
    outcome = run_trial(plan)
    print(outcome.summary())
    assert not outcome.problems, outcome.report()


@pytest.mark.requires("kafka")
def test_kafkas_own_clients_keep_their_records_as_well(tmp_path: Path) -> None:
    outcome = run_trial(TrialPlan(seed=SEED + 1, directory=tmp_path / "java", seconds=15, java=True))
    print(outcome.summary())
    assert not outcome.problems, outcome.report()


def test_without_network_namespaces_processes_still_fail_and_recover(tmp_path: Path) -> None:
    plan = TrialPlan(seed=SEED, directory=tmp_path / f"seed-{SEED}", seconds=12, loopback=True)
    outcome = run_trial(plan)
    print(outcome.summary())
    assert not outcome.problems, outcome.report()
