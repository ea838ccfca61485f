"""What the SQL sink costs beside a hand-written batched insert of the same rows, on SQLite and PostgreSQL.

The sink's task runs in this process with a context in memory, so that Kafka and the runtime are not in it; it gets
what a converter would give it, batches of 500 records, which is what a consumer returns at a time by default, and
10,000. The hand-written program takes the same dictionaries in the same batches, makes tuples of them and calls
`executemany`, one transaction per batch, which is the fastest there is with these drivers but COPY. Both write nine
columns, of which one is a timestamp. Runs take turns, on tables that are new each time. Processor time is given
beside wall time because on SQLite all work is in this process; with PostgreSQL part of it is in the server.
"""

import datetime as dt
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.summary import Measures
from ottla_sdk import Schema, SinkRecord
from ottla_sdk import schema as connect
from ottla_sdk.conformance import MemorySinkTaskContext
from ottla_sql.sink.task import SqlSinkTask
from tests.support.machine.postgres_server import running_postgres

TABLE = "flights"
COLUMNS = ("id", "carrier", "origin", "destination", "delay", "distance", "tail", "on_time", "departed")
SCHEMA = connect.struct_schema(
    dict(
        zip(
            COLUMNS,
            (
                connect.INT64,
                connect.STRING,
                connect.STRING,
                connect.STRING,
                connect.FLOAT64.as_optional(),
                connect.INT32,
                connect.STRING.as_optional(),
                connect.BOOLEAN,
                connect.TIMESTAMP,
            ),
            strict=True,
        )
    )
)
CREATE = (
    f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, carrier text, origin text, destination text,"
    " delay double precision, distance integer, tail text, on_time boolean, departed {})"
)
BATCHES = (500, 10_000)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPlan:
    """What to measure.

    Attributes:
        rows: of each run.
        repetitions: how often every run is made; the runs take turns.
    """

    rows: int = 100_000
    repetitions: int = 5


@dataclass(frozen=True, slots=True)
class _Run:
    wall_s: float
    cpu_s: float


def measure(directory: Path, plan: SqlPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of every kind of run, and the ratios of the sink's times to the hand-written program's."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = _rows(plan.rows)
    found: dict[str, list[_Run]] = {}
    with running_postgres(directory) as server:
        url = server.create_database("benchmark")
        for repetition in range(plan.repetitions):
            for name, run in _runs(rows, directory / "benchmark.db", url):
                say(f"{repetition + 1}/{plan.repetitions} {name}")
                found.setdefault(name, []).append(run())
    results: dict[str, Measures] = {
        name: {
            "rows_per_s": plan.rows / statistics.median(each.wall_s for each in runs),
            "cpu_us_per_row": statistics.median(each.cpu_s for each in runs) / plan.rows * 1_000_000,
        }
        for name, runs in found.items()
    }
    results["ratios"] = _ratios(found)
    return results


def _ratios(found: Mapping[str, Sequence[_Run]]) -> dict[str, float]:
    """Return the medians of ratios between neighbours, so that a slow minute hits both."""
    ratios = {}
    for name, runs in found.items():
        by_hand = name.replace("sink", "by hand").replace(", no schema", "")
        if by_hand != name:
            pairs = list(zip(runs, found[by_hand], strict=True))
            ratios[f"{name}, time"] = statistics.median(sink.wall_s / hand.wall_s for sink, hand in pairs)
            ratios[f"{name}, CPU"] = statistics.median(sink.cpu_s / hand.cpu_s for sink, hand in pairs)
    return ratios


def _rows(count: int) -> list[dict[str, Any]]:
    began = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    return [
        {
            "id": number,
            "carrier": ("AA", "UA", "DL", "B6")[number % 4],
            "origin": ("EWR", "JFK", "LGA")[number % 3],
            "destination": f"D{number % 100}",
            "delay": None if number % 50 == 0 else number % 200 - 20.5,
            "distance": number % 3000,
            "tail": f"N{number % 4000:05}",
            "on_time": number % 5 != 0,
            "departed": began + dt.timedelta(minutes=number % 525_600),
        }
        for number in range(count)
    ]


def _runs(rows: list[dict[str, Any]], path: Path, url: str) -> Iterator[tuple[str, Callable[[], _Run]]]:
    for mode in ("insert", "upsert"):
        for size in BATCHES:
            batches = [rows[start : start + size] for start in range(0, len(rows), size)]
            case = f"{mode}, batches of {size}"
            yield f"SQLite by hand, {case}", partial(_sqlite_by_hand, batches, mode, path)
            yield f"SQLite sink, {case}", partial(_sqlite_sink, batches, mode, SCHEMA, path)
            yield f"SQLite sink, {case}, no schema", partial(_sqlite_sink, batches, mode, None, path)
            yield f"PostgreSQL by hand, {case}", partial(_postgresql_by_hand, batches, mode, url)
            yield f"PostgreSQL sink, {case}", partial(_postgresql_sink, batches, mode, SCHEMA, url)
            yield f"PostgreSQL sink, {case}, no schema", partial(_postgresql_sink, batches, mode, None, url)


def _statement(mode: str, mark: str) -> str:
    text = f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join([mark] * len(COLUMNS))})"
    if mode == "insert":
        return text
    changes = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
    return f"{text} ON CONFLICT (id) DO UPDATE SET {changes}"


def _sqlite_by_hand(batches: Sequence[list[dict[str, Any]]], mode: str, path: Path) -> _Run:
    with _new_sqlite_table(path), closing(sqlite3.connect(path)) as connection:
        statement = _statement(mode, "?")
        with _timed() as took:
            for batch in batches:
                # SQLite has no times: text of this form is what SQLAlchemy and others write.
                connection.executemany(
                    statement,
                    [
                        (*[row[name] for name in COLUMNS[:-1]], row["departed"].isoformat(" ", "microseconds")[:26])
                        for row in batch
                    ],
                )
                connection.commit()
    return took[0]


def _sqlite_sink(batches: Sequence[list[dict[str, Any]]], mode: str, schema: Schema | None, path: Path) -> _Run:
    with _new_sqlite_table(path):
        return _sink(batches, mode, schema, f"sqlite:///{path}")


def _postgresql_by_hand(batches: Sequence[list[dict[str, Any]]], mode: str, url: str) -> _Run:
    _make_postgresql_table(url)
    statement = _statement(mode, "%s")
    with psycopg.connect(url) as connection, connection.cursor() as cursor, _timed() as took:
        for batch in batches:
            cursor.executemany(statement, [[row[name] for name in COLUMNS] for row in batch])
            connection.commit()
    return took[0]


def _postgresql_sink(batches: Sequence[list[dict[str, Any]]], mode: str, schema: Schema | None, url: str) -> _Run:
    _make_postgresql_table(url)
    return _sink(batches, mode, schema, url)


def _sink(batches: Sequence[list[dict[str, Any]]], mode: str, schema: Schema | None, url: str) -> _Run:
    task = SqlSinkTask()
    settings = {"connection.url": url, "insert.mode": mode, "pk.mode": "record_value", "pk.fields": "id"}
    task.configure({**settings, "batch.size": str(max(BATCHES))})
    task.context = MemorySinkTaskContext(tolerant=False)
    task.start()
    records = [[_record(row, schema) for row in batch] for batch in batches]
    try:
        with _timed() as took:
            for batch in records:
                task.put(batch)
    finally:
        task.stop()
    return took[0]


def _record(row: Row, schema: Schema | None) -> SinkRecord:
    return SinkRecord(
        topic=TABLE, value=row, value_schema=schema, offset=row["id"], original_topic=TABLE, original_partition=0
    )


@contextmanager
def _new_sqlite_table(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(CREATE.format("timestamp"))
    yield
    path.unlink()


def _make_postgresql_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(CREATE.format("timestamptz"))


@contextmanager
def _timed() -> Iterator[list[_Run]]:
    """Yield a list that holds the run once it is over."""
    found: list[_Run] = []
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    yield found
    found.append(_Run(time.perf_counter() - wall_s, time.process_time() - cpu_s))
