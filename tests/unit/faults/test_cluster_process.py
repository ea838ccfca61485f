"""How the end of a trial's process is judged: a stop that comes before it was ready is no problem."""

from pathlib import Path

import pytest

from tests.faults.cluster_process import ClusterProcess
from tests.support.eventually import eventually


@pytest.mark.parametrize(
    ("line", "problems"), [("starting", []), ("ready", ["broker-1 answered SIGTERM with exit code -15"])]
)
def test_to_end_by_the_signal_itself_is_a_problem_only_once_ready(
    tmp_path: Path, line: str, problems: list[str]
) -> None:
    log = tmp_path / "broker-1.log"
    process = ClusterProcess("broker-1", ["sh", "-c", f"echo {line}; exec sleep 60"], log=log, ready_line=b"ready")
    process.start()
    try:
        eventually(lambda: log.exists() and line in log.read_text(), "it has begun", within_s=10)
        process.begin_stop()
        eventually(process.has_stopped, "it has ended", within_s=10)
    finally:
        process.kill()
    assert process.problems == problems
