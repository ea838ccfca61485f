"""Messages as rows of a page, and as files to take along. Pure."""

import base64
import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.views.message_field import NOT_DECODED, Decode, ShownField, escaped, shown_field
from ottla_console.views.message_query import time_text
from ottla_operations.records.internal_records import internal_sentence
from ottla_operations.records.record_line import Record, record_document

HEADERS_SHOWN_MAX: Final = 100
HEADER_CHARACTERS: Final = 200
WORDS_CHARACTERS: Final = 2_000
COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
STEERS_A_SHEET: Final = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message.

    Attributes:
        time: in UTC.
        words: what a record of an internal topic says; None for others.
        headers: names with what is shown of their values, at most `HEADERS_SHOWN_MAX`.
        headers_total: how many there are.
    """

    partition: int
    offset: int
    time: str
    key: ShownField
    value: ShownField
    headers: Sequence[tuple[str, ShownField]]
    headers_total: int
    words: str | None = None

    @property
    def is_cut(self) -> bool:
        """Whether there is more than is shown."""
        return self.key.is_cut or self.value.is_cut or any(each.is_cut for _, each in self.headers)


def message_row(record: Record, decode: Decode | None, most: int) -> MessageRow:
    """Return a message as it is shown, each part with at most so many characters."""
    assert record.partition is not None
    assert record.offset is not None
    headers = [
        (escaped(name[:HEADER_CHARACTERS]), shown_field(value, None, HEADER_CHARACTERS))
        for name, value in record.headers[:HEADERS_SHOWN_MAX]
    ]
    return MessageRow(
        partition=record.partition,
        offset=record.offset,
        time=time_text(record.timestamp),
        key=shown_field(record.key, decode, most),
        value=shown_field(record.value, decode, most),
        headers=headers,
        headers_total=len(record.headers),
        words=_words(record),
    )


def _words(record: Record) -> str | None:
    sentence = internal_sentence(record.topic, record.key, record.value)
    return None if sentence is None else escaped(sentence[:WORDS_CHARACTERS])


def json_lines(records: Iterable[Record], decode: Decode | None) -> bytes:
    """Return messages as lines that `ottla produce --format record` reads back; decoded where a schema is known."""
    return b"".join(_line(record, decode) for record in records)


def csv_table(records: Iterable[Record], decode: Decode | None) -> bytes:
    """Return messages as CSV; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(COLUMNS)
    for record in records:
        headers = [[name, field_text(value, None) or ""] for name, value in record.headers]
        cells = [field_text(record.key, decode) or "", field_text(record.value, decode) or "", json.dumps(headers)]
        writer.writerow([record.partition, record.offset, record.timestamp, *map(harmless, cells)])
    return sheet.getvalue().encode(errors="backslashreplace")


def _line(record: Record, decode: Decode | None) -> bytes:
    document = record_document(record)
    for name, data in (("key", record.key), ("value", record.value)):
        value = NOT_DECODED if data is None or decode is None else decode(data)
        if value is not NOT_DECODED:
            document.pop(f"{name}_base64", None)
            document[name] = value
    return json.dumps(document, default=str).encode() + b"\n"


def field_text(data: bytes | None, decode: Decode | None) -> str | None:
    """Return a key or a value as text: JSON where it has a schema, base64 where it is no text; None for null."""
    if data is None:
        return None
    value = NOT_DECODED if decode is None else decode(data)
    if value is not NOT_DECODED:
        return json.dumps(value, ensure_ascii=False, default=str)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def harmless(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(STEERS_A_SHEET) else cell
