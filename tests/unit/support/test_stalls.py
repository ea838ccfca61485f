"""The tool that lets a command stand still: all its processes together, and nothing else of them changes."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, subprocess, sys, time

def longest_gap_s():
    longest_s, until_s, last_s = 0.0, time.monotonic() + 1.5, time.monotonic()
    while last_s < until_s:
        time.sleep(0.01)
        longest_s, last_s = max(longest_s, time.monotonic() - last_s), time.monotonic()
    return longest_s

if sys.argv[1:] == ["child"]:
    print(longest_gap_s())
else:
    child = subprocess.Popen(
        [sys.executable, __file__, "child"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    own_s = longest_gap_s()
    print(json.dumps([own_s, float(child.communicate()[0])]))
    sys.exit(7)
"""


def test_all_processes_of_a_command_stand_still_and_its_exit_code_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tests.stalls", "--every", "0.1", "--longest", "0.6", "--seed", "3"]
    done = subprocess.run(
        [*command, sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 7, done.stderr
    assert "(seed 3)" in done.stderr
    assert min(json.loads(done.stdout)) > 0.1, "each has missed a part of the time"


def test_a_command_that_is_lacking_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.stalls"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "a command is lacking" in done.stderr) == (2, True)
