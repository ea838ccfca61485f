"""What commands print: results on standard output, everything else on standard error.

A result is one JSON document with `--json`, else text or a table. Progress, notes and errors go to standard error,
and progress only where a person watches a terminal.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ottla.errors import ReaderGone

WIDTH_WITHOUT_TERMINAL = 160


def result_console() -> Console:
    """Return the console for results; wide where no terminal limits it, so that nothing is cut in a pipe."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, soft_wrap=False, highlight=False)


def note_console() -> Console:
    """Return the console for notes, progress and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


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
    """Print a result for people; columns whose name ends in `#` are numbers and stand to the right."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        is_number = column.endswith("#")
        table.add_column(column.rstrip("#"), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    result_console().print(table)


def note(message: str) -> None:
    """Tell the person something that is no result; nobody may listen (`2>&1 | head`)."""
    with suppress(BrokenPipeError):
        print(message, file=sys.stderr, flush=True)


def progress_bar(*extra_columns: str) -> Progress:
    """Return a progress display on standard error that shows nothing unless that is a terminal.

    Args:
        extra_columns: names of task fields to show at the right end.
    """
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(TextColumn("{task.fields[" + name + "]}") for name in extra_columns),
        TimeElapsedColumn(),
        console=note_console(),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def human_bytes(count: float) -> str:
    """Return a byte count with a decimal unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 partition`` or ``2 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
