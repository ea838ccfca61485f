"""Chains of five consume-transform-produce stages, whose copiers, brokers and coordinators die: each record once.

`OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_KILLS` how many processes are killed or paused.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.exactly_once.chain import differences, python_copier, run_under_strikes, running_chain
from tests.compat.exactly_once.cluster import three_brokers
from tests.support.clusters.ottla_cluster import OttlaCluster

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("OTTLA_TEST_SEED", "719"))
KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "10"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with three_brokers(tmp_path_factory.mktemp("chains") / "cluster") as running:
        yield running


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_each_record_comes_once_and_in_order_to_the_end_of_a_chain(
    cluster: OttlaCluster, client: str, tmp_path: Path
) -> None:
    with running_chain(cluster, python_copier(f"{client}_copier"), tmp_path, name=client, seed=SEED) as chain:
        contents = run_under_strikes(cluster, chain, kills=KILLS, seed=SEED)
    assert not differences(contents)
