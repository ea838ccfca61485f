"""The line that says how far a statement has come."""

import io
import threading

import pytest

from ottla_spark.sql import progress
from ottla_spark.sql.progress import ERASE_LINE, Tasks, progress_line, progress_text
from tests.support.eventually import eventually


@pytest.mark.parametrize(
    ("tasks", "rows", "text"),
    [
        (None, 0, "Spark is starting … 3 s"),
        (Tasks(), 0, "working … 3 s"),
        (Tasks(stages=3, stages_done=1, tasks=12, tasks_done=5), 0, "stage 2 of 3, 5 of 12 tasks … 3 s"),
        (Tasks(parts=20, parts_done=20, tasks=1), 1_200_000, "part 20 of 20, 1,200,000 rows … 3 s"),
    ],
)
def test_it_says_what_is_done(tasks: Tasks | None, rows: int, text: str) -> None:
    assert progress_text(3.2, tasks, rows) == text


class Screen(io.StringIO):
    """A standard error that is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def test_on_a_terminal_it_comes_and_is_gone_before_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "SHOWN_FROM_S", 0.0)
    monkeypatch.setattr(progress, "LOOK_INTERVAL_S", 0.001)
    with progress_line(lambda: Tasks(tasks=4, tasks_done=1), lambda: 0) as line:
        eventually(lambda: "1 of 4 tasks … 0 s" in screen.getvalue(), "the line is drawn")
        line.end()
        shown = screen.getvalue()
        assert shown.endswith(ERASE_LINE)
        drawing = [each for each in threading.enumerate() if each.name == "progress"]
        for each in drawing:
            each.join()
    assert screen.getvalue() == shown


def test_without_a_terminal_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=False)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "SHOWN_FROM_S", 0.0)
    with progress_line(lambda: None, lambda: 0):
        assert not [each for each in threading.enumerate() if each.name == "progress"]
    assert screen.getvalue() == ""
