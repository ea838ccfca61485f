"""How the SQL source finds rows that are new or changed, on SQLite."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from ottla_sdk import DataError, FatalError
from ottla_sdk.conformance import MemoryOffsets
from ottla_sql.source import clock
from ottla_sql.source.criteria import before_repetition
from tests.support.connect.sql_runs import SqliteFile, polled, running_source


@pytest.fixture
def database(tmp_path):
    made = SqliteFile(tmp_path)
    made.run("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, changed TIMESTAMP NOT NULL)")
    return made


def ids(records):
    return [record.value["id"] for record in records]


def test_incrementing_reads_rows_that_are_added_later_and_no_others(database):
    database.run("INSERT INTO t VALUES (-3, 'a', '2013-01-01'), (5, 'b', '2013-01-01')")
    with running_source(database.url, "incrementing") as run:
        assert ids(polled(run)) == [-3, 5]
        database.run(
            "INSERT INTO t VALUES (4, 'late', '2013-01-01'), (6, 'c', '2013-01-01');"
            "UPDATE t SET name = 'changed' WHERE id = 5"
        )
        records = polled(run)
    assert ids(records) == [6]
    assert records[0].source_partition == {"table": "t"}
    assert records[0].source_offset["incrementing"] == 6


def test_offsets_are_those_of_confluents_jdbc_source(database):
    database.run("INSERT INTO t VALUES (7, 'a', '2013-01-01 00:00:01.234567')")
    with running_source(database.url, "timestamp+incrementing", timestamp_column_name="changed") as run:
        (record,) = polled(run)
    table_id = str(database.rows("PRAGMA schema_version")[0][0])
    assert record.source_offset == {
        "table_id": table_id,
        "incrementing": 7,
        "timestamp": 1356998401234,
        "timestamp_nanos": 234567000,
    }


@pytest.mark.parametrize("batch", ["1", "2", "3", "100"])
def test_rows_of_the_same_timestamp_come_once_each_whatever_the_batches_and_restarts(database, batch):
    rows = ", ".join(f"({number}, 'x', '2013-01-01 00:00:0{number // 4}')" for number in range(16))
    database.run(f"INSERT INTO t VALUES {rows}")
    settings = {"timestamp_column_name": "changed", "batch_max_rows": batch}
    offsets, seen = MemoryOffsets(), []
    for _ in range(20):  # every poll is that of a new task
        with running_source(database.url, "timestamp+incrementing", offsets=offsets, **settings) as run:
            records = run.poll()
            run.commit(records)
            seen += ids(records)
    assert seen == list(range(16))


@pytest.mark.parametrize("batch", ["3", "5"])
def test_by_timestamp_alone_a_restart_repeats_rows_rather_than_losing_some(database, batch):
    rows = ", ".join(f"({number}, 'x', '2013-01-01 00:00:0{number // 4}')" for number in range(12))
    database.run(f"INSERT INTO t VALUES {rows}")
    settings = {"timestamp_column_name": "changed", "batch_max_rows": batch}
    for committed in (1, 4, 6, 11):
        offsets = MemoryOffsets()
        with running_source(database.url, "timestamp", offsets=offsets, **settings) as run:
            before = polled(run, 20)[:committed]
            run.commit(before)
        with running_source(database.url, "timestamp", offsets=offsets, **settings) as run:
            after = polled(run, 20)
        assert ids(before) == list(range(committed))
        assert ids(after) == list(range(committed - committed % 4, 12))


def test_changed_rows_come_again_by_their_timestamp(database):
    database.run("INSERT INTO t VALUES (1, 'a', '2013-01-01 00:00:00'), (2, 'b', '2013-01-01 00:00:00')")
    with running_source(database.url, "timestamp+incrementing", timestamp_column_name="changed") as run:
        assert ids(polled(run)) == [1, 2]
        database.run("UPDATE t SET name = 'A', changed = '2013-01-01 00:00:00.000001' WHERE id = 1")
        assert [record.value["name"] for record in polled(run)] == ["A"]
        assert polled(run) == []


def test_times_that_sqlite_writes_in_different_ways_are_compared_as_times(database):
    database.run(
        "INSERT INTO t VALUES (1, '', '2013-01-01 00:00:05'), (2, '', '2013-01-01T00:00:05.000000'),"
        " (3, '', '2013-01-01 00:00:05.000'), (4, '', '2013-01-01 00:00:04.9')"
    )
    with running_source(
        database.url, "timestamp+incrementing", timestamp_column_name="changed", batch_max_rows="1"
    ) as run:
        assert ids(polled(run, 10)) == [4, 1, 2, 3]
        assert polled(run) == []


def test_a_second_that_has_not_ended_is_left_for_later(database):
    database.run("INSERT INTO t VALUES (1, '', '2013-01-01 00:00:00'), (2, '', datetime('now', '+1 hour'))")
    with running_source(database.url, "timestamp", timestamp_column_name="changed") as run:
        assert ids(polled(run)) == [1]


def test_rows_wait_until_their_timestamp_is_old_enough(database):
    database.run("INSERT INTO t VALUES (1, '', datetime('now', '-2 hours')), (2, '', datetime('now', '-10 minutes'))")
    settings = {"timestamp_column_name": "changed", "timestamp_delay_interval_ms": "3600000"}
    with running_source(database.url, "timestamp+incrementing", **settings) as run:
        assert ids(polled(run)) == [1]


def test_it_may_begin_at_a_given_time(database):
    database.run("INSERT INTO t VALUES (1, '', '2013-01-01 00:00:00'), (2, '', '2013-01-01 00:00:00.001')")
    settings = {"timestamp_column_name": "changed", "timestamp_initial": "1356998400000"}
    with running_source(database.url, "timestamp+incrementing", **settings) as run:
        assert ids(polled(run)) == [2]
    with running_source(database.url, "timestamp", **{**settings, "timestamp_initial": "-1"}) as run:
        assert polled(run) == []


def test_of_several_timestamp_columns_the_first_that_is_not_null_counts(database):
    database.run(
        "CREATE TABLE u (id INTEGER PRIMARY KEY, changed TIMESTAMP, created TIMESTAMP NOT NULL);"
        "INSERT INTO u VALUES (1, NULL, '2013-01-02 00:00:00'), (2, '2013-01-01 00:00:00', '2012-01-01 00:00:00')"
    )
    settings = {"timestamp_column_name": "changed,created", "table_whitelist": "u"}
    with running_source(database.url, "timestamp+incrementing", **settings) as run:
        assert ids(polled(run)) == [2, 1]


def test_bulk_reads_everything_again(database):
    database.run("INSERT INTO t VALUES (1, 'a', '2013-01-01'), (2, 'b', '2013-01-01')")
    with running_source(database.url, "bulk") as run:
        assert ids(polled(run, 1)) == [1, 2]
        database.run("DELETE FROM t WHERE id = 1")
        assert ids(polled(run, 1)) == [2]


def test_a_query_is_read_like_a_table(database):
    database.run(
        "CREATE TABLE names (name TEXT, full_name TEXT); INSERT INTO names VALUES ('a', 'Anna: \"x\"');"
        "INSERT INTO t VALUES (1, 'a', '2013-01-01'), (2, 'b', '2013-01-01')"
    )
    query = (
        "SELECT t.id, full_name, t.id * 1.5 AS half, ':no' AS word FROM t LEFT JOIN names USING (name)"
        " WHERE t.id < 10; -- all of them"
    )
    query = query.replace("; --", " --")
    settings = {"query": query, "topic_prefix": "joined", "incrementing_column_name": "id"}
    with running_source(database.url, "incrementing", **settings) as run:
        first, second = polled(run)
        database.run("INSERT INTO t VALUES (3, 'a', '2013-01-01')")
        (third,) = polled(run)
    assert first.topic == "joined"
    assert first.source_partition == {"query": "query"}
    assert first.value == {"id": 1, "full_name": 'Anna: "x"', "half": 1.5, "word": ":no"}
    assert second.value["full_name"] is None
    assert (third.value["id"], third.source_offset["incrementing"]) == (3, 3)


def test_a_suffix_goes_behind_the_statement(database):
    database.run("INSERT INTO t VALUES (1, '', '2013-01-01'), (2, '', '2013-01-01'), (3, '', '2013-01-01')")
    with running_source(database.url, "incrementing", query_suffix="LIMIT 2") as run:
        assert ids(run.poll()) == [1, 2]
        assert ids(run.poll()) == [3]


def test_while_rows_are_read_others_may_write(database):
    rows = ", ".join(f"({number}, '', '2013-01-01')" for number in range(10))
    database.run(f"INSERT INTO t VALUES {rows}")
    with running_source(database.url, "bulk", batch_max_rows="2") as run:
        assert ids(run.poll()) == [0, 1]
        database.run("DELETE FROM t")
        assert ids(run.poll()) == [2, 3]


def test_columns_that_are_added_or_dropped_are_noticed(database):
    database.run("INSERT INTO t VALUES (1, 'a', '2013-01-01')")
    with running_source(database.url, "incrementing") as run:
        (before,) = polled(run)
        database.run("ALTER TABLE t ADD COLUMN more INTEGER; ALTER TABLE t DROP COLUMN name")
        database.run("INSERT INTO t VALUES (2, '2013-01-01', 42)")
        (after,) = polled(run)
    assert set(before.value) == {"id", "name", "changed"}
    assert after.value == {"id": 2, "changed": after.value["changed"], "more": 42}
    assert set(after.value_schema.field_by_name) == {"id", "changed", "more"}


def test_a_table_that_has_gone_is_passed_over_until_it_is_back(database):
    database.run("INSERT INTO t VALUES (1, 'a', '2013-01-01')")
    with running_source(database.url, "incrementing") as run:
        assert ids(polled(run)) == [1]
        database.run("ALTER TABLE t RENAME TO away")
        assert polled(run) == []
        database.run("ALTER TABLE away RENAME TO t; INSERT INTO t VALUES (2, 'b', '2013-01-01')")
        assert ids(polled(run)) == [2]


def test_keys_are_structs_of_the_primary_key_or_of_chosen_columns(database):
    database.run("CREATE TABLE k (b TEXT, a INTEGER, c TEXT, PRIMARY KEY (a, b)); INSERT INTO k VALUES ('x', 1, 'y')")
    with running_source(database.url, "bulk", table_whitelist="k", key_mode="primary_key") as run:
        (record,) = polled(run, 1)
    assert record.key == {"a": 1, "b": "x"}
    assert list(record.key_schema.field_by_name) == ["a", "b"]
    with running_source(database.url, "bulk", table_whitelist="k", key_mode="columns", key_columns="c") as run:
        assert polled(run, 1)[0].key == {"c": "y"}


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        ("(a TEXT, b TEXT)", {"mode": "incrementing"}, "set incrementing.column.name"),
        ("(a TEXT PRIMARY KEY)", {"mode": "incrementing"}, "set incrementing.column.name"),
        ("(a TEXT)", {"mode": "incrementing", "incrementing_column_name": "b"}, "has no column b; it has a"),
        ("(a TEXT NOT NULL)", {"mode": "incrementing", "incrementing_column_name": "a"}, "holds no whole numbers"),
        ("(a INTEGER)", {"mode": "incrementing", "incrementing_column_name": "a"}, "a may be null"),
        ("(a TIMESTAMP)", {"mode": "timestamp", "timestamp_column_name": "a"}, "a may be null"),
        ("(a REAL)", {"mode": "timestamp", "timestamp_column_name": "a"}, "holds no timestamps"),
        ("(a TEXT)", {"mode": "bulk", "key_mode": "primary_key"}, "has no primary key"),
    ],
)
def test_a_table_that_cannot_be_read_in_a_mode_is_refused_with_the_reason(tmp_path, table, settings, message):
    database = SqliteFile(tmp_path)
    database.run(f"CREATE TABLE wrong {table}")
    mode = settings.pop("mode")
    with running_source(database.url, mode, **settings) as run, pytest.raises(FatalError, match=message):
        run.poll()


def test_null_in_a_column_that_may_be_null_is_passed_over_if_that_is_allowed(tmp_path):
    database = SqliteFile(tmp_path)
    database.run("CREATE TABLE n (a INTEGER, b TEXT); INSERT INTO n VALUES (NULL, NULL), (1, 'x')")
    settings = {"incrementing_column_name": "a", "validate_non_null": "false"}
    with running_source(database.url, "incrementing", **settings) as run:
        assert [record.value["a"] for record in polled(run)] == [1]


def test_a_time_that_sqlite_could_not_compare_is_named(database):
    database.run("INSERT INTO t VALUES (1, '', '2013-01-01 00:00:00Z')")
    with (
        running_source(database.url, "timestamp", timestamp_column_name="changed") as run,
        pytest.raises(DataError, match=r"table t, column changed: .*no time zone"),
    ):
        polled(run)


def test_an_offset_of_something_else_is_refused(database):
    offsets = MemoryOffsets()
    offsets.commit({"table": "t"}, {"incrementing": "many"})
    with (
        pytest.raises(FatalError, match="incrementing must be an integer"),
        running_source(database.url, "incrementing", offsets=offsets),
    ):
        pass


def test_a_row_that_is_written_while_a_round_begins_is_not_passed_over(database, monkeypatch):
    database.run("PRAGMA journal_mode=WAL; INSERT INTO t VALUES (1, '', '2013-01-01 00:00:10')")

    def while_the_second_ends(connection, timezone):
        # Another program writes in the last moment of second 10, and then the clock says that it has ended.
        if not database.rows("SELECT 1 FROM t WHERE id = 2"):
            database.run("INSERT INTO t VALUES (2, '', '2013-01-01 00:00:10')")
        return dt.datetime(2013, 1, 1, 0, 0, 11, tzinfo=dt.UTC)

    monkeypatch.setattr(clock, "database_time", while_the_second_ends)
    with running_source(database.url, "timestamp", timestamp_column_name="changed") as run:
        assert sorted(ids(polled(run, 6))) == [1, 2]


def test_no_row_is_passed_over_in_the_hour_that_comes_twice_when_summer_time_ends(database, monkeypatch):
    now = dt.datetime(2013, 10, 27, 0, 50, tzinfo=dt.UTC)
    monkeypatch.setattr(clock, "database_time", lambda connection, timezone: now)
    settings = {"timestamp_column_name": "changed", "db_timezone": "Europe/Berlin"}
    database.run("INSERT INTO t VALUES (1, 'first 02:45', '2013-10-27 02:45:00')")
    with running_source(database.url, "timestamp+incrementing", **settings) as run:
        seen = ids(polled(run))
        now = dt.datetime(2013, 10, 27, 1, 15, tzinfo=dt.UTC)
        database.run("INSERT INTO t VALUES (2, 'second 02:10', '2013-10-27 02:10:00')")
        seen += ids(polled(run))
        now = dt.datetime(2013, 10, 27, 2, 1, tzinfo=dt.UTC)
        database.run("INSERT INTO t VALUES (3, '03:00', '2013-10-27 03:00:00')")
        seen += ids(polled(run))
    assert sorted(seen) == [1, 2, 3]


@pytest.mark.parametrize(
    ("zone", "wall_time", "end"),
    [
        ("Europe/Berlin", "2013-10-27 01:59:59.999999", "2013-10-27 01:59:59.999999"),
        ("Europe/Berlin", "2013-10-27 02:00:00", "2013-10-27 02:00:00"),
        ("Europe/Berlin", "2013-10-27 02:00:00.000001", "2013-10-27 02:00:00"),
        ("Europe/Berlin", "2013-10-27 02:59:59.999999", "2013-10-27 02:00:00"),
        ("Europe/Berlin", "2013-10-27 03:00:00", "2013-10-27 03:00:00"),
        ("Europe/Berlin", "2013-03-31 02:30:00", "2013-03-31 02:30:00"),
        ("Australia/Lord_Howe", "2013-04-07 01:45:00", "2013-04-07 01:30:00"),
        ("UTC", "2013-10-27 02:30:00", "2013-10-27 02:30:00"),
    ],
)
def test_the_hour_that_comes_twice_is_found_wherever_it_is(zone, wall_time, end):
    found = before_repetition(dt.datetime.fromisoformat(wall_time), ZoneInfo(zone))
    assert found == dt.datetime.fromisoformat(end)
