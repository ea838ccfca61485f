"""The SQL connectors pass the suite that every plugin passes, on SQLite."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla_sdk import schema as connect
from ottla_sdk.conformance import sink_connector_suite, sink_records, source_connector_suite
from ottla_sql import SqlSink, SqlSource

_TABLES = """
CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT NOT NULL, delay REAL, changed TIMESTAMP NOT NULL);
CREATE TABLE planes (id INTEGER PRIMARY KEY, carrier TEXT NOT NULL, delay REAL, changed TIMESTAMP NOT NULL);
"""


def _path(settings: Mapping[str, str]) -> Path:
    return Path(settings["connection.url"].removeprefix("sqlite:///"))


def _database(directory: Path) -> Path:
    path = directory / "source.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_TABLES)
        for table in ("flights", "planes"):
            rows = [
                (number, f"C{number % 3}", number / 4, f"2013-01-01 00:00:0{number // 3}") for number in range(12)
            ]
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    return path


def _source(mode: str) -> Any:
    def settings(directory: Path) -> Mapping[str, str]:
        return {
            "connection.url": f"sqlite:///{_database(directory)}",
            "mode": mode,
            "timestamp.column.name": "changed",
            "topic.prefix": "db-",
            "poll.interval.ms": "10" if mode != "bulk" else "600000",
            "batch.max.rows": "5",
            "key.mode": "primary_key",
        }

    return settings


@contextmanager
def _database_gone(settings: Mapping[str, str]) -> Iterator[None]:
    """The file is away, and its folder too, so that SQLite cannot make a new one."""
    directory = _path(settings).parent
    hidden = directory.with_name("hidden")
    directory.rename(hidden)
    yield
    hidden.rename(directory)


_BAD_SOURCE_SETTINGS = [
    ({"mode": "sometimes"}, ["mode"]),
    ({"mode": None, "batch.max.rows": "0", "topic.prefix": None}, ["mode", "batch.max.rows", "topic.prefix"]),
    ({"connection.url": "jdbc:oracle:thin:@x", "db.timezone": "Mars"}, ["connection.url", "db.timezone"]),
    ({"table.whitelist": "a", "table.blacklist": "b"}, ["table.whitelist"]),
    ({"query": "SELECT 1", "table.whitelist": "a"}, ["query"]),
    ({"table.include.list": "("}, ["table.include.list"]),
    ({"table.types": "TABLE,SHEET"}, ["table.types"]),
    ({"key.mode": "columns"}, ["key.columns"]),
]

TestIncrementing = source_connector_suite(
    SqlSource,
    settings=_source("incrementing"),
    expect_records=24,
    interruption=_database_gone,
    bad_settings=_BAD_SOURCE_SETTINGS,
)
TestTimestampIncrementing = source_connector_suite(
    SqlSource,
    settings=_source("timestamp+incrementing"),
    expect_records=24,
    bad_settings=[({"timestamp.column.name": None}, ["timestamp.column.name"])],
)
TestTimestamp = source_connector_suite(SqlSource, settings=_source("timestamp"), expect_records=24, may_repeat=True)
TestBulk = source_connector_suite(SqlSource, settings=_source("bulk"), expect_records=24, may_repeat=True)


_SCHEMA = connect.struct_schema(
    {"id": connect.INT64, "name": connect.STRING, "amount": connect.FLOAT64.as_optional()}, name="row"
)
_VALUES = [
    {"id": number, "name": f"name {number}", "amount": number / 8 if number % 3 else None} for number in range(20)
]


def _read_back(settings: Mapping[str, str]) -> Iterable[Any]:
    with closing(sqlite3.connect(_path(settings))) as connection:
        connection.row_factory = sqlite3.Row
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'conformance'").fetchone():
            return []
        return [dict(row) for row in connection.execute("SELECT * FROM conformance ORDER BY id")]


def _sink(**changes: str) -> Any:
    def settings(directory: Path) -> Mapping[str, str]:
        return {
            "connection.url": f"sqlite:///{directory}/sink.db",
            "auto.create": "true",
            "retry.backoff.ms": "0",
            **{key.replace("_", "."): value for key, value in changes.items()},
        }

    return settings


@contextmanager
def _target_gone(settings: Mapping[str, str]) -> Iterator[None]:
    directory = _path(settings).parent
    hidden = directory.with_name("hidden")
    directory.rename(hidden)
    yield
    hidden.rename(directory)


_BAD_SINK_SETTINGS = [
    ({"insert.mode": "replace"}, ["insert.mode"]),
    ({"batch.size": "0", "pk.mode": "magic"}, ["batch.size", "pk.mode"]),
    ({"insert.mode": "upsert", "pk.mode": "none"}, ["pk.mode"]),
    ({"delete.enabled": "true", "pk.mode": "record_value"}, ["delete.enabled"]),
    ({"pk.mode": "kafka", "pk.fields": "topic"}, ["pk.fields"]),
    ({"connection.url": "nonsense"}, ["connection.url"]),
]
_BAD_RECORD = sink_records([{"id": 99, "name": None, "amount": 1.0}])[0].replaced(value_schema=_SCHEMA)

TestUpsert = sink_connector_suite(
    SqlSink,
    settings=_sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id"),
    records=sink_records(_VALUES, value_schema=_SCHEMA),
    read_back=_read_back,
    is_exact=True,
    bad_record=_BAD_RECORD,
    interruption=_target_gone,
    bad_settings=_BAD_SINK_SETTINGS,
)
TestInsert = sink_connector_suite(
    SqlSink, settings=_sink(), records=sink_records(_VALUES, value_schema=_SCHEMA), read_back=_read_back
)
TestStoredOffsets = sink_connector_suite(
    SqlSink,
    settings=_sink(offsets_table="connect_offsets"),
    records=sink_records(_VALUES, value_schema=_SCHEMA),
    read_back=_read_back,
    is_exact=True,
    bad_record=_BAD_RECORD,
    interruption=_target_gone,
)
TestWithoutSchemas = sink_connector_suite(
    SqlSink,
    settings=_sink(insert_mode="upsert", pk_mode="record_value", pk_fields="id", auto_evolve="true"),
    records=sink_records(json.loads(json.dumps(_VALUES))),
    read_back=_read_back,
    is_exact=True,
)

for _suite in (TestStoredOffsets, TestTimestampIncrementing, TestTimestamp, TestBulk, TestInsert, TestWithoutSchemas):
    pytest.mark.slow(_suite)
