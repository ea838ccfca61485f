"""Tables that the SQL sink creates and changes, on SQLite."""

import pytest

from ottla_sdk import FatalError
from ottla_sdk import schema as connect
from ottla_sql.sink.tables import TableName, table_name
from tests.support.connect.sql_runs import SqliteFile, fed_sink

ID = {"id": connect.INT32}
KEYED = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


@pytest.fixture
def database(tmp_path):
    return SqliteFile(tmp_path)


def columns(database, table="t"):
    """Name, type, whether not null, default and place in the primary key of each column."""
    return [row[1:] for row in database.rows(f"PRAGMA table_info({table})")]


def test_the_last_point_separates_schema_and_table_where_there_are_schemas():
    assert table_name("${topic}", "a.b.c", "postgresql") == TableName("a.b", "c")
    assert table_name("raw.${topic}", "orders", "mysql") == TableName("raw", "orders")
    assert table_name("kafka_${topic}", "orders", "postgresql") == TableName(None, "kafka_orders")
    assert table_name("${topic}", "a.b", "sqlite") == TableName(None, "a.b")


def test_a_missing_table_fails_the_task_with_what_to_do(database):
    with (
        fed_sink(database.url) as sink,
        pytest.raises(FatalError, match=r"no table t; create it, or set auto\.create"),
    ):
        sink.put({"id": 1})


def test_a_table_is_created_from_the_schema(database):
    schema = connect.struct_schema(
        {
            **ID,
            "small": connect.INT16.as_optional(),
            "price": connect.decimal_schema(3),
            "word": connect.Schema(type=connect.Type.STRING, default="it's"),
            "more": connect.struct_schema({"x": connect.STRING}, optional=True),
        }
    )
    with fed_sink(database.url, **KEYED, auto_create="true") as sink:
        sink.put({"id": 1, "small": None, "price": 1, "word": "w", "more": {"x": "ä"}}, schema=schema)
    assert columns(database) == [
        ("id", "INTEGER", 1, None, 1),
        ("small", "SMALLINT", 0, None, 0),
        ("price", "NUMERIC(38, 3)", 1, None, 0),
        ("word", "TEXT", 0, "'it''s'", 0),
        ("more", "JSON", 0, None, 0),
    ]
    assert database.rows("SELECT more FROM t") == [('{"x": "ä"}',)]


def test_without_a_schema_values_tell_the_types(database):
    with fed_sink(database.url, auto_create="true") as sink:
        sink.put(
            {"a": 1, "b": None, "c": True, "d": None, "e": {"x": 1}, "f": 1},
            {"a": 2.5, "b": "text", "c": False, "d": None, "e": None, "f": "mixed"},
        )
        assert sink.reported() == []
    assert [(name, kind) for name, kind, *_ in columns(database)] == [
        ("a", "DOUBLE"),
        ("b", "TEXT"),
        ("c", "BOOLEAN"),
        ("d", "TEXT"),
        ("e", "JSON"),
        ("f", "TEXT"),
    ]
    assert database.rows("SELECT * FROM t")[0] == (1.0, None, 1, None, '{"x": 1}', "1")


def test_columns_are_added_only_if_that_is_allowed(database):
    database.run("CREATE TABLE t (id INT PRIMARY KEY)")
    with fed_sink(database.url, **KEYED) as sink:
        sink.put({"id": 1}, {"id": 2, "name": "b"})
        assert "has no column name; add it, set auto.evolve=true" in sink.reported()[0]
    assert database.rows("SELECT * FROM t") == [(1,)]


def test_added_columns_may_be_null_or_have_the_default(database):
    database.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    schema = connect.struct_schema(
        {**ID, "name": connect.STRING, "size": connect.Schema(type=connect.Type.INT32, default=7)}
    )
    with fed_sink(database.url, **KEYED, auto_evolve="true") as sink:
        sink.put({"id": 2, "name": "b", "size": 1}, schema=schema)
    assert columns(database)[1:] == [("name", "TEXT", 0, None, 0), ("size", "INTEGER", 0, "7", 0)]
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, None, 7), (2, "b", 1)]


def test_a_column_without_a_schema_is_added_once_there_is_a_value(database):
    with fed_sink(database.url, **KEYED, auto_create="true", auto_evolve="true") as sink:
        sink.put({"id": 1, "late": None})
        assert [name for name, *_ in columns(database)] == ["id"]
        sink.put({"id": 2, "late": None})
        sink.put({"id": 3, "late": 4})
    assert columns(database)[1][:2] == ("late", "BIGINT")
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, None), (2, None), (3, 4)]


def test_columns_are_never_dropped_nor_changed(database):
    with fed_sink(database.url, **KEYED, auto_create="true", auto_evolve="true") as sink:
        sink.put({"id": 1, "name": "a"}, schema=connect.struct_schema({**ID, "name": connect.STRING.as_optional()}))
        sink.put({"id": 2}, schema=connect.struct_schema(ID))
        sink.put({"id": 3, "name": 5}, schema=connect.struct_schema({**ID, "name": connect.INT32}))
        assert sink.reported() == []
    assert [row[:2] for row in columns(database)] == [("id", "INTEGER"), ("name", "TEXT")]
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, None), (3, "5")]


def test_a_table_that_others_change_or_drop_is_looked_at_again(database):
    database.run("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    with fed_sink(database.url, **KEYED, auto_create="true", auto_evolve="true") as sink:
        sink.put({"id": 1, "name": "a"})
        database.run("ALTER TABLE t DROP COLUMN name")
        sink.put({"id": 2, "name": "b"})
        database.run("DROP TABLE t")
        sink.put({"id": 3, "name": "c"})
    assert database.rows("SELECT * FROM t") == [(3, "c")]


def test_columns_are_found_whatever_their_case(database):
    database.run("CREATE TABLE t (ID INT PRIMARY KEY, Name TEXT)")
    with fed_sink(database.url, **KEYED) as sink:
        sink.put({"id": 1, "NAME": "a"})
        assert sink.reported() == []
    assert database.rows("SELECT * FROM t") == [(1, "a")]


def test_topics_go_to_their_tables_in_one_transaction(database):
    database.run("CREATE TABLE x_a (id INT PRIMARY KEY); CREATE TABLE x_b (id INT CHECK (id < 5))")
    with fed_sink(database.url, tolerant=False, table_name_format="x_${topic}") as sink:
        sink.task.put([sink.record({"id": number}, topic="ab"[number % 2]) for number in range(5)])
        assert (database.rows("SELECT * FROM x_a"), database.rows("SELECT * FROM x_b")) == (
            [(0,), (2,), (4,)],
            [(1,), (3,)],
        )
        with pytest.raises(Exception, match="CHECK constraint failed"):
            sink.task.put([sink.record({"id": 6}, topic="a"), sink.record({"id": 7}, topic="b")])
    assert len(database.rows("SELECT * FROM x_a")) == 3


def test_deletes_from_a_table_that_does_not_exist_yet_have_nothing_to_do(database):
    settings = {"pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true", "insert_mode": "upsert"}
    with fed_sink(database.url, **settings, auto_create="true") as sink:
        sink.put_keyed((1, None))
        sink.put_keyed((1, {"name": "a"}), (2, {"name": "b"}), (2, None))
    assert database.rows("SELECT * FROM t") == [(1, "a")]
