"""What a query is asked with, and answered by; both as JSON between two processes. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ottla_operations.errors import OperationError
from ottla_operations.records.record_line import Record

SQL_CHARACTERS_MAX: Final = 10_000
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of an answer as JSON: the first row that would be too much is left out, and all behind it."""
UNASKED_S: Final = 300
"""How long a process waits for its question before it ends by itself."""
PARQUET: Final = b"PAR1"
"""What a file of Parquet begins and ends with."""


class BadSql(OperationError):
    """A query cannot be answered; the message is DuckDB's, or says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the process is asked.

    Attributes:
        sql: one SELECT.
        topic: that the records are of.
        records_fd: a file descriptor with the records, a line of JSON each.
        longest: bytes of the longest line.
        answer_fd: another, for the answer.
        rows_max: of the answer.
        is_parquet: whether the answer is to be a file of Parquet, and no JSON.
    """

    sql: str
    topic: str
    records_fd: int
    longest: int
    answer_fd: int
    rows_max: int
    is_parquet: bool

    def written(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, and its type in DuckDB's words."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a query gives.

    Attributes:
        columns: of the answer.
        rows: cells as JSON has them; what it has no word for is text.
        is_cut: whether there are more rows.
        table: columns of the table of records.
        fields_left_out: fields of the values that are no columns of it.
        seconds: that loading and the query took.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    is_cut: bool
    table: Sequence[Column]
    fields_left_out: int
    seconds: float


def record_row(record: Record, value: str | None, key: str | None) -> bytes:
    """Return a record as a line for the process.

    Args:
        record: it.
        value: its value as text.
        key: likewise.
    """
    headers = {name: None if data is None else data.decode(errors="replace") for name, data in record.headers}
    row = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": headers or None,
    }
    return json.dumps(row).encode() + b"\n"


def parsed_answer(data: bytes) -> Answer:
    """Return the answer of a process.

    Raises:
        BadSql: it says what was wrong with the query.
        ValueError: it is none.
    """
    document = _document(data)
    try:
        return Answer(
            columns=[Column(**each) for each in document["columns"]],
            rows=document["rows"],
            is_cut=bool(document["is_cut"]),
            table=[Column(**each) for each in document["table"]],
            fields_left_out=int(document["fields_left_out"]),
            seconds=float(document["seconds"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no answer: {error}") from None


def parquet_answer(data: bytes) -> bytes:
    """Return the answer of a process that was asked for Parquet.

    Raises:
        BadSql: it says what was wrong with the query.
        ValueError: it is none.
    """
    if not data.startswith(PARQUET) or not data.endswith(PARQUET):
        _document(data)
        raise ValueError("no answer")
    return data


def _document(data: bytes) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(data)
    if "problem" in document:
        raise BadSql(str(document["problem"]))
    return document
