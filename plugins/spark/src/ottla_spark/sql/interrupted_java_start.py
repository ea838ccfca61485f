"""Ends a Java that is still starting: PySpark has no handle of it before it answers, which takes seconds.

It would end by itself, later, because its standard input is closed.
"""

import os
import signal
from collections.abc import Set
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> frozenset[int]:
    """Return the processes that one has started, and those that they have; none where there is no /proc."""
    found: set[int] = set()
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found |= {child, *descendants(child)}
    return frozenset(found)


def kill_descendants(*, other_than: Set[int]) -> None:
    """Kill the processes that this one has started, and theirs, but for some."""
    for pid in descendants(os.getpid()) - other_than:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
