"""The decoder of CSV files (RFC 4180, with any delimiter). Pure.

Rows are parsed by the `csv` module; columns are converted as a whole, which is several times faster than cell by
cell. The schema belongs to the file: its columns are those of its header.
"""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla_file.column_types import STRING, ColumnType
from ottla_file.rows import BadRow, Decoder, Lines, Rows, has_undecodable, split_lines
from ottla_sdk.schema import struct_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How rows are written.

    Attributes:
        delimiter: the character between columns.
        quote: the character around values; None if there is none.
        columns: names of the columns; None if the first row of a file has them.
        types: types by column; the others are strings.
        nulls: texts that stand for null.
        schema_name: name of the rows' schema; None for none.
        encoding: of the text.
        errors: strict, replace or ignore, for bytes that are not of the encoding.
        row_bytes_max: most bytes in a row.
    """

    delimiter: str = ","
    quote: str | None = '"'
    columns: Sequence[str] | None = None
    types: Mapping[str, ColumnType]
    nulls: Collection[str] = frozenset()
    schema_name: str | None = None
    encoding: str = "utf-8"
    errors: str = "strict"
    row_bytes_max: int


class BadHeader(ValueError):
    """The first row of a file cannot be its header; the message says why."""


@dataclass(slots=True)
class _Parsed:
    """Rows as texts.

    Attributes:
        rows: the cells; none for a row that is not CSV. Blank lines are left out.
        lines: how many lines of the piece end with or before each row.
        lines_taken: how many lines the rows and the blank lines take up.
    """

    rows: list[list[str]]
    lines: list[int]
    lines_taken: int


class CsvDecoder(Decoder):
    """Makes a struct of every row."""

    def __init__(self, dialect: CsvDialect) -> None:
        self._dialect = dialect
        self._columns: tuple[str, ...] = ()
        self._types: tuple[ColumnType, ...] = ()
        self.needs_head = dialect.columns is None
        csv.field_size_limit(max(csv.field_size_limit(), dialect.row_bytes_max))
        if dialect.columns is not None:
            self._set_columns(dialect.columns)

    def take_head(self, head: bytes) -> None:
        """Take the names of the columns from the first row.

        Raises:
            BadHeader: they cannot be.
        """
        lines, parsed = self._parse(head, final=True, rows_max=1)
        if not parsed.rows:
            raise BadHeader("the file has no header, though it had one before")
        self._set_header(parsed.rows[0], lines)

    def decode(self, piece: bytes, *, final: bool, rows_max: int) -> Rows:
        """Return the complete rows.

        Raises:
            BadHeader: the first row does not name columns.
        """
        lines, parsed = self._parse(piece, final=final, rows_max=rows_max)
        begins = [lines.begins[0], *(lines.ends[line - 1] for line in parsed.lines[:-1])] if parsed.rows else []
        if not self._columns:
            if not parsed.rows:
                return Rows()
            self._set_header(parsed.rows.pop(0), lines)
            parsed.lines.pop(0)
            begins.pop(0)
        taken = parsed.lines_taken
        made = Rows(consumed=lines.ends[taken - 1] if taken else 0, consumed_lines=taken)
        ends = [lines.ends[line - 1] for line in parsed.lines]
        if not lines.suspicious and set(map(len, parsed.rows)) <= {len(self._columns)}:
            try:
                made.values = self._structs(parsed.rows)
            except (ValueError, OverflowError):
                pass  # some cell is not of its column's type: row by row shows which
            else:
                made.begins, made.ends, made.lines = begins, ends, parsed.lines
                return made
        self._one_by_one(made, parsed, begins, ends, suspicious=lines.suspicious)
        return made

    def _one_by_one(
        self, made: Rows, parsed: _Parsed, begins: list[int], ends: list[int], *, suspicious: bool
    ) -> None:
        for row, line, begin, end in zip(parsed.rows, parsed.lines, begins, ends, strict=True):
            if problem := self._problem(row, suspicious=suspicious):
                made.bad.append(BadRow(len(made.values), line, problem))
                continue
            made.values += self._structs([row])
            made.begins.append(begin)
            made.ends.append(end)
            made.lines.append(line)

    def _problem(self, row: list[str], *, suspicious: bool) -> str | None:
        if suspicious and has_undecodable(row):
            return f"is not encoded in {self._dialect.encoding}"
        if not row:
            return "is not CSV: it has a carriage return in the middle of a line"
        if len(row) != len(self._columns):
            return f"has {len(row)} columns, not the {len(self._columns)} of the header"
        for name, kind, text in zip(self._columns, self._types, row, strict=True):
            try:
                kind.values([text], self._dialect.nulls)
            except (ValueError, OverflowError):
                return f"has {text!r:.80} in the column {name}, which is no {kind.schema.name or kind.schema.type}"
        return None

    def _structs(self, rows: list[list[str]]) -> list[dict[str, Any]]:
        nulls = self._dialect.nulls
        columns = [
            kind.values(texts, nulls) for kind, texts in zip(self._types, zip(*rows, strict=True), strict=False)
        ]
        names = self._columns
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _parse(self, piece: bytes, *, final: bool, rows_max: int) -> tuple[Lines, _Parsed]:
        dialect = self._dialect
        lines = split_lines(piece, final=final, rows_max=rows_max, encoding=dialect.encoding, errors=dialect.errors)
        if dialect.quote is None or dialect.quote.encode() not in piece:
            return lines, self._parse_unquoted(lines.texts)
        is_last = final and bool(lines.ends) and lines.ends[-1] == len(piece)
        parsed = self._parse_quoted(lines.texts, final=is_last)
        if not parsed.lines_taken and len(lines.texts) == rows_max:
            # A value with more lines in it than were asked for.
            return self._parse(piece, final=final, rows_max=piece.count(b"\n") + 1)
        return lines, parsed

    def _parse_unquoted(self, texts: list[str]) -> _Parsed:
        delimiter = self._dialect.delimiter
        taken = len(texts)
        if any("\r" in text for text in texts):
            return self._parse_quoted(texts, final=True)  # which knows where a carriage return may be
        numbers = list(range(1, taken + 1))
        if "" in texts:
            numbers = [number for number, text in zip(numbers, texts, strict=True) if text]
            texts = [text for text in texts if text]
        return _Parsed([text.split(delimiter) for text in texts], numbers, taken)

    def _parse_quoted(self, texts: list[str], *, final: bool) -> _Parsed:
        cut = False

        def ended_lines() -> Iterator[str]:
            nonlocal cut
            for text in texts:
                yield text + "\n"
            cut = True  # asked for in the middle of a row if a row comes out after this

        quote = self._dialect.quote
        reader = csv.reader(
            ended_lines(),
            delimiter=self._dialect.delimiter,
            quotechar=quote,
            quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        )
        parsed = _Parsed([], [], 0)
        while True:
            try:
                row = next(reader, None)
            except csv.Error:  # a carriage return in the middle of a line; the reader goes on with the next line
                parsed.rows.append([])
                parsed.lines.append(reader.line_num)
            else:
                if row is None or (cut and not final):
                    return parsed
                if row:
                    parsed.rows.append(row)
                    parsed.lines.append(reader.line_num)
            parsed.lines_taken = reader.line_num

    def _set_header(self, row: list[str], lines: Lines) -> None:
        if not row or (lines.suspicious and has_undecodable(row)):
            raise BadHeader(f"the header is not CSV or not encoded in {self._dialect.encoding}")
        names = [name.strip() for name in row]
        names[0] = names[0].removeprefix("\ufeff")  # a byte order mark
        if missing := [number for number, name in enumerate(names, start=1) if not name]:
            raise BadHeader(f"the header has no name for column {missing[0]}")
        if twice := [name for number, name in enumerate(names) if name in names[:number]]:
            raise BadHeader(f"the header has the column {twice[0]!r} twice")
        self._set_columns(names)

    def _set_columns(self, names: Sequence[str]) -> None:
        if unknown := sorted(set(self._dialect.types) - set(names)):
            raise BadHeader(f"there is no column {', '.join(unknown)}, of which file.csv.types speaks")
        self._columns = tuple(names)
        self._types = tuple(self._dialect.types.get(name, STRING) for name in names)
        self.schema = struct_schema(
            {name: kind.schema for name, kind in zip(names, self._types, strict=True)}, name=self._dialect.schema_name
        )
