"""Which of the long tests of tests/in_turn.txt have their turn together.

Tests and files of the list go by test, so that the parameters of one are spread; those below its folders go by file,
since what the tests of a file share is made once.
"""

from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from zlib import crc32

LIST: Final = Path(__file__).parents[1] / "in_turn.txt"
TURNS: Final = 4


@cache
def listed_in_turn() -> frozenset[str]:
    """The tests, files and folders of the list; folders end with a slash."""
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def turn_of(node_id: str) -> int | None:
    """The turn of a test, from 0 to `TURNS` - 1; None if it runs every time."""
    test = node_id.partition("[")[0]
    file = test.partition("::")[0]
    if not listed_in_turn().isdisjoint((test, file)):
        return crc32(node_id.encode()) % TURNS
    folders = (f"{folder}/" for folder in PurePosixPath(file).parents)
    return None if listed_in_turn().isdisjoint(folders) else crc32(file.encode()) % TURNS
