"""What the disks refuse at present: told at the beginning, then as counts, and when it is over.

Clients try again what a full disk has refused, so a line for each refusal would be one for each request, and take the
little room that is left. One line names the first refusal of a kind in a log directory; how often it was repeated is
told at intervals, and a whole interval without one ends it. Kinds are few: what was tried, and the error's number.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import structlog

TELL_INTERVAL_MS: Final = 30_000
"""How often refusals are counted up in the log."""

_logger: Final = structlog.get_logger("log")

_Kind = tuple[Path, str, int | None]
"""Log directory, what was tried, errno."""


class _Problem:
    """Refusals of one kind that have not been over for a whole interval.

    Attributes:
        latest: the message of the last one.
        count: how many there were.
        told_count: how many of these the log tells of.
        looked_count: how many there were at the end of the last interval.
    """

    __slots__ = ("count", "latest", "looked_count", "told_count")

    def __init__(self, message: str) -> None:
        self.latest = message
        self.count = self.told_count = 1
        self.looked_count = 0


class StorageProblems:
    """The refusals of all logs of a store. Its methods run on the event loop.

    Attributes:
        on_change: told when the first problem begins, and when the last one is over.
    """

    def __init__(self) -> None:
        self._present: dict[_Kind, _Problem] = {}
        self._counts: dict[tuple[Path, str], int] = {}
        self.on_change: Callable[[], None] = lambda: None

    @property
    def is_present(self) -> bool:
        """Whether a disk has refused something, and not been quiet for a whole interval since."""
        return bool(self._present)

    def counts(self) -> Iterator[tuple[Path, str, int]]:
        """Yield log directory, what was tried, and how often that was refused since the start."""
        for (directory, action), count in self._counts.items():
            yield directory, action, count

    def note(self, directory: Path, action: str, error: OSError, message: str) -> None:
        """Take note of a refusal; the first of its kind is logged."""
        self._counts[directory, action] = self._counts.get((directory, action), 0) + 1
        problem = self._present.get(kind := (directory, action, error.errno))
        if problem is not None:
            problem.count += 1
            problem.latest = message
            return
        self._present[kind] = _Problem(message)
        _logger.error("storage error", problem=message)
        if len(self._present) == 1:
            self.on_change()

    def tell(self) -> None:
        """Log what was repeated in the interval that ends now, and what is over."""
        was_present = self.is_present
        for kind, problem in tuple(self._present.items()):
            directory, action, _ = kind
            if problem.count == problem.looked_count:
                del self._present[kind]
                _logger.info(
                    "no such storage error any more", directory=str(directory), action=action, count=problem.count
                )
            elif problem.count > problem.told_count:
                _logger.error(
                    "storage errors go on", latest=problem.latest, more=problem.count - problem.told_count,
                    seconds=TELL_INTERVAL_MS // 1000,
                )  # fmt: skip
                problem.told_count = problem.count
            problem.looked_count = problem.count
        if was_present and not self.is_present:
            self.on_change()
