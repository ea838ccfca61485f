"""Transactions stay all or nothing, whatever happens to a cluster's processes and their network.

A short run, always with the same faults, of what `make faults-transactions MINUTES=60` does for long.
`OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_FAULT_SECONDS` how long faults happen.
"""

import os
from pathlib import Path

import pytest

from tests.faults.transactions.transaction_trial import TransactionPlan, run_transaction_trial

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("OTTLA_TEST_SEED", "2366"))
SECONDS = float(os.environ.get("OTTLA_TEST_FAULT_SECONDS", "12"))


@pytest.mark.requires("network namespaces", "small disk", "faketime")
def test_a_fault_schedule_tears_no_transaction(tmp_path: Path) -> None:
    outcome = run_transaction_trial(TransactionPlan(seed=SEED, directory=tmp_path / f"seed-{SEED}", seconds=SECONDS))
    print(outcome.summary())
    assert not outcome.problems, outcome.report()
