"""Converters of strings, bytes, numbers, booleans and headers."""

import datetime as dt
from decimal import Decimal

import pytest

from ottla_sdk import DataError, InvalidConfig, Schema, Type
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
from ottla_standard import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    SimpleHeaderConverter,
    StringConverter,
)


def made(kind, **config):
    converter = kind()
    converter.configure({key.replace("_", "."): value for key, value in config.items()})
    converter.start()
    return converter


@pytest.mark.parametrize(
    ("kind", "type_", "value", "data"),
    [
        (ShortConverter, Type.INT16, -2, b"\xff\xfe"),
        (IntegerConverter, Type.INT32, 1, b"\0\0\0\x01"),
        (LongConverter, Type.INT64, -(2**63), b"\x80" + b"\0" * 7),
        (FloatConverter, Type.FLOAT32, 1.5, b"\x3f\xc0\0\0"),
        (DoubleConverter, Type.FLOAT64, 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        (BooleanConverter, Type.BOOLEAN, True, b"\x01"),
        (BooleanConverter, Type.BOOLEAN, False, b"\x00"),
        (ByteArrayConverter, Type.BYTES, b"\x00\xff", b"\x00\xff"),
        (StringConverter, Type.STRING, "Grüße", "Grüße".encode()),
    ],
)
def test_values_have_the_bytes_of_kafkas_serializers(kind, type_, value, data):
    converter = made(kind)
    schema = Schema(type=type_, optional=True)
    assert converter.serialize("topic", schema, value) == data
    assert converter.deserialize("topic", data) == (schema, value)
    assert converter.serialize("topic", None, None) is None
    assert converter.deserialize("topic", None) == (schema, None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ShortConverter, 40_000),
        (IntegerConverter, 2**31),
        (LongConverter, 2**63),
        (FloatConverter, 1e39),
        (LongConverter, "1"),
        (LongConverter, 1.5),
        (LongConverter, True),
        (DoubleConverter, "1"),
        (BooleanConverter, 1),
        (ByteArrayConverter, "text"),
    ],
)
def test_what_does_not_fit_is_refused(kind, value):
    with pytest.raises(DataError):
        made(kind).serialize("topic", None, value)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ShortConverter, b"\0"),
        (LongConverter, b"\0" * 4),
        (BooleanConverter, b"\x02"),
        (BooleanConverter, b"\0\0"),
        (BooleanConverter, b""),
        (StringConverter, b"\xff"),
    ],
)
def test_bytes_of_something_else_are_refused(kind, data):
    with pytest.raises(DataError):
        made(kind).deserialize("topic", data)


def test_converters_of_one_type_refuse_the_schemas_of_others():
    with pytest.raises(DataError):
        made(ByteArrayConverter).serialize("topic", STRING, "x")
    with pytest.raises(DataError):
        made(BooleanConverter).serialize("topic", INT32, True)


def test_mutable_bytes_are_copied():
    assert made(ByteArrayConverter).serialize("topic", BYTES, bytearray(b"ab")) == b"ab"
    assert made(ByteArrayConverter).serialize("topic", None, memoryview(b"ab")) == b"ab"


def test_strings_are_in_the_encoding_of_the_settings():
    converter = made(StringConverter, converter_encoding="ISO-8859-1")
    assert converter.serialize("topic", STRING, "Grüße") == b"Gr\xfc\xdfe"
    assert converter.deserialize("topic", b"Gr\xfc\xdfe").value == "Grüße"
    with pytest.raises(DataError):
        converter.serialize("topic", STRING, "€")
    with pytest.raises(InvalidConfig, match="encoding"):
        made(StringConverter, converter_encoding="EBCDIC-9")


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (INT32, 1, "1"),
        (BOOLEAN, True, "true"),
        (FLOAT64, 1.0, "1.0"),
        (FLOAT64, 1e10, "1.0E10"),
        (FLOAT64, 12345678.9, "1.23456789E7"),
        (FLOAT64, 0.00015, "1.5E-4"),
        (FLOAT64, -0.0, "-0.0"),
        (FLOAT64, float("nan"), "NaN"),
        (FLOAT64, float("-inf"), "-Infinity"),
        (decimal_schema(2), Decimal("1.50"), "1.50"),
        (struct_schema({"a": INT32, "b": STRING.as_optional(), "c": STRING}), {"a": 1, "c": "x"}, "Struct{a=1,c=x}"),
        (map_schema(STRING, array_schema(INT32)), {"a": [1, 2], "b": []}, "{a=[1, 2], b=[]}"),
        (None, {"a": None}, "{a=null}"),
        (DATE, dt.date(2024, 2, 29), "2024-02-29"),
        (TIME, dt.time(1, 2, 3, 4000), "01:02:03.004Z"),
        (TIMESTAMP, dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "2024-02-29T00:00:00.000Z"),
        (BYTES, b"\0\1", "AAE="),
    ],
)
def test_what_is_no_text_is_written_as_java_prints_it(schema, value, text):
    assert made(StringConverter).serialize("topic", schema, value) == text.encode()


def read_header(text):
    return made(SimpleHeaderConverter).deserialize_header("topic", "header", text.encode())


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("", STRING, ""),
        ("simple", STRING, "simple"),
        ("127", INT8, 127),
        ("128", INT16, 128),
        ("-32769", INT32, -32769),
        ("2147483648", INT64, 2147483648),
        ("9223372036854775808", decimal_schema(0), Decimal(9223372036854775808)),
        ("+5", INT8, 5),
        ("1e2", INT8, 100),
        ("1.5", FLOAT32, 1.5),
        ("1.5e39", FLOAT64, 1.5e39),
        ("1e400", decimal_schema(-400), Decimal("1e400")),
        ("true", BOOLEAN, True),
        (" \n\tfalse ", BOOLEAN, False),
        ("true}", STRING, "true}"),
        ("false]", STRING, "false]"),
        ("null=", STRING, "null="),
        ("{foo: 3}", STRING, "{foo: 3}"),
        ("{3: foo}", STRING, "{3: foo}"),
        ("[foo]", STRING, "[foo]"),
        ("{6:9 4:20}", STRING, "{6:9 4:20}"),
        ("[0 1 2]", STRING, "[0 1 2]"),
        ("{null: 3}", STRING, "{null: 3}"),
        ("[1, 2, 3,,,]", STRING, "[1, 2, 3,,,]"),
        ("[,,1]", STRING, "[,,1]"),
        ("[1", STRING, "[1"),
        ("{1:2", STRING, "{1:2"),
        ("{[1]:2}", STRING, "{[1]:2}"),
        ("1,2", STRING, "1,2"),
        ("[1] and more", STRING, "[1] and more"),
        ('"quoted"', STRING, '"quoted"'),
        ("1_000", STRING, "1_000"),
        ("+inf", STRING, "+inf"),
        ("[true, false]", array_schema(BOOLEAN), [True, False]),
        ("{true: false, false: true}", map_schema(BOOLEAN, BOOLEAN), {True: False, False: True}),
        ("[1, 2, 3.5]", array_schema(FLOAT32), [1.0, 2.0, 3.5]),
        ("[1, 1000]", array_schema(INT16), [1, 1000]),
        ("[null]", Schema(type=Type.ARRAY), [None]),
        ("[]", Schema(type=Type.ARRAY), []),
        ("{}", Schema(type=Type.MAP), {}),
        ("{3: null}", Schema(type=Type.MAP, key_schema=INT8), {3: None}),
        ('[1, "a"]', Schema(type=Type.ARRAY), [1, "a"]),
        ("[[]]", array_schema(Schema(type=Type.ARRAY)), [[]]),
        ('{ "foo" : "123", \n"bar" : "b:az" } ', map_schema(STRING, STRING), {"foo": "123", "bar": "b:az"}),
        ('["a\\"b\\\\c"]', array_schema(STRING), ['a"b\\c']),
        ('[" "]', array_schema(STRING), [" "]),
        ("2019-08-23", DATE, dt.date(2019, 8, 23)),
        ("2019-13-23", STRING, "2019-13-23"),
        ("14:34:54.346Z", TIME, dt.time(14, 34, 54, 346_000)),
        ("14\\:34\\:54.346Z", TIME, dt.time(14, 34, 54, 346_000)),
        ("2019-08-23T14:34:54.346Z", TIMESTAMP, dt.datetime(2019, 8, 23, 14, 34, 54, 346_000, tzinfo=dt.UTC)),
        ("[2019-08-23]", array_schema(DATE), [dt.date(2019, 8, 23)]),
        ("[14:34:54.346Z]", array_schema(TIME), [dt.time(14, 34, 54, 346_000)]),
        ('{"t":14:34:54.346Z}', map_schema(STRING, TIME), {"t": dt.time(14, 34, 54, 346_000)}),
        ("[1, 2019-08-23]", Schema(type=Type.ARRAY), [1, dt.date(2019, 8, 23)]),
    ],
)
def test_a_headers_text_is_read_as_what_it_looks_like(text, schema, value):
    assert read_header(text) == (schema, value)


def test_the_text_null_is_no_value():
    assert read_header(" null ") == (None, None)
    assert made(SimpleHeaderConverter).deserialize("topic", None) == (None, None)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 20_000])
def test_a_header_that_cannot_be_read_stays_bytes(data):
    assert made(SimpleHeaderConverter).deserialize("topic", data) == (BYTES, data)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("three\"blind'mice", "three\"blind'mice"),
        (['a"b\\c', 1, None, True], '["a\\"b\\\\c",1,null,true]'),
        ({"a": {"b": 1.5}}, '{"a":{"b":1.5}}'),
        (b"\0\1", "AAE="),
        ([b"\0\1"], '["AAE="]'),
        (dt.date(2019, 8, 23), "2019-08-23"),
    ],
)
def test_headers_are_written_as_text(value, text):
    assert made(SimpleHeaderConverter).serialize("topic", None, value) == text.encode()


@pytest.mark.parametrize(
    "value",
    [0, -5, 10**12, 1.25, True, "text", [1, 2], {"a": "b"}, dt.date(2024, 1, 1), dt.time(1, 2, 3)],
)
def test_headers_come_back_as_they_were(value):
    converter = made(SimpleHeaderConverter)
    assert converter.deserialize("topic", converter.serialize("topic", None, value)).value == value


def test_a_header_of_no_value_has_no_bytes():
    assert made(SimpleHeaderConverter).serialize("topic", STRING, None) is None
