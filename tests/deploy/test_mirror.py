"""The profile `mirror` as the page has it: topics are copied to a second cluster, and followed by it."""

import pytest

from tests.deploy.conftest import MakeProject
from tests.deploy.page import commands_of
from tests.support.clusters.compose_project import HEALTHY_DEADLINE_S, ComposeProject
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

SHOWS = {"consume main.numbers": "(?m)^100$", "consume numbers": "(?m)^100$", "mirror lag": "main->standby"}
SCRAPED = {"mirror-1:9100", "standby-broker-1:9100", "standby-controller-1:9100", "standby-etcd-1:2379"}


@pytest.fixture(scope="module")
def project(make_project: MakeProject) -> ComposeProject:
    """The project, with every command of the page typed but the last, which removes it."""
    project = make_project("mirror")
    for line in commands_of("A second cluster that follows")[:-1]:
        until = next((shown for part, shown in SHOWS.items() if part in line), "")
        project.type(line, until=until)
    return project


def test_the_second_cluster_is_scraped_beside_the_first(project: ComposeProject) -> None:
    eventually(
        lambda: {each for each, health in project.targets().items() if health == "up"} >= SCRAPED,
        "the second cluster is scraped",
        within_s=HEALTHY_DEADLINE_S,
    )


def test_the_mirror_worker_heals_and_ends_in_order(project: ComposeProject) -> None:
    started_at = project.state("mirror-1")["StartedAt"]
    project.kill("mirror-1")
    project.await_healed("mirror-1", started_at)

    project.container("mirror-1").stop(timeout=60)
    assert project.state("mirror-1")["ExitCode"] == 0


def test_the_last_command_of_the_page_removes_everything(project: ComposeProject) -> None:
    project.type(commands_of("A second cluster that follows")[-1])
    assert project.containers() == {}
