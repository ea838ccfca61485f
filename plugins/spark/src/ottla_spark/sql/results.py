"""Where results go: tables for people, CSV or one JSON document per row for programs, on standard output.

Rows come in pieces: all at once for a query over what is there now, batch by batch for one that emits changes. A
table that goes on keeps the widths of its columns, and shows its head again when one had to grow.
"""

import csv
import io
import sys
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

from pyspark.sql.types import StructType
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla_spark.sql.rendering import NULL, cell_text, is_number, json_line
from ottla_spark.sql.result_format import ResultFormat
from ottla_spark.sql.screen import write_out

WIDTH_WITHOUT_TERMINAL = 10_000
"""In a pipe nothing is cut or folded."""
CELL_CHARACTERS_MIN = 6
"""With less than this for each column, rows are shown one below the other."""
GAP = 2


class Results:
    """One statement's result, as it is written.

    Args:
        form: how.
        schema: its columns.
        zone: in which times are shown.
    """

    def __init__(self, form: ResultFormat, schema: StructType, zone: tzinfo = UTC) -> None:
        self._form = form
        self._schema = schema
        self._zone = zone
        self._widths = [0] * len(schema.fields)
        self._has_head = False
        self.row_count = 0

    def write(self, rows: Sequence[Sequence[Any]], *, anew: bool = False) -> None:
        """Write some more rows.

        Args:
            rows: in the columns' order.
            anew: whether they replace those before, so that a table begins again.

        Raises:
            ReaderGone: nobody reads them.
        """
        self.row_count += len(rows)
        match self._form:
            case ResultFormat.JSON:
                text = "".join(json_line(row, self._schema, self._zone) + "\n" for row in rows)
            case ResultFormat.CSV:
                text = self._csv(rows)
            case ResultFormat.TABLE:
                text = self._table(rows, anew=anew)
        write_out(text)

    def _cells(self, row: Sequence[Any], null: str) -> list[str]:
        return [
            null if value is None else cell_text(value, field.dataType, self._zone)
            for value, field in zip(row, self._schema.fields, strict=True)
        ]

    def _csv(self, rows: Sequence[Sequence[Any]]) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._has_head:
            writer.writerow(self._schema.names)
        self._has_head = True
        writer.writerows(self._cells(row, "") for row in rows)
        return text.getvalue()

    def _table(self, rows: Sequence[Sequence[Any]], *, anew: bool) -> str:
        cells = [self._cells(row, NULL) for row in rows]
        names = self._schema.names
        lengths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
        grown = any(length > width for length, width in zip(lengths, self._widths, strict=True))
        self._widths = [max(pair) for pair in zip(lengths, self._widths, strict=True)]
        console = Console(width=_width(), highlight=False, file=io.StringIO(), force_terminal=sys.stdout.isatty())
        if len(names) * (CELL_CHARACTERS_MIN + GAP) > console.width:
            self._print_records(console, cells)
        else:
            shows_head = grown or anew or not self._has_head
            self._print_table(console, rows, cells, shows_head=shows_head)
        self._has_head = True
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def _print_table(
        self, console: Console, rows: Sequence[Sequence[Any]], cells: Sequence[Sequence[str]], *, shows_head: bool
    ) -> None:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=shows_head)
        fits = sum(self._widths) + GAP * len(self._widths) <= console.width
        for field, width in zip(self._schema.fields, self._widths, strict=True):
            table.add_column(
                Text(field.name),
                justify="right" if is_number(field.dataType) else "left",
                overflow="fold",
                min_width=width if fits else None,
                max_width=width,
            )
        for row, texts in zip(rows, cells, strict=True):
            table.add_row(*(_styled(value, text) for value, text in zip(row, texts, strict=True)))
        console.print(table)

    def _print_records(self, console: Console, cells: Sequence[Sequence[str]]) -> None:
        width = max(map(cell_len, self._schema.names))
        for texts in cells:
            console.print(Text("─" * min(console.width, width + 20), style="dim"))
            for name, text in zip(self._schema.names, texts, strict=True):
                console.print(Text(f"{name:<{width}}  "), Text(text), sep="", overflow="fold")


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 row`` or ``2,000 rows``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def _width() -> int:
    return Console().width if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL


def _styled(value: Any, text: str) -> Text:
    return Text(text, style="dim") if value is None else Text(text)
