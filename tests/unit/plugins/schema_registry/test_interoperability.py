"""Bytes of confluent-kafka's own serializers, read by the converters, and the other way round."""

import datetime as dt
import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict

from ottla_schema_registry import AvroConverter, JsonSchemaConverter, ProtobufConverter
from ottla_schema_registry.proto_files import read_files
from ottla_schema_registry.protobuf.message_types import MessageTypes
from ottla_sdk.schema import DATE, INT32, STRING, array_schema, map_schema, struct_schema
from tests.unit.plugins.schema_registry.schemas import EVERYTHING, VALUE

CONTEXT = SerializationContext("topic", MessageField.VALUE)
SCHEMA = struct_schema({"id": INT32, "name": STRING.as_optional(), "tags": array_schema(STRING)}, name="acme.Order")
ORDER = {"id": 7, "name": "x", "tags": ["a", "b"]}
AVRO = {"type": "record", "name": "Order", "namespace": "acme", "fields": [
    {"name": "id", "type": "int"},
    {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
    {"name": "choice", "type": ["null", "long", "string", {"type": "map", "values": "int"}]},
]}  # fmt: skip
JSON = {"title": "Order", "type": "object", "required": ["id"], "properties": {
    "id": {"type": "integer"},
    "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    "tags": {"type": "array", "items": {"type": "string"}},
}}  # fmt: skip
PROTO = """
syntax = "proto3";
package acme;
message Other {}
message Order {
  int32 id = 1;
  optional string name = 2;
  repeated string tags = 3;
  map<string, int64> counts = 4;
  message Line { string sku = 1; }
  repeated Line lines = 5;
  oneof pay { string card = 6; int32 cash = 7; }
}
"""


@pytest.fixture
def client(registry):
    return SchemaRegistryClient({"url": registry.url})


def test_avro_goes_both_ways(make, client):
    converter = make(AvroConverter)
    written = AvroSerializer(client, json.dumps(AVRO))(ORDER | {"kind": "OLD", "choice": {"a": 1}}, CONTEXT)
    found = converter.deserialize("topic", written)
    assert found.value == ORDER | {"kind": "OLD", "choice": {"long": None, "string": None, "map": {"a": 1}}}
    back = converter.serialize("other", found.schema, found.value)
    assert AvroDeserializer(client)(back, CONTEXT) == ORDER | {"kind": "OLD", "choice": {"a": 1}}


def test_every_type_of_avro_is_understood(make, client):
    written = make(AvroConverter).serialize("topic", EVERYTHING, VALUE)
    found = AvroDeserializer(client)(written, CONTEXT)
    assert found == VALUE | {"int_map": [{"key": 1, "value": "one"}]}


def test_a_guid_in_a_header_names_the_schema(make, client):
    context = SerializationContext("topic", MessageField.VALUE, [])
    conf = {"schema.id.serializer": header_schema_id_serializer}
    written = AvroSerializer(client, json.dumps(AVRO), conf=conf)(ORDER | {"kind": "NEW", "choice": None}, context)
    headers = [(key, bytes(value)) for key, value in context.headers]
    assert [key for key, _ in headers] == ["__value_schema_id"]
    found = make(AvroConverter).deserialize("topic", written, headers).value
    assert (found["id"], found["kind"], found["choice"]) == (7, "NEW", None)


def test_json_goes_both_ways(make, client):
    converter = make(JsonSchemaConverter)
    written = JSONSerializer(json.dumps(JSON), client)(ORDER, CONTEXT)
    assert converter.deserialize("topic", written).value == ORDER
    back = converter.serialize("other", SCHEMA, ORDER | {"name": None})
    assert JSONDeserializer(None, schema_registry_client=client)(back, CONTEXT) == ORDER | {"name": None}


def message_class(text, name):
    return message_factory.GetMessageClass(MessageTypes(*read_files(text, {})).named(name))


def test_protobuf_goes_both_ways(make, client, registry):
    converter = make(ProtobufConverter, optional_for_nullables="true")
    kind = message_class(PROTO, "acme.Order")
    message = kind(id=7, name="x", tags=["a", "b"], counts={"k": 5}, lines=[{"sku": "s"}], cash=3)
    written = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(message, CONTEXT)
    assert written[5:7] == b"\x02\x02"
    found = converter.deserialize("topic", written)
    expected = ORDER | {"counts": {"k": 5}, "lines": [{"sku": "s"}], "pay_0": {"card": None, "cash": 3}}
    assert found.value == expected
    back = converter.serialize("other", found.schema, found.value)
    text = registry.text(int.from_bytes(back[1:5], "big"))
    read = ProtobufDeserializer(message_class(text, "Order"), {"use.deprecated.format": False}, client)(back, CONTEXT)
    assert MessageToDict(read, preserving_proto_field_name=True) == {
        "id": 7, "name": "x", "tags": ["a", "b"], "counts": {"k": "5"}, "lines": [{"sku": "s"}], "cash": 3,
    }  # fmt: skip


def test_dates_in_protobuf_are_googles(make, client, registry):
    converter = make(ProtobufConverter)
    schema = struct_schema({"d": DATE, "m": map_schema(STRING, DATE)}, name="S")
    written = converter.serialize("topic", schema, {"d": dt.date(2024, 2, 29), "m": {"a": dt.date(1999, 1, 1)}})
    kind = message_class(registry.text(1), "S")
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)(written, CONTEXT)
    assert (read.d.year, read.d.month, read.d.day, read.m["a"].year) == (2024, 2, 29, 1999)


def test_a_registered_descriptor_is_read_without_its_text(make, client):
    """confluent-kafka registers the base64 of the descriptor, not the text."""
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", syntax="proto3")
    file.message_type.add(name="S").field.add(name="a", number=1, type=5, label=1)
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("S"))
    written = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(kind(a=4), CONTEXT)
    assert make(ProtobufConverter).deserialize("topic", written).value == {"a": 4}
