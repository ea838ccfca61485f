"""Which files belong together: a file and what rotation has made of its predecessors. Pure.

logrotate and its like rename `app.log` to `app.log.1` or `app.log-20260131`, or copy it to there and empty it.
`app.log` is the family's name; its members are read by one task, the oldest first.
"""

import re
from zlib import crc32

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_ROTATED = re.compile(
    r"(?P<name>.+?)(?:"
    r"\.\d{1,5}"  # app.log.1
    r"|[.-]\d{8}(?:[-_T.]?\d{2,6}|[-_.]\d{10})?"  # app.log-20260131, app.log-20260131-0300, …-1769900000
    r"|[.-]\d{10}"  # app.log.1769900000
    r"|[.-]\d{4}-\d{2}-\d{2}(?:[-_T]\d{2}(?:[-:]?\d{2}){0,2})?"  # app.log.2026-01-31, app.log.2026-01-31_03-00
    r")(?:\.\d{1,5})?"
)


def is_compressed(name: str) -> bool:
    """Return whether a file of this name is compressed."""
    return name.endswith(COMPRESSED_SUFFIXES)


def family(name: str) -> str:
    """Return the name of the family that a file's name belongs to; its own if it is not that of a rotated file."""
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    matched = _ROTATED.fullmatch(name)
    return matched["name"] if matched else name


def is_mine(directory: str, family_name: str, *, task_index: int, task_count: int) -> bool:
    """Return whether the files of a family are a task's; each family is exactly one task's."""
    return crc32(f"{directory}/{family_name}".encode()) % task_count == task_index
