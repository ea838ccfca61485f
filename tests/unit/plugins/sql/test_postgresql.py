"""The SQL connectors on a real PostgreSQL: types, modes, upserts, tables that change, lost connections."""

import datetime as dt
import decimal
import itertools
from collections import Counter
from contextlib import contextmanager

import psycopg
import pytest

from ottla_sdk import ConnectError, FatalError, RetriableError, TopicPartition
from ottla_sdk import schema as connect
from ottla_sdk.conformance import MemoryOffsets, sink_connector_suite, sink_records
from ottla_sql import SqlSink
from tests.support.connect.sql_runs import fed_sink, polled, running_source
from tests.support.machine.postgres_server import running_postgres

pytestmark = pytest.mark.slow

_numbers = itertools.count(1)
_servers = []


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
    with running_postgres(tmp_path_factory.mktemp("postgres")) as running:
        _servers.append(running)
        yield running
        _servers.clear()


class Database:
    """An empty database.

    Attributes:
        url: for connectors.
    """

    def __init__(self, server):
        self.url = server.create_database(f"d{next(_numbers)}")
        self._connection = psycopg.connect(self.url, autocommit=True)

    def run(self, statement, *parameters):
        self._connection.execute(statement, parameters or None)

    def rows(self, query):
        return self._connection.execute(query).fetchall()

    def close(self):
        self._connection.close()


@pytest.fixture
def database(server):
    made = Database(server)
    yield made
    made.close()


UUID = "12345678-1234-5678-1234-567812345678"
COLUMNS = {
    "id": ("serial PRIMARY KEY", connect.INT32, 1, 1),
    "small": ("smallint", connect.INT16, -5, -5),
    "big": ("bigint", connect.INT64, 2**62, 2**62),
    "single": ("real", connect.FLOAT32, 0.5, 0.5),
    "double": ("double precision", connect.FLOAT64, 0.1, 0.1),
    "exact": ("numeric(12,3)", connect.decimal_schema(3), decimal.Decimal("12.5"), decimal.Decimal("12.500")),
    "free": ("numeric", connect.decimal_schema(38), decimal.Decimal("0.1"), decimal.Decimal("0.1")),
    "ok": ("boolean", connect.BOOLEAN, True, True),
    "word": ("varchar(20)", connect.STRING, "Grüße %s :x", "Grüße %s :x"),
    "fixed": ("char(4)", connect.STRING, "ab", "ab  "),
    "raw": ("bytea", connect.BYTES, b"\x00\xff", b"\x00\xff"),
    "day": ("date", connect.DATE, dt.date(2013, 1, 2), dt.date(2013, 1, 2)),
    "clock": ("time", connect.TIME, dt.time(1, 2, 3, 4567), dt.time(1, 2, 3, 4000)),
    "local": (
        "timestamp",
        connect.TIMESTAMP,
        dt.datetime(2013, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001
        dt.datetime(2013, 1, 2, 3, 4, 5, 678000, dt.UTC),
    ),
    "at": (
        "timestamptz",
        connect.TIMESTAMP,
        dt.datetime(2013, 1, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2013, 1, 2, 1, 4, 5, tzinfo=dt.UTC),
    ),
    "identity": (
        "uuid",
        connect.STRING,
        "12345678-1234-5678-1234-567812345678",
        "12345678-1234-5678-1234-567812345678",
    ),
    "doc": ("jsonb", connect.STRING, '{"a": [1, null]}', '{"a": [1, null]}'),
    "mood": ("mood", connect.STRING, "happy", "happy"),
    "host": ("inet", connect.STRING, "10.0.0.1", "10.0.0.1/32"),
    "span": ("interval", connect.STRING, "1 day 02:00", "1 day 02:00:00"),
    "numbers": ("int[]", connect.array_schema(connect.INT32.as_optional()), [1, None, 3], [1, None, 3]),
    "words": ("text[]", connect.array_schema(connect.STRING.as_optional()), ["a", "b,c"], ["a", "b,c"]),
}


def create_all_types(database):
    database.run("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    database.run(f"CREATE TABLE types ({', '.join(f'{name} {kind}' for name, (kind, *_) in COLUMNS.items())})")


def insert_all_types(database):
    names = ", ".join(COLUMNS)
    database.run(
        f"INSERT INTO types ({names}) VALUES ({', '.join(['%s'] * len(COLUMNS))})",
        *(written for _, _, written, _ in COLUMNS.values()),
    )
    database.run("INSERT INTO types DEFAULT VALUES" if len(COLUMNS) == 1 else "INSERT INTO types (id) VALUES (2)")


@pytest.mark.parametrize("how", ["table", "query"])
def test_every_type_comes_as_the_connect_type_that_fits(database, how):
    create_all_types(database)
    insert_all_types(database)
    settings = {"query": "SELECT * FROM types ORDER BY id", "topic_prefix": "q"} if how == "query" else {}
    with running_source(database.url, "bulk", **settings) as run:
        full, empty = polled(run, 1)
    for name, (_, schema, _, expected) in COLUMNS.items():
        found = full.value_schema.field_by_name[name].schema
        assert (name, found) == (name, schema if name == "id" and how == "table" else schema.as_optional())
        assert (name, full.value[name]) == (name, expected)
    connect.check_value(full.value_schema, full.value)
    assert {name for name, value in empty.value.items() if value is not None} == {"id"}


def test_rows_of_every_type_are_the_same_in_a_copy_of_the_table(database):
    create_all_types(database)
    insert_all_types(database)
    database.run("CREATE TABLE copied (LIKE types INCLUDING ALL)")
    settings = {"table_whitelist": "types", "timestamp_granularity": "micros_iso_datetime_string"}
    with running_source(database.url, "bulk", **settings) as run, fed_sink(database.url) as sink:
        records = polled(run, 1)
        sink.task.put([sink.record(each.value, schema=each.value_schema, topic="copied") for each in records])
        assert sink.reported() == []
    names = ", ".join(name for name in COLUMNS if name != "clock")  # whose microseconds are cut
    assert database.rows(f"SELECT {names} FROM copied ORDER BY id") == database.rows(
        f"SELECT {names} FROM types ORDER BY id"
    )


def test_created_tables_get_postgresqls_own_types(database):
    schema = connect.struct_schema(
        {
            "id": connect.INT64,
            "day": connect.DATE.as_optional(),
            "at": connect.TIMESTAMP.as_optional(),
            "price": connect.decimal_schema(2, optional=True),
            "tags": connect.array_schema(connect.STRING, optional=True),
            "doc": connect.map_schema(connect.STRING, connect.INT32, optional=True),
            "word": connect.Schema(type=connect.Type.STRING, default="it's 100%: ok"),
        }
    )
    value = {
        "id": 1,
        "day": dt.date(2013, 1, 1),
        "at": dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC),
        "price": decimal.Decimal("1.50"),
        "tags": ["a"],
        "doc": {"x": 1},
        "word": None,
    }
    settings = {
        "insert_mode": "upsert",
        "pk_mode": "record_value",
        "pk_fields": "id",
        "table_name_format": "${topic}",
    }
    database.run('CREATE SCHEMA "my.app"')
    with fed_sink(database.url, auto_create="true", auto_evolve="true", **settings) as sink:
        sink.put(value, value, schema=schema, topic="my.app.made")
        more = connect.struct_schema(
            {"id": connect.INT64, "odd: %name": connect.Schema(type=connect.Type.INT32, default=3)}
        )
        sink.put({"id": 2}, schema=more, topic="my.app.made")
        assert sink.reported() == []
    kinds = dict(
        database.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'made'")
    )
    assert kinds == {
        "id": "bigint",
        "day": "date",
        "at": "timestamp without time zone",
        "price": "numeric",
        "tags": "ARRAY",
        "doc": "jsonb",
        "word": "text",
        "odd: %name": "integer",
    }
    at = dt.datetime(2013, 1, 1, 5)  # noqa: DTZ001
    assert database.rows('SELECT * FROM "my.app".made ORDER BY id') == [
        (1, value["day"], at, decimal.Decimal("1.50"), ["a"], {"x": 1}, "it's 100%: ok", 3),
        (2, None, None, None, None, None, "it's 100%: ok", 3),
    ]


def test_upserts_and_deletes_and_records_that_postgresql_refuses(database):
    database.run("CREATE TABLE t (id int PRIMARY KEY, name varchar(3) NOT NULL, n int CHECK (n < 100))")
    settings = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    with fed_sink(database.url, **settings) as sink:
        sink.put_keyed(*((number, {"name": "old", "n": number}) for number in range(50)))
        sink.put_keyed(
            (1, {"name": "new", "n": 1}),
            (2, None),
            (3, {"name": "long", "n": 1}),
            (4, {"name": "x", "n": 100}),
            (5, {"name": None, "n": 1}),
            (6, {"name": "a\x00b", "n": 1}),
            (7, {"name": "y", "n": 7}),
            ("seven", {"name": "y", "n": 7}),
            (1, None),
            (1, {"name": "end", "n": None}),
        )
        assert [record.key for record, _ in sink.context.reported] == [3, 4, 5, 6, "seven"]
        assert "too long" in sink.reported()[0]
    assert database.rows("SELECT count(*), count(*) FILTER (WHERE name = 'old') FROM t") == [(49, 47)]
    assert database.rows("SELECT id, name, n FROM t WHERE name <> 'old' ORDER BY id") == [
        (1, "end", None),
        (7, "y", 7),
    ]


def test_an_upsert_on_columns_without_a_constraint_fails_with_what_the_database_says(database):
    database.run("CREATE TABLE t (id int, name text)")
    settings = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
    with (
        fed_sink(database.url, **settings) as sink,
        pytest.raises(ConnectError, match="no unique or exclusion constraint"),
    ):
        sink.put({"id": 1, "name": "a"})


def test_two_tasks_may_create_and_change_a_table_at_the_same_time(database):
    settings = {"auto_create": "true", "auto_evolve": "true"}
    with fed_sink(database.url, **settings) as one, fed_sink(database.url, **settings) as two:
        one.put({"a": 1})
        two.put({"a": 2})
        one.put({"a": 1, "b": 1})
        two.put({"a": 2, "b": 2})
    assert database.rows("SELECT * FROM t ORDER BY a, b") == [(1, 1), (1, None), (2, 2), (2, None)]


def test_rows_of_the_same_time_come_once_each_over_restarts_while_rows_are_written(database):
    database.run(
        "CREATE TABLE t (id bigserial PRIMARY KEY, n int, changed timestamptz(0) NOT NULL DEFAULT clock_timestamp())"
    )
    offsets, seen = MemoryOffsets(), Counter()
    last_change = {}
    with psycopg.connect(database.url, autocommit=True) as writer:
        for round_ in range(40):
            for number in range(5):
                writer.execute("INSERT INTO t (n) VALUES (%s)", [round_ * 5 + number])
            with running_source(
                database.url,
                "timestamp+incrementing",
                offsets=offsets,
                timestamp_column_name="changed",
                batch_max_rows="3",
            ) as run:
                records = [*run.poll(), *run.poll()][: round_ % 6]
                run.commit(records)
                seen.update(record.value["n"] for record in records)
                last_change.update((record.value["id"], record.value["changed"]) for record in records)
    with running_source(
        database.url, "timestamp+incrementing", offsets=offsets, timestamp_column_name="changed"
    ) as run:
        while len(seen) < 200:
            seen.update(record.value["n"] for record in run.poll())
    assert seen == Counter(range(200))


def test_rows_stream_and_a_lost_connection_loses_nothing(database, server):
    database.run("CREATE TABLE t AS SELECT generate_series(1, 5000)::int AS id")
    settings = {"incrementing_column_name": "id", "validate_non_null": "false", "batch_max_rows": "100"}
    with running_source(database.url, "incrementing", **settings) as run:
        first = run.poll()
        terminate_others(database)
        with pytest.raises(RetriableError, match=r"read table public\.t"):
            first.extend(record for _ in range(60) for record in run.poll())
        rest = polled(run, 60)
    assert [record.value["id"] for record in [*first, *rest]] == list(range(1, 5001))


def terminate_others(database):
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_table_whose_columns_change_is_read_on(database):
    database.run("CREATE TABLE t (id serial PRIMARY KEY, a text)")
    with running_source(database.url, "incrementing") as run:
        for number in range(8):
            database.run("INSERT INTO t (a) VALUES ('x')")
            database.run(f"ALTER TABLE t ADD COLUMN c{number} int DEFAULT {number}")
            (record,) = polled(run, 2)
            assert record.value[f"c{number}"] == number
        database.run("ALTER TABLE t ALTER COLUMN a TYPE int USING 5")
        database.run("INSERT INTO t (a) VALUES (6)")
        assert polled(run, 2)[0].value["a"] == 6


def test_tables_of_all_schemas_are_found_and_partitions_are_not(database):
    database.run("CREATE SCHEMA other")
    database.run('CREATE TABLE "Quoted" (id int); CREATE TABLE other.plain (id int)')
    database.run("CREATE TABLE parts (id int) PARTITION BY RANGE (id)")
    database.run("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)")
    database.run("CREATE MATERIALIZED VIEW stored AS SELECT 5 AS id")
    database.run('INSERT INTO "Quoted" VALUES (1); INSERT INTO other.plain VALUES (2); INSERT INTO parts VALUES (3)')
    with running_source(database.url, "bulk", table_types="TABLE,MATERIALIZED VIEW") as run:
        found = [(record.source_partition["table"], record.value["id"]) for record in polled(run, 4)]
    assert sorted(found) == [("other.plain", 2), ("public.Quoted", 1), ("public.parts", 3), ("public.stored", 5)]
    with running_source(database.url, "bulk", schema_pattern="oth%") as run:
        assert [record.topic for record in polled(run, 1)] == ["plain"]


def test_a_query_with_two_columns_of_a_name_is_refused(database):
    with (
        running_source(database.url, "bulk", query="SELECT 1 AS id, 2 AS id", topic_prefix="x") as run,
        pytest.raises(FatalError, match="two columns of the name id"),
    ):
        run.poll()


def test_a_query_may_have_casts_percents_and_colons(database):
    query = "SELECT '5'::int % 3 AS rest, ' :x' AS text, '100%' AS percent -- done"
    with running_source(database.url, "bulk", query=query, topic_prefix="x") as run:
        assert polled(run, 1)[0].value == {"rest": 2, "text": " :x", "percent": "100%"}


def test_jdbc_urls_reach_the_server(database, server):
    database.run("CREATE TABLE t AS SELECT 1 AS id")
    name = database.url.rpartition("/")[2]
    with running_source(server.jdbc_url(name) + "&currentSchema=public&ApplicationName=x", "bulk") as run:
        assert polled(run, 1)[0].value == {"id": 1}


def test_stored_offsets_fence_a_task_off_that_has_lost_its_partition(database):
    settings = {"auto_create": "true", "offsets_table": "progress"}
    partition = TopicPartition("t", 0)
    with fed_sink(database.url, **settings) as old, fed_sink(database.url, **settings) as new:
        old.open(partition)
        records = [old.record({"id": number}) for number in range(3)]
        old.task.put(records[:1])
        new.open(partition)
        new.task.put(records[1:2])
        with pytest.raises(RetriableError, match="another task"):
            old.task.put(records[1:])
        old.task.put(records[1:])
    assert database.rows("SELECT * FROM t") == [(0,), (1,), (2,)]


def test_a_generic_database_gets_updates_and_inserts_instead_of_upserts(database, monkeypatch):
    monkeypatch.setattr("ottla_sql.sink.compiled_statements._UPSERTS", {})
    database.run("CREATE TABLE t (id int PRIMARY KEY, name text); CREATE TABLE keys (id int PRIMARY KEY)")
    settings = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
    with fed_sink(database.url, **settings) as sink:
        sink.put({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"})
        sink.put({"id": 1}, {"id": 1}, {"id": 3}, topic="keys")
    assert database.rows("SELECT * FROM t ORDER BY id") == [(1, "c"), (2, "b")]
    assert database.rows("SELECT * FROM keys ORDER BY id") == [(1,), (3,)]


def _settings(directory):
    return {
        "connection.url": _servers[0].create_database(f"d{next(_numbers)}"),
        "auto.create": "true",
        "offsets.table": "progress",
        "retry.backoff.ms": "0",
        "max.retries": "1000",
    }


def _read_back(settings):
    with psycopg.connect(settings["connection.url"]) as connection:
        if connection.execute("SELECT to_regclass('conformance')").fetchone() == (None,):
            return []
        found = connection.execute("SELECT id, name FROM conformance").fetchall()
    return [{"id": id_, "name": name} for id_, name in found]


@contextmanager
def _server_gone(settings):
    _servers[0].stop()
    yield
    _servers[0].start()


TestConformance = sink_connector_suite(
    SqlSink,
    settings=_settings,
    records=sink_records(
        [{"id": number, "name": f"n{number}"} for number in range(20)],
        value_schema=connect.struct_schema({"id": connect.INT32, "name": connect.STRING}),
    ),
    read_back=_read_back,
    is_exact=True,
    interruption=_server_gone,
)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamp", "12000-01-01"), ("timestamptz", "infinity"), ("date", "infinity"), ("date", "0044-03-15 BC")],
)
def test_a_time_that_python_has_not_fails_the_task_for_good_and_says_what_to_do(database, kind, value):
    database.run(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    database.run(f"INSERT INTO t VALUES (1, '{value}')")
    with running_source(database.url, "incrementing") as run, pytest.raises(FatalError, match="years 1 to 9999"):
        polled(run)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_table_that_was_created_anew_is_read_from_its_beginning_however_far_it_has_come(database, is_away):
    def fill(first, count):
        database.run("CREATE TABLE anew (id integer PRIMARY KEY, n integer)")
        database.run(f"INSERT INTO anew SELECT g, {first} FROM generate_series(1, {count}) g")

    def values(run):
        return [record.value["n"] for record in polled(run)]

    settings = {"offsets": MemoryOffsets(), "table_whitelist": "anew"}
    fill(1, 3)
    with running_source(database.url, "incrementing", **settings) as run:
        assert values(run) == [1] * 3
        run.commit()
        database.run("CREATE INDEX ON anew (n)")
        database.run("ALTER TABLE anew ADD COLUMN more text")
        assert values(run) == []
        if not is_away:
            database.run("DROP TABLE anew")
            fill(2, 5)
            assert values(run) == [2] * 5
            return
    database.run("DROP TABLE anew")
    fill(2, 5)
    with running_source(database.url, "incrementing", **settings) as run:
        assert values(run) == [2] * 5
