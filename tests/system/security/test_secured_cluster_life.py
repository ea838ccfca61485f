"""A cluster started with --secure, over several starts: it stays secured, grows, and survives the loss of etcd."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.steady_writer import SteadyWriter, read_values
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import ottla_command
from tests.support.clusters.secured_cluster import SecuredCluster

pytestmark = pytest.mark.slow


def test_it_is_recovered_after_its_etcd_was_lost_and_a_further_broker_has_a_certificate(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    with OttlaCluster(directory, arguments=["--secure"]) as first:
        secured = SecuredCluster(first, tmp_path)
        settings = secured.client_settings()
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(30)
        with SteadyWriter(first.bootstrap, "flights", settings=settings) as writer:
            writer.wait_for_acknowledgements(20)
        written = max(writer.acknowledged.values()) + 1
    shutil.rmtree(directory / "etcd")
    recover = [ottla_command(), "cluster", "recover", "local", "--dir", str(directory), "--yes"]
    subprocess.run(recover, check=True, capture_output=True)

    with OttlaCluster(directory, brokers=2) as again:  # without --secure, which is remembered
        document = json.loads((directory / "cluster.json").read_text())
        assert document["client_config"] == str(directory / "tls" / "admin" / "client.properties")
        settings = SecuredCluster(again, tmp_path).client_settings()
        assert settings["bootstrap.servers"] == again.bootstrap
        assert [value for _, value in read_values(again.bootstrap, "flights", up_to=written, settings=settings)] == [
            str(number).encode() for number in sorted(writer.acknowledged)
        ]
        assert len([each for each in again.services if each.role == "broker"]) == 2


def test_a_cluster_that_was_started_without_it_cannot_be_secured_later(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster"):
        pass
    command = [ottla_command(), "up", "--secure", "--detach", "--dir", str(tmp_path / "cluster")]
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "has been started without --secure" in refused.stderr
