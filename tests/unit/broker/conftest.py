"""What tests of a partition's rules share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla_broker.partition import Partition
from tests.support.broker.partition_replicas import replica_maker


@pytest.fixture
def make_replica(tmp_path: Path) -> Callable[..., Partition]:
    """Makes the replica of a broker."""
    return replica_maker(tmp_path)
