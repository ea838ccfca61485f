"""Copies and linked topics hold what the source acknowledged, in its order, whatever happens to both clusters.

A short run, always with the same faults, of what `make faults-mirror MINUTES=60` does for long with others.
`OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_FAULT_SECONDS` how long faults happen.
"""

import os
from pathlib import Path

import pytest

from tests.faults.mirrors.mirror_trial import run_mirror_trial
from tests.faults.plan import Plan

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("OTTLA_TEST_SEED", "2015"))
SECONDS = float(os.environ.get("OTTLA_TEST_FAULT_SECONDS", "25"))


@pytest.mark.requires("network namespaces", "small disk")
def test_a_fault_schedule_costs_the_target_no_record(tmp_path: Path) -> None:
    outcome = run_mirror_trial(Plan(seed=SEED, directory=tmp_path / f"seed-{SEED}", seconds=SECONDS))
    print(outcome.summary())
    assert not outcome.problems, outcome.report()
