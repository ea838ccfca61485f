"""Records of one key keep their order, as the database compares keys: on SQLite and PostgreSQL."""

import decimal

import pytest
import sqlalchemy

from ottla_sdk import schema as connect
from ottla_sql.connection import open_engine
from ottla_sql.sink.config import SqlSinkConfig
from ottla_sql.sink.tables import Tables, table_name
from ottla_sql.sink.writer import Writer
from tests.support.connect.sql_runs import SqliteFile, fed_sink
from tests.support.machine.postgres_database import PostgresDatabase
from tests.support.machine.postgres_server import running_postgres

UPSERT = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "k", "delete_enabled": "true"}


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    with running_postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


def left_after(database, create, *pairs, key_schema=None):
    """The rows that these keys and values leave in a table, given at once."""
    database.run(create)
    with fed_sink(database.url, **UPSERT) as sink:
        records = [sink.record(value, key=key) for key, value in pairs]
        sink.task.put([each.replaced(key_schema=key_schema) for each in records])
        assert sink.reported() == []
    return database.rows("SELECT k, v FROM t ORDER BY 1")


@pytest.mark.parametrize(
    ("column", "upserted", "deleted"),
    [
        ("TEXT COLLATE NOCASE", "Key", "KEY"),
        ("TEXT COLLATE RTRIM", "key", "key  "),
        ("INTEGER", "1", 1),
        ("INTEGER", 1, "1"),
        ("TEXT", 1, "1"),
        ("NUMERIC", "1.50", decimal.Decimal("1.5")),
        ("REAL", 1, 1.0),
        ("REAL", 0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_a_delete_behind_an_upsert_of_what_sqlite_takes_for_the_same_key_deletes_it(
    tmp_path, column, upserted, deleted
):
    create = f"CREATE TABLE t (k {column} PRIMARY KEY, v INTEGER)"
    for number, between in enumerate(([], [(5, {"v": 5})], [(5, {"v": 5}), (5, None)])):
        pairs = [(upserted, {"v": 1}), *between, (deleted, None)]
        left = left_after(SqliteFile(tmp_path, f"{number}.db"), create, *pairs)
        assert [value for _, value in left] == ([5] if len(between) == 1 else [])


def test_a_collation_may_be_that_of_the_primary_key_alone(tmp_path):
    create = "CREATE TABLE t (k TEXT, v INTEGER, PRIMARY KEY (k COLLATE NOCASE))"
    left = left_after(SqliteFile(tmp_path), create, ("a", {"v": 1}), ("a", None), ("A", {"v": 2}), ("a", {"v": 3}))
    assert left == [("A", 3)]


def test_what_only_python_takes_for_the_same_key_is_two_rows(tmp_path):
    create = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER)"
    pairs = [(True, {"v": 1}), ("x", None), (1, {"v": 2}), ("x", {"v": 3}), ("x", None)]
    assert left_after(SqliteFile(tmp_path), create, *pairs) == [("1", 2), ("true", 1)]


POSTGRES_KEYS = [
    ("numeric(10,2)", decimal.Decimal("1.001"), decimal.Decimal("1.00")),
    ("numeric(10,2)", decimal.Decimal("1.001"), decimal.Decimal("1.001")),
    ("integer", 1.4, 1.1),
    ("real", 0.1, 0.1),
    ("char(8)", "key", "key   "),
    ("varchar(3)", "key ", "key"),
    ("text COLLATE ignoring_case", "Key", "kEY"),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("timestamp(0)", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.2Z"),
    ("timestamptz(0)", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.1Z"),
    ("inet", "10.0.0.1", "10.0.0.1/32"),
    ("citext", "Key", "KEY"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("column", "upserted", "deleted"), POSTGRES_KEYS)
def test_a_delete_behind_an_upsert_of_what_postgresql_takes_for_the_same_key_deletes_it(
    postgres, column, upserted, deleted
):
    with PostgresDatabase(postgres) as database:
        database.run(
            "CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        if column == "citext":
            if not database.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'"):
                column = "text COLLATE ignoring_case"
            else:
                database.run("CREATE EXTENSION citext")
        schema = connect.FLOAT64 if isinstance(upserted, float) else None
        other = {"numeric(10,2)": 5, "integer": 5.0, "real": 5.0}.get(column, upserted)
        pairs = [(other, {"v": 0}), (other, None), (upserted, {"v": 1}), (deleted, None)]
        create = f"CREATE TABLE t (k {column} PRIMARY KEY, v INTEGER)"
        assert left_after(database, create, *pairs, key_schema=schema) == []


def executed(url, records, config):
    """The statements that a batch takes."""
    statements = []
    engine = engine_of(url)
    sqlalchemy.event.listen(
        engine, "before_cursor_execute", lambda _c, _cur, statement, *_: statements.append(statement.split()[0])
    )
    Writer(engine, config, lambda *_: None).write(records)
    engine.dispose()
    return [each for each in statements if each in ("INSERT", "DELETE")]


def engine_of(url):
    return open_engine(SqlSinkConfig.parse({"connection.url": url}))


@pytest.mark.parametrize(("column", "statements"), [("INTEGER", 2), ("TEXT", 2), ("TEXT COLLATE NOCASE", 20)])
def test_deletes_are_gathered_only_where_it_is_known_what_the_database_takes_for_equal(tmp_path, column, statements):
    database = SqliteFile(tmp_path)
    database.run(f"CREATE TABLE t (k {column} PRIMARY KEY, v INTEGER)")
    with fed_sink(database.url, **UPSERT) as sink:
        records = [
            sink.record({"v": number} if number % 2 else None, key=number if column == "INTEGER" else f"key {number}")
            for number in range(20)
        ]
        assert len(executed(database.url, records, sink.task.config)) == statements


@pytest.mark.slow
def test_postgresql_says_which_text_it_compares_byte_by_byte(postgres):
    with PostgresDatabase(postgres) as database:
        database.run("CREATE COLLATION nd (provider = icu, locale = 'und', deterministic = false)")
        database.run('CREATE TABLE "T t" ("A" text, b varchar(7), c text COLLATE nd, d char(3), e text COLLATE "C")')
        with fed_sink(database.url) as sink:
            engine = engine_of(database.url)
            table = Tables(engine, sink.task.config).find(table_name("T t", "", "postgresql"))
            assert table.plain_text == {"A", "b", "d", "e"}  # that d is padded, its type says
            engine.dispose()
