"""Tables as text: a heading, a line, and a row each; cells that are too wide are folded, none is cut."""

from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

GAP = "   "
CELL_WIDTH_MIN = 8
"""Columns are not made narrower than this, however narrow the terminal."""


def table_text(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, width: int | None = None
) -> str:
    """Return a table.

    Args:
        columns: the headings; those that end in `#` are of numbers, which stand to the right.
        rows: the cells; None is an empty one.
        title: a line above.
        width: the most columns of characters; None for as many as it needs.
    """
    headings = [column.rstrip("#") for column in columns]
    is_number = [column.endswith("#") for column in columns]
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max(_width(line) for row in [headings, *cells] for line in (row[at].split("\n") if at < len(row) else [""]))
        for at in range(len(columns))
    ]
    if width is not None:
        widths = fitted(widths, width - len(GAP) * (len(columns) - 1))
    lines = [title] if title is not None else []
    lines += _row_lines(headings, widths, is_number)
    lines.append("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in cells:
        lines += _row_lines(row, widths, is_number)
    return "\n".join(["", *lines, ""])


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Return widths that sum up to `room` at most, if that is possible: the widest columns give way first."""
    found = list(widths)
    while sum(found) > room and max(found, default=0) > CELL_WIDTH_MIN:
        widest = max(found)
        found[found.index(widest)] = max(CELL_WIDTH_MIN, widest - max(1, (sum(found) - room) // len(found)))
    return found


def _row_lines(row: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> list[str]:
    columns = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    height = max((len(lines) for lines in columns), default=0)
    return [
        GAP.join(
            _aligned(lines[at] if at < len(lines) else "", width, to_right=to_right)
            for lines, width, to_right in zip(columns, widths, is_number, strict=True)
        ).rstrip()
        for at in range(height)
    ]


def _folded(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        piece, piece_width = "", 0
        for character in line:
            character_width = _width(character)
            if piece_width + character_width > width:
                lines.append(piece)
                piece, piece_width = "", 0
            piece += character
            piece_width += character_width
        lines.append(piece)
    return lines


def _aligned(text: str, width: int, *, to_right: bool) -> str:
    padding = " " * (width - _width(text))
    return padding + text if to_right else text + padding


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)
