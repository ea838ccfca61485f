"""What records do to the rows of a table, on SQLite."""

import datetime as dt
import decimal
import sqlite3
from contextlib import closing

import pytest

from ottla_sdk import ConnectError, DataError, FatalError, Header, RetriableError
from ottla_sdk import schema as connect
from tests.support.connect.sql_runs import SqliteFile, fed_sink

ROW = connect.struct_schema({"id": connect.INT64, "name": connect.STRING.as_optional()})
KEY = connect.struct_schema({"id": connect.INT64})
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
BY_KEY = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}


@pytest.fixture
def database(tmp_path):
    made = SqliteFile(tmp_path)
    made.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, extra TEXT DEFAULT 'none')")
    return made


def rows(database):
    return database.rows("SELECT id, name FROM t ORDER BY id")


def test_insert_adds_rows_and_refuses_a_key_that_is_there(database):
    with fed_sink(database.url) as sink:
        sink.put({"id": 1, "name": "a"}, {"id": 2, "name": None}, schema=ROW)
        sink.put({"id": 1, "name": "again"}, {"id": 3, "name": "c"}, schema=ROW)
        assert len(sink.reported()) == 1
        assert "UNIQUE constraint failed" in sink.reported()[0]
    assert rows(database) == [(1, "a"), (2, None), (3, "c")]


def test_upsert_adds_or_changes_and_leaves_other_columns_alone(database):
    database.run("INSERT INTO t VALUES (1, 'old', 'kept')")
    with fed_sink(database.url, **UPSERT) as sink:
        sink.put({"id": 1, "name": "new"}, {"id": 2, "name": "b"}, {"id": 2, "name": "last"}, schema=ROW)
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, "new", "kept"), (2, "last", "none")]


def test_update_changes_only_rows_that_there_are(database):
    database.run("INSERT INTO t VALUES (1, 'old', 'kept')")
    with fed_sink(database.url, **{**UPSERT, "insert_mode": "update"}) as sink:
        sink.put({"id": 1, "name": "new"}, {"id": 2, "name": "b"}, schema=ROW)
    assert database.rows("SELECT * FROM t") == [(1, "new", "kept")]


def test_a_record_without_a_value_deletes_the_row_of_its_key(database):
    database.run("INSERT INTO t VALUES (1, 'a', ''), (2, 'b', '')")
    with fed_sink(database.url, **BY_KEY) as sink:
        sink.put_keyed((1, None), (7, None), (3, {"name": "c"}))
    assert rows(database) == [(2, "b"), (3, "c")]


def test_a_delete_between_upserts_takes_away_what_they_do_not_set(database):
    database.run("INSERT INTO t VALUES (1, 'a', 'old')")
    with fed_sink(database.url, **BY_KEY) as sink:
        sink.put_keyed((1, {"name": "b"}), (1, None), (1, {"name": "c"}), (2, {"name": "d"}), (2, None))
    assert database.rows("SELECT * FROM t") == [(1, "c", "none")]


def test_without_deletes_a_record_without_a_value_is_reported(database):
    with fed_sink(database.url) as sink:
        sink.put(None, {"id": 1, "name": "a"}, schema=ROW)
        assert "set delete.enabled=true" in sink.reported()[0]
    assert rows(database) == [(1, "a")]


def test_keys_may_be_structs_or_single_values(database):
    with fed_sink(database.url, **{**BY_KEY, "pk_fields": ""}) as sink:
        record = sink.record({"name": "struct"}, key={"id": 1}, key_schema=KEY)
        sink.task.put([record, sink.record({"name": "schemaless"}, key={"id": 2})])
        sink.task.put([sink.record({"name": "plain"}, key=3)])
        assert "pk.fields must name the one column" in sink.reported()[0]
    with fed_sink(database.url, **BY_KEY) as sink:
        sink.task.put([sink.record({"name": "plain"}, key=3, key_schema=connect.INT32)])
        sink.task.put([sink.record({"name": "no key"}), sink.record({"name": "no id"}, key={"number": 1})])
        assert ["has no key" in sink.reported()[0], "has no field id" in sink.reported()[1]] == [True, True]
    assert rows(database) == [(1, "struct"), (2, "schemaless"), (3, "plain")]


def test_the_place_in_kafka_may_be_the_primary_key(database):
    with fed_sink(database.url, auto_create="true", insert_mode="upsert", pk_mode="kafka") as sink:
        record = sink.record({"id": 1}, topic="places")
        sink.task.put([record])
        sink.task.put([record, sink.record({"id": 2}, topic="places")])
    assert database.rows("SELECT * FROM places") == [("places", 0, 0, 1), ("places", 0, 1, 2)]


def test_headers_may_be_the_primary_key(database):
    with fed_sink(database.url, **{**BY_KEY, "pk_mode": "record_header"}) as sink:
        headers = [Header("id", 5, connect.INT32)]
        sink.task.put([sink.record({"name": "a"}, headers=headers), sink.record({"name": "b"})])
        assert len(sink.reported()) == 1
        assert rows(database) == [(5, "a")]
        sink.task.put([sink.record(None, headers=headers)])
    assert rows(database) == []


def test_only_the_fields_that_are_asked_for_are_written(database):
    with fed_sink(database.url, **UPSERT, fields_whitelist="name") as sink:
        sink.put({"id": 1, "name": "a", "unknown": 3, "extra": "left out"})
    assert database.rows("SELECT * FROM t") == [(1, "a", "none")]


def test_records_with_other_fields_are_written_too_where_there_are_no_schemas(database):
    with fed_sink(database.url, **UPSERT) as sink:
        sink.put({"id": 1, "name": "a"}, {"extra": "x", "id": 2}, {"name": "c", "id": 1}, {"id": 2, "name": "b"})
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, "c", "none"), (2, "b", "x")]


def test_bad_records_are_found_wherever_they_stand_and_the_others_are_written(database):
    values = [{"id": number, "name": "x"} for number in range(40)]
    for number in (0, 17, 18, 39):
        values[number] = {"id": "no number", "name": "x"}
    with fed_sink(database.url, **UPSERT) as sink:
        sink.put(*values)
        assert [record.offset for record, _ in sink.context.reported] == [0, 17, 18, 39]
        assert sink.reported()[0] == "column id: 'no number' is no whole number"
    assert len(rows(database)) == 36


def test_a_row_that_would_do_if_others_did_not_void_each_other_is_written(tmp_path):
    database = SqliteFile(tmp_path)
    database.run("CREATE TABLE t (id INT PRIMARY KEY, mail TEXT UNIQUE); INSERT INTO t VALUES (1, 'a')")
    with fed_sink(database.url, **UPSERT) as sink:
        sink.put({"id": 1, "mail": "b"}, {"id": 2, "mail": "a"}, {"id": 1, "mail": "c"})
        assert sink.reported() == []
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, "c"), (2, "a")]


def test_where_errors_are_not_tolerated_nothing_of_the_batch_is_written(database):
    with fed_sink(database.url, tolerant=False) as sink, pytest.raises(DataError, match="UNIQUE"):
        sink.put({"id": 1, "name": "a"}, {"id": 1, "name": "b"}, schema=ROW)
    assert rows(database) == []


def test_values_that_the_driver_cannot_send_are_reported(database):
    with fed_sink(database.url) as sink:
        sink.put(
            {"id": 2**70, "name": "big"}, {"id": 1, "name": "lone \ud800"}, {"id": 2, "name": "good"}, schema=ROW
        )
        assert [record.offset for record, _ in sink.context.reported] == [0, 1]
    assert rows(database) == [(2, "good")]


def test_values_that_are_no_struct_are_reported(database):
    with fed_sink(database.url) as sink:
        sink.task.put([sink.record("text", schema=connect.STRING), sink.record([1])])
        assert ["STRING" in sink.reported()[0], "list" in sink.reported()[1]] == [True, True]


def test_a_database_that_is_busy_is_tried_again_until_the_task_gives_up(database):
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        url = f"{database.url}?timeout=0"
        with fed_sink(url, max_retries="2") as sink:
            sink.put({"id": 1, "name": "a"}, schema=ROW)
            other.execute("BEGIN IMMEDIATE")
            for _ in range(2):
                with pytest.raises(RetriableError, match="database is locked"):
                    sink.put({"id": 2, "name": "b"}, schema=ROW)
            with pytest.raises(ConnectError, match="giving up after 2 more tries") as raised:
                sink.put({"id": 2, "name": "b"}, schema=ROW)
            assert not isinstance(raised.value, RetriableError | FatalError)
            other.execute("ROLLBACK")
            sink.put({"id": 2, "name": "b"}, schema=ROW)
    assert rows(database) == [(1, "a"), (2, "b")]


def test_logical_types_are_kept_as_sqlalchemy_and_people_expect_them(tmp_path):
    database = SqliteFile(tmp_path)
    schema = connect.struct_schema(
        {
            "at": connect.TIMESTAMP,
            "day": connect.DATE,
            "time": connect.TIME,
            "price": connect.decimal_schema(2),
            "raw": connect.BYTES,
            "ok": connect.BOOLEAN,
            "tags": connect.array_schema(connect.STRING),
        }
    )
    value = {
        "at": dt.datetime(2013, 1, 1, 12, 30, tzinfo=dt.UTC),
        "day": dt.date(2013, 1, 2),
        "time": dt.time(1, 2, 3),
        "price": decimal.Decimal("12.50"),
        "raw": b"\x00\xff",
        "ok": True,
        "tags": ["ä", "b"],
    }
    with fed_sink(database.url, auto_create="true", db_timezone="Europe/Berlin") as sink:
        sink.put(value, schema=schema)
        sink.put(
            {
                "at": 1357043400000,
                "day": "2013-01-02",
                "time": 3723000,
                "price": 12.5,
                "raw": "AP8=",
                "ok": "true",
                "tags": ["ä", "b"],
            }
        )
        assert sink.reported() == []
    expected = (
        "2013-01-01 13:30:00.000000",
        "2013-01-02",
        "01:02:03",
        12.5,
        b"\x00\xff",
        1,
        '["ä", "b"]',
    )
    assert database.rows("SELECT * FROM t") == [expected, expected]


def test_defaults_of_a_schema_stand_for_missing_values(database):
    schema = connect.struct_schema(
        {"id": connect.INT64, "name": connect.Schema(type=connect.Type.STRING, default="nobody")}
    )
    with fed_sink(database.url) as sink:
        sink.put({"id": 1, "name": None}, {"id": 2}, {"id": 3, "name": "x"}, schema=schema)
    assert rows(database) == [(1, "nobody"), (2, "nobody"), (3, "x")]


def test_names_with_all_kinds_of_characters_are_kept(tmp_path):
    database = SqliteFile(tmp_path)
    names = ["Order Id", 'a"b', "50%", "x:y", "select", "Größe", "c0"]
    with fed_sink(
        database.url, **{**UPSERT, "pk_fields": "Order Id"}, auto_create="true", auto_evolve="true"
    ) as sink:
        sink.put({name: number for number, name in enumerate(names)}, topic="Some.Topic-1")
        sink.put({**{name: number for number, name in enumerate(names)}, 'ne:w "%s"': 9}, topic="Some.Topic-1")
        assert sink.reported() == []
    assert database.rows('SELECT * FROM "Some.Topic-1"') == [(0, 1, 2, 3, 4, 5, 6, 9)]
