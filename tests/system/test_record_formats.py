"""`ottla produce` and `ottla consume` with formats, filters, layouts and a schema registry, against a broker."""

import json
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.support.clusters.ottla_command import Ottla
from tests.support.servers.schema_registry_server import SchemaRegistryServer

pytestmark = pytest.mark.slow

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "int"], "default": None}],
}


@pytest.fixture
def ottla(bootstrap: str) -> Ottla:
    return Ottla(bootstrap)


@pytest.fixture
def topic() -> str:
    return f"formats-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    started = SchemaRegistryServer()
    yield started
    started.stop()


def test_nothing_is_published_to_a_topic_that_is_not_there_unless_it_is_to_be_created(ottla, topic):
    refused = ottla.run("produce", topic, stdin=b"x\n", fails_with=1).stderr.decode()
    assert f"there is no topic {topic}" in refused
    assert "--create" in refused
    assert topic not in [each["topic"] for each in ottla.json("topic", "list")]
    assert ottla.json("produce", topic, "--create", stdin=b"x\n")["published"] == 1
    assert ottla.json("produce", topic, "--create", stdin=b"y\n")["published"] == 1
    assert sorted(ottla.run("consume", topic).stdout.split()) == [b"x", b"y"]


def test_keys_that_are_numbers_go_out_and_come_back_as_numbers(ottla, topic):
    lines = b"1:one\n-70000000000:two\n"
    ottla.run("produce", topic, "--create", "-p", "0", "-K", ":", "--key-format", "int64", stdin=lines)
    assert ottla.run("consume", topic, "-K", ":", "--key-format", "int64").stdout == lines
    assert ottla.run("consume", topic, "-K", ":").stdout.startswith(rb"\x00\x00\x00\x00\x00\x00\x00\x01:one")
    assert ottla.run("consume", topic, "-f", "%k=%s;", "--key-format", "hex").stdout.startswith(
        b"0000000000000001=one;"
    )
    wrong = ottla.run("consume", topic, "--key-format", "int32", "-K", ":", fails_with=1)
    assert wrong.stdout.count(b"\n") == 2
    assert b"2 records could not be decoded" in wrong.stderr
    told = ottla.json("produce", topic, "-K", ":", "--key-format", "int64", stdin=b"x:1\n", fails_with=1)
    assert told["errors"] == [{"reason": "its key is no int64: x", "lines": "1"}]


def test_any_bytes_are_shown_and_come_back_from_base64(ottla, topic):
    ottla.run("produce", topic, "--create", "--value-format", "base64", stdin=b"AP8K\n")
    assert ottla.run("consume", topic).stdout == b"\\x00\\xff\n\n"
    assert ottla.run("consume", topic, "--value-format", "base64").stdout == b"AP8K\n"
    assert ottla.run("consume", topic, "--value-format", "raw").stdout == b"\x00\xff\n\n"


def test_filters_choose_what_is_shown_and_counted(ottla, topic):
    lines = b"".join(b'{"carrier": "%s", "n": %d}\n' % (carrier, n) for n in range(20) for carrier in (b"AA", b"UA"))
    ottla.run(
        "produce", topic, "--create", "-p", "0", "-f", "json", "--key-field", "carrier", "-H", "h=1", stdin=lines
    )
    shown = ottla.run("consume", topic, "--filter", '.key == "UA" and .value.n > 3', "-n", "2").stdout
    assert [json.loads(line)["n"] for line in shown.splitlines()] == [4, 5]
    assert len(ottla.records(topic, "--grep", '"n": 1}')) == 2
    assert len(ottla.records(topic, "--filter", ".value.n == 7", "--filter", '.headers.h == "1"')) == 2


def test_a_member_of_a_group_commits_what_it_looked_at_and_nothing_behind_the_last_it_showed(ottla, topic):
    ottla.run("produce", topic, "--create", "-p", "0", stdin=b"".join(b"%d\n" % n for n in range(10)))
    in_group = ("consume", topic, "--group", topic)
    assert ottla.run(*in_group, "--filter", '.value == "3" or .value == "5"', "-n", "1").stdout == b"3\n"
    assert ottla.run(*in_group, "-n", "1").stdout == b"4\n"


def test_avro_is_encoded_by_the_registry_and_decoded_without_being_asked_for(ottla, topic, registry):
    client = SchemaRegistryClient({"url": registry.url})
    client.register_schema(f"{topic}-value", Schema(json.dumps(FLIGHT), "AVRO"))
    ottla.environment["OTTLA_SCHEMA_REGISTRY"] = registry.url.removeprefix("http://")
    lines = b'{"carrier": "AA", "delay": 5}\n{"carrier": "UA"}\n{"carier": "UA"}\n'
    told = ottla.json(
        "produce", topic, "--create", "-p", "0", "-f", "json", "--key-field", "carrier", stdin=lines, fails_with=1
    )
    assert (told["published"], [each["lines"] for each in told["errors"]]) == (2, ["3"])
    first, second = ottla.records(topic)
    assert (first["key"], first["value"]) == ("AA", {"carrier": "AA", "delay": {"int": 5}})
    assert second["value"] == {"carrier": "UA", "delay": None}
    assert len(ottla.records(topic, "--filter", ".value.delay.int == 5")) == 1
    exported = ottla.run("consume", topic, "-f", "record", "--value-format", "avro").stdout
    ottla.run("produce", topic, "-f", "record", "--value-format", "avro", stdin=exported)
    raw = ottla.run("consume", topic, "--value-format", "hex").stdout.split()
    assert raw[:2] == raw[2:]
    refused = ottla.run("produce", topic, "--key-format", "avro", "-K", ":", stdin=b"1:1\n", fails_with=1).stderr
    assert f"has no subject {topic}-key".encode() in refused
    del ottla.environment["OTTLA_SCHEMA_REGISTRY"]
    assert ottla.run("consume", topic, "-n", "1").stdout.startswith(rb"\x00\x00\x00\x00\x01")


def test_what_is_no_format_is_named_before_anything_is_asked(ottla, topic):
    assert (
        b"it is lines, json, record, or a template" in ottla.run("consume", topic, "-f", "recrd", fails_with=2).stderr
    )
    assert b"%q means nothing" in ottla.run("consume", topic, "-f", "%q", fails_with=2).stderr
    assert b"syntax error" in ottla.run("consume", topic, "--filter", ".a ==", fails_with=2).stderr
    assert b"needs --schema-registry" in ottla.run("consume", topic, "--key-format", "avro", fails_with=2).stderr
