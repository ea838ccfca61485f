"""Questions to plugin code that a process answers."""

import socket
import sqlite3
from contextlib import closing

import pytest

from ottla_connect.processes.messages import (
    CheckOffsets,
    DescribeConfig,
    ListPlugins,
    PluginDescription,
)
from ottla_connect.task.answers import check_offsets, describe_config, list_plugins
from ottla_connect.task.channel import Channel
from ottla_sdk.runtime.redaction import Redaction


@pytest.fixture
def parts():
    ours, theirs = socket.socketpair()
    yield Channel(ours), Redaction()
    ours.close()
    theirs.close()


def test_the_classes_of_a_plugin_are_listed_with_their_names():
    listed = list_plugins(ListPlugins(entry_point="test-plugins", worker={}))
    assert (listed.error, listed.distribution) == (None, "ottla-test-plugins")
    assert (
        PluginDescription(
            class_name="ottla_test_plugins.sources.ListSource",
            type="source",
            version="1.2.3",
            aliases=["ListSource", "org.example.ListSourceConnector"],
        )
        in listed.plugins
    )
    assert {each.type for each in listed.plugins} == {
        "source",
        "sink",
        "transformation",
        "predicate",
        "converter",
        "header_converter",
    }


@pytest.mark.usefixtures("broken_plugin")
def test_a_plugin_that_cannot_be_imported_is_listed_with_the_trace():
    listed = list_plugins(ListPlugins(entry_point="broken-plugin", worker={}))
    assert listed.plugins == []
    assert listed.distribution == "ottla-broken-plugin"
    assert "Traceback" in (listed.error or "")
    assert "a_module_that_nobody_has" in (listed.error or "")


def test_a_plugin_that_was_removed_is_told():
    assert "no-such-plugin" in (list_plugins(ListPlugins(entry_point="no-such-plugin", worker={})).error or "")


def described(parts, plugin):
    answer = describe_config(*parts, DescribeConfig(plugin=plugin, worker={}))
    return {each["name"]: each for each in answer.settings}, answer.error


def test_a_connectors_settings_are_described_with_those_of_all_connectors(parts):
    settings, error = described(parts, "CollectingSink")
    assert error is None
    assert {"name", "topics", "errors.deadletterqueue.topic.name", "collect.path"} <= set(settings)
    assert settings["collect.path"]["group"] == "CollectingSink"


def test_a_transforms_settings_are_described_with_its_predicate(parts):
    settings, _ = described(parts, "AddOne")
    assert list(settings) == ["field", "predicate", "negate"]


def test_a_converters_settings_are_described(parts):
    settings, _ = described(parts, "JsonConverter")
    assert settings["schemas.enable"]["type"] == "BOOLEAN"


def test_a_plugin_that_does_not_exist_is_told(parts):
    settings, error = described(parts, "NoSuch")
    assert settings == {}
    assert "NoSuch" in (error or "")


def offset_problems(parts, settings, *offsets):
    purpose = CheckOffsets(connector="c", settings={"name": "c", **settings}, worker={}, offsets=list(offsets))
    return check_offsets(*parts, purpose).problems


def test_a_source_looks_at_offsets(parts):
    source = {"connector.class": "ListSource", "topic": "t"}
    assert offset_problems(parts, source, ({"list": 0}, {"position": 5}), ({"list": 1}, None)) == []
    assert offset_problems(parts, source, ({"file": 0}, None), ({"list": 0}, {"position": "x"})) == [
        "{'file': 0} is no partition of a list",
        "{'position': 'x'} has no position",
    ]


def test_a_sinks_offsets_must_be_of_kafkas_form(parts):
    sink = {"connector.class": "CollectingSink", "topics": "t"}
    assert offset_problems(parts, sink, ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})) == []
    assert "kafka_partition" in offset_problems(parts, sink, ({"kafka_topic": "t"}, None))[0]


def test_a_reset_covers_what_a_sink_keeps_in_its_target_and_asking_changes_nothing(parts, tmp_path):
    database = tmp_path / "target.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "CREATE TABLE progress (connector, topic, 'partition' INTEGER, next_offset INTEGER, topic_id)"
        )
        connection.executemany("INSERT INTO progress VALUES ('c', 't', ?, 5, NULL)", [(0,), (1,)])
        connection.commit()
    settings = {
        "name": "c",
        "connector.class": "ottla_sql.SqlSink",
        "topics": "t",
        "connection.url": f"sqlite:///{database}",
        "offsets.table": "progress",
    }
    known = [({"kafka_topic": "t", "kafka_partition": 0}, None), ({"kafka_topic": "t", "kafka_partition": 7}, None)]
    asked = CheckOffsets(connector="c", settings=settings, worker={}, offsets=known, removes_all=True)
    checked = check_offsets(*parts, asked)
    assert checked.problems == []
    assert checked.offsets == [*known, ({"kafka_topic": "t", "kafka_partition": 1}, None)]

    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM progress").fetchone() == (2,)


def test_wrong_settings_are_told_too(parts):
    assert offset_problems(parts, {"connector.class": "ListSource"}) == ["topic: must be set, there is no default"]
