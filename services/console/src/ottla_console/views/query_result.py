"""The answer of a query as a table of a page, and as files to take along. Pure."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.views.message_field import escaped
from ottla_console.views.message_rows import harmless
from ottla_operations.queries.query_answer import Answer

CELL_CHARACTERS: Final = 300
NUMBERS: Final = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown of a cell; `text` is None for NULL."""

    text: str | None
    is_number: bool


def is_number(type_: str) -> bool:
    """Return whether a column of this type has numbers."""
    return type_.partition("(")[0] in NUMBERS and not type_.endswith("]")


def result_rows(answer: Answer) -> list[list[Cell]]:
    """Return the rows as they are shown, each cell with at most `CELL_CHARACTERS`."""
    numbers = [is_number(each.type) for each in answer.columns]
    return [[_cell(value, number) for value, number in zip(row, numbers, strict=True)] for row in answer.rows]


def result_json_lines(answer: Answer) -> bytes:
    """Return the rows as objects, a line each."""
    names = _different_names([each.name for each in answer.columns])
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in answer.rows)
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")


def result_csv(answer: Answer) -> bytes:
    """Return the rows as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow([harmless(each.name) for each in answer.columns])
    for row in answer.rows:
        writer.writerow([value if isinstance(value, int | float) else harmless(_text(value) or "") for value in row])
    return sheet.getvalue().encode(errors="backslashreplace")


def _cell(value: Any, number: bool) -> Cell:
    text = _text(value)
    if text is not None and len(text) > CELL_CHARACTERS:
        text = f"{text[:CELL_CHARACTERS]}…"
    return Cell(None if text is None else escaped(text), number)


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


def _different_names(names: Sequence[str]) -> list[str]:
    """Return names of columns, those that were there before with a number behind."""
    found: list[str] = []
    for name in names:
        number = 1
        different = name
        while different in found:
            number += 1
            different = f"{name}_{number}"
        found.append(different)
    return found
