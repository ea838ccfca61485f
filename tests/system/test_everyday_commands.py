"""The commands of every day against the broker under test."""

import subprocess
import uuid

import pytest

from tests.support.clusters.broker_under_test import broker_count
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.clusters.ottla_command import Ottla

pytestmark = pytest.mark.slow


@pytest.fixture
def ottla(bootstrap: str) -> Ottla:
    return Ottla(bootstrap)


@pytest.fixture
def topic(ottla: Ottla) -> str:
    name = f"everyday-{uuid.uuid4().hex[:8]}"
    ottla.run("topic", "create", name, "--partitions", "3")
    return name


def test_a_topic_is_created_grown_described_and_deleted(ottla, topic):
    ottla.run("topic", "alter", topic, "--partitions", "4")
    (described,) = ottla.json("topic", "describe", topic)
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2, 3]
    listed = {"topic": topic, "partitions": 4, "replication_factor": min(3, broker_count())}
    assert listed in ottla.json("topic", "list")
    ottla.run("topic", "delete", topic)
    assert topic not in [each["topic"] for each in ottla.json("topic", "list")]
    assert b"there is no topic" in ottla.run("topic", "describe", topic, fails_with=1).stderr


def test_each_topic_of_one_command_succeeds_or_fails_by_itself(ottla, topic):
    other = f"{topic}-other"
    results = {each["topic"]: each for each in ottla.json("topic", "create", topic, other, fails_with=1)}
    assert results[other]["status"] == "created"
    assert "already exists" in results[topic]["error"]
    assert ottla.run("topic", "create", topic, "--if-not-exists").returncode == 0
    ottla.run("topic", "delete", other)


def test_settings_are_set_shown_and_put_back(ottla, topic):
    ottla.run("config", "set", "topic", topic, "retention.ms=3600000", "max.message.bytes=2000000")
    shown = {each["key"]: each["value"] for each in ottla.json("config", "describe", "topic", topic)}
    assert shown["retention.ms"] == "3600000"
    ottla.run("config", "delete", "topic", topic, "retention.ms")
    shown = {each["key"]: each["value"] for each in ottla.json("config", "describe", "topic", topic)}
    assert "retention.ms" not in shown
    assert shown["max.message.bytes"] == "2000000"
    every = {each["key"] for each in ottla.json("config", "describe", "topic", topic, "--all")}
    assert "retention.ms" in every
    assert ottla.run("config", "set", "topic", topic, "no.such.key=1", fails_with=1).stderr.count(b"\n") == 1


def test_subscriptions_to_clients_metrics_are_set_listed_shown_and_deleted(ottla, topic):
    name = f"{topic}/latencies"
    ottla.run("config", "set", "client-metrics", name, "metrics=a.,b.", "match=client_id=orders-.*")
    assert name in ottla.json("config", "list", "client-metrics")["names"]
    shown = {each["key"]: each["value"] for each in ottla.json("config", "describe", "client-metrics", name)}
    assert shown == {"metrics": "a.,b.", "match": "client_id=orders-.*"}
    every = {each["key"]: each for each in ottla.json("config", "describe", "client-metrics", name, "--all")}
    assert (every["interval.ms"]["value"], every["interval.ms"]["source"]) == ("300000", "default config")
    refused = ottla.run("config", "set", "client-metrics", name, "match=colour=blue", fails_with=1).stderr
    assert b"colour=blue" in refused
    assert refused.count(b"\n") == 1
    ottla.run("config", "delete", "client-metrics", name, "metrics", "match")
    assert name not in ottla.json("config", "list", "client-metrics")["names"]


def test_a_broker_shows_its_settings(ottla):
    keys = {each["key"] for each in ottla.json("config", "describe", "broker", "1", "--all")}
    assert "log.retention.hours" in keys


def test_lines_with_keys_headers_and_nulls_come_back(ottla, topic):
    lines = b"a:1\nb:NULL\nNULL:3\n"
    arguments = ["--key-separator", ":", "--null", "NULL", "--header", "h=x", "--partition", "1"]
    assert ottla.json("produce", topic, *arguments, stdin=lines)["partitions"] == {"1": 3}
    records = ottla.records(topic)
    assert [(each["key"], each["value"], each["offset"]) for each in records] == [
        ("a", "1", 0), ("b", None, 1), (None, "3", 2),
    ]  # fmt: skip
    assert all(each["headers"] == [["h", "x"]] for each in records)
    written = ottla.run("consume", topic, "--key-separator", ":", "--null", "NULL")
    assert written.stdout == lines


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_acknowledgement_publishes(ottla, topic, codec, acks):
    lines = b"".join(b"%d\n" % number for number in range(500))
    ottla.run("produce", topic, "--compression", codec, "--acks", acks, "--partition", "0", stdin=lines)
    assert ottla.run("consume", topic, "--count", "500", "--follow").stdout == lines


def test_json_documents_go_out_unchanged_with_a_field_as_key(ottla, topic):
    lines = b'{"carrier": "AA",  "n": 1}\nnot json\n\n{"n": 2}\n'
    told = ottla.json("produce", topic, "--format", "json", "--key-field", "carrier", stdin=lines, fails_with=1)
    assert (told["read"], told["published"], told["failed"]) == (3, 1, 2)
    assert [error["lines"] for error in told["errors"]] == ["2", "4"]
    (record,) = ottla.records(topic)
    assert (record["key"], record["value"]) == ("AA", '{"carrier": "AA",  "n": 1}')


def test_records_copied_from_one_topic_to_another_are_the_same(ottla, topic):
    copy = f"{topic}-copy"
    ottla.run("topic", "create", copy, "--partitions", "3")
    ottla.run("produce", topic, "-K", ":", "-H", "h=1", stdin=b"".join(b"%d:v\n" % n for n in range(50)))
    exported = ottla.run("consume", topic, "--format", "record").stdout
    ottla.run("produce", copy, "--format", "record", stdin=exported)

    def content(name: str) -> list[tuple[object, ...]]:
        fields = ("partition", "offset", "timestamp", "key", "value")
        return sorted(tuple(record[field] for field in fields) for record in ottla.records(name))

    assert content(copy) == content(topic)
    ottla.run("topic", "delete", copy)


def test_reading_begins_where_it_was_told(ottla, topic):
    stamped = b"".join(
        b'{"value": "%d", "timestamp": %d, "partition": 0}\n' % (n, 1_000_000 + n * 1000) for n in range(20)
    )
    ottla.run("produce", topic, "--format", "record", stdin=stamped)

    def first(offset: str) -> str:
        return ottla.records(topic, "--partition", "0", "--offset", offset, "--count", "1")[0]["value"]

    assert first("earliest") == "0"
    assert first("7") == "7"
    assert first("-2") == "18"
    assert first("@1005000") == "5"
    assert first("1970-01-01T00:16:45") == "5"
    assert ottla.records(topic, "--offset", "2033-01-01") == []
    assert b"it holds 0 to 19" in ottla.run("consume", topic, "-p", "0", "-o", "99", fails_with=1).stderr


def test_a_record_larger_than_the_topic_allows_is_reported_with_its_line_and_the_rest_goes_through(ottla, topic):
    lines = b"small\n" + b"x" * 3_000_000 + b"\nsmall too\n"
    told = ottla.json("produce", topic, "--partition", "0", stdin=lines, fails_with=1)
    assert told["published"] + told["failed"] == 3
    assert any("2" in error["lines"] and "too large" in error["reason"] for error in told["errors"])


def test_a_reader_that_goes_away_is_no_error(ottla, topic):
    ottla.run("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(50_000)))
    bootstrap = ottla.environment["OTTLA_BOOTSTRAP"]
    command = f"set -o pipefail; {ottla_command()} consume {topic} --bootstrap {bootstrap} | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 2


def test_a_partition_that_is_not_there_is_named(ottla, topic):
    for command in ("produce", "consume"):
        done = ottla.run(command, topic, "--partition", "7", fails_with=1)
        assert done.stderr == f"ottla: topic {topic} has no partition 7; its partitions are 0 to 2\n".encode()


def test_benchmarks_measure(ottla, topic):
    produced = ottla.json("bench", "produce", "--topic", topic, "--records", "3000", "--size", "100")
    assert (produced["records"], produced["bytes"], produced["failed"]) == (3000, 300_000, 0)
    assert produced["acknowledgement_ms"]["p50"] <= produced["acknowledgement_ms"]["max"]
    consumed = ottla.json("bench", "consume", "--topic", topic)
    assert (consumed["records"], consumed["bytes"]) == (3000, 300_000)
    measured = ottla.json("bench", "latency", "--topic", f"{topic}-latency", "--records", "20")
    assert measured["end_to_end_ms"]["p50"] >= measured["acknowledgement_ms"]["p50"]
    ottla.run("topic", "delete", f"{topic}-latency")
