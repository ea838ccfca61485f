"""README, as a newcomer goes through it: every command and every file as they stand there, in their order."""

import re
from pathlib import Path

import pytest

from tests.documents.documents import ROOT, Command, commands, steps
from tests.documents.reader import Reader, own_namespaces

pytestmark = pytest.mark.slow

README = ROOT / "README.md"
LINES_MAX = 120
RUN_ELSEWHERE = {"make demo", "make test"}
"""`tests/system/test_demo.py` runs the first; the second is what this is part of."""
SHOWS = {
    ".venv/bin/ottla consume greetings": "hello",
    ".venv/bin/python greet.py": "",
    ".venv/bin/ottla connect validate flights.yaml": "nothing is wrong",
    ".venv/bin/ottla connect status flights-from-csv": r"task 0\s+RUNNING",
    ".venv/bin/ottla consume flights --count 1": r'"month":1,.*"dep_delay":2,.*"carrier":"UA"',
    ".venv/bin/ottla connect status late_flights": r"task 0\s+RUNNING",
    ".venv/bin/ottla status": r"running",
}
"""What a command prints, maybe only when it is typed again a little later."""


def test_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= LINES_MAX


def test_what_is_expected_stands_in_readme() -> None:
    assert {*SHOWS, *RUN_ELSEWHERE} <= {*commands(README)}


def test_every_command_of_readme_works(tmp_path: Path) -> None:
    shown: dict[str, str] = {}
    with own_namespaces() as inside, Reader(tmp_path / "ottla", inside) as reader:
        for step in steps(README.read_text()):
            if not isinstance(step, Command):
                reader.write(step)
            elif step.line.endswith("--follow"):
                shown[step.line] = "\n".join(reader.follow(step, lines=5))
            elif step.line not in RUN_ELSEWHERE:
                shown[step.line] = reader.type(step, until=SHOWS.get(step.line, ""))
    (delays,) = [text for line, text in shown.items() if "avg(dep_delay)" in line]
    assert re.search(r"^carrier +delay", delays, re.MULTILINE), delays
    assert len(re.findall(r"^[A-Z0-9]{2} +-?\d+\.\d$", delays, re.MULTILINE)) == 16, delays
    late = shown[".venv/bin/ottla consume late_flights --follow"]
    assert all(int(delay) > 600 for delay in re.findall(r'"dep_delay":(\d+)', late)), late
    assert '"dep_delay":' in late
    assert "hello from Python" in shown[".venv/bin/ottla consume greetings"]
