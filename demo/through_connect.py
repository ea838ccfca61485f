"""The demo's second part: the flights from their CSV file through Connect into an SQLite database.

A file source reads the rows into a topic as JSON, an SQL sink writes them into a table. Both are connectors of a
Connect worker, created over its REST API. Then the table is compared with the file: the number of rows, and a
checksum over all values that does not depend on the rows' order.
"""

import csv
import hashlib
import sqlite3
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

TOPIC = "flights-from-csv"
TABLE = "flights"
NULL = "NA"
DEADLINE_S = 300.0
POLL_S = 0.25
REQUEST_TIMEOUT_S = 60.0
DIGEST_BYTES = 8


class ConnectFailed(Exception):
    """A connector failed, or the table is not equal to the file; the message says what happened."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file or a table holds, whatever the order: how many rows, and the sum of their digests."""

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Copied:
    """How the copying went.

    Attributes:
        content: of the file and of the table.
        size_bytes: of the file.
        seconds: from the creation of the connectors until the last row stood in the table.
    """

    content: Content
    size_bytes: int
    seconds: float


def copy_flights(
    worker_url: str, archive: Path, directory: Path, integers: Iterable[str], on_rows: Callable[[int], None]
) -> Copied:
    """Copy the flights.

    Args:
        worker_url: the Connect worker's REST API.
        archive: the zip file with the CSV file.
        directory: for the unpacked file and the database.
        integers: the columns that hold integers; all others hold text.
        on_rows: told the number of rows in the table, now and then.

    Raises:
        ConnectFailed: a connector failed, or the table is not equal to the file.
    """
    file, database = directory / "flights.csv", directory / "flights.sqlite"
    with zipfile.ZipFile(archive) as opened:
        file.write_bytes(opened.read("flights.csv"))
    with file.open(encoding="utf-8", newline="") as opened:
        columns = next(csv.reader(opened))
    whole = frozenset(integers)
    types = {name: "INTEGER" if name in whole else "TEXT" for name in columns}
    expected = content_of(rows_of_file(file, whole))
    create_table(database, types)

    began_s = time.monotonic()
    create_connector(worker_url, "flights-source", source_config(file, types))
    create_connector(worker_url, "flights-sink", sink_config(database))
    wait_for_rows(worker_url, database, expected.rows, on_rows)
    seconds = time.monotonic() - began_s

    found = content_of(rows_of_table(database, columns))
    if found != expected:
        raise ConnectFailed(f"the file holds {expected}, the table {found}")
    return Copied(found, file.stat().st_size, seconds)


def source_config(file: Path, types: dict[str, str]) -> dict[str, str]:
    """Return the settings of the connector that reads the file."""
    return {
        "connector.class": "ottla_file.FileSource",
        "tasks.max": "1",
        "topic": TOPIC,
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "-1",
        "file.path": str(file),
        "file.format": "csv",
        "file.csv.types": ",".join(f"{name}:int32" for name, kind in types.items() if kind == "INTEGER"),
        "file.csv.null": NULL,
        "file.key.field": "carrier",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def sink_config(database: Path) -> dict[str, str]:
    """Return the settings of the connector that writes the table."""
    return {
        "connector.class": "ottla_sql.SqlSink",
        "tasks.max": "1",
        "topics": TOPIC,
        "connection.url": f"sqlite:///{database}",
        "table.name.format": TABLE,
        "insert.mode": "insert",
        "pk.mode": "none",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def create_connector(worker_url: str, name: str, config: dict[str, str]) -> None:
    """Create a connector.

    Raises:
        ConnectFailed: the worker refuses it.
    """
    answer = httpx.post(f"{worker_url}/connectors", json={"name": name, "config": config}, timeout=REQUEST_TIMEOUT_S)
    if answer.is_error:
        raise ConnectFailed(f"the connector {name} was refused: {answer.text}")


def wait_for_rows(worker_url: str, database: Path, rows: int, on_rows: Callable[[int], None]) -> None:
    """Wait until the table has so many rows.

    Raises:
        ConnectFailed: a connector or task has failed, or it takes too long.
    """
    deadline = time.monotonic() + DEADLINE_S
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        while (found := connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]) < rows:  # noqa: S608
            on_rows(found)
            raise_if_failed(worker_url)
            if time.monotonic() > deadline:
                raise ConnectFailed(f"{found:,} of {rows:,} rows stand in the table after {DEADLINE_S:.0f} s")
            time.sleep(POLL_S)
        on_rows(found)


def raise_if_failed(worker_url: str) -> None:
    """Raise the reason if a connector or a task has failed.

    Raises:
        ConnectFailed: one has.
    """
    answer = httpx.get(f"{worker_url}/connectors", params={"expand": "status"}, timeout=REQUEST_TIMEOUT_S)
    connectors: dict[str, Any] = answer.json()
    for name, each in connectors.items():
        for one in (each["status"]["connector"], *each["status"]["tasks"]):
            if one["state"] == "FAILED":
                raise ConnectFailed(f"the connector {name} failed: {one.get('trace')}")


def create_table(database: Path, types: dict[str, str]) -> None:
    """Create the table."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # so that counting the rows keeps nobody from writing them
        columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
        connection.execute(f"CREATE TABLE {TABLE} ({columns})")
        connection.commit()


def rows_of_file(file: Path, integers: frozenset[str]) -> Iterator[tuple[str | int | None, ...]]:
    """Yield the rows of the CSV file as they should stand in the table."""
    with file.open(encoding="utf-8", newline="") as opened:
        rows = csv.reader(opened)
        whole = [name in integers for name in next(rows)]
        for row in rows:
            yield tuple(
                None if cell in ("", NULL) else int(cell) if is_integer else cell
                for cell, is_integer in zip(row, whole, strict=True)
            )


def rows_of_table(database: Path, columns: Sequence[str]) -> Iterator[tuple[str | int | None, ...]]:
    """Yield the rows of the table."""
    names = ", ".join(f'"{name}"' for name in columns)
    with closing(sqlite3.connect(database)) as connection:
        yield from connection.execute(f"SELECT {names} FROM {TABLE}")  # noqa: S608


def content_of(rows: Iterable[tuple[str | int | None, ...]]) -> Content:
    """Return how many rows there are, and the sum of their digests."""
    count = checksum = 0
    for row in rows:
        digest = hashlib.blake2b(repr(row).encode(), digest_size=DIGEST_BYTES).digest()
        checksum += int.from_bytes(digest)
        count += 1
    return Content(count, checksum % (1 << 8 * DIGEST_BYTES))
