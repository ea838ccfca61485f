"""Decoding by a schema registry: its failure is told once, and costs one question."""

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from ottla_console.clusters.topic_reading import SchemaDecoder
from ottla_console.views.message_field import NOT_DECODED
from ottla_operations.records.field_codec import FieldFormat
from ottla_operations.schemas.registry import Registry
from ottla_operations.schemas.schema_codec import SchemaCodec
from tests.support.servers.schema_registry_server import SchemaRegistryServer

AVRO = '{"type": "record", "name": "F", "fields": [{"name": "delay", "type": "int"}]}'


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    started = SchemaRegistryServer()
    yield started
    started.stop()


def decoder_of(registry: SchemaRegistryServer) -> SchemaDecoder:
    return SchemaDecoder(SchemaCodec(Registry(registry.url, {}), FieldFormat.SCHEMA))


def test_what_has_a_schema_is_decoded_and_all_else_is_left(registry: SchemaRegistryServer) -> None:
    number = SchemaRegistryClient({"url": registry.url}).register_schema("t-value", Schema(AVRO, "AVRO"))
    decode = decoder_of(registry)
    assert decode(b"\0" + number.to_bytes(4, "big") + b"\x0a") == {"delay": 5}
    assert decode(b"\0" + (number + 1).to_bytes(4, "big") + b"\x0a") is NOT_DECODED
    assert decode(b"\0" + number.to_bytes(4, "big")) is NOT_DECODED
    assert decode(b"text") is NOT_DECODED
    assert decode.problem is None


def test_a_registry_that_fails_is_asked_no_more(registry: SchemaRegistryServer) -> None:
    registry.failures += [403] * 10
    decode = decoder_of(registry)
    assert [decode(b"\0\0\0\0\x01\x0a") for _ in range(50)] == [NOT_DECODED] * 50
    assert decode.problem is not None
    assert "403" in decode.problem
    assert len(registry.requests) == 1
