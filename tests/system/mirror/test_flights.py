"""The 336,776 flights that left New York in 2013 go through a mirror, and another client reads them at the target."""

from pathlib import Path

import pytest
from rich.progress import Progress

from demo.flights import FLIGHTS, TOPIC, compare, create_topic, prepare, publish, read_back, whole_dataset
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.mirror.mirror_worker import MirrorWorkerProcess

pytestmark = pytest.mark.slow


def test_all_flights_arrive_once_and_in_their_order(tmp_path: Path) -> None:
    dataset = whole_dataset()
    progress = Progress(disable=True)
    with OttlaCluster(tmp_path / "source") as source, OttlaCluster(tmp_path / "target") as target:
        create_topic(source.bootstrap)
        settings = {
            "clusters": "west,east",
            "west.bootstrap.servers": source.bootstrap,
            "east.bootstrap.servers": target.bootstrap,
            "west->east.enabled": "true",
            "west->east.topics": TOPIC,
            "west->east.replication.policy.class": "IdentityReplicationPolicy",
            "replication.factor": "1",
        }
        with MirrorWorkerProcess(tmp_path / "worker", settings):
            published = publish(source.bootstrap, prepare(dataset, progress), progress)
            command = Ottla(target.bootstrap)
            verify = ("mirror", "verify", TOPIC, "--source", source.bootstrap, "--wait", "90")
            found = command.json(*verify)
            assert {each["state"] for each in found} == {"equal"}
            assert sum(each["records"] for each in found) == FLIGHTS
            compare(dataset, published, read_back(target.bootstrap, progress))
