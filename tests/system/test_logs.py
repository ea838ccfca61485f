"""`ottla logs` of a local cluster."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.clusters.ottla_command import Ottla, ottla_and_connect
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

WAIT_S = 60
RUN_DEADLINE_S = 120


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    with ottla_and_connect(tmp_path_factory.mktemp("logs") / "cluster") as made:
        yield made


def test_messages_of_all_processes_stand_in_the_order_of_time(ottla):
    logged = [json.loads(line) for line in ottla.run("logs", "--json", "-n", "10000").stdout.splitlines()]
    services = {each["service"] for each in logged}
    assert services >= {"supervisor", "broker-1", "controller-1", "group-coordinator-1", "etcd-1", "connect-1"}
    times = [each.get("timestamp") or each["ts"] for each in logged]
    moments = [datetime.fromisoformat(each) for each in times]
    assert moments == sorted(moments)
    # All clocks agree: the supervisor's log, which is in local time, lies between the others.
    assert max(moments) - min(moments) < timedelta(hours=1)


def test_logs_are_chosen_by_process_time_and_level(ottla):
    shown = ottla.run("logs", "broker", "-n", "10000").stdout.decode()
    assert {line.split()[2] for line in shown.splitlines() if line[:2] == "20"} == {"broker-1"}
    assert "\033" not in shown
    assert len(ottla.run("logs", "-n", "3").stdout.splitlines()) == 3
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert ottla.run("logs", "--since", tomorrow).stdout == b""
    assert ottla.run("logs", "--since", "1d").stdout.count(b"\n") >= shown.count("\n")
    assert b" INFO " not in ottla.run("logs", "--level", "warning", "-n", "10000").stdout
    assert b"nobody has no log" in ottla.run("logs", "nobody", fails_with=1).stderr
    assert b"--since soon" in ottla.run("logs", "--since", "soon", fails_with=2).stderr


def test_what_is_logged_from_now_on_is_followed_until_an_interrupt(ottla, tmp_path):
    written = tmp_path / "followed"
    with written.open("wb") as output:
        following = subprocess.Popen(
            # Tests that run in the background have SIGINT ignored, which their children would inherit.
            ["env", "--default-signal=INT", ottla_command(), *("logs", "broker-1", "controller-1", "-n", "0", "-f")],
            stdout=output, env={**os.environ, **ottla.environment},
        )  # fmt: skip
    try:
        number = 0

        def something_is_shown() -> bool:
            nonlocal number
            number += 1
            ottla.run("topic", "create", f"followed-{number}")
            return b"followed-" in written.read_bytes()

        eventually(something_is_shown, "a message about a new topic", within_s=WAIT_S)
        following.send_signal(signal.SIGINT)
        assert following.wait(WAIT_S) == 0
    finally:
        following.kill()
        following.wait()
