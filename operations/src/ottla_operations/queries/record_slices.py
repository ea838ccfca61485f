"""In which pieces the values of records are taken apart. Pure.

DuckDB's functions of JSON keep what they have parsed, many times its size, until they are done with a piece.
"""

from collections.abc import Iterable, Iterator
from typing import Final

SLICE_RECORDS: Final = 20_000
SLICE_BYTES: Final = 4 * 1024 * 1024

Slice = tuple[int, int]
"""The first and the last of some rows."""


def rows_at_once(longest: int) -> int:
    """Return how many rows, the longest of so many bytes, are surely no more than a piece; one at least."""
    return max(1, min(SLICE_RECORDS, SLICE_BYTES // max(1, longest)))


def slices(sizes: Iterable[tuple[int, int, int]]) -> Iterator[Slice]:
    """Yield pieces of records that are no larger than they may be, but for a single one.

    Args:
        sizes: of rows that lie together, in their order: the first, the last, and their bytes.
    """
    first, last, size = 0, -1, 0
    for begin, end, more in sizes:
        if last >= first and (size + more > SLICE_BYTES or end - first >= SLICE_RECORDS):
            yield first, last
            first, size = begin, 0
        last, size = end, size + more
    if last >= first:
        yield first, last
