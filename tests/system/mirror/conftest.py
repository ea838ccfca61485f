"""Fixtures of the mirrors' tests: a source beside the broker under test, which is the target."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster


@pytest.fixture(scope="session")
def source_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of one broker."""
    with OttlaCluster(tmp_path_factory.mktemp("source") / "cluster") as cluster:
        yield cluster.bootstrap
