"""AvroConverter: schemas and values, there and back."""

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal

import fastavro
import pytest

from ottla_schema_registry import AvroConverter
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from tests.unit.plugins.schema_registry.schemas import EVERYTHING, INNER, VALUE

UNION = "io.confluent.connect.avro.Union"


def read(registry, converter, avro, datum):
    """Return what the converter reads of a datum that fastavro wrote."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(avro), datum)
    schema_id = registry.register("topic-value", json.dumps(avro))
    return converter.deserialize("topic", b"\0" + schema_id.to_bytes(4, "big") + written.getvalue())


def test_values_and_schemas_come_back_as_they_were(make):
    converter = make(AvroConverter)
    assert converter.deserialize("topic", converter.serialize("topic", EVERYTHING, VALUE)) == (EVERYTHING, VALUE)


@pytest.mark.parametrize(
    ("schema", "avro"),
    [
        (BOOLEAN, "boolean"),
        (INT8, {"type": "int", "connect.type": "int8"}),
        (INT16, {"type": "int", "connect.type": "int16"}),
        (INT32, "int"),
        (INT64, "long"),
        (FLOAT32, "float"),
        (FLOAT64, "double"),
        (STRING, "string"),
        (BYTES, "bytes"),
        (STRING.as_optional(), ["null", "string"]),
        (Schema(type=Type.INT32, optional=True, default=5), [{"type": "int", "connect.default": 5}, "null"]),
        (replace(INT32, doc="d", version=3, name="n", parameters={"p": "q"}),
         {"type": "int", "connect.doc": "d", "connect.version": 3, "connect.parameters": {"p": "q"},
          "connect.name": "n"}),
        (array_schema(INT32), {"type": "array", "items": "int"}),
        (map_schema(STRING, INT64.as_optional()), {"type": "map", "values": ["null", "long"]}),
        (DATE, {"type": "int", "logicalType": "date", "connect.version": 1,
                "connect.name": "org.apache.kafka.connect.data.Date"}),
        (TIME, {"type": "int", "logicalType": "time-millis", "connect.version": 1,
                "connect.name": "org.apache.kafka.connect.data.Time"}),
        (TIMESTAMP, {"type": "long", "logicalType": "timestamp-millis", "connect.version": 1,
                     "connect.name": "org.apache.kafka.connect.data.Timestamp"}),
        (decimal_schema(2), {"type": "bytes", "scale": 2, "precision": 64, "logicalType": "decimal",
                             "connect.version": 1, "connect.parameters": {"scale": "2"},
                             "connect.name": "org.apache.kafka.connect.data.Decimal"}),
    ],
)  # fmt: skip
def test_schemas_have_the_form_of_confluents_converter(make, registry, schema, avro):
    values = {Type.STRING: "", Type.BYTES: b"", Type.ARRAY: [], Type.MAP: {}, Type.BOOLEAN: True}
    logical = {DATE: dt.date(2024, 1, 1), TIME: dt.time(1), TIMESTAMP: dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}
    value = logical.get(
        schema, Decimal("1.5") if schema.name and "Decimal" in schema.name else values.get(schema.type, 1)
    )
    converter = make(AvroConverter)
    written = converter.serialize("topic", schema, value)
    assert json.loads(registry.text(1)) == avro
    assert converter.deserialize("topic", written) == (schema, value)


def test_a_struct_is_a_record_and_said_in_full_only_once(make, registry):
    schema = struct_schema({"a": INNER, "b": INNER.as_optional(), "c": struct_schema({"d": INT32})}, name="ns.S")
    converter = make(AvroConverter)
    written = converter.serialize("topic", schema, {"a": {"x": 1}, "b": {"x": 2, "y": "z"}, "c": {"d": 3}})
    described = json.loads(registry.text(1))
    assert (described["name"], described["namespace"], described["connect.name"]) == ("S", "ns", "ns.S")
    assert described["fields"][0]["type"]["name"] == "Inner"
    assert described["fields"][1] == {"name": "b", "type": ["null", "ns.Inner"], "default": None}
    assert described["fields"][2]["type"]["name"] == "ConnectDefault"
    value = converter.deserialize("topic", written).value
    assert value == {"a": {"x": 1, "y": None}, "b": {"x": 2, "y": "z"}, "c": {"d": 3}}


def test_a_name_without_namespace_within_one_with_keeps_its_connect_name(make):
    schema = struct_schema({"a": struct_schema({"x": INT32}, name="Bare")}, name="ns.S")
    converter = make(AvroConverter)
    assert converter.deserialize("topic", converter.serialize("topic", schema, {"a": {"x": 1}})).schema == schema


def test_two_types_of_one_name_are_refused(make):
    other = struct_schema({"z": INT32}, name="ns.Inner")
    with pytest.raises(DataError, match=r"ns\.Inner"):
        make(AvroConverter).serialize(
            "topic", struct_schema({"a": INNER, "b": other}), {"a": {"x": 1}, "b": {"z": 1}}
        )


@pytest.mark.parametrize(
    "value",
    [5, 2**62, 1.5, "x", True, b"ab", [1, None, "x", {"b": [2.5]}], {"a": None}, {1: {2: 3}}, []],
)
def test_values_without_schema_come_back(make, value):
    converter = make(AvroConverter)
    assert converter.deserialize("topic", converter.serialize("topic", None, value)) == (None, value)


def test_tombstones_stay_tombstones(make, registry):
    converter = make(AvroConverter)
    assert converter.serialize("topic", None, None) is None
    assert converter.serialize("topic", STRING.as_optional(), None) is None
    assert converter.deserialize("topic", None) == (None, None)
    assert registry.requests == []
    with pytest.raises(DataError, match="not optional"):
        converter.serialize("topic", STRING, None)


def test_a_union_is_a_struct_of_which_one_field_is_set(make, registry):
    fields = (("int", INT32), ("string", STRING), ("Inner", INNER), ("array", array_schema(INT32)))
    union = Schema(
        type=Type.STRUCT,
        name=UNION,
        optional=True,
        fields=tuple(Field(name, schema.as_optional()) for name, schema in fields),
    )
    schema = struct_schema({"u": union}, name="S")
    converter = make(AvroConverter)
    empty = dict.fromkeys(name for name, _ in fields)
    for name, found in (("int", 5), ("string", "x"), ("Inner", {"x": 1, "y": None}), ("array", [1])):
        value = {"u": empty | {name: found}}
        assert converter.deserialize("topic", converter.serialize("topic", schema, value)) == (schema, value)
    assert converter.deserialize("topic", converter.serialize("topic", schema, {"u": None})).value == {"u": None}
    branches = json.loads(registry.text(1))["fields"][0]["type"]
    kinds = [each if isinstance(each, str) else each["type"] for each in branches]
    assert kinds == ["null", "int", "string", "record", "array"]


@pytest.mark.parametrize(
    ("branch", "number"),
    [
        ("int", 5),
        ("long", 2**40),
        ("long", -(2**31) - 1),
        ("float", 1.5),
        ("float", float("-inf")),
        ("double", 0.1),
        ("double", 1e300),
    ],
)
def test_a_number_of_a_union_is_of_a_type_that_can_hold_it(make, registry, branch, number):
    avro = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "long", "float", "double"]}]}
    found = read(registry, make(AvroConverter), avro, {"u": (branch, number)})
    assert found.value == {"u": dict.fromkeys(("int", "long", "float", "double")) | {branch: number}}


def test_unions_of_others_are_read(make, registry):
    one = {"type": "record", "name": "One", "fields": [{"name": "a", "type": "int"}]}
    two = {"type": "record", "name": "Two", "fields": [{"name": "a", "type": "int"}]}
    enum = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
    fixed = {"type": "fixed", "name": "F", "size": 2}
    avro = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "u", "type": [one, two, enum, fixed, "double", "boolean"]}],
    }
    converter = make(AvroConverter)
    for datum, name, found in (
        (("Two", {"a": 1}), "Two", {"a": 1}),
        (("E", "Y"), "E", "Y"),
        (("F", b"ab"), "F", b"ab"),
        (1.5, "double", 1.5),
        (True, "boolean", True),
    ):
        value = read(registry, converter, avro, {"u": datum}).value["u"]
        assert {key: each for key, each in value.items() if each is not None} == {name: found}
    same = [{**one, "namespace": "n"}, {**one, "namespace": "m"}]
    with pytest.raises(DataError, match="same name"):
        read(registry, converter, {"type": "record", "name": "R", "fields": [{"name": "u", "type": same}]},
             {"u": ("n.One", {"a": 1})})  # fmt: skip


def test_an_enum_is_text_and_stays_an_enum_if_that_is_wanted(make, registry):
    avro = {"type": "record", "name": "R", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "namespace": "n", "symbols": ["X", "Y"], "doc": "d"}},
        {"name": "o", "type": ["null", "n.E"]},
    ]}  # fmt: skip
    enhanced = make(AvroConverter, enhanced_avro_schema_support="true")
    found = read(registry, enhanced, avro, {"e": "Y", "o": ("n.E", "X")})
    assert found.value == {"e": "Y", "o": "X"}
    schema = found.schema.field_by_name["e"].schema
    assert (schema.type, schema.name) == (Type.STRING, "n.E")
    assert schema.parameters["io.confluent.connect.avro.Enum.X"] == "X"
    written = enhanced.serialize("other", found.schema, found.value)
    assert enhanced.deserialize("other", written).value == found.value
    kept = json.loads(registry.text(int.from_bytes(written[1:5], "big")))["fields"][0]["type"]
    assert (kept["type"], kept["symbols"], kept["doc"]) == ("enum", ["X", "Y"], "d")
    with pytest.raises(DataError, match="symbols"):
        enhanced.serialize("other", found.schema, {"e": "Z", "o": None})
    plain = make(AvroConverter)
    lost = plain.serialize("third", found.schema, found.value)
    assert json.loads(registry.text(int.from_bytes(lost[1:5], "big")))["fields"][0]["type"]["type"] == "string"
    assert plain.deserialize("third", lost).value == found.value


def test_fixed_bytes_and_decimals_keep_their_size(make, registry):
    avro = {"type": "record", "name": "R", "fields": [
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "d", "type": {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 10,
                               "scale": 2}},
    ]}  # fmt: skip
    converter = make(AvroConverter)
    found = read(registry, converter, avro, {"f": b"ab", "d": Decimal("-1.50")})
    assert found.value == {"f": b"ab", "d": Decimal("-1.50")}
    decimal = found.schema.field_by_name["d"].schema
    assert decimal.parameters == {"scale": "2", "connect.fixed.size": "8", "connect.decimal.precision": "10"}
    written = converter.serialize("other", found.schema, found.value)
    assert converter.deserialize("other", written) == found
    with pytest.raises(DataError, match="fixed"):
        converter.serialize("other", found.schema, {"f": b"abc", "d": Decimal(1)})


def test_what_avro_knows_beyond_connect_is_read(make, registry):
    avro = {"type": "record", "name": "R", "doc": "about", "fields": [
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}, "doc": "field"},
        {"name": "m", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "s", "type": ["string"]},
        {"name": "w", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "d", "type": "int", "default": 7},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "n", "type": ["string", "null"], "default": "not taken"},
    ]}  # fmt: skip
    datum = {"u": "8b0d1d9f-0000-4000-8000-000000000000", "m": 5, "s": "x", "w": "y", "d": 1, "b": b"", "n": None}
    found = read(registry, make(AvroConverter), avro, datum)
    assert found.value == datum
    fields = {each.name: each.schema for each in found.schema.fields}
    assert (fields["m"], fields["s"], fields["n"]) == (INT64, STRING, STRING.as_optional())
    assert fields["w"].parameters == {"avro.java.string": "String"}
    assert (fields["d"].default, fields["b"].default) == (7, b"\xff")
    assert found.schema.parameters["io.confluent.connect.avro.record.doc"] == "about"
    assert found.schema.parameters["io.confluent.connect.avro.field.doc.u"] == "field"


def test_what_an_avro_schema_says_survives_the_way_back(make, registry):
    avro = {"type": "record", "name": "R", "namespace": "n", "doc": "about", "fields": [
        {"name": "d", "type": "int", "default": 7, "doc": "field"}]}  # fmt: skip
    converter = make(AvroConverter)
    found = read(registry, converter, avro, {"d": 1})
    written = converter.serialize("other", found.schema, found.value)
    described = json.loads(registry.text(int.from_bytes(written[1:5], "big")))
    assert described["doc"] == "about"
    assert described["fields"][0]["default"] == 7
    assert described["fields"][0]["doc"] == "field"
    assert "connect.default" not in json.dumps(described)


@pytest.mark.parametrize(
    ("avro", "problem"),
    [
        ("null", "means nothing"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "contains itself"),
        ({"type": "int", "connect.type": "int9"}, "int8 or int16"),
        ({"type": "int", "connect.version": "x"}, "number"),
        ({"type": "int", "connect.parameters": {"a": 1}}, "strings"),
        ({"type": "int", "logicalType": "date", "connect.name": "other"}, r"connect\.name"),
        ({"type": "nothing"}, "no Avro schema"),
        ({"type": "record"}, "no Avro schema"),
    ],
)
def test_a_schema_that_means_nothing_to_connect_is_refused(make, registry, avro, problem):
    schema_id = registry.register("topic-value", json.dumps(avro))
    with pytest.raises(DataError, match=problem):
        make(AvroConverter).deserialize("topic", b"\0" + schema_id.to_bytes(4, "big") + b"\0\0")


def test_an_invalid_default_is_ignored(make, registry):
    avro = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "int", "connect.default": "x"}}]}
    assert not read(registry, make(AvroConverter), avro, {"a": 1}).schema.field_by_name["a"].schema.has_default


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, 128),
        (INT32, 2**31),
        (INT32, "1"),
        (INT32, True),
        (INT32, 1.5),
        (STRING, b"x"),
        (BYTES, "x"),
        (BOOLEAN, 1),
        (FLOAT64, "1"),
        (DATE, dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        (TIMESTAMP, dt.datetime(2024, 1, 1)),  # noqa: DTZ001 - that it has no zone is the case
        (decimal_schema(1), Decimal("1.55")),
        (decimal_schema(1), 1.5),
        (array_schema(INT32), {"a": 1}),
        (array_schema(INT32), [None]),
        (map_schema(STRING, INT32), {1: 1}),
        (map_schema(INT32, INT32), [1]),
        (INNER, {"x": 1, "z": 2}),
        (INNER, {"y": "a"}),
        (INNER, [1]),
        (Schema(type=Type.ARRAY), [1]),
        (None, 2**63),
        (None, object()),
    ],
)
def test_a_value_that_does_not_fit_is_refused(make, schema, value):
    with pytest.raises(DataError):
        make(AvroConverter).serialize("topic", schema, value)


def test_the_message_names_the_field(make):
    with pytest.raises(DataError, match=r"inner: x: 'a'"):
        make(AvroConverter).serialize("topic", struct_schema({"inner": INNER}), {"inner": {"x": "a"}})


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"{}", b"\x01\0\0\0\x01abc", b"\0\0\0\0\x01", b"\0\0\0\0\x01\x02"])
def test_bytes_that_are_no_value_are_refused(make, registry, data):
    registry.register("topic-value", '{"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}')
    with pytest.raises(DataError):
        make(AvroConverter).deserialize("topic", data)


def test_defaults_stand_for_nulls_unless_they_are_to_stay(make):
    schema = struct_schema(
        {"a": Schema(type=Type.STRING, optional=True, default="d"), "b": Schema(type=Type.INT32, default=3)}
    )
    converter = make(AvroConverter)
    assert converter.deserialize("topic", converter.serialize("topic", schema, {})).value == {"a": "d", "b": 3}
    keeping = make(AvroConverter, ignore_default_for_nullables="true")
    assert keeping.deserialize("topic", keeping.serialize("topic", schema, {"a": None})).value == {"a": None, "b": 3}


def test_names_that_avro_does_not_allow_are_replaced_if_that_is_wanted(make, registry):
    schema = struct_schema({"a-b": INT32, "1c": STRING}, name="my-ns.my name")
    scrubbing = make(AvroConverter, scrub_invalid_names="true")
    written = scrubbing.serialize("topic", schema, {"a-b": 1, "1c": "x"})
    described = json.loads(registry.text(int.from_bytes(written[1:5], "big")))
    assert (described["namespace"], described["name"]) == ("my_ns", "my_name")
    assert [each["name"] for each in described["fields"]] == ["a_b", "x1c"]
    assert scrubbing.deserialize("topic", written).value == {"a_b": 1, "x1c": "x"}


def test_without_meta_data_the_schema_has_nothing_of_connect(make, registry):
    converter = make(AvroConverter, connect_meta_data="false")
    converter.serialize("topic", struct_schema({"a": replace(INT8, doc="d", version=2)}, name="n.S"), {"a": 1})
    assert "connect" not in registry.text(1)


def test_values_are_written_by_the_latest_schema_if_that_is_wanted(make, registry):
    avro = {"type": "record", "name": "S", "fields": [
        {"name": "new", "type": "string", "default": "n"},
        {"name": "a", "type": ["null", "long"]},
        {"name": "f", "type": "double"},
    ]}  # fmt: skip
    schema_id = registry.register("topic-value", json.dumps(avro))
    converter = make(AvroConverter, use_latest_version="true", auto_register_schemas="false")
    schema = struct_schema({"a": INT32, "f": INT64, "gone": STRING}, name="S")
    written = converter.serialize("topic", schema, {"a": 1, "f": 2, "gone": "x"})
    assert int.from_bytes(written[1:5], "big") == schema_id
    assert converter.deserialize("topic", written).value == {"new": "n", "a": 1, "f": 2.0}
    with pytest.raises(DataError, match="fits none"):
        converter.serialize("topic", struct_schema({"a": STRING, "f": INT64}, name="S"), {"a": "x", "f": 1})
    with pytest.raises(DataError, match="needs a field f"):
        converter.serialize("topic", struct_schema({"a": INT32}, name="S"), {"a": 1})


def test_schemas_that_others_refer_to_are_found(make, registry):
    registry.register(
        "inner", '{"type": "record", "name": "Inner", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}'
    )
    outer = '{"type": "record", "name": "Outer", "namespace": "n", "fields": [{"name": "i", "type": "n.Inner"}]}'
    references = [{"name": "n.Inner", "subject": "inner", "version": 1}]
    schema_id = registry.register("topic-value", outer, references=references)
    found = make(AvroConverter).deserialize("topic", b"\0" + schema_id.to_bytes(4, "big") + b"\x0e")
    assert found.value == {"i": {"x": 7}}
    assert found.schema.field_by_name["i"].schema.name == "n.Inner"
