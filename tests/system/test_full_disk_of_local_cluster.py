"""A local cluster whose disk is full: whoever publishes or looks at it is told why, and nothing published is lost."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually
from tests.support.machine.small_disk import fill, small_disk
from tests.support.requirements import lack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("small disk"),
]

DISK_BYTES = 192 << 20
LEFT_FREE_BYTES = 8 << 20
LINES = 40_000
DEADLINE_S = 120.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as mounted:
            yield mounted
    except OSError as refusal:
        lack(str(refusal))


def run(cluster: OttlaCluster, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ottla_command(), *arguments], input=lines, capture_output=True, text=True, check=False, timeout=DEADLINE_S,
        env={**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap, "OTTLA_DIR": str(cluster.directory)},
    )  # fmt: skip


def test_a_full_disk_is_told_and_nothing_that_was_published_is_lost(disk: Path) -> None:
    with OttlaCluster(disk / "cluster") as cluster:
        assert run(cluster, "topic", "create", "t").returncode == 0
        assert run(cluster, "status").returncode == 0
        ballast = fill(disk, leave_bytes=LEFT_FREE_BYTES)

        lines = "".join(f"{number:08d} {'x' * 990}\n" for number in range(LINES))
        done = run(cluster, "produce", "t", "--json", "-X", "message.timeout.ms=8000", lines=lines)
        assert done.returncode == 1
        assert "nothing has been acknowledged for 3 s: the disk of broker 1 is full (" in done.stderr
        assert "not acknowledged in time: the disk of broker 1 is full (" in done.stderr
        published = json.loads(done.stdout)["published"]
        assert 0 < published < LINES

        fill(disk, leave_bytes=0, name="last-bytes")
        status = run(cluster, "status")
        assert status.returncode == 1
        assert "free of 201.3 MB: full, so that brokers store no records" in status.stdout
        second = subprocess.run(
            [ottla_command(), "up", "--dir", str(disk / "other"), "--base-port", "0"],
            capture_output=True, text=True, check=False, timeout=DEADLINE_S,
        )  # fmt: skip
        assert second.returncode == 1
        assert "disk" in second.stderr or "No space left" in second.stderr

        ballast.unlink()
        (disk / "last-bytes").unlink()
        eventually(lambda: run(cluster, "status").returncode == 0, "the cluster is well", within_s=DEADLINE_S)
        assert run(cluster, "produce", "t", lines="after\n").returncode == 0
        read = run(cluster, "consume", "t")
        assert read.returncode == 0
        numbers = [line.partition(" ")[0] for line in read.stdout.splitlines()]
        assert numbers[-1] == "after"
        assert len(set(numbers)) == len(numbers)
        assert len(numbers) >= published + 1
