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
    harms = {each["harm"] for each in findings}
    assert done.returncode == (0 if not harms else 3 if harms == {"advice"} else 1), done.stderr
    assert [refusal(each["remedy"].split()[1:]) for each in findings] == [None] * len(findings)
    return findings


def expect_only(cluster: OttlaCluster, rule: str, where: str, harm: str) -> dict[str, Any]:
    """Waits until exactly this is found, and returns it."""

    def only() -> dict[str, Any] | None:
        seen = found(cluster)
        told = [(each["rule"], each["where"], each["harm"]) for each in seen]
        return seen[0] if told == [(rule, where, harm)] else None

    return eventually(only, f"the doctor tells {rule} of {where} only", within_s=WITHIN_S)


def mend(cluster: OttlaCluster, finding: dict[str, Any], *more: str) -> None:
    """Types the command that the doctor names, after which all is well."""
    done = ottla(cluster, *finding["remedy"].split()[1:], *more)
    assert done.returncode == 0, done.stderr
    expect_health(cluster)


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


def test_etcd_that_stands_still_is_named_as_the_cause(cluster: OttlaCluster) -> None:
    with standing_still(cluster, "etcd", 1):
        expect_only(cluster, "process-not-ready", "etcd-1", "unavailable")
    expect_health(cluster)


def test_a_topic_with_one_copy_is_named_and_the_remedy_gives_it_more(cluster: OttlaCluster) -> None:
    assert ottla(cluster, "topic", "create", "one", "--replication-factor", "1").returncode == 0
    mend(cluster, expect_only(cluster, "single-copy", "topic one", "advice"), "--yes")


def test_settings_that_allow_no_failure_are_named(cluster: OttlaCluster) -> None:
    assert ottla(cluster, "topic", "create", "strict", "--config", "min.insync.replicas=3").returncode == 0
    mend(cluster, expect_only(cluster, "min-insync-allows-no-failure", "topic strict", "advice"))


def test_a_throttle_that_was_left_behind_is_named(cluster: OttlaCluster) -> None:
    setting = "follower.replication.throttled.replicas=0:1,0:2"
    done = ottla(cluster, "config", "set", "topic", "t", setting)
    assert done.returncode == 0, done.stderr
    mend(cluster, expect_only(cluster, "throttle-left-behind", "topic t", "advice"))


def test_a_move_that_nobody_finished_is_named(cluster: OttlaCluster) -> None:
    assert ottla(cluster, "topic", "create", "moved", "--replication-factor", "2").returncode == 0
    lines = "\n".join(["x" * 900_000] * 6)
    produced = ottla(cluster, "produce", "moved", stdin=lines)
    assert produced.returncode == 0, produced.stderr
    arguments = ("--topic", "moved", "--partition", "0", "--replicas", "1,2,3", "--throttle", "1", "--yes")
    mover = subprocess.Popen(
        [ottla_command(), "cluster", "reassign", *arguments, "--bootstrap", cluster.bootstrap],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        expect_only(cluster, "reassignment-unfinished", "moved-0", "advice")
    finally:
        mover.kill()
        mover.wait()
    expect_only(cluster, "reassignment-unfinished", "moved-0", "advice")
    undone = ottla(cluster, "cluster", "reassign", "--cancel")
    assert undone.returncode == 0, undone.stderr
    expect_health(cluster)


def test_a_cluster_that_lost_its_supervisor_and_one_that_was_stopped_are_told_apart(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", brokers=1, coordinators=1) as alone:
        report = json.loads((alone.directory / "cluster.json").read_text())
        os.kill(report["supervisor"]["pid"], signal.SIGKILL)
        lost = eventually(lambda: [each for each in doctor_of(alone) if each["rule"] == "supervisor-lost"], "told")
        assert lost[0]["harm"] == "unavailable"
        again = subprocess.run(
            [*([ottla_command()]), *lost[0]["remedy"].split()[1:]], capture_output=True, check=False
        )
        assert again.returncode == 0, again.stderr
        assert doctor_of(alone) == []
        down = subprocess.run(
            [ottla_command(), "down", "--dir", str(alone.directory)], capture_output=True, check=False
        )
        assert down.returncode == 0, down.stderr
        assert [(each["rule"], each["harm"]) for each in doctor_of(alone)] == [("cluster-stopped", "advice")]


def doctor_of(cluster: OttlaCluster) -> list[dict[str, Any]]:
    arguments = ("doctor", "--json", "--dir", str(cluster.directory))
    done = subprocess.run([ottla_command(), *arguments], capture_output=True, text=True, check=False, timeout=120)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings
