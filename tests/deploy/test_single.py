"""The cluster of deploy/compose.yaml as the page has it: clients reach it, it is scraped, it heals, it stops."""

import pytest

from tests.deploy.conftest import MakeProject
from tests.deploy.page import commands_of
from tests.support.clients.acknowledged_values import AcknowledgedValues
from tests.support.clusters.compose_project import HEALTHY_DEADLINE_S, ComposeProject
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

SERVICES = ("etcd-1", "controller-1", "group-coordinator-1", "broker-1", "connect-1", "prometheus")
SCRAPED = {"etcd-1:2379", *(f"{service}:9100" for service in SERVICES[1:5])}
SHOWS = {"consume greetings": "hello", "cli doctor": "nothing is wrong"}
"""What commands of the page have to print, by a part of them."""
STOP_S_MAX = 60
"""As long as compose.yaml lets a process take; longer, it would be killed and not end with 0."""


@pytest.fixture(scope="module")
def project(make_project: MakeProject) -> ComposeProject:
    """The project of all tests here."""
    return make_project("single")


def test_every_command_of_the_page_works(project: ComposeProject) -> None:
    lines = commands_of("Containers")
    assert lines[0] == "docker compose -f deploy/compose.yaml up --build --wait"
    for line in lines:
        until = next((shown for part, shown in SHOWS.items() if part in line), "")
        project.type(line, until=until, within_s=HEALTHY_DEADLINE_S)
    assert project.containers() == {}
    assert not project.engine.volumes.list(filters={"label": f"com.docker.compose.project={project.name}"})


def test_clients_on_the_host_and_in_containers_hear_of_addresses_that_they_reach(project: ComposeProject) -> None:
    project.compose("up --wait")
    AcknowledgedValues(project.bootstrap("OTTLA_BROKER_1_PORT"), "greetings").publish("hello")

    assert "hello" in project.compose("run --rm cli consume greetings --count 1")


def test_prometheus_scrapes_every_process(project: ComposeProject) -> None:
    eventually(
        lambda: project.targets() == dict.fromkeys(SCRAPED, "up"),
        "all processes are scraped and are up",
        within_s=HEALTHY_DEADLINE_S,
    )


@pytest.mark.parametrize("service", SERVICES)
def test_no_process_is_root_or_has_capabilities_or_writes_outside_of_its_volumes(
    project: ComposeProject, service: str
) -> None:
    container = project.container(service)
    status = container.exec_run(["cat", "/proc/1/status"]).output.decode()
    assert "\nUid:\t10001\t10001\t10001\t10001\n" in status
    assert "\nCapEff:\t0000000000000000\n" in status
    assert "\nNoNewPrivs:\t1\n" in status
    refused = container.exec_run(["touch", "/opt/mark"])
    assert refused.exit_code != 0
    assert b"Read-only" in refused.output


@pytest.mark.parametrize("service", SERVICES)
def test_the_cluster_heals_when_a_container_is_killed(project: ComposeProject, service: str) -> None:
    kept = AcknowledgedValues(project.bootstrap("OTTLA_BROKER_1_PORT"), f"kept-{service}")
    kept.publish("before")
    started_at = project.state(service)["StartedAt"]

    project.kill(service)
    project.await_healed(service, started_at)

    kept.publish("after")
    assert kept.missing() == set()


def test_every_process_ends_in_order_when_it_is_told_to_stop(project: ComposeProject) -> None:
    codes = {}
    for service in reversed(SERVICES):
        container = project.container(service)
        container.stop(timeout=STOP_S_MAX)
        codes[service] = project.state(service)["ExitCode"]

    assert codes == dict.fromkeys(reversed(SERVICES), 0)
