"""Who leaves `ottla sql` while Spark is starting does not wait for that, and no process is left."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ottla_spark.sql.interrupted_java_start import descendants
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

DEADLINE_S = 240.0
INTERRUPTED = 130


def test_ctrl_c_while_java_starts_ends_the_command_and_java(bootstrap: str, tmp_path: Path) -> None:
    command = subprocess.Popen(
        [ottla_command(), "sql", "--master", "local[1]", "-e", "SELECT 1"],
        env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap, "XDG_CACHE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        children = eventually(lambda: descendants(command.pid), "Java is being started", within_s=DEADLINE_S)
        command.send_signal(signal.SIGINT)
        shown, told = command.communicate(timeout=DEADLINE_S)
    finally:
        command.kill()
    assert (command.returncode, shown) == (INTERRUPTED, ""), told
    assert "Traceback" not in told
    eventually(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "no process is left", within_s=DEADLINE_S
    )
