"""The aliases of the converters, and the conformance suites, which they pass."""

from decimal import Decimal

import pytest

import ottla_schema_registry
from ottla_schema_registry import AvroConverter, JsonSchemaConverter, ProtobufConverter
from ottla_sdk import Role
from ottla_sdk.conformance import converter_suite
from ottla_sdk.schema import BYTES, INT32, STRING, decimal_schema, struct_schema
from tests.support.servers.schema_registry_server import running_schema_registry

STRUCT = struct_schema({"id": INT32, "name": STRING, "price": decimal_schema(2)}, name="acme.Order")
VALUES = [(STRUCT, {"id": 1, "name": "x", "price": Decimal("1.50")}), (STRING, "x"), (BYTES, b"\0\xff")]
BAD_SETTINGS = [
    ({"schema.registry.url": None}, ["schema.registry.url"]),
    ({"max.retries": "x", "schemas.cache.config": "0"}, ["max.retries", "schemas.cache.config"]),
]


@pytest.fixture(scope="module", autouse=True)
def _registry():
    with running_schema_registry() as server:
        _address.append(server.url)
        yield
        _address.clear()


_address: list[str] = []


def settings(_folder):
    return {"schema.registry.url": _address[-1], "max.retries": "0"}


def suite(converter, **more):
    return converter_suite(
        converter,
        settings=settings,
        values=VALUES,
        unfitting=[(INT32, "x"), (STRUCT, {"id": 1}), (STRING, None)],
        damaged=[b"", b"{}", b"\0\0\0\0\x01", b"\0\0\0\xff\xff\0\0"],
        roles=[Role.KEY, Role.VALUE],
        bad_settings=BAD_SETTINGS,
        **more,
    )


TestAvroConverter = suite(AvroConverter)
TestJsonSchemaConverter = suite(JsonSchemaConverter)
TestProtobufConverter = suite(ProtobufConverter, keeps_schemas=False)


def test_the_java_names_are_aliases():
    assert {alias for each in ottla_schema_registry.CONVERTERS for alias in each.aliases} == {
        "io.confluent.connect.avro.AvroConverter",
        "io.confluent.connect.json.JsonSchemaConverter",
        "io.confluent.connect.protobuf.ProtobufConverter",
    }
