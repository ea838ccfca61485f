"""Small text files that are replaced as a whole: a version, a count, and one entry per line.

A new content is written to `<name>.tmp`, fsynced, renamed over the old file, and the directory fsynced, so that
whatever happens either the old or the new content is there. Source: Kafka's CheckpointFile.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla_core.errors import CorruptMessage

CHECKPOINT_VERSION: Final = 0
TEMPORARY_SUFFIX: Final = ".tmp"


class FsyncFailed(OSError):
    """The kernel could not write what it had taken, and may have dropped it: a later fsync would not tell.

    All else that the operating system refuses, such as another open file, may succeed the next time.
    """


def sync_descriptor(descriptor: int) -> None:
    """Fsync an open file or directory.

    Raises:
        FsyncFailed: it failed.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise FsyncFailed(*error.args) from error


def sync_directory(directory: Path) -> None:
    """Make created, renamed and deleted names in a directory durable; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a file's content durable; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: str) -> None:
    """Replace a file's content durably; raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(content)
        file.flush()
        sync_descriptor(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_checkpoint(path: Path, lines: Sequence[str]) -> None:
    """Replace a checkpoint file; raises OSError."""
    replace_file(path, "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(lines), *lines)))


def read_checkpoint(path: Path, fields_per_line: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, each split into its fields; none if there is no file.

    Raises:
        CorruptMessage: the file is not a checkpoint of this shape.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines = text.split("\n")
    if text == "":
        return []  # Kafka creates checkpoint files empty
    if lines[0].strip() != str(CHECKPOINT_VERSION):
        raise CorruptMessage(f"{path} has version {lines[0]!r}, {CHECKPOINT_VERSION} is known")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(lines) < 2 or lines[1].strip() != str(len(entries)):
        raise CorruptMessage(f"{path} declares {lines[1:2]} entries and has {len(entries)}")
    if any(len(entry) != fields_per_line for entry in entries):
        raise CorruptMessage(f"{path} has a line without {fields_per_line} fields")
    return entries
