"""Avro's types in Spark and back, and the schemas that fastavro is given for them."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from pyspark.sql import types

from ottla_spark.formats.avro_types import AvroType, avro_type, wire_schema
from ottla_spark.formats.avro_writing import schema_of
from ottla_spark.formats.errors import UnusableFormat


def mapped(schema: Any) -> AvroType:
    """What a schema stands for."""
    return avro_type(json.dumps(schema))


def logical(kind: str, name: str, /, **more: Any) -> dict[str, Any]:
    """A schema of a logical type."""
    return {"type": kind, "logicalType": name, **more}


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    """A schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": each} for key, each in fields.items()]}


def transcoded(schema: Any, content: Any) -> Any:
    """What is read by the schema for fastavro, of what fastavro itself writes by the original; and back again."""
    written = BytesIO()
    fastavro.schemaless_writer(written, schema, content)
    wire = mapped(schema).wire
    read = fastavro.schemaless_reader(BytesIO(written.getvalue()), wire, None)
    again = BytesIO()
    fastavro.schemaless_writer(again, wire, read)
    assert again.getvalue() == written.getvalue()
    return read


@pytest.mark.parametrize(
    ("schema", "type_name"),
    [
        ("null", "void"),
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": {"type": "array", "items": "long"}}, "map<string,array<bigint>>"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("string", "uuid"), "string"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(9,2)"),
        (logical("fixed", "decimal", name="F", size=8, precision=9), "decimal(9,0)"),
        (logical("fixed", "duration", name="F", size=12), "binary"),
        (logical("long", "of-somebodys-own"), "bigint"),
        (["null", "string"], "string"),
        (["string"], "string"),
        (["int", "long"], "bigint"),
        (["null", "double", "float"], "double"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        (record(a="int", b=record("S", c=["null", "string"])), "struct<a:int,b:struct<c:string>>"),
    ],
)
def test_every_type_of_avro_has_one_in_spark(schema: Any, type_name: str) -> None:
    assert mapped(schema).spark.simpleString() == type_name


def test_a_named_type_can_be_used_again() -> None:
    inner = record("space.Inner", t=logical("long", "timestamp-millis"))
    found = mapped(record("space.R", a=inner, b="Inner", c=["null", "space.Inner"]))
    each = "struct<t:timestamp>"
    assert found.spark.simpleString() == f"struct<a:{each},b:{each},c:{each}>"
    fastavro.parse_schema(found.wire)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record(a=["null", "R"]), "the record R contains itself, at a"),
        (record(a={"type": "array", "items": record("S", b={"type": "map", "values": "S"})}), r"itself, at a\[\].b"),
        (record(a="Unheard"), "the type Unheard is not known"),
        ({"type": "record"}, "no Avro schema"),
        (7, "no Avro schema"),
        (logical("bytes", "decimal"), "decimal without a precision"),
        (record(a=logical("bytes", "decimal", precision=39)), "a is a decimal of 39 digits, Spark has 38"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "the field a twice"),
    ],
)
def test_what_spark_has_nothing_like_is_refused_with_its_place(schema: Any, message: str) -> None:
    with pytest.raises(UnusableFormat, match=message):
        mapped(schema)


def test_a_union_of_several_types_is_a_struct_with_one_member_set() -> None:
    inner = record("Inner", x="int")
    schema = record(u=["null", "int", "string", inner, {"type": "array", "items": "int"}, "double"])
    found = [transcoded(schema, {"u": each})["u"] for each in (None, 5, "text", {"x": 1}, [1, 2], 0.5)]
    expected = [
        None,
        {"member0": 5},
        {"member1": "text"},
        {"member2": {"x": 1}},
        {"member3": [1, 2]},
        {"member4": 0.5},
    ]
    assert found == expected


def test_two_unions_of_the_same_types_and_one_of_others_stand_side_by_side() -> None:
    array, map_ = {"type": "array", "items": "int"}, {"type": "array", "items": "string"}
    schema = record(a=["int", array], b=["int", array], c=["int", map_])
    assert transcoded(schema, {"a": 1, "b": [2], "c": ["three"]}) == {
        "a": {"member0": 1},
        "b": {"member1": [2]},
        "c": {"member1": ["three"]},
    }


def test_a_default_of_a_union_or_of_bytes_is_what_a_reader_gets() -> None:
    reader = record(a="int")
    reader["fields"] += [
        {"name": "u", "type": ["int", "string"], "default": 7},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "n", "type": ["null", "int"], "default": None},
    ]
    written = BytesIO()
    fastavro.schemaless_writer(written, record(a="int"), {"a": 1})
    found = fastavro.schemaless_reader(
        BytesIO(written.getvalue()), wire_schema(mapped(record(a="int"))), wire_schema(mapped(reader))
    )
    assert found == {"a": 1, "u": {"member0": 7}, "b": b"\xff", "n": None}
    assert mapped(reader).defaults == {"u", "b", "n"}


def columns(**fields: types.DataType) -> types.StructType:
    """A struct."""
    return types.StructType([types.StructField(name, each) for name, each in fields.items()])


def test_columns_make_a_schema_whose_types_are_the_columns_own() -> None:
    plain = [
        types.BooleanType(), types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType(),
        types.BinaryType(), types.StringType(), types.DateType(), types.TimestampType(), types.TimestampNTZType(),
        types.DecimalType(12, 3), types.NullType(),
    ]  # fmt: skip
    nested = columns(x=types.ArrayType(columns(y=types.StringType())))
    maps = types.MapType(types.StringType(), types.ArrayType(types.TimestampType()))
    whole = columns(**{f"c{number}": each for number, each in enumerate(plain)}, nested=nested, maps=maps)
    schema = schema_of(whole, "Value")
    assert avro_type(schema).spark.simpleString() == whole.simpleString()
    assert avro_type(schema).defaults == set(whole.names)


def test_small_numbers_become_int() -> None:
    found = avro_type(schema_of(columns(a=types.ByteType(), b=types.ShortType()), "Value"))
    assert found.spark.simpleString() == "struct<a:int,b:int>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (columns(a=columns(**{"b-c": types.IntegerType()})), r"the column a\.b-c: .*rename it with AS"),
        (columns(m=types.MapType(types.IntegerType(), types.StringType())), "the column m .* keys of INT, Avro has"),
        (columns(v=types.VariantType()), "the column v is VARIANT, which Avro lacks"),
    ],
)
def test_a_column_that_is_none_of_avros_is_named(content: types.DataType, message: str) -> None:
    with pytest.raises(UnusableFormat, match=message):
        schema_of(content, "Value")


def test_a_plain_type_makes_a_plain_schema() -> None:
    assert schema_of(types.StringType(), "Key") == '"string"'
