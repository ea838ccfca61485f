"""Suites that run side by side tell how far they are in whole lines, and what has failed at the end."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
def test_one():
    pass

def test_two():
    assert "here" == "there"
"""


def test_every_line_is_whole_and_failures_are_told_at_once_and_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    options = ["-q", "-p", "tests.progress", "--progress-every", "3600", "-o", "console_output_style=classic"]
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path), *options, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 of 2 FAILED: test_them.py::test_two (")
    assert any(line.startswith("FAILED ") and "test_them.py::test_two" in line for line in lines)
    assert lines[-1].startswith("1 failed, 1 passed in ")
