"""Starting the process in which a query runs (`sandbox.py`), giving it records, and ending it in any case.

The records go into a file that has no name, the answer comes out of another, so neither side waits for the other, and
the kernel bounds the answer. The process is started before the records are read: it imports DuckDB meanwhile.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, TypeVar

from ottla_operations.errors import OperationError
from ottla_operations.queries.query_answer import (
    SQL_CHARACTERS_MAX,
    Answer,
    BadSql,
    Question,
    parquet_answer,
    parsed_answer,
)

QUERIES_AT_ONCE: Final = 2
WITHIN_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
MODULE: Final = "ottla_operations.queries.sandbox"
Parsed = TypeVar("Parsed")
_under_way = threading.BoundedSemaphore(QUERIES_AT_ONCE)


class QueryProcess:
    """One process, for one question."""

    def __init__(self, process: "subprocess.Popen[bytes]", records: BinaryIO, answer: BinaryIO) -> None:
        self._records = records
        self._process = process
        self._answer = answer
        self._longest = 0
        self.pid = process.pid

    def add(self, row: bytes) -> None:
        """Give it a record, a line of `query_answer.record_row`."""
        self._longest = max(self._longest, len(row))
        self._records.write(row)

    def ask(self, sql: str, topic: str, rows_max: int, *, within_s: float = WITHIN_S) -> Answer:
        """Return the answer to a query.

        Raises:
            BadSql: it cannot be answered, or not within the limits.
            OperationError: the process ended without an answer.
        """
        return self._ask(sql, topic, rows_max, within_s, parsed_answer, is_parquet=False)

    def ask_for_parquet(self, sql: str, topic: str, rows_max: int, *, within_s: float = WITHIN_S) -> bytes:
        """Return the answer to a query as a file of Parquet.

        Raises:
            BadSql: it cannot be answered, or not within the limits.
            OperationError: the process ended without an answer.
        """
        return self._ask(sql, topic, rows_max, within_s, parquet_answer, is_parquet=True)

    def _ask(
        self,
        sql: str,
        topic: str,
        rows_max: int,
        within_s: float,
        parsed: Callable[[bytes], Parsed],
        *,
        is_parquet: bool,
    ) -> Parsed:
        self._records.flush()
        question = Question(
            sql=sql,
            topic=topic,
            records_fd=self._records.fileno(),
            longest=self._longest,
            answer_fd=self._answer.fileno(),
            rows_max=rows_max,
            is_parquet=is_parquet,
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        try:
            self._process.communicate(question.written(), timeout=within_s)
        except subprocess.TimeoutExpired:
            raise BadSql(f"the query took more than {within_s:.0f} s and was ended; ask for less") from None
        code = self._process.returncode
        if code < 0:
            raise BadSql(f"the query needed more memory or processor time than it may have (signal {-code})")
        self._answer.seek(0)
        try:
            return parsed(self._answer.read(3 * ANSWER_BYTES_MAX))
        except ValueError:
            raise OperationError(
                f"the process for the query ended with {code} and no answer: it may have had too little memory"
            ) from None


@contextmanager
def query_process() -> Iterator[QueryProcess]:
    """Lend a process that has begun, and end it.

    Raises:
        OperationError: there are as many as there may be, or it cannot be started.
    """
    if not _under_way.acquire(blocking=False):
        raise OperationError(f"{QUERIES_AT_ONCE} queries are under way, and no more may be; try again in a moment")
    try:
        with _nameless("records") as records, _nameless("answer") as answer:
            process = _started(records, answer)
            try:
                yield QueryProcess(process, records, answer)
            finally:
                _end(process)
    finally:
        _under_way.release()


def check_sql(sql: str) -> str:
    """Return a query without what surrounds it.

    Raises:
        BadSql: it is none, or too long.
    """
    stripped = sql.strip()
    if not stripped or len(stripped) > SQL_CHARACTERS_MAX or "\0" in stripped:
        raise BadSql(f"SQL: one SELECT over the table records, of at most {SQL_CHARACTERS_MAX:,} characters")
    return stripped


def _nameless(name: str) -> BinaryIO:
    """Return a file without a name: in memory, where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(f"ottla-{name}"), "w+b")
    return tempfile.TemporaryFile()


def _started(records: BinaryIO, answer: BinaryIO) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(records.fileno(), answer.fileno()),
            env={"LANG": "C.UTF-8"},  # nothing of ours: it may hold secrets
            cwd="/",
        )
    except OSError as error:
        raise OperationError(f"no process for the query can be started: {error}") from None


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    process.wait()
