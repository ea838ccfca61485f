"""What is said of a cluster's partitions where its brokers are no help."""

import socket
import time

import pytest

from ottla.local import partition_health as module
from ottla.local.partition_health import partition_health
from tests.support.free_ports import LOOPBACK


def test_a_broker_that_stands_still_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_TIMEOUT_S", 0.1)
    with socket.create_server((LOOPBACK, 0)) as silent:
        began = time.monotonic()
        health = partition_health(f"{LOOPBACK}:{silent.getsockname()[1]}")
    assert health.count is None
    assert time.monotonic() - began < 5.0
