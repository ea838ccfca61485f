"""The cluster of deploy/compose.yaml: clients reach it from the host and from containers, and it heals.

Needs a Docker engine with Compose, and the base images that the Dockerfile's arguments name.
"""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.eventually import eventually
from tests.support.free_ports import free_ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "deploy" / "compose.yaml"
SERVICES = ("etcd-1", "controller-1", "group-coordinator-1", "broker-1", "connect")
BUILD_S = 900
HEAL_S = 120
CLIENT_S = 60


@dataclass(frozen=True)
class Deployment:
    """A running project of Compose."""

    project: str
    environment: dict[str, str]

    def compose(self, *arguments: str) -> str:
        command = ["docker", "compose", "--project-name", self.project, "--file", str(COMPOSE_FILE), *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=BUILD_S
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def port(self, variable: str) -> int:
        return int(self.environment[variable])

    def state_of(self, service: str) -> Any:
        container = self.compose("ps", "--all", "--quiet", service).strip()
        inspected = subprocess.run(["docker", "inspect", container], capture_output=True, text=True, check=True)
        return json.loads(inspected.stdout)[0]["State"]

    def is_healthy(self, service: str) -> bool:
        return bool(self.state_of(service).get("Health", {}).get("Status") == "healthy")


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    variables = ("OTTLA_BROKER_1_PORT", "OTTLA_CONNECT_PORT", "OTTLA_PROMETHEUS_PORT")
    ports = dict(zip(variables, map(str, free_ports(len(variables))), strict=True))
    deployment = Deployment(f"ottla-test-{os.getpid()}", {**os.environ, **ports})
    try:
        deployment.compose("up", "--build", "--wait")
        yield deployment
    finally:
        deployment.compose("down", "--volumes", "--timeout", "10")


def bootstrap(deployment: Deployment) -> str:
    return f"127.0.0.1:{deployment.port('OTTLA_BROKER_1_PORT')}"


def publish(deployment: Deployment, value: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap(deployment), "acks": "all"})
    refused: list[Any] = []
    producer.produce("greetings", value, on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(CLIENT_S) == 0
    assert not refused


def values_of(deployment: Deployment, group: str, count: int) -> list[str]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap(deployment), "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["greetings"])
        values: list[str] = []
        while len(values) < count:
            message = consumer.poll(CLIENT_S)
            assert message is not None, f"read {values} of {count}"
            assert message.error() is None
            values.append(message.value().decode())
        return values
    finally:
        consumer.close()


def targets_up(deployment: Deployment) -> bool:
    url = f"http://127.0.0.1:{deployment.port('OTTLA_PROMETHEUS_PORT')}/api/v1/targets?state=active"
    with urllib.request.urlopen(url, timeout=CLIENT_S) as answer:
        targets = json.load(answer)["data"]["activeTargets"]
    up = {target["labels"]["job"] for target in targets if target["health"] == "up"}
    return up == {"ottla-broker", "ottla-controller", "ottla-group-coordinator", "ottla-connect"}


def test_clients_on_the_host_and_in_containers_reach_the_cluster(deployment: Deployment) -> None:
    publish(deployment, "hello")
    assert values_of(deployment, "before", 1) == ["hello"]
    listed = deployment.compose("run", "--rm", "cli", "topic", "list", "--json")
    assert "greetings" in listed


def test_prometheus_scrapes_every_process(deployment: Deployment) -> None:
    eventually(lambda: targets_up(deployment), "all processes are scraped", within_s=HEAL_S)


def test_the_cluster_heals_when_a_container_is_killed(deployment: Deployment) -> None:
    publish(deployment, "kept")
    for service in SERVICES:
        began = deployment.state_of(service)["StartedAt"]
        os.kill(deployment.state_of(service)["Pid"], signal.SIGKILL)
        eventually(
            lambda service=service, began=began: (
                deployment.state_of(service)["StartedAt"] != began and deployment.is_healthy(service)
            ),
            f"{service} is back",
            within_s=HEAL_S,
        )
    publish(deployment, "and more")
    assert {"kept", "and more"} <= set(values_of(deployment, "after", 3))


@pytest.mark.parametrize("service", SERVICES)
def test_no_process_is_root_and_none_writes_outside_of_its_volumes(deployment: Deployment, service: str) -> None:
    assert deployment.compose("exec", "--no-TTY", service, "id", "-u").strip() == "10001"
    with pytest.raises(AssertionError, match="Read-only"):
        deployment.compose("exec", "--no-TTY", service, "touch", "/opt/mark")
