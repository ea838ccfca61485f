"""Avro, JSON Schema and Protobuf as Confluent's own serializers write and read them, with a registry over HTTP."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla_operations.errors import OperationError
from ottla_operations.records.field_codec import BadField, FieldFormat
from ottla_operations.schemas.registry import Registry
from ottla_operations.schemas.schema_codec import DetectingCodec, SchemaCodec
from tests.support.free_ports import free_port
from tests.support.servers.schema_registry_server import SchemaRegistryServer

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}
PLANE = {
    "type": "record",
    "name": "Plane",
    "fields": [{"name": "flights", "type": {"type": "array", "items": "air.Flight"}}],
}
DELAY_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"delay": {"type": "number"}},
    "required": ["delay"],
}
PROTO = """
syntax = "proto3";
package air;
import "google/protobuf/timestamp.proto";
message Flight {
  message Leg { string from_airport = 1; }
  string carrier = 1;
  int64 number = 2;
  google.protobuf.Timestamp at = 3;
  repeated Leg legs = 4;
}
message Other { int32 n = 1; }
"""
CONTEXT = SerializationContext("t", MessageField.VALUE)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    started = SchemaRegistryServer()
    yield started
    started.stop()


@pytest.fixture
def client(server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": server.url})


@pytest.fixture
def registry(server) -> Registry:
    return Registry(server.url, {})


def codec(registry: Registry, format_: FieldFormat = FieldFormat.SCHEMA) -> SchemaCodec:
    return SchemaCodec(registry, format_, "t-value")


def test_avro_of_confluents_serializer_is_shown_in_avros_json_encoding(client, registry):
    made = AvroSerializer(client, json.dumps(FLIGHT))(
        {"carrier": "AA", "delay": 3.5, "at": 5, "raw": b"\xff"}, CONTEXT
    )
    shown = {"carrier": "AA", "delay": {"double": 3.5}, "at": 5, "raw": "\xff"}
    assert codec(registry).to_json(made) == shown
    assert json.loads(codec(registry, FieldFormat.AVRO).to_text(made)) == shown
    assert codec(registry).from_json(shown) == made


@pytest.mark.parametrize("given", [{"carrier": "UA", "delay": 1.5}, {"carrier": "UA", "delay": {"double": 1.5}}])
def test_avro_that_is_published_is_read_by_confluents_deserializer(client, registry, given):
    client.register_schema("t-value", Schema(json.dumps(FLIGHT), "AVRO"))
    read = AvroDeserializer(client)(codec(registry).from_json(given), CONTEXT)
    assert (read["carrier"], read["delay"], read["raw"]) == ("UA", 1.5, b"")


@pytest.mark.parametrize("given", [{"carier": "UA"}, {"carrier": 5}, {"carrier": "UA", "more": 1}, [], None, "x"])
def test_what_does_not_fit_an_avro_schema_is_refused_and_no_field_is_left_out(client, registry, given):
    client.register_schema("t-value", Schema(json.dumps(FLIGHT), "AVRO"))
    with pytest.raises(BadField, match="does not fit its Avro schema"):
        codec(registry).from_json(given)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.7), ("int", 2**31), ("int", True), ("long", 2**63), ("long", "5"), ("boolean", "false"),
        ("boolean", 1), ("float", 1e300), ("double", True), ("string", 5), ("bytes", "\u0100"), ("null", 0),
        (["null", "int"], 1.7), (["null", "string", "long"], 5), ({"type": "array", "items": "int"}, [1, 2.5]),
        ({"type": "fixed", "name": "F", "size": 2}, "abc"), ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
    ],
)  # fmt: skip
def test_what_would_be_forced_into_an_avro_type_is_refused_rather_than_changed(client, registry, kind, value):
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": kind}]}
    client.register_schema("t-value", Schema(json.dumps(schema), "AVRO"))
    with pytest.raises(BadField, match="does not fit its Avro schema"):
        codec(registry).from_json({"n": value})


def test_of_avro_records_that_look_alike_each_stays_what_it_is(client, registry):
    fields = [{"name": "id", "type": "long"}]
    events = [{"type": "record", "name": name, "fields": fields} for name in ("Created", "Deleted")]
    holder = {"type": "record", "name": "Event", "fields": [{"name": "of", "type": events}]}
    client.register_schema("t-value", Schema(json.dumps(holder), "AVRO"))
    made = codec(registry)
    deleted = {"of": {"Deleted": {"id": 2**53 + 1}}}
    assert made.to_json(made.from_json(deleted)) == deleted


def test_avro_fields_that_are_left_out_have_their_defaults(client, registry):
    fields = [
        {"name": "count", "type": ["int", "null"], "default": 3},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    client.register_schema("t-value", Schema(json.dumps(schema), "AVRO"))
    made = codec(registry)
    assert made.to_json(made.from_json({})) == {"count": {"int": 3}, "raw": "\xff", "tags": {}}


def test_avro_schemas_may_refer_to_others_and_be_bare_types(client, registry):
    client.register_schema("flight", Schema(json.dumps(FLIGHT), "AVRO"))
    client.register_schema("t-value", Schema(json.dumps(PLANE), "AVRO", [SchemaReference("air.Flight", "flight", 1)]))
    planes = {"flights": [{"carrier": "B6", "delay": None, "at": 1, "raw": ""}]}
    made = codec(registry)
    assert made.to_json(made.from_json(planes)) == planes
    client.register_schema("t-key", Schema('"string"', "AVRO"))
    key = SchemaCodec(registry, FieldFormat.AVRO, "t-key")
    assert key.to_text(key.from_text(b'"AA"')) == b'"AA"'


def test_json_with_a_schema_goes_both_ways_and_is_checked(client, registry):
    serializer = JSONSerializer(json.dumps(DELAY_SCHEMA), client)
    assert codec_after(registry, serializer({"delay": 4}, CONTEXT)) == {"delay": 4}
    made = codec(registry, FieldFormat.JSON_SCHEMA)
    assert JSONDeserializer(json.dumps(DELAY_SCHEMA))(made.from_json({"delay": 7}), CONTEXT) == {"delay": 7}
    with pytest.raises(BadField, match=r"'late' is not of type 'number' \(at \$\.delay\)"):
        made.from_json({"delay": "late"})


def codec_after(registry: Registry, data: bytes) -> object:
    return SchemaCodec(registry, FieldFormat.SCHEMA).to_json(data)


def test_protobuf_goes_both_ways_nested_messages_and_wellknown_types_included(client, registry):
    number = client.register_schema("t-value", Schema(PROTO, "PROTOBUF"))
    made = codec(registry, FieldFormat.PROTOBUF)
    flight = {
        "carrier": "DL",
        "number": "9007199254740993",
        "at": "2013-01-01T05:00:00Z",
        "legs": [{"from_airport": "JFK"}],
    }
    data = made.from_json(flight)
    assert data[:6] == b"\0" + number.to_bytes(4, "big") + b"\0"
    assert made.to_json(data) == flight
    prefix = b"\0" + number.to_bytes(4, "big")
    assert made.to_json(prefix + b"\x02\x02" + b"\x08\x05") == {"n": 5}
    assert made.to_json(prefix + b"\x04\x00\x00" + b"\x0a\x03EWR") == {"from_airport": "EWR"}
    with pytest.raises(BadField, match="no such message"):
        made.to_json(prefix + b"\x02\x0a" + b"\x08\x05")
    with pytest.raises(BadField, match="does not fit its Protobuf schema"):
        made.from_json({"carier": "DL"})


@pytest.mark.parametrize("data", [b"", b"\0", b"text", b"\0\0\0\0\x63rest", b"\0\0\0\0\1\xff\xff\xff"])
def test_bytes_without_their_schema_are_bad_and_nothing_worse(client, registry, data):
    client.register_schema("t-value", Schema(json.dumps(FLIGHT), "AVRO"))
    with pytest.raises(BadField):
        codec(registry).to_json(data)


def test_another_kind_of_schema_than_was_asked_for_is_named(client, registry):
    client.register_schema("t-value", Schema(json.dumps(FLIGHT), "AVRO"))
    data = codec(registry).from_json({"carrier": "AA"})
    with pytest.raises(BadField, match="of the kind AVRO, not PROTOBUF"):
        SchemaCodec(registry, FieldFormat.PROTOBUF).to_json(data)
    with pytest.raises(OperationError, match="t-value has a schema of the kind AVRO, not JSON"):
        codec(registry, FieldFormat.JSON_SCHEMA)
    with pytest.raises(OperationError, match="has no subject other-value"):
        SchemaCodec(registry, FieldFormat.AVRO, "other-value")


def test_what_names_a_schema_is_detected_and_the_registry_is_asked_for_nothing_else(server, client, registry):
    client.register_schema("t-value", Schema(json.dumps(FLIGHT), "AVRO"))
    data = codec(registry).from_json({"carrier": "AA"})
    opened = []
    detecting = DetectingCodec(lambda: opened.append(1) or registry)
    assert detecting.to_field("value", b"text") == {"value": "text"}
    assert detecting.to_field("value", b"\xff") == {"value_base64": "/w=="}
    assert not opened
    assert detecting.to_field("value", data)["value"]["carrier"] == "AA"
    asked = len(server.requests)
    for _ in range(5):
        assert detecting.to_text(bytes(7) + b"\x05") == rb"\x00\x00\x00\x00\x00\x00\x00\x05"
    assert len(server.requests) == asked + 1


def test_a_registry_that_refuses_or_is_away_is_one_sentence(server):
    server.authorization = "Basic b3R0bGE6c2VjcmV0"
    with pytest.raises(OperationError, match=rf"schema registry {server.url} refuses: .*\(401\)"):
        codec(Registry(server.url, {}))
    with pytest.raises(OperationError, match="no subject"):
        codec(Registry(server.url, {"basic.auth.user.info": "ottla:secret"}))
    with pytest.raises(OperationError) as caught:
        codec(Registry(server.url.replace("://", "://ottla:wr0ng@"), {}))
    assert "401" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    away = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(OperationError, match=f"schema registry {away}: .*refused"):
        codec(Registry(away, {}))
    with pytest.raises(OperationError, match=r"no\.such"):
        Registry(server.url, {"no.such": "1"})
