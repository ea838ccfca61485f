"""The process in which a query over records runs: `python -I -m ottla_operations.queries.sandbox`.

It is started for one query, with nothing in its environment and two open files, and takes one question from standard
input; without one it ends by itself. Before any SQL of a user runs, the records are in a table, DuckDB is told to
open nothing more and to keep its settings, and the kernel lets the process open no file but Python's own (Landlock,
where there is one), write no more than its answer, and take no more memory and processor than the limits. Whoever
started it ends it in time.
"""

import json
import os
import resource
import signal
import sys
import time
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb

from ottla_operations.queries.query_answer import ANSWER_BYTES_MAX, UNASKED_S, Question
from ottla_operations.queries.record_columns import FieldColumns, field_columns, merged, quoted
from ottla_operations.queries.record_slices import Slice, rows_at_once, slices

ADDRESS_SPACE_BYTES_MAX: Final = 2 * 1024**3
"""Python and DuckDB take 0.8 of it before they have done anything."""
CPU_S_MAX: Final = 15
OPEN_FILES_MAX: Final = 32
MEMORY_LIMIT: Final = "512MB"
LINE_BYTES_MIN: Final = 1024 * 1024
"""DuckDB takes a buffer of several times the longest line."""
CELL_CHARACTERS_MAX: Final = 1_000_000
DEEP_CHARACTERS: Final = 2_000
OPENINGS_MAX: Final = 5_000
"""A long value with more brackets than this is not taken apart: its nesting may be too deep."""
ROWS_AT_ONCE: Final = 500
SETTINGS: Final[dict[str, Any]] = {
    "threads": 1,
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # otherwise a table's name could be a variable of this program
}
LOAD: Final = """
CREATE TABLE loaded AS
SELECT ?::VARCHAR AS topic, partition, "offset", make_timestamp(timestamp * 1000) AS timestamp, key, value, headers
FROM read_json(?, format = 'newline_delimited', maximum_object_size = ?, columns = {
    partition: 'INTEGER', "offset": 'BIGINT', timestamp: 'BIGINT', key: 'VARCHAR', value: 'VARCHAR', headers: 'JSON'
})
"""
OBJECT: Final = f"""
CASE WHEN (length(value) < {DEEP_CHARACTERS}
        OR length(value) - length(replace(replace(value, '[', ''), '{{', '')) < {OPENINGS_MAX})
    AND json_valid(value) THEN CASE WHEN json_type(value) = 'OBJECT' THEN value::JSON END END
"""

SIZES: Final = """
SELECT min(rowid), max(rowid), sum(coalesce(strlen(value), 0)) FROM loaded GROUP BY rowid // ? ORDER BY 1
"""
SLICE: Final = "FROM loaded WHERE rowid BETWEEN ? AND ?"
STRUCTURE: Final = f"SELECT json_group_structure({OBJECT}) {SLICE}"


class Problem(Exception):
    """A query cannot be answered; the message is for whoever wrote it."""


def main() -> int:
    """Answer one question, and return the exit code."""
    signal.alarm(UNASKED_S)
    _limit()
    connection = duckdb.connect(":memory:", config=SETTINGS)
    if not (asked := sys.stdin.buffer.read()):
        return 0
    signal.alarm(0)
    question = Question(**json.loads(asked))
    try:
        answer = _answer(connection, question)
    except Problem as error:
        answer = json.dumps({"problem": str(error)}).encode()
    except (MemoryError, duckdb.OutOfMemoryException):
        answer = json.dumps({"problem": "the query needs more memory than it may have"}).encode()
    if answer is not None:
        with os.fdopen(question.answer_fd, "wb") as file:
            file.truncate(0)
            file.write(answer)
    return 0


def _answer(connection: duckdb.DuckDBPyConnection, question: Question) -> bytes | None:
    """Return the answer as JSON; None if it has been written as Parquet."""
    began = time.monotonic()
    try:
        parted = load(connection, question.topic, f"/dev/fd/{question.records_fd}", question.longest)
        close(connection, f"/dev/fd/{question.answer_fd}" if question.is_parquet else None)
        table = [{"name": name, "type": kind} for name, kind in _described(connection)]
        check(connection, question.sql)
        if question.is_parquet:
            _write_parquet(connection, question)
            return None
        result = connection.execute(question.sql)
        columns = [{"name": each[0], "type": str(each[1])} for each in result.description or ()]
        rows, is_cut = _rows(result, question)
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, ValueError, OverflowError) as error:
        raise Problem(str(error)) from None
    document = {
        "columns": columns,
        "table": table,
        "fields_left_out": parted.left_out,
        "is_cut": is_cut,
        "seconds": time.monotonic() - began,
    }
    head = json.dumps(document).encode()
    return head[:-1] + b', "rows": [' + b",".join(rows) + b"]}"


def load(connection: duckdb.DuckDBPyConnection, topic: str, path: str, longest: int) -> FieldColumns:
    """Make the table `records` of a file with a line of JSON for each record, the longest of so many bytes.

    Raises:
        duckdb.Error: the file is not like that, or does not fit into the memory.
    """
    connection.execute(LOAD, [topic, path, max(LINE_BYTES_MIN, longest)])
    pieces = list(slices(connection.execute(SIZES, [rows_at_once(longest)]).fetchall()))
    structure = _structure(connection, pieces)
    parted = field_columns(structure)
    try:
        _take_apart(connection, pieces, parted, "json_transform_strict")
    except duckdb.InvalidInputException:  # some whole numbers need more than 64 bits
        parted = field_columns(structure, whole_number="HUGEINT")
        _take_apart(connection, pieces, parted, "json_transform")
    connection.execute("DROP TABLE loaded")
    return parted


def close(connection: duckdb.DuckDBPyConnection, answer: str | None = None) -> None:
    """Let a connection, and this process, open nothing any more, but for the file of an answer.

    Raises:
        OSError: the kernel refuses.
    """
    if answer is not None:
        connection.execute("SET allowed_paths = [?]", [answer])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    _confine()


def _structure(connection: duckdb.DuckDBPyConnection, pieces: Sequence[Slice]) -> object:
    """Return the structure of all values that are JSON objects; None without any."""
    structure: object = None
    for each in pieces:
        found = connection.execute(STRUCTURE, each).fetchone()
        if found is not None and found[0] is not None:
            with suppress(RecursionError):  # it is nested so deeply that nobody could ask for what is in it
                structure = merged(structure, json.loads(found[0]))
    return structure


def _take_apart(
    connection: duckdb.DuckDBPyConnection, pieces: Sequence[Slice], parted: FieldColumns, transform: str
) -> None:
    if not parted.columns:
        connection.execute("CREATE TABLE records AS FROM loaded")
        return
    columns = ", ".join(f"_fields.{quoted(field)} AS {quoted(column)}" for column, field in parted.columns)
    rows = (
        f"SELECT * EXCLUDE (_fields), {columns} "  # noqa: S608 - the names are quoted
        f"FROM (SELECT *, {transform}({OBJECT}, ?) AS _fields {SLICE})"
    )
    structure = json.dumps(parted.structure)
    connection.execute(f"CREATE OR REPLACE TABLE records AS {rows} LIMIT 0", [structure, 0, 0])
    for first, last in pieces:
        connection.execute(f"INSERT INTO records {rows}", [structure, first, last])


def _limit() -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES_MAX),
        (resource.RLIMIT_CPU, CPU_S_MAX),
        (resource.RLIMIT_FSIZE, 2 * ANSWER_BYTES_MAX),
        (resource.RLIMIT_NOFILE, OPEN_FILES_MAX),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


def _confine() -> None:
    from ottla_sdk.runtime.landlock import is_available, restrict  # noqa: PLC0415 - Linux only

    if is_available():
        pythons = [*sys.path, *zoneinfo.TZPATH]
        restrict([Path(each) for each in pythons if each], [], may_execute=False)


def _write_parquet(connection: duckdb.DuckDBPyConnection, question: Question) -> None:
    asked = connection.sql(question.sql)
    assert asked is not None, "a SELECT has an answer"
    asked.limit(question.rows_max).create_view("answer")
    try:
        connection.execute(f"COPY answer TO '/dev/fd/{question.answer_fd:d}' (FORMAT parquet, USE_TMP_FILE false)")
    except duckdb.IOException:
        most = 2 * ANSWER_BYTES_MAX // 1024**2
        raise Problem(f"the answer cannot be written: it may be larger than {most} MiB; ask for less") from None


def _described(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    found = connection.execute("SELECT * FROM records LIMIT 0").description or ()
    return [(str(each[0]), str(each[1])) for each in found]


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise unless it is one SELECT.

    Raises:
        Problem: it is something else.
        duckdb.Error: it is no SQL.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Problem("write one SELECT over the table records, and nothing else")


def _rows(result: duckdb.DuckDBPyConnection, question: Question) -> tuple[list[bytes], bool]:
    """Return rows as JSON up to the bounds, and whether there are more."""
    rows: list[bytes] = []
    size = 0
    while found := result.fetchmany(ROWS_AT_ONCE):
        for row in found:
            line = json.dumps([_cell(each) for each in row]).encode()
            size += len(line)
            if len(rows) == question.rows_max or size > ANSWER_BYTES_MAX:
                return rows, True
            rows.append(line)
    return rows, False


def _cell(value: Any) -> Any:
    """Return a value as JSON has it; what it has no word for as text."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return value[:CELL_CHARACTERS_MAX]
        case float():
            return value if value - value == 0 else str(value)
        case Decimal():
            return float(value) if Decimal(repr(float(value))) == value else str(value)
        case bytes():
            return value[: CELL_CHARACTERS_MAX // 2].hex()
        case datetime():
            return value.isoformat(" ")
        case date() | time_of_day():
            return value.isoformat()
        case list() | tuple():
            return [_cell(each) for each in value]
        case dict():
            return {str(name): _cell(each) for name, each in value.items()}
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
