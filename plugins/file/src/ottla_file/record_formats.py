"""How records become bytes in a file. Pure."""

import csv
import io
from abc import ABC, abstractmethod
from typing import Any

from ottla_file.sink_config import FileSinkConfig
from ottla_sdk import DataError, SinkRecord
from ottla_sdk.json_text import json_form, json_text, record_object, utf_8


class RecordFormat(ABC):
    """A format; one instance for each file."""

    def fits(self, record: SinkRecord) -> bool:
        """Return whether the record may go into the same file as those before it."""
        del record
        return True

    def header(self, record: SinkRecord) -> bytes:
        """Return what comes before the first record."""
        del record
        return b""

    @abstractmethod
    def encode(self, record: SinkRecord) -> bytes:
        """Return a record's bytes.

        Raises:
            DataError: the format cannot say what is in the record.
        """


def new_format(config: FileSinkConfig) -> RecordFormat:
    """Return the format of a file that is begun now."""
    match config.format:
        case "lines":
            return LinesFormat()
        case "json":
            return JsonFormat(content=config.content)
        case "csv":
            return CsvFormat(delimiter=config.delimiter, null=config.csv_null)
        case "bytes":
            return BytesFormat()


class JsonFormat(RecordFormat):
    """JSON lines. Bytes are written in base64, dates and times as in ISO 8601, decimals as strings."""

    def __init__(self, *, content: str) -> None:
        self._whole_record = content == "record"

    def encode(self, record: SinkRecord) -> bytes:
        """Return a line."""
        value = record_object(record) if self._whole_record else record.value
        return utf_8(json_text(value)) + b"\n"


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return utf_8(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(type(value).__name__)


class LinesFormat(RecordFormat):
    """Lines of text."""

    def encode(self, record: SinkRecord) -> bytes:
        """Return a line."""
        value = record.value
        if value is None:
            return b"\n"
        text = (
            _as_bytes(value) if isinstance(value, str | bytes | bytearray | memoryview) else utf_8(json_text(value))
        )
        if b"\n" in text:
            raise DataError(
                "the value has the end of a line in it, so it is no single line; file.format=json can say it"
            )
        return text + b"\n"


class BytesFormat(RecordFormat):
    """Values as they are."""

    def encode(self, record: SinkRecord) -> bytes:
        """Return the value."""
        if record.value is None:
            return b""
        try:
            return _as_bytes(record.value)
        except TypeError as error:
            raise DataError(f"the value is a {error}, not bytes or a string; file.format=json can say it") from error


class CsvFormat(RecordFormat):
    """CSV with a header. The first record says what the columns are; one with others needs a new file."""

    def __init__(self, *, delimiter: str, null: str) -> None:
        self._null = null
        self._columns: tuple[str, ...] = ()
        self._line = io.StringIO()
        self._writer = csv.writer(self._line, delimiter=delimiter, lineterminator="\n")

    def fits(self, record: SinkRecord) -> bool:
        """Return whether all its fields are columns."""
        return not self._columns or not isinstance(record.value, dict) or set(record.value) <= set(self._columns)

    def header(self, record: SinkRecord) -> bytes:
        """Return the row of the columns' names."""
        value = self._struct(record)
        known = record.value_schema.field_by_name if record.value_schema is not None else {}
        self._columns = tuple(known or value)
        return self._row(self._columns)

    def encode(self, record: SinkRecord) -> bytes:
        """Return a row."""
        value = self._struct(record)
        return self._row([self._cell(value.get(column)) for column in self._columns or value])

    def _struct(self, record: SinkRecord) -> dict[str, Any]:
        if not isinstance(record.value, dict) or not record.value:
            raise DataError(f"the value is a {type(record.value).__name__}, not a struct with fields for columns")
        return record.value

    def _row(self, cells: Any) -> bytes:
        self._line.seek(0)
        self._line.truncate()
        self._writer.writerow(cells)
        return utf_8(self._line.getvalue())

    def _cell(self, value: Any) -> Any:
        if value is None:
            return self._null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, dict | list | tuple):
            return json_text(value)
        try:
            return json_form(value)
        except TypeError as error:
            raise DataError(str(error)) from error
