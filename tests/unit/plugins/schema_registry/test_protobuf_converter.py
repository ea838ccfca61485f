"""ProtobufConverter: schemas and values, there and back."""

import base64
import datetime as dt
from dataclasses import replace
from decimal import Decimal
from itertools import product

import pytest

from ottla_schema_registry import ProtobufConverter
from ottla_schema_registry.proto_files import read_files
from ottla_schema_registry.protobuf.message_types import MessageTypes
from ottla_schema_registry.protobuf.proto_text import to_text
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from tests.unit.plugins.schema_registry.schemas import EVERYTHING, INNER, VALUE

TAG = "io.confluent.connect.protobuf.Tag"


def register(registry, text, references=()):
    return registry.register("topic-value", text, "PROTOBUF", references)


def read(registry, converter, text, data, indexes=b"\0", references=()):
    schema_id = register(registry, text, references)
    return converter.deserialize("topic", b"\0" + schema_id.to_bytes(4, "big") + indexes + data)


@pytest.mark.parametrize("nullables", ["optional_for_nullables", "wrapper_for_nullables"])
def test_values_come_back_as_they_were(make, nullables):
    converter = make(ProtobufConverter, **{nullables: "true"})
    found = converter.deserialize("topic", converter.serialize("topic", EVERYTHING, VALUE))
    assert found.value == VALUE
    assert [
        (each.name, each.schema.type, each.schema.name)
        for each in found.schema.fields
        if each.schema.type not in (Type.STRUCT, Type.MAP)
    ] == [
        (each.name, each.schema.type, each.schema.name)
        for each in EVERYTHING.fields
        if each.schema.type not in (Type.STRUCT, Type.MAP)
    ]
    again = converter.serialize("other", found.schema, found.value)
    assert converter.deserialize("other", again) == found


def test_without_a_way_to_say_null_it_becomes_zero_as_in_confluents_converter(make):
    converter = make(ProtobufConverter)
    schema = struct_schema({"a": INT32.as_optional(), "b": STRING.as_optional(), "c": INNER.as_optional()}, name="S")
    written = converter.serialize("topic", schema, {"a": None, "b": None, "c": None})
    assert converter.deserialize("topic", written).value == {"a": 0, "b": "", "c": None}


def test_a_struct_is_a_message(make, registry):
    schema = struct_schema(
        {
            "a": replace(INT32, parameters={TAG: "7"}),
            "b": INT8,
            "Inner": INNER,
            "list": array_schema(STRING),
            "map": map_schema(STRING, FLOAT64),
            "dates": map_schema(DATE, STRING),
            "price": decimal_schema(2),
        },
        name="com.acme.Order",
    )
    value = {"a": 1, "b": 2, "Inner": {"x": 1, "y": "z"}, "list": ["q"], "map": {"k": 0.5},
             "dates": {dt.date(2024, 1, 1): "new year"}, "price": Decimal("9.99")}  # fmt: skip
    converter = make(ProtobufConverter)
    written = converter.serialize("topic", schema, value)
    assert written[:6] == b"\0\0\0\0\x01\0"
    assert registry.text(1) == (
        'syntax = "proto3";\npackage com.acme;\nimport "confluent/meta.proto";\nimport "google/type/date.proto";\n'
        'import "confluent/type/decimal.proto";\n\nmessage Order {\n'
        "  int32 a = 7;\n"
        '  int32 b = 1 [(confluent.field_meta) = { params { key: "connect.type" value: "int8" } }];\n'
        "  InnerMessage Inner = 2;\n"
        "  repeated string list = 3;\n"
        "  map<string, double> map = 4;\n"
        "  repeated DatesEntry dates = 5;\n"
        '  confluent.type.Decimal price = 6 [(confluent.field_meta) = { params { key: "scale" value: "2" } }];\n'
        "  message InnerMessage {\n"
        '    int32 x = 1 [(confluent.field_meta) = { params { key: "connect.type" value: "int8" } }];\n'
        "    string y = 2;\n"
        "  }\n"
        "  message DatesEntry {\n"
        "    google.type.Date key = 1;\n"
        "    string value = 2;\n"
        "  }\n"
        "}\n"
    )
    assert converter.deserialize("topic", written).value == value


@pytest.mark.parametrize(
    ("schema", "value"),
    [(STRING, "x"), (INT32, -5), (INT64, 2**40), (FLOAT32, 1.5), (FLOAT64, 1.5), (BOOLEAN, True), (BYTES, b"\0")],
)
def test_what_is_no_struct_is_a_wrapper_message(make, schema, value):
    converter = make(ProtobufConverter)
    assert converter.deserialize("topic", converter.serialize("topic", schema, value)) == (schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (DATE, dt.date(2024, 1, 1)),
        (array_schema(INT32), [1]),
        (struct_schema({"a": array_schema(array_schema(INT32))}), {"a": [[1]]}),
        (struct_schema({"a": map_schema(STRING, array_schema(INT32))}), {"a": {"x": [1]}}),
        (struct_schema({"a": array_schema(INT32.as_optional())}), {"a": [None]}),
        (struct_schema({"a": map_schema(STRING, INT32.as_optional())}), {"a": {"x": None}}),
        (struct_schema({"a": INT32}), {"a": "x"}),
        (struct_schema({"a": INT32}), {"a": 2**31}),
        (struct_schema({"a": INT32}), {}),
        (struct_schema({"a b": INT32}), {"a b": 1}),
        (struct_schema({"a": INNER, "b": struct_schema({}, name="ns.Inner")}), {"a": {"x": 1}, "b": {}}),
        (struct_schema({"a": replace(INT32, parameters={TAG: "x"})}), {"a": 1}),
        (None, {"a": 1}),
    ],
)  # fmt: skip
def test_what_protobuf_has_nothing_for_is_refused(make, schema, value):
    with pytest.raises(DataError):
        make(ProtobufConverter).serialize("topic", schema, value)


ONEOF = """
syntax = "proto3";
message M {
  oneof choice { string text = 1; int32 number = 2; Sub sub = 3; }
  message Sub { bool b = 1; }
  int32 plain = 4;
}
"""


def test_a_oneof_is_a_struct_of_which_one_field_is_set(make, registry):
    converter = make(ProtobufConverter)
    found = read(registry, converter, ONEOF, b"\x10\x05\x20\x07")
    assert found.value == {"choice_0": {"text": None, "number": 5, "sub": None}, "plain": 7}
    assert found.schema.field_by_name["choice_0"].schema.name == "io.confluent.connect.protobuf.Union.choice"
    assert read(registry, converter, ONEOF, b"").value == {"choice_0": None, "plain": 0}
    written = converter.serialize("other", found.schema, found.value)
    assert converter.deserialize("other", written) == found
    text = registry.text(int.from_bytes(written[1:5], "big"))
    assert "oneof choice {\n    string text = 1;\n    int32 number = 2;\n    Sub sub = 3;" in text
    flat = make(ProtobufConverter, flatten_unions="true")
    assert read(registry, flat, ONEOF, b"\x10\x05").value == {"text": None, "number": 5, "sub": None, "plain": 0}
    bare = make(ProtobufConverter, generate_index_for_unions="false")
    assert "choice" in read(registry, bare, ONEOF, b"").value


EVERY_KIND = """
// Comments /* of all */ kinds.
syntax = "proto3"; /* and
lines */
package com.acme.orders;
import public "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "other.proto";
import "google/protobuf/descriptor.proto";
option java_package = "com.acme";

message Order {
  reserved 2, 15, 9 to 11; reserved "foo", "bar";
  option deprecated = true;
  enum Kind { option allow_alias = true; UNKNOWN = 0; NEW = 1 [deprecated = true]; FRESH = 1; OLD = -1; reserved 5; }
  message Line { string sku = 1; repeated uint32 counts = 2 [packed = false, json_name = "c"]; }
  repeated Line lines = 1;
  map<string, .com.acme.orders.Order.Line> by_sku = 3;
  Kind kind = 4;
  optional int64 maybe = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.StringValue note = 7;
  other.Thing thing = 8;
  oneof pay { string card = 20; Line line = 21; }
  sint32 s32 = 30; sint64 s64 = 31; fixed32 f32 = 32; fixed64 f64 = 33; sfixed32 sf32 = 34; sfixed64 sf64 = 35;
  uint64 u64 = 36; bytes raw = 37; float f = 38; double d = 39; bool b = 0x28;
  string message = 41; int32 optional = 42; string option = 43; string map = 44;
}
enum Top { ZERO = 0; }
message Second { message Deep { string x = 1; } Top top = 1; }
service S { rpc Do (Order) returns (stream Order); }
extend google.protobuf.FieldOptions { string custom_option = 50000; }
;
"""
OTHER = 'syntax = "proto3"; package other; message Thing { int32 id = 1; }'


def test_a_schema_may_be_a_text_or_a_descriptor_and_so_may_what_it_imports():
    thing = read_files(OTHER, {}).own
    described = base64.b64encode(thing.SerializeToString()).decode()
    text = 'syntax = "proto3"; import "other.proto"; import "confluent/meta.proto"; message M { other.Thing t = 1; }'
    own = base64.b64encode(read_files(text, {"other.proto": OTHER}).own.SerializeToString()).decode()
    for schema, imported in product((text, own), (OTHER, described)):
        types = MessageTypes(*read_files(schema, {"other.proto": imported}))
        assert types.find((0,)).fields_by_name["t"].message_type.full_name == "other.Thing"


def test_files_of_the_old_syntax_and_of_editions_are_read():
    old = read_files('message M { required string a = 1 [default = "x\\n"]; repeated int32 d = 4; }', {}).own
    assert old.message_type[0].field[0].default_value == "x\n"
    edition = 'edition = "2023"; message M { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }'
    fields = MessageTypes(*read_files(edition, {})).find((0,)).fields
    assert [each.has_presence for each in fields] == [True, False]


def test_what_is_no_proto_file_is_refused():
    with pytest.raises(DataError, match=r"Protobuf schema.*default\.proto:2:1: Expected"):
        read_files("message M {}\nnonsense", {})


def test_a_schema_with_imports_is_read(make, registry):
    registry.register("other", OTHER, "PROTOBUF")
    references = [{"name": "other.proto", "subject": "other", "version": 1}]
    # lines: [{sku: "a", counts: [1, 300]}], by_sku: {"k": {sku: "b"}}, kind: NEW, maybe: 0, thing: {id: 9}
    data = (
        b"\x0a\x08\x0a\x01a\x10\x01\x10\xac\x02" + b"\x1a\x08\x0a\x01k\x12\x03\x0a\x01b" + b"\x20\x01" + b"\x28\x00"
        b"\x42\x02\x08\x09"
    )
    text = EVERY_KIND.replace("import public", "import")
    registry.kept_as_text.add(text)  # As registries do that do not know the format.
    found = read(registry, make(ProtobufConverter), text, data, references=references)
    value = found.value
    assert value["lines"] == [{"sku": "a", "counts": [1, 300]}]
    assert value["by_sku"] == {"k": {"sku": "b", "counts": []}}
    assert (value["kind"], value["maybe"], value["thing"], value["at"]) == ("NEW", 0, {"id": 9}, None)
    assert value["note"] is None
    schema = found.schema.field_by_name["u64"].schema
    assert schema.parameters["io.confluent.connect.protobuf.Type"] == "uint64"


def test_a_missing_import_is_named(make, registry):
    text = EVERY_KIND
    registry.kept_as_text.add(text)
    with pytest.raises(DataError, match=r"other\.proto"):
        read(registry, make(ProtobufConverter), text, b"")


SEVERAL = """
syntax = "proto3"; package p;
message First { map<string, string> m = 1; message A { } message B { string x = 1; } }
message Second { string y = 1; }
"""


@pytest.mark.parametrize(
    ("indexes", "value"),
    [(b"\0", {"m": {}}), (b"\x02\x02", {"y": ""}), (b"\x04\x00\x02", {"x": ""}), (b"\x02\x00", {"m": {}})],
)
def test_the_message_type_is_the_one_that_the_value_names(make, registry, indexes, value):
    assert read(registry, make(ProtobufConverter), SEVERAL, b"", indexes).value == value


@pytest.mark.parametrize("indexes", [b"", b"\x02", b"\x02\x08", b"\x01", b"\xff" * 6, b"\x06\0\0\0\0", b"\x02\x03"])
def test_a_message_type_that_is_not_there_is_refused(make, registry, indexes):
    with pytest.raises(DataError):
        read(registry, make(ProtobufConverter), SEVERAL, b"", indexes)


@pytest.mark.parametrize(
    ("text", "data", "problem"),
    [
        ('syntax = "proto3"; message R { R r = 1; }', b"", "contains itself"),
        ('syntax = "proto3"; message R { Missing m = 1; }', b"", "not defined"),
        ('syntax = "proto3"; message R { string s = 1; }', b"\x0a\xff", "no Protobuf message"),
        ('syntax = "proto3"; message R { string s = 1; }', b"\x0a\x01\xff", "no Protobuf message"),
    ],
)
def test_what_cannot_be_read_is_refused(make, registry, text, data, problem):
    registry.kept_as_text.add(text)
    with pytest.raises(DataError, match=problem):
        read(registry, make(ProtobufConverter), text, data)


def test_enums_are_their_names_or_numbers(make, registry):
    text = 'syntax = "proto3"; message M { enum E { A = 0; B = 5; } E e = 1; repeated E l = 2; }'
    names = make(ProtobufConverter)
    found = read(registry, names, text, b"\x08\x05\x12\x02\x00\x05")
    assert found.value == {"e": "B", "l": ["A", "B"]}
    assert names.deserialize("t2", names.serialize("t2", found.schema, found.value)) == found
    assert read(registry, names, text, b"\x08\x07").value["e"] == "7"
    with pytest.raises(DataError, match="none of the enum E"):
        names.serialize("t2", found.schema, {"e": "C", "l": []})
    numbers = make(ProtobufConverter, int_for_enums="true")
    found = read(registry, numbers, text, b"\x08\x05")
    assert found.value == {"e": 5, "l": []}
    assert numbers.deserialize("t3", numbers.serialize("t3", found.schema, found.value)) == found


def test_unsigned_numbers_are_negative_in_their_upper_half_as_in_java(make, registry):
    text = 'syntax = "proto3"; message M { uint64 u = 1; uint32 v = 2; }'
    converter = make(ProtobufConverter)
    found = read(registry, converter, text, b"\x08" + b"\xff" * 9 + b"\x01" + b"\x10\xff\xff\xff\xff\x0f")
    assert found.value == {"u": -1, "v": 2**32 - 1}
    assert converter.deserialize("other", converter.serialize("other", found.schema, found.value)) == found


def test_values_are_written_by_the_latest_schema_if_that_is_wanted(make, registry):
    text = 'syntax = "proto3"; package p; message Other {} message S { int64 a = 5; string new = 6; }'
    schema_id = register(registry, text)
    converter = make(ProtobufConverter, use_latest_version="true", auto_register_schemas="false")
    written = converter.serialize("topic", struct_schema({"a": INT32}, name="p.S"), {"a": 3})
    assert written == b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x02\x28\x03"
    with pytest.raises(DataError, match="no field gone"):
        converter.serialize("topic", struct_schema({"gone": INT32}, name="p.S"), {"gone": 3})
    with pytest.raises(DataError, match="does not fit"):
        converter.serialize("topic", struct_schema({"a": STRING}, name="p.S"), {"a": "x"})


def test_names_that_protobuf_does_not_allow_are_replaced_if_that_is_wanted(make):
    schema = struct_schema({"a-b": INT32, "_c": STRING}, name="my-ns.my name")
    converter = make(ProtobufConverter, scrub_invalid_names="true")
    written = converter.serialize("topic", schema, {"a-b": 1, "_c": "x"})
    assert converter.deserialize("topic", written).value == {"a_b": 1, "x_c": "x"}


def test_defaults_stand_for_nulls_unless_they_are_to_stay(make):
    schema = struct_schema({"a": Schema(type=Type.STRING, optional=True, default="d")}, name="S")
    converter = make(ProtobufConverter, optional_for_nullables="true")
    assert converter.deserialize("t", converter.serialize("t", schema, {})).value == {"a": "d"}
    keeping = make(ProtobufConverter, optional_for_nullables="true", ignore_default_for_nullables="true")
    assert keeping.deserialize("t", keeping.serialize("t", schema, {})).value == {"a": None}


def test_full_names_are_kept_if_that_is_wanted(make, registry):
    text = 'syntax = "proto3"; package p; message M { Sub s = 1; message Sub {} oneof o { int32 a = 2; } }'
    found = read(registry, make(ProtobufConverter, enhanced_protobuf_schema_support="true"), text, b"")
    assert found.schema.name == "p.M"
    assert found.schema.field_by_name["s"].schema.name == "p.M.Sub"


def test_text_of_descriptors_says_the_same():
    file = read_files(ONEOF, {}).own
    assert read_files(to_text(file), {}).own == file


def test_a_union_of_a_wider_kind_keeps_its_field_numbers(make, registry):
    union = Schema(
        type=Type.STRUCT,
        name="io.confluent.connect.protobuf.Union.pay",
        optional=True,
        fields=(Field("card", STRING.as_optional()), Field("cash", INT64.as_optional())),
    )
    schema = struct_schema({"id": INT32, "pay_0": union, "at": TIMESTAMP.as_optional()}, name="S")
    converter = make(ProtobufConverter)
    value = {"id": 1, "pay_0": {"card": None, "cash": 5}, "at": None}
    assert converter.deserialize("topic", converter.serialize("topic", schema, value)).value == value
    assert "int32 id = 1;" in registry.text(1)
    assert "int64 cash = 3;" in registry.text(1)
