"""What commands print: results on standard output, everything else on standard error.

A result is one JSON document with `--json`, else text or a table. Progress, notes and errors go to standard error,
and progress only where a person watches a terminal. Rich draws what moves there, and is imported for nothing else.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, Self

from ottla.text_table import table_text

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_DEFAULT = 80


class ReaderGone(Exception):
    """Whoever read standard output has gone away (`| head`), so there is nothing more to do; not a failure."""


class ProgressBar(Protocol):
    """What a command tells about its progress."""

    def start(self) -> None:
        """Begin to show it."""

    def stop(self) -> None:
        """Take it away."""

    def add_task(self, description: str, *, total: float | None = 100.0, visible: bool = True, **fields: Any) -> Any:
        """Add a line, and return its id."""

    def update(self, task_id: Any, **changes: Any) -> None:
        """Change a line: its description, what is completed, or a field."""

    def say(self, message: str) -> None:
        """Print a message above the lines."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: Any) -> None: ...


class NoProgress:
    """Progress that nobody watches."""

    def start(self) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Show nothing."""

    def add_task(self, description: str, *, total: float | None = 100.0, visible: bool = True, **fields: Any) -> Any:
        """Show nothing."""

    def update(self, task_id: Any, **changes: Any) -> None:
        """Show nothing."""

    def say(self, message: str) -> None:
        """Print a message."""
        note(message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        """Show nothing."""


def note_console() -> "Console":
    """Return the console for what moves on the terminal at standard error."""
    allow_rich()
    from rich.console import Console  # noqa: PLC0415 - takes as long as a whole short command

    return Console(stderr=True, highlight=False, soft_wrap=True)


def allow_rich() -> None:
    """Take back that Rich counts as not installed, which keeps libraries from importing it (`main.program`)."""
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment] # typeshed knows modules only
    if modules.get("rich", sys) is None:
        del modules["rich"]


def print_json(document: object) -> None:
    """Print a result for programs: one JSON document."""
    write_result(json.dumps(document, indent=2, ensure_ascii=False).encode(errors="backslashreplace") + b"\n")


def write_result(data: bytes) -> None:
    """Write bytes to standard output at once.

    Raises:
        ReaderGone: nobody reads it any more.
    """
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a result for people; columns whose name ends in `#` are numbers and stand to the right.

    On a terminal it is as wide as that; in a pipe nothing is cut or folded.
    """
    width = shutil.get_terminal_size((WIDTH_DEFAULT, 0)).columns if sys.stdout.isatty() else None
    try:
        print(table_text(columns, rows, title=title, width=width), flush=True)
    except BrokenPipeError:
        raise ReaderGone from None


def note(message: str) -> None:
    """Tell the person something that is no result; nobody may listen (`2>&1 | head`)."""
    with suppress(BrokenPipeError):
        print(message, file=sys.stderr, flush=True)


def progress_bar(*extra_columns: str) -> ProgressBar:
    """Return a progress display on standard error that shows nothing unless that is a terminal.

    Args:
        extra_columns: names of task fields to show at the right end.
    """
    if not sys.stderr.isatty():
        return NoProgress()
    console = note_console()
    from rich.progress import (  # noqa: PLC0415 - likewise
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    class Bar(Progress):
        def say(self, message: str) -> None:
            self.console.print(message, markup=False)

    return Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(TextColumn("{task.fields[" + name + "]}") for name in extra_columns),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
