"""Which of the long tests of tests/in_turn.txt have their turn together.

Tests of the list go by their parameters, so that these are spread. What is listed as a file, or lies below a folder,
goes by file: what its tests share is made once, and one may go on with what another has left.
"""

from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from zlib import crc32

LIST: Final = Path(__file__).parents[1] / "in_turn.txt"
TURNS: Final = 8


@cache
def listed_in_turn() -> frozenset[str]:
    """The tests, files and folders of the list; folders end with a slash."""
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def turn_of(node_id: str) -> int | None:
    """The turn of a test, from 0 to `TURNS` - 1; None if it runs every time."""
    test = node_id.partition("[")[0]
    file = test.partition("::")[0]
    if test in listed_in_turn():
        return crc32(node_id.encode()) % TURNS
    of_file = (file, *(f"{folder}/" for folder in PurePosixPath(file).parents))
    return None if listed_in_turn().isdisjoint(of_file) else crc32(file.encode()) % TURNS
