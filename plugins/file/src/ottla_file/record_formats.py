"""How records become bytes in a file. Pure."""

import base64
import csv
import datetime as dt
import decimal
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ottla_file.sink_config import FileSinkConfig
from ottla_sdk import DataError, SinkRecord


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


def _plain(value: Any) -> Any:
    """Return JSON's way to say what JSON has no type for."""
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode


def _json(value: Any) -> str:
    try:
        return _encode_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the value is no valid text: {error}") from error


class JsonFormat(RecordFormat):
    """JSON lines. Bytes are written in base64, dates and times as in ISO 8601, decimals as strings."""

    def __init__(self, *, content: str) -> None:
        self._whole_record = content == "record"

    def encode(self, record: SinkRecord) -> bytes:
        """Return a line."""
        value = _described(record) if self._whole_record else record.value
        return _bytes(_json(value)) + b"\n"


def _described(record: SinkRecord) -> Mapping[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "headers": [{"key": header.key, "value": header.value} for header in record.headers],
        "value": record.value,
    }


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return _bytes(value)
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
        text = _as_bytes(value) if isinstance(value, str | bytes | bytearray | memoryview) else _bytes(_json(value))
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
        return _bytes(self._line.getvalue())

    def _cell(self, value: Any) -> Any:
        if value is None:
            return self._null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, dict | list | tuple):
            return _json(value)
        try:
            return _plain(value)
        except TypeError as error:
            raise DataError(str(error)) from error
