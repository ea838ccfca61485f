"""Files that are read again when they have changed, such as certificates that are renewed while a process runs.

Files that cannot be used leave the former contents in place, as while only one of two has been replaced. So do files
that change while they are read: the next look reads them as they are then.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from ottla_core.errors import OttlaError

CHECK_SECONDS: Final = 5.0
"""How often processes look at their certificates."""

Contents = TypeVar("Contents")
_State = tuple[tuple[int, int, int], ...]


class ReloadedFiles(Generic[Contents]):
    """The contents of files, as they were when these could be used last.

    Args:
        paths: the files.
        read: returns their contents; raises an `OttlaError` if they cannot be used.

    Attributes:
        paths: the files.
        contents: what was read last.

    Raises:
        OttlaError: the files cannot be used.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Contents]) -> None:
        self.paths = tuple(paths)
        self._read = read
        self._state = _state_of(self.paths)
        self._refused: _State | None = None
        self.contents = read()

    @property
    def are_outdated(self) -> bool:
        """Whether the files have changed and cannot be used."""
        return self._refused is not None

    def look(self) -> bool:
        """Read the files if they have changed, and return whether there are new contents; blocks meanwhile.

        Raises:
            OttlaError: they cannot be used; raised once for each state of theirs.
        """
        state = _state_of(self.paths)
        if state == self._state:
            self._refused = None
            return False
        if state == self._refused:
            return False
        try:
            contents = self._read()
        except OttlaError:
            self._refused = state
            raise
        if _state_of(self.paths) != state:
            return False
        self.contents, self._state, self._refused = contents, state, None
        return True


def _state_of(paths: Sequence[Path]) -> _State:
    """Return a value that differs when a file is another one; a file that cannot be looked at is another one."""
    states = []
    for path in paths:
        try:
            found = path.stat()
            states.append((found.st_ino, found.st_mtime_ns, found.st_size))
        except OSError as error:
            states.append((-1, error.errno or 0, 0))
    return tuple(states)
