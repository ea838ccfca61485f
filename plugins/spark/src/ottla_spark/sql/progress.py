"""One line on the terminal that says how far a statement has come, as long as it has shown nothing.

It is drawn by a thread of its own: questions to Java must not be broken off by Ctrl-C, which interrupts the main
thread. Without a terminal on standard error there is none.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

LOOK_INTERVAL_S = 0.25
SHOWN_FROM_S = 0.5
"""What is done sooner flickers not."""
ERASE_LINE = "\r\x1b[2K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """What Spark's jobs that run now consist of.

    Attributes:
        parts_done: parts of the result that were handed over.
        parts: of the result; 0 if it comes as a whole.
        stages_done: stages that have ended.
        stages: of the jobs.
        tasks_done: tasks that have ended, of the stages that have begun.
        tasks: of those stages.
    """

    parts_done: int = 0
    parts: int = 0
    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0


def progress_text(seconds: float, tasks: Tasks | None, rows: int) -> str:
    """Return what the line says.

    Args:
        seconds: since the statement began.
        tasks: of the statement; None while Spark is starting.
        rows: that were shown so far.
    """
    if tasks is None:
        return f"Spark is starting … {seconds:.0f} s"
    said = []
    if tasks.parts > 1:
        said.append(f"part {min(tasks.parts_done + 1, tasks.parts)} of {tasks.parts}")
    if tasks.stages > 1:
        said.append(f"stage {min(tasks.stages_done + 1, tasks.stages)} of {tasks.stages}")
    if tasks.tasks > 1:
        said.append(f"{tasks.tasks_done:,} of {tasks.tasks:,} tasks")
    if rows:
        said.append(f"{rows:,} rows")
    return f"{', '.join(said) or 'working'} … {seconds:.0f} s"


class ProgressLine:
    """The line, which other output takes away.

    Args:
        text: what it says now.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lock = threading.Lock()
        self._is_shown = False
        self._ended = threading.Event()

    def hide(self) -> None:
        """Take the line away until it is drawn again."""
        with self._lock:
            self._erase()

    def end(self) -> None:
        """Take the line away for good."""
        self._ended.set()
        self.hide()

    def run(self) -> None:
        """Draw the line again and again until its end."""
        wait_s = SHOWN_FROM_S
        while not self._ended.wait(wait_s):
            wait_s = LOOK_INTERVAL_S
            text = self._text()
            with self._lock:
                if not self._ended.is_set():
                    self._draw(text)

    def _draw(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{ERASE_LINE}\x1b[2m{text[: max(columns - 1, 1)]}\x1b[0m")
            sys.stderr.flush()
            self._is_shown = True

    def _erase(self) -> None:
        if self._is_shown:
            self._is_shown = False
            with suppress(OSError, ValueError):
                sys.stderr.write(ERASE_LINE)
                sys.stderr.flush()


@contextmanager
def progress_line(tasks: Callable[[], Tasks | None], rows: Callable[[], int]) -> Iterator[ProgressLine]:
    """Show how far a statement has come while inside, if a person looks at standard error.

    Args:
        tasks: asks Spark; None while it is starting.
        rows: that were shown.
    """
    began_s = time.monotonic()
    line = ProgressLine(lambda: progress_text(time.monotonic() - began_s, tasks(), rows()))
    if sys.stderr.isatty():
        threading.Thread(target=line.run, name="progress", daemon=True).start()
    try:
        yield line
    finally:
        line.end()
