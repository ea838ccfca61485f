"""One cluster for all tests of this folder that need one."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    """A cluster with one broker."""
    with OttlaCluster(tmp_path_factory.mktemp("stores") / "cluster") as cluster:
        yield cluster
