"""`make demo`: flights there and back, with clients, connectors and Spark, and nothing left when it is stopped."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.reference.java_class_archive import options_for_spark

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def start_demo(tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "TMPDIR": str(tmp_path), "JDK_JAVA_OPTIONS": options_for_spark()}
    return subprocess.Popen(
        [sys.executable, "-m", "demo.flights", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def processes_of(directory: Path) -> list[str]:
    """Command lines of the demo's processes: they have its folder for temporary files, those of Spark, too."""
    marker = f"TMPDIR={directory}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and marker in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return found


def test_the_demo_gets_every_flight_back_and_leaves_nothing(tmp_path):
    demo = start_demo(tmp_path, "--flights", "20000")
    output, _ = demo.communicate(timeout=300)
    assert demo.returncode == 0, output
    assert output.count("20,000") >= 2
    assert "Same counts and checksums" in output
    assert re.search(r"[1-9][\d,]+ windows", output)
    assert "Topic and table have the same numbers" in output
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("received", "running"),
    [
        (signal.SIGINT, "ottla_broker"),
        (signal.SIGTERM, "ottla_broker"),
        (signal.SIGKILL, "ottla_broker"),
        (signal.SIGINT, "SparkSubmit"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_demo_that_is_stopped_leaves_no_process(tmp_path, received, running):
    demo = start_demo(tmp_path, "--flights", "1000")
    try:
        eventually(lambda: any(running in each for each in processes_of(tmp_path)), f"{running} runs", within_s=180)
        demo.send_signal(received)
        output, _ = demo.communicate(timeout=120)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == (-signal.SIGKILL if received is signal.SIGKILL else 130), output
    eventually(lambda: processes_of(tmp_path) == [], "every process has gone", within_s=60)
