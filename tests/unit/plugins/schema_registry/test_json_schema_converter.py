"""JsonSchemaConverter: schemas and values, there and back."""

import datetime as dt
import json
from decimal import Decimal

import pytest

from ottla_schema_registry import JsonSchemaConverter
from ottla_sdk import DataError, Field, InvalidConfig, Schema, Type
from ottla_sdk.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from tests.unit.plugins.schema_registry.schemas import EVERYTHING, INNER, VALUE

ONE_OF = "io.confluent.connect.json.OneOf"


def read(registry, converter, schema, value, references=()):
    schema_id = registry.register("topic-value", json.dumps(schema), "JSON", references)
    return converter.deserialize("topic", b"\0" + schema_id.to_bytes(4, "big") + json.dumps(value).encode())


@pytest.mark.parametrize("config", [{}, {"decimal_format": "numeric", "json_fail_invalid_schema": "true"}])
def test_values_and_schemas_come_back_as_they_were(make, config):
    converter = make(JsonSchemaConverter, **config)
    assert converter.deserialize("topic", converter.serialize("topic", EVERYTHING, VALUE)) == (EVERYTHING, VALUE)


def test_schemas_and_values_have_the_form_of_confluents_converter(make, registry):
    schema = struct_schema(
        {"b": INT32, "a": STRING.as_optional(), "m": map_schema(INT32, STRING), "d": decimal_schema(1)}, name="S"
    )
    value = {"b": 1, "a": None, "m": {1: "x"}, "d": Decimal("1.5")}
    written = make(JsonSchemaConverter, decimal_format="NUMERIC").serialize("topic", schema, value)
    assert written == b'\0\0\0\0\x01{"b":1,"a":null,"m":[{"key":1,"value":"x"}],"d":1.5}'
    assert registry.requests[0].startswith("POST /subjects/topic-value/versions")
    entry = {
        "type": "object",
        "properties": {
            "key": {"type": "integer", "connect.type": "int32", "connect.index": 0},
            "value": {"type": "string", "connect.index": 1},
        },
    }
    assert json.loads(registry.text(1)) == {
        "type": "object",
        "title": "S",
        "properties": {
            "b": {"type": "integer", "connect.type": "int32", "connect.index": 0},
            "a": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
            "m": {"type": "array", "items": entry, "connect.type": "map", "connect.index": 2},
            "d": {
                "type": "number",
                "connect.type": "bytes",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.version": 1,
                "connect.parameters": {"scale": "1"},
                "connect.index": 3,
            },
        },
    }


@pytest.mark.parametrize(
    ("json_schema", "schema", "value"),
    [
        ({"type": "integer"}, INT64, 5),
        ({"type": "number"}, FLOAT64, 1.5),
        ({"type": "boolean"}, BOOLEAN, True),
        ({"type": "string", "format": "date"}, STRING, "2024-01-01"),
        ({"type": ["string", "null"]}, STRING.as_optional(), "x"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, INT64.as_optional(), 5),
        ({"oneOf": [{"type": "integer"}]}, INT64, 5),
        ({"type": "array", "items": {"type": "integer"}}, array_schema(INT64), [1]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, map_schema(STRING, INT64), {"a": 1}),
        ({"properties": {"a": {"type": "string"}}}, struct_schema({"a": STRING}), {"a": "x"}),
        ({"type": "string", "description": "d", "title": "t"}, Schema(type=Type.STRING, name="t", doc="d"), "x"),
        ({"type": "integer", "default": 3}, Schema(type=Type.INT64, default=3), 4),
        ({"enum": [1, 2]}, INT64, 1),
        ({"type": "integer", "enum": [1, 2]}, INT64, 1),
        ({"const": True}, BOOLEAN, True),
        ({"enum": ["a", None]}, Schema(type=Type.STRING, optional=True, parameters={
            "io.confluent.connect.json.Enum": "", "io.confluent.connect.json.Enum.a": "a",
            "io.confluent.connect.json.Enum.<NULL>": "<NULL>"}), "a"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, STRING, "abc"),
        ({"type": "integer", "allOf": [{"minimum": 3}]}, INT64, 4),
        ({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "integer"}}}]},
         struct_schema({"a": STRING, "b": INT64}), {"a": "x", "b": 1}),
        ({"$ref": "#/definitions/d", "definitions": {"d": {"type": "integer"}}}, INT64, 5),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"type": "integer"}}},
         struct_schema({"a": INT64}), {"a": 5}),
    ],
)  # fmt: skip
def test_schemas_of_others_are_read(make, registry, json_schema, schema, value):
    assert read(registry, make(JsonSchemaConverter), json_schema, value) == (schema, value)


@pytest.mark.parametrize(
    ("json_schema", "problem"),
    [
        (True, "object"),
        ({}, "what type"),
        ({"type": "null"}, "what type"),
        ({"oneOf": [{"type": "null"}]}, "nothing but null"),
        ({"type": "array"}, "items"),
        ({"type": "array", "items": [{"type": "string"}]}, "items"),
        ({"type": "integer", "connect.type": "int9"}, r"connect\.type"),
        ({"enum": [1, "a"]}, "different types"),
        ({"enum": []}, "nothing"),
        ({"allOf": [{"minLength": 1}]}, "allOf"),
        ({"$ref": "#/nowhere"}, "not there"),
        ({"$ref": "other.json"}, "not there"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "contains itself"),
        ({"type": "object", "properties": {"a": True}}, "a: .*says nothing"),
    ],
)
def test_a_schema_that_means_nothing_to_connect_is_refused(make, registry, json_schema, problem):
    with pytest.raises(DataError, match=problem):
        read(registry, make(JsonSchemaConverter), json_schema, {})


def test_properties_that_are_missing_are_null_or_have_their_default(make, registry):
    json_schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "d"}, "c": {"type": "string"}},
        "required": ["a"],
    }
    found = read(registry, make(JsonSchemaConverter), json_schema, {"a": 1, "more": 2})
    assert found.value == {"a": 1, "b": "d", "c": None}
    optional = read(registry, make(JsonSchemaConverter, use_optional_for_nonrequired="true"), json_schema, {"a": 1})
    assert [each.schema.optional for each in optional.schema.fields] == [False, True, True]


def test_a_choice_is_a_struct_of_which_one_field_is_set(make, registry):
    one = {"type": "object", "properties": {"x": {"type": "integer"}}}
    two = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
    json_schema = {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}, one, two]}
    converter = make(JsonSchemaConverter)
    for value, number in (("a", 0), (5, 1), ({"x": 1}, 2), ({"x": 1, "y": 2}, 3)):
        found = read(registry, converter, json_schema, value)
        assert {key: each for key, each in found.value.items() if each is not None} == {
            f"{ONE_OF}.field.{number}": value
        }
        assert found.schema.optional
        written = converter.serialize("other", found.schema, found.value)
        assert converter.deserialize("other", written).value == found.value
    with pytest.raises(DataError):
        read(registry, converter, json_schema, True)


def test_an_empty_choice_is_refused(make):
    choice = Schema(type=Type.STRUCT, name=ONE_OF, fields=(Field("a", INT32.as_optional()),))
    with pytest.raises(DataError, match="none of a"):
        make(JsonSchemaConverter).serialize("topic", choice, {"a": None})


@pytest.mark.parametrize(
    ("json_schema", "value"),
    [
        ({"type": "integer"}, 2**63),
        ({"type": "integer"}, "1"),
        ({"type": "integer"}, True),
        ({"type": "integer"}, 1.5),
        ({"type": "string"}, None),
        ({"type": "number"}, "1"),
        ({"type": "array", "items": {"type": "string"}}, {}),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, []),
        ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "string"}}, []),
        ({"type": "string", "connect.type": "bytes"}, "not base64!"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(make, registry, json_schema, value):
    with pytest.raises(DataError):
        read(registry, make(JsonSchemaConverter), json_schema, value)


def test_integers_written_with_a_point_are_integers(make, registry):
    assert read(registry, make(JsonSchemaConverter), {"type": "integer"}, 5.0).value == 5


@pytest.mark.parametrize(
    ("schema", "value"),
    [(INT32, "1"), (FLOAT64, float("nan")), (BYTES, "x"), (INNER, {"x": 1, "z": 1}), (DATE, 5), (None, {"a": 1})],
)
def test_a_value_that_does_not_fit_is_refused(make, schema, value):
    with pytest.raises(DataError):
        make(JsonSchemaConverter).serialize("topic", schema, value)


def test_what_is_no_json_is_refused(make, registry):
    registry.register("topic-value", '{"type": "string"}', "JSON")
    for data in (b"{", b"\xff", b"", b'"a" b'):
        with pytest.raises(DataError, match="JSON"):
            make(JsonSchemaConverter).deserialize("topic", b"\0\0\0\0\x01" + data)


def test_values_are_validated_if_that_is_wanted(make, registry):
    json_schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}}
    checked = make(JsonSchemaConverter, json_fail_invalid_schema="true")
    assert read(registry, checked, json_schema, {"a": "xy"}).value == {"a": "xy"}
    with pytest.raises(DataError, match=r"\$\.a"):
        read(registry, checked, json_schema, {"a": "xyz"})
    assert read(registry, make(JsonSchemaConverter), json_schema, {"a": "xyz"}).value == {"a": "xyz"}


def test_values_are_written_as_the_latest_schema_allows_if_that_is_wanted(make, registry):
    latest = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}, "additionalProperties": False}
    schema_id = registry.register("topic-value", json.dumps(latest), "JSON")
    converter = make(JsonSchemaConverter, use_latest_version="true", auto_register_schemas="false")
    written = converter.serialize("topic", struct_schema({"a": INT32}), {"a": 5})
    assert written == b"\0" + schema_id.to_bytes(4, "big") + b'{"a":5}'
    with pytest.raises(DataError, match="maximum"):
        converter.serialize("topic", struct_schema({"a": INT32}), {"a": 6})


def test_schemas_that_others_refer_to_are_found(make, registry):
    registry.register("inner", '{"definitions": {"i": {"type": "integer"}}}', "JSON")
    json_schema = {"type": "object", "properties": {"a": {"$ref": "inner.json#/definitions/i"}}}
    references = [{"name": "inner.json", "subject": "inner", "version": 1}]
    assert read(registry, make(JsonSchemaConverter), json_schema, {"a": 1}, references).value == {"a": 1}


def test_more_properties_can_be_forbidden(make, registry):
    make(JsonSchemaConverter, object_additional_properties="false").serialize(
        "t", struct_schema({"a": INT32}), {"a": 1}
    )
    assert json.loads(registry.text(1))["additionalProperties"] is False


def test_decimals_are_exact(make):
    converter = make(JsonSchemaConverter, decimal_format="NUMERIC")
    value = Decimal("12345678901234567890.12")
    assert converter.deserialize("t", converter.serialize("t", decimal_schema(2), value)).value == value


def test_a_wrong_setting_is_named(make):
    with pytest.raises(InvalidConfig, match=r"decimal\.format"):
        make(JsonSchemaConverter, decimal_format="hex")


def test_a_date_within_a_default_comes_back(make):
    schema = struct_schema({"d": Schema(type=Type.INT32, name=DATE.name, version=1, default=dt.date(2024, 1, 1))})
    converter = make(JsonSchemaConverter)
    found = converter.deserialize("t", converter.serialize("t", schema, {}))
    assert found == (schema, {"d": dt.date(2024, 1, 1)})
