"""Group coordinators show how far groups are behind, and ask the brokers that lead for it."""

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.support.clients.client_metrics_commands import shown
from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

RECORDS, READ = 50, 20
LAG = "ottla_coordinator_group_lag_"


def test_a_group_is_behind_by_what_it_has_not_committed_and_catches_up(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", brokers=2) as cluster:
        create = [
            ottla_command(),
            "topic",
            "create",
            "flights",
            "--partitions",
            "4",
            "--bootstrap",
            cluster.bootstrap,
        ]
        subprocess.run(create, check=True, capture_output=True, timeout=60)
        status = [ottla_command(), "status", "--dir", str(cluster.directory), "--json"]
        document = json.loads(subprocess.run(status, check=True, capture_output=True, timeout=60).stdout)
        (url,) = [each["metrics"] for each in document["processes"] if each["role"] == "group-coordinator"]
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for partition in range(4):
            for _ in range(RECORDS):
                producer.produce("flights", b"x", partition=partition)
        assert producer.flush(60) == 0

        def commit(offset: int) -> None:
            offsets = [TopicPartition("flights", each, offset) for each in range(4)]
            commit_offsets(cluster.bootstrap, "readers", offsets)

        def lag(unit: str) -> float | None:
            return shown(url, LAG + unit, group="readers").get(("readers", "flights"))

        commit(READ)
        eventually(lambda: lag("records") == 4 * (RECORDS - READ), "the lag is shown", within_s=60)
        eventually(lambda: (lag("seconds") or 0) > 0, "and for how long")
        before = lag("seconds")
        eventually(lambda: (lag("seconds") or 0) > (before or 0), "which grows", within_s=60)
        commit(RECORDS)
        eventually(lambda: lag("records") == 0, "the group has caught up", within_s=60)
        assert lag("seconds") == 0
