"""Has glibc give memory of large messages back to the system.

A page of large messages needs a hundred megabytes for a moment. glibc has up to eight heaps for each processor, and a
thread allocates in one of them: the threads of a reading, which are new with each reading, in any. What is freed
there stays with the heap, since small objects that last lie behind it, so each heap keeps what it needed at its peak.
So there are two heaps here, and what is free in them is given back after a reading of much. To have each large piece
mapped by itself (`M_MMAP_THRESHOLD`) would give back more, but takes three times the system's time.

Other C libraries (musl, macOS) know neither call, and here nothing is done.
"""

import ctypes
import os
from collections.abc import Mapping
from typing import Any, Final

M_ARENA_MAX: Final = -8
"""A number of glibc's `malloc.h`."""
HEAPS_MAX: Final = 2
MUCH_BYTES: Final = 8 * 1024 * 1024


def bound_heaps(environment: Mapping[str, str] = os.environ) -> bool:
    """Have few heaps; return whether that was set. To be called before there are threads.

    What whoever starts the process has set (`MALLOC_ARENA_MAX`, `GLIBC_TUNABLES`) stays.
    """
    if environment.get("MALLOC_ARENA_MAX") or "glibc.malloc.arena_max=" in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(M_ARENA_MAX, HEAPS_MAX))


def return_freed(read_bytes: int) -> None:
    """Give back what is free, if so much was read that it is worth it; some milliseconds, without the interpreter."""
    trim = _of_glibc("malloc_trim")
    if read_bytes >= MUCH_BYTES and trim is not None:
        trim(ctypes.c_size_t(0))


def _of_glibc(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None)
