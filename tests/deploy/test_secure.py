"""The cluster with certificates everywhere as the page has it: it serves those who have one, and nobody else."""

import socket
import ssl

import pytest

from tests.deploy.conftest import MakeProject
from tests.deploy.page import commands_of
from tests.support.clusters.compose_project import ComposeProject

pytestmark = pytest.mark.slow

SECTION = "With certificates everywhere"
SHOWS = {"cluster describe": "broker-1:9092"}


@pytest.fixture(scope="module")
def project(make_project: MakeProject) -> ComposeProject:
    """The project, with every command of the page typed but the last, which removes it."""
    project = make_project("secure")
    for line in commands_of(SECTION)[:-1]:
        until = next((shown for part, shown in SHOWS.items() if part in line), "")
        project.type(line, until=until)
    return project


def test_a_client_without_a_certificate_is_not_served(project: ComposeProject) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    address = ("127.0.0.1", project.port("OTTLA_BROKER_1_PORT"))
    with (
        pytest.raises(OSError, match=r"certificate required|closed|reset"),
        socket.create_connection(address) as plain,
    ):
        context.wrap_socket(plain).recv(1)


def test_processes_are_healthy(project: ComposeProject) -> None:
    for name in ("etcd-1", "controller-1", "group-coordinator-1", "broker-1", "connect-1"):
        assert project.is_healthy(name)


def test_the_last_command_of_the_page_removes_everything(project: ComposeProject) -> None:
    project.type(commands_of(SECTION)[-1])
    assert project.containers() == {}
