"""Sinks that keep offsets in their target notice that a topic was deleted and created anew, against a cluster."""

import json
import sqlite3
from contextlib import closing

import pytest

from ottla_connect.processes.messages import Failed, Outlook
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


NAME_WITH_ID = "${topic}/${topic_id}/${topic}-${partition}-${start_offset}-${end_offset}"


def rows(count, first=0):
    return [{"position": number} for number in range(first, first + count)]


def file_sink(connect, topic, **others):
    return connect.sink(
        connector_class="FileSink",
        topics=topic,
        file_directory=connect.directory / "files",
        file_roll_ms="50",
        file_fsync="false",
        offset_flush_interval_ms="50",
        **others,
    )


@pytest.fixture
def files(connect):
    directory = connect.directory / "files"
    directory.mkdir()
    return directory


def written(files):
    paths = sorted(path for path in files.rglob("*.jsonl") if ".unfinished" not in path.parts)
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def has(files, wanted):
    def equal():
        return sorted(each["position"] for each in written(files)) == sorted(each["position"] for each in wanted)

    eventually(equal, f"all {len(wanted)} records are in finished files")


def test_a_file_sink_fails_if_its_topic_was_created_anew_while_it_was_away(kafka, connect, files):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    first = file_sink(connect, topic, name=name)
    has(files, rows(10))
    assert first.stop() == 0
    kafka.create_anew(topic)
    kafka.publish(topic, *rows(15, first=100))
    second = file_sink(connect, topic, name=name)
    failed = second.until(Failed)
    assert "was created anew" in failed.reason
    assert failed.outlook is Outlook.FATAL
    assert second.wait() == 1
    for path in files.rglob("*.jsonl"):
        path.unlink()
    file_sink(connect, topic, name=name)
    has(files, rows(15, first=100))


def test_a_file_sink_whose_names_have_the_topic_id_begins_anew_also_while_it_runs(kafka, connect, files):
    topic = kafka.topic()
    kafka.publish(topic, *rows(10))
    process = file_sink(connect, topic, file_name=NAME_WITH_ID, consumer_override_metadata_max_age_ms=500)
    has(files, rows(10))
    kafka.create_anew(topic)
    kafka.publish(topic, *rows(15, first=100))
    has(files, rows(10) + rows(15, first=100))
    assert process.stop() == 0


def test_a_sql_sink_with_stored_offsets_begins_anew_with_its_topic(kafka, connect):
    topic, name, database = kafka.topic(), connect.name(), connect.directory / "target.db"

    def sink():
        return connect.sink(
            connector_class="ottla_sql.SqlSink",
            topics=topic,
            name=name,
            connection_url=f"sqlite:///{database}",
            auto_create="true",
            offsets_table="progress",
            table_name_format="target",
        )

    def positions():
        with closing(sqlite3.connect(database)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'target'").fetchone():
                return []
            return sorted(row[0] for row in connection.execute("SELECT position FROM target"))

    kafka.publish(topic, *rows(10))
    first = sink()
    eventually(lambda: positions() == list(range(10)), "the records are rows")
    assert first.stop() == 0
    kafka.create_anew(topic)
    kafka.publish(topic, *rows(15, first=100))
    sink()
    eventually(lambda: positions() == [*range(10), *range(100, 115)], "the new topic's records are rows, too")


def positions(connect):
    return sorted(each["position"] for each in connect.collected.values())


def test_a_sink_with_committed_offsets_begins_a_topic_at_its_start_that_is_created_anew_while_it_runs(kafka, connect):
    topic = kafka.topic()
    kafka.publish(topic, *rows(10))
    # The consumer does not look at the topic while it is gone, so it reads on behind the former one's end.
    connect.sink(topics=topic, consumer_override_metadata_max_age_ms=300_000)
    connect.collected.until(10)
    kafka.create_anew(topic)
    kafka.publish(topic, *rows(25, first=100))
    eventually(
        lambda: set(positions(connect)) == {*range(10), *range(100, 125)}, "all of the new topic's records are put"
    )


def test_a_commit_of_the_former_topic_that_comes_late_does_not_hide_the_new_ones_records(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    first = connect.sink(topics=topic, name=name)
    connect.collected.until(10)
    eventually(lambda: kafka.committed(f"connect-{name}", topic) == 10, "the offsets are committed")
    assert first.stop() == 0
    metadata = kafka.committed_metadata(f"connect-{name}", topic)
    kafka.create_anew(topic)
    kafka.commit(f"connect-{name}", topic, 10, metadata)
    kafka.publish(topic, *rows(25, first=100))
    connect.sink(topics=topic, name=name)
    eventually(
        lambda: set(positions(connect)) == {*range(10), *range(100, 125)}, "all of the new topic's records are put"
    )


def test_an_offset_that_somebody_else_has_set_is_gone_by(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    kafka.commit(f"connect-{name}", topic, 4, "by hand")
    connect.sink(topics=topic, name=name)
    assert connect.collected.until(6) == rows(6, first=4)
