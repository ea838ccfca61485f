"""`make demo`: every flight there and back, and nothing left when it is stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def start_demo(tmp_path: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "demo.flights"], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment
    )


def processes_below(directory: Path) -> list[str]:
    """Command lines that name the directory; every process of the demo's cluster does."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
        except OSError:
            continue
        if str(directory) in command:
            found.append(command.replace("\0", " "))
    return found


def test_the_demo_gets_every_flight_back_and_leaves_nothing(tmp_path):
    demo = start_demo(tmp_path)
    output, _ = demo.communicate(timeout=300)
    assert demo.returncode == 0, output
    assert output.count("336,776") >= 2
    assert "Same counts and checksums" in output
    assert processes_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "received", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda received: received.name
)
def test_a_demo_that_is_stopped_leaves_no_process(tmp_path, received):
    demo = start_demo(tmp_path)
    try:
        eventually(lambda: len(processes_below(tmp_path)) >= 3, "the cluster is starting", within_s=60)
        demo.send_signal(received)
        output, _ = demo.communicate(timeout=120)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == (-signal.SIGKILL if received is signal.SIGKILL else 130), output
    eventually(lambda: processes_below(tmp_path) == [], "every process has gone", within_s=60)
