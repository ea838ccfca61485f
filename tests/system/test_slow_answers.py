"""A controller or coordinator that stands still: who waits for it is told within seconds, and can leave."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
FAILED, INTERRUPTED = 1, 130


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("slow") / "cluster") as running:
        assert run(running, "topic", "create", "t").returncode == 0
        assert run(running, "consume", "t", "--group", "g").returncode == 0
        yield running


def environment(cluster: OttlaCluster) -> dict[str, str]:
    return {**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap}


def run(cluster: OttlaCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ottla_command(), *arguments], capture_output=True, text=True, check=False, timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL, env=environment(cluster),
    )  # fmt: skip


@contextmanager
def standing_still(cluster: OttlaCluster, role: str) -> Iterator[None]:
    (pid,) = (each.pid for each in cluster.services if each.role == role)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("role", "line", "told"),
    [
        ("controller", "topic create x", "has not answered for 4 s: its controller, or the coordinator of a group"),
        ("controller", "config set topic t retention.ms=7", "has not answered for 4 s: its controller"),
        ("group-coordinator", "consume t --group g", "group g has given this member no partition so far; waiting"),
    ],
)
def test_who_waits_is_told_for_what_and_can_leave(cluster: OttlaCluster, role: str, line: str, told: str) -> None:
    with standing_still(cluster, role):
        command = subprocess.Popen(
            [ottla_command(), *line.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment(cluster),
        )  # fmt: skip
        assert command.stderr is not None
        said: list[str] = []
        reader = Thread(target=lambda: said.extend(command.stderr or ()), daemon=True)
        reader.start()
        try:
            eventually(lambda: told in "".join(said), f"it says {told!r}", within_s=DEADLINE_S)
            command.send_signal(signal.SIGINT)
            assert command.wait(DEADLINE_S) == INTERRUPTED
        finally:
            command.kill()
            command.wait()
            reader.join(DEADLINE_S)
            command.communicate()
        assert "Traceback" not in "".join(said)


def test_groups_whose_coordinator_does_not_answer_are_told_in_a_line(cluster: OttlaCluster) -> None:
    with standing_still(cluster, "group-coordinator"):
        listed = run(cluster, "group", "list")
        assert listed.returncode == FAILED
        assert listed.stderr.startswith("ottla: ")
        assert "internal error" not in listed.stderr
        read = run(cluster, "consume", "t", "--group", "other")
    assert read.returncode == FAILED, read.stderr
    assert "the coordinator of group other is away" in read.stderr
    assert Path(f"/proc/{cluster.supervisor_pid}").exists()
