"""Decoders of files whose every line is a row: text, and JSON lines. Pure."""

import json

from ottla_file.rows import BadRow, Decoder, Rows, has_undecodable, split_lines


class LineDecoder(Decoder):
    """Makes a string of every line."""

    def __init__(self, encoding: str, errors: str) -> None:
        self._encoding = encoding
        self._errors = errors

    def decode(self, piece: bytes, *, final: bool, rows_max: int) -> Rows:
        """Return the complete lines."""
        lines = split_lines(piece, final=final, rows_max=rows_max, encoding=self._encoding, errors=self._errors)
        count = len(lines.texts)
        consumed = lines.ends[-1] if count else 0
        if not lines.suspicious:
            return Rows(lines.texts, lines.begins, lines.ends, list(range(1, count + 1)), consumed, count)
        rows = Rows(consumed=consumed, consumed_lines=count)
        for number, (text, begin, end) in enumerate(zip(lines.texts, lines.begins, lines.ends, strict=True), start=1):
            if has_undecodable([text]):
                rows.bad.append(BadRow(len(rows.values), number, f"is not encoded in {self._encoding}"))
            else:
                rows.values.append(text)
                rows.begins.append(begin)
                rows.ends.append(end)
                rows.lines.append(number)
        return rows


class JsonDecoder(Decoder):
    """Makes a value of every line that is not blank; the values have no schema."""

    def __init__(self, encoding: str, errors: str) -> None:
        self._encoding = encoding
        self._errors = errors
        self._parse = json.JSONDecoder(parse_constant=_refuse).decode

    def decode(self, piece: bytes, *, final: bool, rows_max: int) -> Rows:
        """Return the values of the complete lines."""
        lines = split_lines(piece, final=final, rows_max=rows_max, encoding=self._encoding, errors=self._errors)
        rows = Rows(consumed=lines.ends[-1] if lines.ends else 0, consumed_lines=len(lines.texts))
        parse = self._parse
        for number, (text, begin, end) in enumerate(zip(lines.texts, lines.begins, lines.ends, strict=True), start=1):
            if not text or text.isspace():
                continue
            if lines.suspicious and has_undecodable([text]):
                rows.bad.append(BadRow(len(rows.values), number, f"is not encoded in {self._encoding}"))
                continue
            try:
                value = parse(text)
            except (ValueError, RecursionError) as error:
                rows.bad.append(BadRow(len(rows.values), number, f"is not JSON: {error}"))
                continue
            rows.values.append(value)
            rows.begins.append(begin)
            rows.ends.append(end)
            rows.lines.append(number)
        return rows


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
