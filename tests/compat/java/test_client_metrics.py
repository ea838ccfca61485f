"""Kafka's own commands make subscriptions to clients' metrics, and Java's producer pushes what they ask for."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import run_tool
from tests.support.clients.client_metrics_commands import shown
from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference.kafka_jars import java_command

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

LATENCY = "org.apache.kafka.producer.request.latency.max"
RECORDS_PER_SECOND, SECONDS = 20, 60


@pytest.fixture(scope="module")
def page_port() -> int:
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, page_port: int) -> Iterator[SingleBrokerServices]:
    settings = {"metrics.listener": f"{LOOPBACK}:{page_port}"}
    with SingleBrokerServices(tmp_path_factory.mktemp("client-metrics"), broker_settings=settings) as running:
        yield running


def client_metrics(services: SingleBrokerServices, *arguments: str) -> str:
    return run_tool(kafka_tools.CLIENT_METRICS, "--bootstrap-server", services.broker.bootstrap, *arguments)


def test_kafkas_command_makes_describes_lists_and_deletes_subscriptions(services: SingleBrokerServices) -> None:
    settings = ("--metrics", "org.apache.kafka.producer.", "--interval", "30000", "--match", "client_id=a.*")
    assert "Altered client metrics config for s1" in client_metrics(services, "--alter", "--name", "s1", *settings)
    described = client_metrics(services, "--describe", "--name", "s1")
    for expected in ("metrics=org.apache.kafka.producer.", "interval.ms=30000", "match=client_id=a.*"):
        assert expected in described, described
    assert "s1" in client_metrics(services, "--list").split()
    generated = client_metrics(services, "--alter", "--generate-name", "--metrics", "a.")
    (name,) = re.findall(r"config for (\S+)\.", generated)
    for each in ("s1", name):
        client_metrics(services, "--delete", "--name", each)
    assert not {"s1", name} & set(client_metrics(services, "--list").split())


def test_kafkas_command_of_settings_does_so_as_well(services: SingleBrokerServices) -> None:
    entity = ("--bootstrap-server", services.broker.bootstrap, "--entity-type", "client-metrics")
    named = (*entity, "--entity-name", "s2")
    run_tool(kafka_tools.CONFIGS, *named, "--alter", "--add-config", "metrics=[a.,b.],interval.ms=60000")
    described = run_tool(kafka_tools.CONFIGS, *named, "--describe")
    assert "metrics=a.,b." in described, described
    assert "interval.ms=60000" in described, described
    assert "s2" in run_tool(kafka_tools.CONFIGS, *entity, "--describe")
    run_tool(kafka_tools.CONFIGS, *named, "--alter", "--delete-config", "metrics,interval.ms")
    assert "interval.ms=60000" not in run_tool(kafka_tools.CONFIGS, *named, "--describe")


def test_a_java_producer_pushes_what_it_is_asked_for(
    services: SingleBrokerServices, page_port: int, tmp_path: Path
) -> None:
    settings = ("--metrics", "org.apache.kafka.producer.request.", "--interval", "500")
    client_metrics(services, "--alter", "--name", "watched", *settings, "--match", "client_software_name=.*java")
    arguments = (
        *("--topic", "watched", "--num-records", str(RECORDS_PER_SECOND * SECONDS), "--record-size", "10"),
        *("--throughput", str(RECORDS_PER_SECOND), "--producer-props"),
        *(f"bootstrap.servers={services.broker.bootstrap}", "client.id=java-producer"),
    )
    command = java_command(kafka_tools.PRODUCER_PERFORMANCE, *arguments)
    url = f"http://{LOOPBACK}:{page_port}/metrics"
    log = tmp_path / "producer.log"
    with log.open("w") as written, subprocess.Popen(command, stdout=written, stderr=written) as producer:
        try:
            eventually(
                lambda: ("java-producer", LATENCY) in shown(url, "ottla_broker_client_metric_highest"),
                "the producer's metrics are shown",
                within_s=SECONDS,
            )
        finally:
            producer.terminate()
    assert shown(url, "ottla_broker_client_pushes_total", outcome="taken")[("taken",)] >= 1
    eventually(
        lambda: not shown(url, "ottla_broker_client_metric_highest", client_id="java-producer"),
        "they are gone once the producer has been silent for a minute; ended by a signal, it makes no last push",
        within_s=120,
    )
