"""A local cluster that is started with fewer brokers than before, or with more."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

COMMAND_DEADLINE_S = 180


class Local:
    """A local cluster that is started and stopped by commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, *arguments: str, fails_with: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [ottla_command(), *arguments, "--dir", str(self.directory)],
            capture_output=True, text=True, check=False, timeout=COMMAND_DEADLINE_S,
            env={name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")},
        )  # fmt: skip
        assert done.returncode == fails_with, done.stderr
        return done

    def up(self, *arguments: str) -> tuple[Ottla, str]:
        """Returns commands for the cluster, and what was noted."""
        done = self.run("up", "--detach", "--json", *arguments)
        return Ottla(json.loads(done.stdout)["bootstrap"]), done.stderr


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path / "cluster")
    yield made
    made.run("down")


def partitions(ottla: Ottla, topic: str) -> list[dict[str, Any]]:
    (described,) = ottla.json("topic", "describe", topic)
    return described["partitions"]


def test_no_partition_is_lost_unasked_when_brokers_are_left_out(local):
    ottla, _ = local.up("--brokers", "3", "--base-port", "0")
    ottla.run("topic", "create", "only", "--assignment", "1,3")
    ottla.run("topic", "create", "shared", "--partitions", "6")
    ottla.run("produce", "only", "-p", "1", stdin=b"kept\n")
    local.run("down")
    refused = local.run("up", "--detach", "--brokers", "2", fails_with=1).stderr
    assert "1 partition could be neither read nor written without broker 3" in refused
    assert "only-1" in refused
    ottla, _ = local.up()
    assert len(ottla.json("cluster", "describe")["brokers"]) == 3
    ottla.run("topic", "alter", "only", "--replication-factor", "2", "--yes")
    local.run("down")
    ottla, _ = local.up("--brokers", "2")
    assert ottla.run("consume", "only").stdout == b"kept\n"
    assert ottla.json("produce", "shared", stdin=b"x\n")["published"] == 1


def test_brokers_are_left_out_by_force_and_what_they_keep_is_there_when_they_are_back(local):
    ottla, _ = local.up("--brokers", "2", "--base-port", "0")
    ottla.run("topic", "create", "only", "--assignment", "2")
    ottla.run("produce", "only", stdin=b"kept\n")
    local.run("down")
    local.run("up", "--detach", "--brokers", "1", fails_with=1)
    _, noted = local.up("--brokers", "1", "--force")
    assert "1 partition without a leader (only-0)" in noted
    local.run("down")
    ottla, _ = local.up("--brokers", "2")
    eventually(
        lambda: ottla.run("consume", "only").stdout == b"kept\n", "the partition is back", within_s=COMMAND_DEADLINE_S
    )


def test_with_more_brokers_replication_is_raised_for_all_topics_internal_ones_too(local):
    ottla, _ = local.up("--brokers", "1", "--base-port", "0", "--set", "broker:offsets.topic.num.partitions=3")
    ottla.run("topic", "create", "old", "--partitions", "4")
    ottla.run("produce", "old", stdin=b"x\n")
    ottla.run("consume", "old", "--group", "g")
    local.run("down")
    ottla, noted = local.up("--brokers", "3")
    assert "ottla topic alter --all-topics --replication-factor 3" in noted
    planned = ottla.json("topic", "alter", "--all-topics", "--replication-factor", "3")
    assert (len(planned["plan"]["partitions"]), planned["copies"]) == (7, 14)
    assert [len(each["replicas"]) for each in partitions(ottla, "old")] == [1] * 4
    ottla.run("topic", "alter", "--all-topics", "--replication-factor", "3", "--dry-run")
    assert [len(each["replicas"]) for each in partitions(ottla, "old")] == [1] * 4
    ottla.run("topic", "alter", "--all-topics", "--replication-factor", "3", "--yes")
    for topic in ("old", "__consumer_offsets"):
        assert [sorted(each["in_sync_replicas"]) for each in partitions(ottla, topic)] == [[1, 2, 3]] * len(
            partitions(ottla, topic)
        )
    ottla.run("topic", "alter", "old", "--replication-factor", "2", "--yes", "--throttle", "10000000")
    assert [len(each["replicas"]) for each in partitions(ottla, "old")] == [2] * 4
    assert ottla.json("group", "describe", "g")
    too_many = ottla.run("topic", "alter", "old", "--replication-factor", "4", "--yes", fails_with=1).stderr
    assert b"4 replicas need 4 brokers, and 3 are in service" in too_many
    assert (
        b"there is no topic none"
        in ottla.run("topic", "alter", "none", "--replication-factor", "2", "--yes", fails_with=1).stderr
    )
    _, noted = (local.run("down"), local.up())[1]
    assert "replication-factor" not in noted
