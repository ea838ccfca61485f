"""The tests that `make test` chooses, and those that take turns in CI, exist: other names would choose nothing."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.turns import TURNS, listed_in_turn, turn_of

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"(?P<suite>[a-z]+) (?P<node>(?P<file>tests/[\w/]+\.py)(?:::(?P<function>\w+)(?:\[\S+])?)?)")
PARTS = {"recovery", "clients", "commands", "connect", "spark", "mirror", "documents"}


def lines() -> list[str]:
    text = (ROOT / "tests/first.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def chosen() -> list[re.Match[str]]:
    return [found for line in lines() if (found := LINE.fullmatch(line))]


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_line_is_a_suite_and_a_test_and_each_part_of_ottla_has_some() -> None:
    assert [line for line in lines() if not LINE.fullmatch(line)] == []
    assert {each["suite"] for each in chosen()} == PARTS


def test_every_file_and_function_is_there() -> None:
    missing = [
        each["node"]
        for each in chosen()
        if not (ROOT / each["file"]).exists()
        or (each["function"] and each["function"] not in functions_of(each["file"]))
    ]
    assert missing == []


@pytest.mark.slow
def test_pytest_finds_every_one_with_its_parameters() -> None:
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", *(each["node"] for each in chosen())]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        collect, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_every_test_that_takes_turns_is_there() -> None:
    named = [each.partition("::") for each in sorted(listed_in_turn())]
    assert len(named) > 20
    assert all((ROOT / file).is_dir() for file, _, _ in named if file.endswith("/"))
    missing = [
        file + colons + name
        for file, colons, name in named
        if not (ROOT / file).exists() or (name and name not in functions_of(file))
    ]
    assert missing == []


def test_each_parameter_has_one_turn_and_other_tests_run_every_time() -> None:
    page = "tests/documents/test_pages.py::test_every_command_of_a_page_works[docs/{}.md]"
    turns = [turn_of(page.format(number)) for number in range(100)]
    assert set(turns) == set(range(TURNS))
    assert turn_of("tests/system/test_crash.py::test_every_acknowledged") is None


def test_the_tests_of_a_listed_file_have_one_turn() -> None:
    file = "tests/system/test_doctor.py"
    assert turn_of(f"{file}::test_a") is not None
    assert turn_of(f"{file}::test_a") == turn_of(f"{file}::test_b[1]")


def test_the_tests_of_a_file_below_a_folder_have_one_turn() -> None:
    files = [f"tests/compat/java/test_{number}.py" for number in range(100)]
    assert {turn_of(f"{file}::test_a[1]") for file in files} == set(range(TURNS))
    assert all(turn_of(f"{file}::test_a[1]") == turn_of(f"{file}::test_b") for file in files)


@pytest.mark.parametrize(
    ("turn", "exit_code"), [("other", pytest.ExitCode.OK), (None, pytest.ExitCode.NO_TESTS_COLLECTED)]
)
def test_a_suite_whose_tests_all_have_another_turn_is_no_failure(turn: str | None, exit_code: int) -> None:
    file = "tests/system/test_lost_records.py"
    own = turn_of(f"{file}::test_a")
    assert own is not None
    # Processes that tests start have no Hypothesis, which the tests' own settings need.
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "OTTLA_TURN"}}
    if turn:
        environment["OTTLA_TURN"] = str((own + 1) % TURNS)
    chosen = [file] if turn else [file, "-k", "nothing_is_called_so"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", *chosen],
        cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stdout
