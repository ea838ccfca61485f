"""`ottla doctor` at a real cluster in which something is broken: it names that, and nothing else."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.documents.named_commands import refusal
from tests.support.eventually import eventually
from tests.support.ottla_cluster import OttlaCluster, ottla_command

pytestmark = pytest.mark.slow

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    directory = tmp_path_factory.mktemp("doctor") / "cluster"
    with OttlaCluster(directory, brokers=3, coordinators=2, arguments=("--connect", "1")) as made:
        yield made


def ottla(cluster: OttlaCluster, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    own = {"OTTLA_BOOTSTRAP": cluster.bootstrap, "OTTLA_DIR": str(cluster.directory)}
    connect = json.loads((cluster.directory / "cluster.json").read_text())["connect"][0]
    return subprocess.run(
        [ottla_command(), *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, **own, "OTTLA_CONNECT_URL": connect},
    )  # fmt: skip


def found(cluster: OttlaCluster) -> list[dict[str, Any]]:
    done = ottla(cluster, "doctor", "--json")
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == bool(findings), done.stderr
    assert [refusal(each["remedy"].split()[1:]) for each in findings] == [None] * len(findings)
    return findings


def expect_only(cluster: OttlaCluster, rule: str, where: str, harm: str) -> dict[str, Any]:
    """Waits until exactly this is found, and returns it."""

    def only() -> dict[str, Any] | None:
        seen = found(cluster)
        told = [(each["rule"], each["where"], each["harm"]) for each in seen]
        return seen[0] if told == [(rule, where, harm)] else None

    return eventually(only, f"the doctor tells {rule} of {where} only", within_s=WITHIN_S)


def expect_health(cluster: OttlaCluster) -> None:
    eventually(lambda: found(cluster) == [], "nothing is wrong", within_s=WITHIN_S)


@contextmanager
def standing_still(cluster: OttlaCluster, role: str, number: int) -> Iterator[None]:
    pid = next(each.pid for each in cluster.services if (each.role, each.id) == (role, number))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_broker_that_is_away_is_named_with_its_partitions(cluster: OttlaCluster) -> None:
    assert ottla(cluster, "topic", "create", "t", "--partitions", "3").returncode == 0
    expect_health(cluster)
    with standing_still(cluster, "broker", 3):
        expect_only(cluster, "broker-away", "broker 3", "at_risk")
    expect_health(cluster)


def test_partitions_that_only_the_lost_broker_had_make_it_worse(cluster: OttlaCluster) -> None:
    arguments = ("--partitions", "3", "--replication-factor", "1")
    assert ottla(cluster, "topic", "create", "single", *arguments).returncode == 0
    with standing_still(cluster, "broker", 2):
        told = expect_only(cluster, "broker-away", "broker 2", "unavailable")
        assert "without a leader (single-" in told["what"]
    expect_health(cluster)
    assert ottla(cluster, "topic", "delete", "single", "--yes").returncode == 0


def test_a_coordinator_that_stands_still_is_named(cluster: OttlaCluster) -> None:
    with standing_still(cluster, "group-coordinator", 2):
        expect_only(cluster, "process-not-ready", "group-coordinator-2", "at_risk")
    expect_health(cluster)


def test_the_only_controller_that_stands_still_is_named(cluster: OttlaCluster) -> None:
    with standing_still(cluster, "controller", 1):
        expect_only(cluster, "process-not-ready", "controller-1", "unavailable")
    expect_health(cluster)


def test_a_connector_that_fails_is_named(cluster: OttlaCluster, tmp_path: Path) -> None:
    missing = {"connector.class": "FileSource", "file.path": str(tmp_path / "none"), "topic": "t"}
    definition = tmp_path / "files.json"
    definition.write_text(json.dumps({"name": "files", "config": missing}))
    made = ottla(cluster, "connect", "create", str(definition))
    assert made.returncode == 0, made.stderr
    expect_only(cluster, "connector-fails", "connector files, task 0", "stalled")
    assert ottla(cluster, "connect", "delete", "files", "--yes").returncode == 0
    expect_health(cluster)
