"""What a disk has made durable of the files that a process writes: how many bytes of each, by its last fsync.

When an fsync fails the kernel may drop what it had taken, and nobody can read it any more once the process that
wrote it is gone. `SyncedFiles` keeps account inside that process and notes, with every fsync that fails, what would
be left; `drop_unsynced` leaves the files so when the process has ended. Only what the process writes with `pwritev`
and `pwrite` is accounted for, which is segments and their indexes; the rest stays as it is.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class _File:
    """An open file; as long as it is, no other file can get its inode."""

    descriptor: int
    durable_bytes: int


class SyncedFiles:
    """The files that this process has written."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._noting = threading.Lock()

    def before_write(self, descriptor: int) -> None:
        """Something is about to be written; what the file held before this process wrote to it counts as durable."""
        found = os.fstat(descriptor)
        if found.st_ino not in self._files:
            self._files[found.st_ino] = _File(os.dup(descriptor), found.st_size)

    def synced(self, descriptor: int, size_bytes: int) -> None:
        """An fsync has succeeded before which the file had this size."""
        file = self._files.get(os.fstat(descriptor).st_ino)
        if file is not None:
            file.durable_bytes = size_bytes

    def truncated(self, descriptor: int, size_bytes: int) -> None:
        """The file was cut."""
        file = self._files.get(os.fstat(descriptor).st_ino)
        if file is not None:
            file.durable_bytes = min(file.durable_bytes, size_bytes)

    def note(self, path: Path) -> None:
        """Write down what would be left of each file that has more than that."""
        lines = []
        for inode, file in list(self._files.items()):
            found = os.fstat(file.descriptor)
            if found.st_nlink and found.st_size > file.durable_bytes:
                place = Path(f"/proc/self/fd/{file.descriptor}").readlink()
                lines.append(f"{inode} {file.durable_bytes} {place}\n")
        with self._noting:
            new = path.with_suffix(".new")
            new.write_text("".join(lines))
            new.replace(path)


def drop_unsynced(note: Path) -> int:
    """Leaves of the noted files what was durable, when their process has ended; returns the bytes lost."""
    if not note.exists():
        return 0
    lost_bytes = 0
    for line in note.read_text().splitlines():
        inode, durable_bytes, place = line.split(" ", 2)
        path = Path(place)
        if not path.is_file() or path.stat().st_ino != int(inode):
            continue
        if (more_bytes := path.stat().st_size - int(durable_bytes)) > 0:
            os.truncate(path, int(durable_bytes))
            lost_bytes += more_bytes
    note.unlink()
    return lost_bytes
