"""Which of the long tests of tests/in_turn.txt have their turn together."""

from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

LIST: Final = Path(__file__).parents[1] / "in_turn.txt"
TURNS: Final = 4


@cache
def listed_in_turn() -> frozenset[str]:
    """The tests and files of the list."""
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def turn_of(node_id: str) -> int | None:
    """The turn of a test, from 0 to `TURNS` - 1; None if it runs every time."""
    test = node_id.partition("[")[0]
    if not listed_in_turn().isdisjoint((test, test.partition("::")[0])):
        return crc32(node_id.encode()) % TURNS
    return None
