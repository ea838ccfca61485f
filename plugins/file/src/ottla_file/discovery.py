"""Looks for files: what the patterns match, and what rotation has made of files that they matched before.

A file is identified by its directory, its inode, and its birth where the file system tells it. That holds through
renaming, which is what rotation does, and through restarts of the machine and other mounts of a shared file system,
where device numbers change. The inode alone would not do: that of a removed file is used again, often at once.
"""

import fnmatch
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ottla_file.births import UNKNOWN_US, birth_us
from ottla_file.families import family, is_compressed

_WILD = frozenset("*?[")


class FileId(NamedTuple):
    """What identifies a file as long as it exists."""

    directory: str
    inode: int
    birth_us: int = UNKNOWN_US


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that was found.

    Attributes:
        id: what identifies it.
        path: where it is now.
        size: its bytes.
        modified_ns: when it was changed last, in ns since the epoch.
        matched: whether a pattern matches its name; otherwise it may be one that was matched before rotation.
    """

    id: FileId
    path: Path
    size: int
    modified_ns: int
    matched: bool

    @property
    def family(self) -> str:
        """The family of its name."""
        return family(self.path.name)

    @property
    def bears_family_name(self) -> bool:
        """Whether it is called as its family: then it is the newest member, whatever the clock says."""
        return self.path.name == self.family


def is_single_file(patterns: Sequence[str]) -> bool:
    """Return whether the patterns can only ever match one file."""
    return len(patterns) == 1 and not _WILD & set(patterns[0]) and not Path(patterns[0]).is_dir()


def fixed_root(pattern: str) -> Path:
    """Return the directory below which everything is that a pattern matches."""
    path = Path(pattern).absolute()
    if _WILD & set(pattern):
        parts = path.parts
        first_wild = next(number for number, part in enumerate(parts) if _WILD & set(part))
        return Path(*parts[:first_wild])
    return path if path.is_dir() else path.parent


def find_files(
    patterns: Iterable[str], exclude: Sequence[str], *, mine: Callable[[str, str], bool], siblings: bool
) -> dict[FileId, FoundFile]:
    """Return the regular files that there are now.

    Args:
        patterns: files, directories, or patterns with ``*``, ``?``, ``[…]`` and ``**``.
        exclude: patterns of names to leave out.
        mine: whether a directory's family, given as (directory, family), is to be read at all.
        siblings: whether to return also files that no pattern matches, of the families of those that one does.
    """
    found: dict[FileId, FoundFile] = {}
    families: dict[Path, set[str]] = {}
    for pattern in patterns:
        for path in _matches(pattern):
            name = family(path.name)
            if not mine(str(path.parent), name):
                continue
            families.setdefault(path.parent, set()).add(name)
            if not _excluded(path.name, exclude) and (file := _stat(path, matched=True)):
                found[file.id] = file
    if siblings:
        for directory, names in families.items():
            for file in _rotated(directory, names):
                found.setdefault(file.id, file)
    return found


def _matches(pattern: str) -> Iterator[Path]:
    path = Path(pattern).absolute()
    if _WILD & set(pattern):
        root = fixed_root(pattern)
        if root.is_dir():
            yield from root.glob(str(path.relative_to(root)))
    elif path.is_dir():
        yield from path.iterdir()
    else:
        yield path


def _excluded(name: str, exclude: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude)


def _rotated(directory: Path, families: set[str]) -> Iterator[FoundFile]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return
    for name in names:
        if family(name) in families and not is_compressed(name) and (file := _stat(directory / name, matched=False)):
            yield file


def _stat(path: Path, *, matched: bool) -> FoundFile | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FoundFile(
        id=FileId(str(path.parent), status.st_ino, birth_us(path, status.st_ino)),
        path=path,
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
        matched=matched,
    )
