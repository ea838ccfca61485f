"""A chain of five consume-transform-produce stages with Java's clients, which die, as brokers do: each record once.

`OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_KILLS` how many processes are killed or paused.
"""

import os
from pathlib import Path

import pytest

from tests.compat.exactly_once.chain import differences, run_under_strikes, running_chain
from tests.compat.exactly_once.cluster import three_brokers
from tests.compat.exactly_once.copier_program import (
    ABORT_CHANCE,
    BATCH_RECORDS_MAX,
    FENCED_CODE,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    CopierSpec,
)
from tests.compat.java.java_programs import JavaProgram

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SEED = int(os.environ.get("OTTLA_TEST_SEED", "720"))
KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "10"))


def test_each_record_comes_once_and_in_order_to_the_end_of_a_chain_of_java(tmp_path: Path) -> None:
    program = JavaProgram("TransactionalCopier", tmp_path, heap_mib=96)

    def command(spec: CopierSpec) -> list[str]:
        times = (TRANSACTION_TIMEOUT_MS, SESSION_TIMEOUT_MS)
        numbers = (spec.seed, BATCH_RECORDS_MAX, ABORT_CHANCE, *times, FENCED_CODE)
        return program.command(spec.bootstrap, spec.name, spec.source, spec.sink, *map(str, numbers))

    with (
        three_brokers(tmp_path / "cluster") as cluster,
        running_chain(cluster, command, tmp_path, name="java", seed=SEED) as chain,
    ):
        contents = run_under_strikes(cluster, chain, kills=KILLS, seed=SEED)
    assert not differences(contents)
