"""How much memory a process of its own uses, from Linux's /proc.

Counted is anonymous and shared anonymous memory, in RAM and swapped out, as in `man 5 proc`: not mapped files, whose
pages the system may drop. Pages shared with the launcher since the fork count too.
"""

import os
from contextlib import suppress

COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
KIBIBYTE = 1024
STATUS_BYTES_MAX = 4096


class ProcessMemory:
    """Reads one process's memory again and again; the open file keeps meaning that process if its id is reused."""

    def __init__(self, pid: int) -> None:
        self._file: int | None = None
        with suppress(OSError):  # it has ended already, or the system has no /proc
            self._file = os.open(f"/proc/{pid}/status", os.O_RDONLY)

    def used_bytes(self) -> int | None:
        """Return what it uses now; None if it has ended or the system does not tell."""
        if self._file is None:
            return None
        try:
            return counted_bytes(os.pread(self._file, STATUS_BYTES_MAX, 0))
        except ProcessLookupError:
            return None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def counted_bytes(status: bytes) -> int:
    """Return the memory that counts of a process's status file, in bytes."""
    return sum(int(line.split()[1]) * KIBIBYTE for line in status.splitlines() if line.startswith(COUNTED))
