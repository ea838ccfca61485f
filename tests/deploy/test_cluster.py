"""Three of everything as the page has it: any container may be killed, and no acknowledged record is lost."""

import pytest

from tests.deploy.conftest import MakeProject
from tests.deploy.page import commands_of
from tests.support.clients.acknowledged_values import AcknowledgedValues
from tests.support.clusters.compose_project import HEALTHY_DEADLINE_S, ComposeProject
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ROLES = ("etcd", "controller", "group-coordinator", "broker", "connect")
SERVICES = tuple(f"{role}-{number}" for role in ROLES for number in (1, 2, 3))
SCRAPED = {f"{service}:{2379 if service.startswith('etcd') else 9100}" for service in SERVICES}
BROKERS = ("OTTLA_BROKER_1_PORT", "OTTLA_BROKER_2_PORT", "OTTLA_BROKER_3_PORT")
FILES = ("compose.yaml", "cluster.yaml")
SHOWS = {"cluster describe": r"(?s)rack-1.*rack-2.*rack-3"}
VALUES = 100


@pytest.fixture(scope="module")
def project(make_project: MakeProject) -> ComposeProject:
    """The project of all tests here, with every command of the page typed but the last, which removes it."""
    project = make_project("cluster")
    for line in commands_of("Three of everything")[:-1]:
        project.type(line, until=next((shown for part, shown in SHOWS.items() if part in line), ""))
    return project


@pytest.fixture(scope="module")
def values(project: ComposeProject) -> AcknowledgedValues:
    """What was published to the topic `orders` of the page."""
    return AcknowledgedValues(project.bootstrap(*BROKERS), "orders")


def test_there_are_three_of_everything(project: ComposeProject) -> None:
    assert {*project.containers()} == {*SERVICES, "prometheus"}
    members = project.container("etcd-1").exec_run(["etcdctl", "member", "list"]).output.decode()
    assert members.count(", started, ") == 3
    eventually(
        lambda: project.targets() == dict.fromkeys(SCRAPED, "up"), "all are scraped", within_s=HEALTHY_DEADLINE_S
    )


@pytest.mark.parametrize("service", SERVICES)
def test_records_are_taken_while_a_container_is_killed(
    project: ComposeProject, values: AcknowledgedValues, service: str
) -> None:
    started_at = project.state(service)["StartedAt"]

    project.kill(service)
    values.publish(*(f"after {service} was killed: {number}" for number in range(VALUES)))
    project.await_healed(service, started_at)


def test_every_acknowledged_record_is_there(project: ComposeProject, values: AcknowledgedValues) -> None:
    assert len(values.values) == len(SERVICES) * VALUES
    assert values.missing() == set()
    lines = project.compose("run --rm cli doctor || true", files=FILES)
    assert "offline" not in lines


def test_the_last_command_of_the_page_removes_everything(project: ComposeProject) -> None:
    project.type(commands_of("Three of everything")[-1])
    assert project.containers() == {}
