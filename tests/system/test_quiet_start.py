"""A fresh cluster starts, and serves its first group, without a warning: whoever reads one has something to do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
TOPIC = "first"


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_fresh_start_and_the_first_group_log_no_warnings(tmp_path: Path, brokers: int) -> None:
    with OttlaCluster(tmp_path / "cluster", brokers=brokers) as cluster:
        _use_a_group(cluster.bootstrap)
        services = [service for service in cluster.services if service.role != "etcd"]
        logs = {service.log.name: list(_events(service.log)) for service in services}
    assert len(logs) == 2 + brokers
    assert all(logs.values()), "every service says something"
    worse = [(name, event) for name, events in logs.items() for event in events if event.get("level") != "info"]
    assert worse == []


def _events(log: Path) -> Iterator[dict[str, Any]]:
    """What a service has logged, without the launcher's line; what is no event has a level of its own."""
    for line in log.read_text().splitlines():
        if line.startswith("--- "):
            continue
        try:
            yield json.loads(line)
        except ValueError:
            yield {"level": "not an event", "line": line}


def _use_a_group(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, b"value")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])

        def has_read() -> bool:
            message = consumer.poll(0.5)
            return message is not None and message.error() is None

        eventually(has_read, "the group reads", within_s=DEADLINE_S)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
