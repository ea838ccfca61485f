"""The SQL sink keeps offsets in its target, in the transactions of the rows."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import create_mock_engine
from sqlalchemy.dialects import mssql, mysql, postgresql
from sqlalchemy.schema import CreateTable

from ottla_sdk import ChangePermit, ConnectError, FatalError, NotPermitted, RetriableError, TopicPartition
from ottla_sql import SqlSink
from ottla_sql.sink.stored_offsets import StoredOffsets
from tests.support.connect.sql_runs import SqliteFile, fed_sink

PARTITION = TopicPartition("t", 0)
SETTINGS = {"auto_create": "true", "offsets_table": "progress"}


@pytest.fixture
def database(tmp_path):
    return SqliteFile(tmp_path)


def stored(database):
    return database.rows("SELECT connector, topic, partition, next_offset FROM progress")


def test_offsets_move_with_the_rows(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        assert sink.context.seeks == {}
        sink.put({"id": 1}, {"id": 2})
        assert stored(database) == [("sink", "t", 0, 2)]
        sink.put({"id": 3})
        assert stored(database) == [("sink", "t", 0, 3)]
        assert sink.task.pre_commit({PARTITION: 3}) == {PARTITION: 3}


def test_a_task_goes_on_where_the_stored_offset_says(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2})
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        assert sink.context.seeks == {PARTITION: 2}
        sink.put({"id": 1}, {"id": 2}, {"id": 3})  # whoever does not seek does no harm
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (3,)]


def test_rows_and_offsets_stand_or_fall_together(database):
    database.run("CREATE TABLE t (id INT CHECK (id < 5))")
    with fed_sink(database.url, tolerant=False, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1})
        with pytest.raises(Exception, match="CHECK"):
            sink.put({"id": 2}, {"id": 9})
    assert database.rows("SELECT id FROM t") == [(1,)]
    assert stored(database) == [("sink", "t", 0, 1)]


def test_a_bad_record_that_is_tolerated_counts_as_done(database):
    database.run("CREATE TABLE t (id INT CHECK (id < 5))")
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 9})
        assert len(sink.context.reported) == 1
    assert stored(database) == [("sink", "t", 0, 2)]


@pytest.mark.parametrize("values", [[1, 9], [1, 2]], ids=["reported by the task", "left out before"])
def test_no_offset_moves_behind_a_record_whose_dead_letter_is_lost(database, values):
    database.run("CREATE TABLE t (id INT CHECK (id < 5))")
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.context.lost = ConnectError("the dead letter topic does not take a record")
        with pytest.raises(ConnectError, match="does not take a record"):
            sink.put(*({"id": each} for each in values))
    assert database.rows("SELECT id FROM t") == []
    assert stored(database) == []
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put(*({"id": each} for each in values))
        assert len(sink.context.reported) == values.count(9)
    assert stored(database) == [("sink", "t", 0, 2)]


def test_a_task_that_has_lost_its_partition_writes_nothing_any_more(database):
    with fed_sink(database.url, **SETTINGS) as old, fed_sink(database.url, **SETTINGS) as new:
        old.open(PARTITION)
        first = [old.record({"id": number}) for number in range(4)]
        old.task.put(first[:2])
        new.open(PARTITION)
        new.task.put(first[2:3])
        with pytest.raises(RetriableError, match="another task has written records of t-0"):
            old.task.put(first[2:])
        assert stored(database) == [("sink", "t", 0, 3)]
        old.task.put(first[2:])  # it has looked where the other is, so nothing comes twice
    assert database.rows("SELECT id FROM t") == [(0,), (1,), (2,), (3,)]


def test_two_tasks_that_begin_at_the_same_time_do_not_write_the_same(database):
    with fed_sink(database.url, **SETTINGS) as one, fed_sink(database.url, **SETTINGS) as two:
        one.open(PARTITION)
        two.open(PARTITION)
        one.put({"id": 1})
        with pytest.raises(RetriableError):
            two.put({"id": 1})


def test_if_offsets_cannot_be_read_at_first_they_are_before_anything_is_written(tmp_path):
    hidden, directory = tmp_path / "hidden", tmp_path / "data"
    directory.mkdir()
    database = SqliteFile(directory)
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2})
    directory.rename(hidden)
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        ahead = [sink.record({"id": number}) for number in range(6)]
        with pytest.raises(RetriableError):
            sink.task.put(ahead[4:])
        hidden.rename(directory)
        sink.task.put(ahead[4:])
        assert sink.context.seeks == {PARTITION: 2}  # records between were never seen
        sink.task.put(ahead[2:])
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (2,), (3,), (4,), (5,)]


def test_offsets_that_a_user_sets_are_set_in_the_target(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2})
    connector = SqlSink()
    connector.configure({"name": "sink", "connection.url": database.url, "offsets.table": "progress"})
    wanted = {PARTITION: 1, TopicPartition("u", 3): 7}
    assert list(connector.check_offsets(wanted)) == []
    assert stored(database) == [("sink", "t", 0, 2)]
    connector.change_offsets(wanted)
    assert stored(database) == [("sink", "t", 0, 1), ("sink", "u", 3, 7)]
    assert connector.kept_offsets() == wanted
    connector.change_offsets({PARTITION: None})
    assert stored(database) == [("sink", "u", 3, 7)]


class Refused(ChangePermit):
    def __init__(self, look):
        self.look = look

    def require(self):
        self.look()
        raise NotPermitted("another worker leads")


def test_whether_offsets_may_be_changed_is_asked_when_nobody_else_can_change_them(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2})

    def look():
        assert stored(database) == [("sink", "t", 0, 2)]  # nothing is committed yet
        with closing(sqlite3.connect(database.path, timeout=0)) as other, pytest.raises(sqlite3.OperationalError):
            other.execute("UPDATE progress SET next_offset = 7")
        looked.append(1)

    looked = []
    connector = SqlSink()
    connector.configure({"name": "sink", "connection.url": database.url, "offsets.table": "progress"})
    connector.permit = Refused(look)
    with pytest.raises(NotPermitted):
        connector.change_offsets({PARTITION: 1, TopicPartition("u", 3): 7})
    assert looked == [1]
    assert stored(database) == [("sink", "t", 0, 2)]


def test_whoever_asks_about_offsets_makes_no_table_for_them(database):
    connector = SqlSink()
    connector.configure({"name": "sink", "connection.url": database.url, "offsets.table": "progress"})
    assert list(connector.check_offsets({PARTITION: 1})) == []
    assert connector.kept_offsets() == {}
    assert database.rows("SELECT name FROM sqlite_master") == []


def test_a_target_that_is_away_refuses_offsets(tmp_path):
    connector = SqlSink()
    url = f"sqlite:///{tmp_path / 'no' / 'such.db'}"
    connector.configure({"name": "sink", "connection.url": url, "offsets.table": "progress"})
    (problem,) = connector.check_offsets({PARTITION: 1})
    assert "cannot be read" in problem.message
    with pytest.raises(ConnectError, match="cannot be changed"):
        connector.change_offsets({PARTITION: 1})


def fed_anew(sink, values):
    """Records of a topic that was created anew."""
    return [each.replaced(offset=offset) for offset, each in enumerate(map(sink.record, values))]


def test_a_topic_that_was_created_anew_begins_anew(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2}, {"id": 3})
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "second"}
        sink.open(PARTITION)
        assert sink.context.seeks == {PARTITION: 0}
        sink.put({"id": 4})
        assert sink.task.pre_commit({PARTITION: 1}) == {PARTITION: 1}
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (3,), (4,)]
    assert database.rows("SELECT next_offset, topic_id FROM progress") == [(1, "second")]


def test_a_topic_that_is_created_anew_while_a_task_runs_is_not_taken_for_written(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2}, {"id": 3})
        sink.context.topic_ids = {"t": "second"}
        anew = fed_anew(sink, [{"id": 4}, {"id": 5}])
        sink.task.put(anew[1:])  # where the consumer happened to be
        assert sink.context.seeks == {PARTITION: 0}
        assert sink.task.pre_commit({PARTITION: 2}) == {PARTITION: 0}
        sink.task.put(anew)
        assert sink.task.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (3,), (4,), (5,)]


def test_all_partitions_of_a_topic_that_is_created_anew_begin_anew_also_without_records_of_theirs(database):
    other = TopicPartition("t", 1)
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION, other)
        sink.task.put([sink.record({"id": 1}).replaced(original_partition=1), sink.record({"id": 2})])
        sink.context.topic_ids = {"t": "second"}
        sink.task.put(fed_anew(sink, [{"id": 3}]))
        assert sink.context.seeks == {other: 0}
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (3,)]


def test_a_topic_that_is_created_anew_while_a_task_gets_another_partition_of_it_loses_no_record(database):
    other = TopicPartition("t", 1)
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        sink.put({"id": 1}, {"id": 2}, {"id": 3})
        sink.context.topic_ids = {"t": "second"}
        sink.context.assign([PARTITION, other])
        sink.task.open([other])  # as cooperative rebalances give it what comes in addition
        anew = fed_anew(sink, [{"id": number} for number in range(4, 8)])
        sink.task.put(anew[sink.context.seeks.get(PARTITION, 3) :])  # 3: where the consumer happens to be
        sink.task.put(anew)  # the runtime finds out, too
        assert sink.task.pre_commit({PARTITION: 4}) == {PARTITION: 4}
    assert database.rows("SELECT id FROM t") == [(number,) for number in range(1, 8)]


def test_a_topic_that_is_created_anew_while_the_database_fails_loses_no_record(database):
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        sink.put({"id": 1})
        repeated = [sink.record({"id": 2}), sink.record({"id": 3})]
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(RetriableError, match="locked"):
                sink.task.put(repeated)
        sink.context.topic_ids = {"t": "second"}
        sink.task.put(repeated)  # as the runtime repeats what failed
        sink.task.put(fed_anew(sink, [{"id": 4}, {"id": 5}]))
        assert sink.task.pre_commit({PARTITION: 2}) == {PARTITION: 2}
    assert database.rows("SELECT id FROM t WHERE id > 3") == [(4,), (5,)]


def test_a_task_that_knows_only_the_former_topic_writes_nothing_any_more(database):
    with fed_sink(database.url, **SETTINGS) as old, fed_sink(database.url, **SETTINGS) as new:
        old.context.topic_ids, new.context.topic_ids = {"t": "first"}, {"t": "second"}
        old.open(PARTITION)
        old.put({"id": 1}, {"id": 2}, {"id": 3})
        new.open(PARTITION)
        new.put({"id": 4}, {"id": 5}, {"id": 6})
        with pytest.raises(RetriableError, match="another task has written"):
            old.put({"id": 7})
    assert database.rows("SELECT id FROM t") == [(1,), (2,), (3,), (4,), (5,), (6,)]


def test_an_offsets_table_without_topic_ids_gets_them(database):
    database.run(
        "CREATE TABLE progress (connector TEXT, topic TEXT, partition INT, next_offset BIGINT NOT NULL, "
        "PRIMARY KEY (connector, topic, partition)); INSERT INTO progress VALUES ('sink', 't', 0, 2);"
    )
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        assert sink.context.seeks == {PARTITION: 2}
        sink.put({"id": 1}, {"id": 2}, {"id": 3})
    assert database.rows("SELECT next_offset, topic_id FROM progress") == [(3, "first")]


def test_an_offsets_table_that_cannot_get_topic_ids_is_used_without_them(database, caplog):
    database.run(
        "CREATE TABLE kept (connector TEXT, topic TEXT, partition INT, next_offset BIGINT NOT NULL, "
        "PRIMARY KEY (connector, topic, partition)); CREATE VIEW progress AS SELECT * FROM kept; "
        "CREATE TRIGGER written INSTEAD OF INSERT ON progress BEGIN INSERT INTO kept VALUES "
        "(new.connector, new.topic, new.partition, new.next_offset); END;"
    )
    with fed_sink(database.url, **SETTINGS) as sink:
        sink.context.topic_ids = {"t": "first"}
        sink.open(PARTITION)
        sink.put({"id": 1})
    assert "has no column topic_id" in caplog.text
    assert database.rows("SELECT next_offset FROM kept") == [(1,)]


def test_a_table_that_takes_a_connector_for_another_one_leaves_no_record_out(database):
    database.run(
        'CREATE TABLE progress (connector TEXT COLLATE NOCASE, topic TEXT, "partition" INT, next_offset BIGINT, '
        'topic_id TEXT, PRIMARY KEY (connector, topic, "partition"))'
    )
    database.run("INSERT INTO progress VALUES ('Sink', 't', 0, 2, NULL)")
    with (
        fed_sink(database.url, **SETTINGS) as sink,
        pytest.raises(FatalError, match="takes the connector sink for Si"),
    ):
        sink.open(PARTITION)


@pytest.mark.parametrize(
    ("dialect", "collation"),
    [(mysql.dialect(), "utf8mb4_bin"), (mssql.dialect(), "Latin1_General_BIN2"), (postgresql.dialect(), None)],
)
def test_names_of_connectors_and_topics_differ_by_case_where_that_must_be_said(dialect, collation):
    engine = create_mock_engine("sqlite://", lambda *_: None)
    text = str(CreateTable(StoredOffsets(engine, "progress", "c")._table).compile(dialect=dialect))
    assert text.count("COLLATE") == (2 if collation else 0)
    assert text.count(collation or "COLLATE") == (2 if collation else 0)
