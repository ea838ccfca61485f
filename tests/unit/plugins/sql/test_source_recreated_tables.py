"""A table that is dropped and created anew is read from its beginning, where the database tells."""

import pytest

from ottla_sdk import FatalError
from ottla_sdk.conformance import MemoryOffsets
from tests.support.connect.sql_runs import SqliteFile, polled, running_source

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)"
MODES = ("incrementing", "timestamp", "timestamp+incrementing")


@pytest.fixture
def database(tmp_path):
    made = SqliteFile(tmp_path)
    made.run(f"{TABLE}; INSERT INTO t VALUES (7, '2013-01-01 00:00:07'), (9, '2013-01-01 00:00:09')")
    return made


def ids(records):
    return [record.value["id"] for record in records]


def source(database, mode, offsets=None, **settings):
    return running_source(database.url, mode, offsets=offsets, timestamp_column_name="changed", **settings)


def create_anew(database):
    database.run(
        f"DROP TABLE t; {TABLE}; INSERT INTO t VALUES (1, '2013-01-01 00:00:01'), (2, '2013-01-01 00:00:02')"
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_away", [True, False])
def test_the_new_tables_rows_are_read(database, mode, is_away):
    offsets = MemoryOffsets()
    with source(database, mode, offsets) as run:
        assert ids(polled(run)) == [7, 9]
        run.commit()
        if not is_away:
            create_anew(database)
            assert ids(polled(run)) == [1, 2]
            return
    create_anew(database)
    with source(database, mode, offsets) as run:
        assert ids(polled(run)) == [1, 2]


def test_what_came_before_the_connector_is_read_of_a_new_table_though_it_began_later(database):
    with source(database, "timestamp", timestamp_initial="-1") as run:
        assert ids(polled(run)) == []
        database.run("INSERT INTO t VALUES (10, strftime('%Y-%m-%d %H:%M:%f', 'now', '+0.002 seconds'))")
        while not (records := polled(run)):
            pass
        assert ids(records) == [10]
        create_anew(database)
        assert ids(polled(run)) == [1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_change_of_another_table_makes_no_table_new(database, mode):
    with source(database, mode) as run:
        assert ids(polled(run)) == [7, 9]
        database.run("CREATE TABLE other (id INTEGER); CREATE INDEX i ON t (changed); VACUUM")
        assert polled(run) == []
        database.run("INSERT INTO t VALUES (11, '2013-01-01 00:00:11')")
        assert ids(polled(run)) == [11]


@pytest.mark.parametrize("mode", MODES[1:])
def test_a_change_of_another_table_does_not_bring_what_came_before_the_connector(database, mode):
    with source(database, mode, timestamp_initial="-1") as run:
        assert polled(run) == []
        database.run("CREATE TABLE other (id INTEGER)")
        assert polled(run) == []
        database.run("INSERT INTO t VALUES (10, strftime('%Y-%m-%d %H:%M:%f', 'now', '+0.002 seconds'))")
        while not (records := polled(run)):
            pass
        assert ids(records) == [10]


def test_offsets_of_before_say_nothing_of_the_table(database):
    offsets = MemoryOffsets()
    offsets.commit({"table": "t"}, {"incrementing": 8})
    with source(database, "incrementing", offsets, table_whitelist="t") as run:
        assert ids(polled(run)) == [9]


def test_the_setting_says_to_go_on_or_to_fail(database):
    for recreated in ("continue", "fail"):
        offsets = MemoryOffsets()
        offsets.commit({"table": "t"}, {"incrementing": 20, "table_id": "0"})
        with source(database, "incrementing", offsets, table_recreated=recreated) as run:
            if recreated == "continue":
                assert polled(run) == []
                continue
            for _ in range(2):
                with pytest.raises(FatalError, match="created anew"):
                    polled(run)
