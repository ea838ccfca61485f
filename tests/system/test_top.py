"""`ottla top` at a real cluster: for scripts, and on a real terminal."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.support.clients.committed_offsets import commit_offsets
from tests.support.clients.steady_writer import SteadyWriter
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

LINES, COLUMNS = 24, 80


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path_factory.mktemp("top") / "cluster", brokers=2) as made:
        environment = {**os.environ, "OTTLA_BOOTSTRAP": made.bootstrap}
        create = [ottla_command(), "topic", "create", "orders", "--partitions", "1"]
        subprocess.run(create, env=environment, check=True, capture_output=True)
        commit_offsets(made.bootstrap, "billing", [TopicPartition("orders", 0, 0)])
        yield made


def test_scripts_get_rates_and_lags(cluster: OttlaCluster) -> None:
    with SteadyWriter(cluster.bootstrap, "orders") as writer:
        command = [ottla_command(), "top", "--json", "--interval", "1", "--bootstrap", cluster.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        writer.wait_for_acknowledgements(1)
    found = json.loads(done.stdout)
    assert [each["broker"] for each in found["brokers"]] == [1, 2]
    assert found["topics"][0]["topic"] == "orders"
    assert found["topics"][0]["records_per_s"] > 0
    (billing,) = [each for each in found["groups"] if each["group"] == "billing"]
    assert billing["lag"] > 0
    assert billing["seconds_left"] is None


def test_what_is_no_terminal_gets_it_once(cluster: OttlaCluster) -> None:
    command = [ottla_command(), "top", "--interval", "0.2", "--bootstrap", cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert "\x1b" not in done.stdout
    assert "orders" in done.stdout
    assert "billing" in done.stdout


def test_a_terminal_shows_it_until_q_and_is_as_before_then(cluster: OttlaCluster, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    os.set_blocking(ours, False)
    before, seen = termios.tcgetattr(theirs), bytearray()
    command = [ottla_command(), "top", "--interval", "0.2", "--bootstrap", cluster.bootstrap]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=errors)

    def shown(times: int) -> bool:
        try:
            seen.extend(os.read(ours, 65_536))
        except BlockingIOError:
            return False
        return seen.count(b"billing") >= times

    try:
        eventually(lambda: shown(3), "it is shown again and again", within_s=60)
        os.write(ours, b"\x1b[Aq")  # an arrow, which is three bytes, and then the key
        eventually(lambda: [shown(0), process.poll()][1] is not None, "q ends it", within_s=60)
        assert process.returncode == 0
        assert termios.tcgetattr(theirs) == before
        assert seen.endswith(b"\x1b[?1049l")
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
