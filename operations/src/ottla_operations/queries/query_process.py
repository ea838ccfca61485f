"""Starting the process in which a query runs (`sandbox.py`), giving it records, and ending it in any case.

The records go into a file that has no name, the answer comes out of another, so neither side waits for the other, and
the kernel bounds the answer. The process is started before the records are read: it imports DuckDB meanwhile. One may
be started before anybody asks (`prepare`), so that a query does not wait for that; it is used once, as any other, and
knows nothing before its question.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeVar

from ottla_operations.errors import OperationError
from ottla_operations.queries.query_answer import (
    ANSWER_BYTES_MAX,
    SQL_CHARACTERS_MAX,
    UNASKED_S,
    Answer,
    BadSql,
    Question,
    parquet_answer,
    parsed_answer,
)

QUERIES_AT_ONCE: Final = 2
WITHIN_S: Final = 10.0
MODULE: Final = "ottla_operations.queries.sandbox"
READY_S: Final = UNASKED_S / 2
"""How long a process that was started before it was needed is used: it has to live until the records are read."""
Parsed = TypeVar("Parsed")
_under_way = threading.BoundedSemaphore(QUERIES_AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A process that waits for its question, and its files."""

    process: "subprocess.Popen[bytes]"
    records: BinaryIO
    answer: BinaryIO
    since_s: float

    def is_ready(self) -> bool:
        """Return whether it can be used for a query that begins now."""
        return self.process.poll() is None and time.monotonic() - self.since_s < READY_S

    def end(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait()
        self.records.close()
        self.answer.close()


class _Spare:
    """At most one process that nobody uses yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: _Begun | None = None

    def take(self) -> _Begun | None:
        """Return it, if there is one that can be used."""
        with self._lock:
            begun, self._begun = self._begun, None
        if begun is not None and not begun.is_ready():
            begun.end()
            return None
        return begun

    def prepare(self) -> None:
        """Have one."""
        with self._lock:
            if self._begun is not None:
                if self._begun.is_ready():
                    return
                self._begun.end()
            self._begun = None
            self._begun = _begin()


_spare = _Spare()


def prepare() -> None:
    """Have a process ready for the next query; it ends by itself if that does not come within minutes."""
    with suppress(OperationError):  # the query will say why
        _spare.prepare()


class QueryProcess:
    """One process, for one question."""

    def __init__(self, begun: _Begun) -> None:
        self._records = begun.records
        self._process = begun.process
        self._answer = begun.answer
        self._longest = 0
        self.pid = begun.process.pid

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
        begun = _spare.take() or _begin()
        try:
            yield QueryProcess(begun)
        finally:
            begun.end()
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


def _begin() -> _Begun:
    with ExitStack() as opened:
        try:
            records, answer = (opened.enter_context(_nameless(each)) for each in ("records", "answer"))
            process = subprocess.Popen(
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
        opened.pop_all()
    return _Begun(process=process, records=records, answer=answer, since_s=time.monotonic())
