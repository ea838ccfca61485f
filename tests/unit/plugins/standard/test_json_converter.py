"""JsonConverter writes and reads what Kafka Connect's does."""

import base64
import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_sdk import DataError, Header, InvalidConfig, Schema, Type
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
    StructBuilder,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from ottla_standard import JsonConverter

NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=dt.UTC)
EVERYTHING = (
    StructBuilder("flight", version=3, doc="A flight.")
    .add("int8", INT8)
    .add("int16", INT16)
    .add("int32", INT32)
    .add("int64", INT64)
    .add("float32", FLOAT32)
    .add("float64", FLOAT64)
    .add("boolean", BOOLEAN)
    .add("string", STRING)
    .add("bytes", BYTES)
    .add("date", DATE)
    .add("time", TIME)
    .add("timestamp", TIMESTAMP)
    .add("decimal", decimal_schema(2))
    .add("array", array_schema(INT32))
    .add("map", map_schema(STRING, INT64))
    .add("map of numbers", map_schema(INT32, STRING))
    .add("nested", struct_schema({"a": STRING.as_optional(), "class": decimal_schema(0, optional=True)}))
    .add("optional", STRING.as_optional())
    .build()
)
EVERYTHING_VALUE = {
    "int8": -128,
    "int16": 32767,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "float32": 1.5,
    "float64": 1e300,
    "boolean": True,
    "string": 'Grüße "𝄞"',
    "bytes": b"\x00\xff",
    "date": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999_000),
    "timestamp": NOON,
    "decimal": Decimal("-12.34"),
    "array": [1, 2, 3],
    "map": {"x": 1, "y": -1},
    "map of numbers": {1: "one", 2: "two"},
    "nested": {"a": None, "class": Decimal(7)},
    "optional": None,
}


def converter(**config: object) -> JsonConverter:
    made = JsonConverter()
    made.configure({key.replace("_", "."): str(value) for key, value in config.items()})
    made.start()
    return made


def with_schemas(**config: object) -> JsonConverter:
    return converter(schemas_enable="true", **config)


def plain(**config: object) -> JsonConverter:
    return converter(schemas_enable="false", **config)


def test_a_value_and_its_schema_come_back_as_they_were():
    made = with_schemas()
    written = made.serialize("topic", EVERYTHING, EVERYTHING_VALUE)
    assert made.deserialize("topic", written) == (EVERYTHING, EVERYTHING_VALUE)


@pytest.mark.parametrize(
    ("schema", "value", "described", "payload"),
    [
        (BOOLEAN, True, {"type": "boolean", "optional": False}, True),
        (INT8, 12, {"type": "int8", "optional": False}, 12),
        (INT16, 12, {"type": "int16", "optional": False}, 12),
        (INT32, 12, {"type": "int32", "optional": False}, 12),
        (INT64, 4398046511104, {"type": "int64", "optional": False}, 4398046511104),
        (FLOAT32, 12.5, {"type": "float", "optional": False}, 12.5),
        (FLOAT64, 12, {"type": "double", "optional": False}, 12.0),
        (STRING, "test-string", {"type": "string", "optional": False}, "test-string"),
        (BYTES, b"test-string", {"type": "bytes", "optional": False}, base64.b64encode(b"test-string").decode()),
        (
            array_schema(INT32),
            [1, 2, 3],
            {"type": "array", "items": {"type": "int32", "optional": False}, "optional": False},
            [1, 2, 3],
        ),
        (
            map_schema(STRING, INT32),
            {"key1": 12},
            {
                "type": "map",
                "keys": {"type": "string", "optional": False},
                "values": {"type": "int32", "optional": False},
                "optional": False,
            },
            {"key1": 12},
        ),
        (
            map_schema(INT32, INT32),
            {1: 12, 2: 15},
            {
                "type": "map",
                "keys": {"type": "int32", "optional": False},
                "values": {"type": "int32", "optional": False},
                "optional": False,
            },
            [[1, 12], [2, 15]],
        ),
        (
            decimal_schema(2),
            Decimal("1.56"),
            {
                "type": "bytes",
                "optional": False,
                "name": "org.apache.kafka.connect.data.Decimal",
                "version": 1,
                "parameters": {"scale": "2"},
            },
            "AJw=",
        ),
        (
            DATE,
            dt.date(1997, 5, 19),
            {"type": "int32", "optional": False, "name": "org.apache.kafka.connect.data.Date", "version": 1},
            10000,
        ),
        (
            TIME,
            dt.time(4, 0, 0),
            {"type": "int32", "optional": False, "name": "org.apache.kafka.connect.data.Time", "version": 1},
            14400000,
        ),
        (
            TIMESTAMP,
            dt.datetime(1970, 1, 1, 4, 0, 0, tzinfo=dt.UTC),
            {"type": "int64", "optional": False, "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
            14400000,
        ),
    ],
)
def test_each_type_is_written_as_kafka_writes_it(schema, value, described, payload):
    written = with_schemas().serialize("topic", schema, value)
    assert json.loads(written) == {"schema": described, "payload": payload}
    assert with_schemas().deserialize("topic", written) == (schema, value)


def test_the_fields_of_a_struct_are_named_in_their_schemas():
    schema = struct_schema({"a": STRING, "b": INT32.as_optional()}, name="s")
    written = with_schemas().serialize("topic", schema, {"a": "x"})
    assert written == (
        b'{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"a"},'
        b'{"type":"int32","optional":true,"field":"b"}],"optional":false,"name":"s"},"payload":{"a":"x","b":null}}'
    )


def test_name_version_doc_parameters_and_default_of_a_schema_survive():
    schema = Schema(type=Type.INT32, optional=True, default=5, name="n", version=2, doc="d", parameters={"p": "q"})
    made = with_schemas()
    written = made.serialize("topic", schema, 7)
    assert json.loads(written)["schema"] == {
        "type": "int32",
        "optional": True,
        "name": "n",
        "version": 2,
        "doc": "d",
        "parameters": {"p": "q"},
        "default": 5,
    }
    assert made.deserialize("topic", written).schema == schema


def test_a_default_of_a_logical_type_is_written_as_its_values_are():
    schema = Schema(type=Type.INT32, name=DATE.name, version=1, default=dt.date(1970, 1, 2))
    made = with_schemas()
    written = made.serialize("topic", schema, dt.date(1970, 1, 3))
    assert json.loads(written)["schema"]["default"] == 1
    assert made.deserialize("topic", written).schema == schema


def test_a_tombstone_stays_one_and_a_null_with_a_schema_is_json_null():
    assert with_schemas().serialize("topic", None, None) is None
    assert with_schemas().deserialize("topic", None) == (None, None)
    assert json.loads(with_schemas().serialize("topic", STRING.as_optional(), None))["payload"] is None
    assert plain().serialize("topic", STRING.as_optional(), None) == b"null"
    assert plain().deserialize("topic", b"null") == (None, None)
    assert plain().deserialize("topic", b"") == (None, None)


def test_a_value_without_schema_has_an_envelope_without_one():
    made = with_schemas()
    written = made.serialize("topic", None, {"a": [1, None, "x"]})
    assert written == b'{"schema":null,"payload":{"a":[1,null,"x"]}}'
    assert made.deserialize("topic", written) == (None, {"a": [1, None, "x"]})


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b'{"schema":null}',
        b'{"payload":1}',
        b'{"schema":null,"payload":1,"more":2}',
        b'"text"',
    ],
)
def test_what_is_no_envelope_is_refused_with_a_hint(text):
    with pytest.raises(DataError, match=r"schemas\.enable=false"):
        with_schemas().deserialize("topic", text)


@pytest.mark.parametrize("text", [b"{", b"", b"\xff", b"{'a':1}", b"nul", b"[" * 100_000, b'"\xc3"', b"{} x"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(DataError):
        with_schemas().deserialize("topic", text)
    if text:
        with pytest.raises(DataError, match="not JSON"):
            plain().deserialize("topic", text)


@pytest.mark.parametrize(
    "schema",
    [
        "1",
        "{}",
        '{"type":7}',
        '{"type":"nothing"}',
        '{"type":"array"}',
        '{"type":"map","keys":{"type":"string"}}',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{"type":"int32"}]}',
        '{"type":"struct","fields":[3]}',
        '{"type":"int32","parameters":{"a":1}}',
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}',
        '{"type":"int32","default":"x"}',
    ],
)
def test_a_schema_that_says_nothing_is_refused(schema):
    with pytest.raises(DataError):
        with_schemas().deserialize("topic", b'{"schema":' + schema.encode() + b',"payload":1}')


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("int8", "128"),
        ("int16", "-32769"),
        ("int32", "2147483648"),
        ("int64", "9223372036854775808"),
        ("int64", "123456789012345678901234567890"),
        ("int32", '"1"'),
        ("int32", "1.5"),
        ("int32", "true"),
        ("int32", "null"),
        ("string", "1"),
        ("boolean", "1"),
        ("double", '"1.5"'),
        ("bytes", '"not base64!"'),
        ("bytes", "1"),
    ],
)
def test_a_payload_that_does_not_fit_its_schema_is_refused_rather_than_bent(schema, payload):
    with pytest.raises(DataError):
        with_schemas().deserialize("topic", f'{{"schema":{{"type":"{schema}"}},"payload":{payload}}}'.encode())


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, 128),
        (INT32, "1"),
        (INT32, 1.0),
        (INT32, True),
        (INT32, None),
        (STRING, 1),
        (STRING, b"x"),
        (BYTES, "x"),
        (BOOLEAN, 1),
        (FLOAT64, "1"),
        (DATE, NOON),
        (DATE, "2024-01-01"),
        (TIMESTAMP, dt.date(2024, 1, 1)),
        (TIMESTAMP, NOON.replace(tzinfo=None)),
        (TIME, 5),
        (decimal_schema(2), 1.5),
        (decimal_schema(2), Decimal("1.555")),
        (decimal_schema(2), Decimal("NaN")),
        (decimal_schema(2), Decimal("1E+999999")),
        (array_schema(INT32), [1, None]),
        (array_schema(INT32), 5),
        (map_schema(STRING, INT32), {"a": "b"}),
        (map_schema(STRING, INT32), {1: 1}),
        (struct_schema({"a": INT32}), {}),
        (struct_schema({"a": INT32}), {"a": 1, "b": 2}),
        (struct_schema({"a": INT32}), [1]),
        (struct_schema({"a": struct_schema({"b": INT32})}), {"a": {"b": 1, "c": 2}}),
        (Schema(type=Type.ARRAY), [1]),
        (Schema(type=Type.MAP), {}),
    ],
)
@pytest.mark.parametrize("make", [with_schemas, plain])
def test_a_value_that_does_not_fit_its_schema_is_refused(make, schema, value):
    with pytest.raises(DataError):
        make().serialize("topic", schema, value)


def test_the_message_names_the_field():
    schema = struct_schema({"when": DATE, "nested": struct_schema({"bytes": BYTES})})
    with pytest.raises(DataError, match=r"nested: bytes: .*BYTES"):
        plain().serialize("topic", schema, {"when": dt.date(2024, 1, 1), "nested": {"bytes": 5}})
    with pytest.raises(DataError, match=r"\$\.when"):
        plain().serialize("topic", schema, {"when": "x", "nested": {"bytes": b""}})


def test_a_default_stands_for_null_unless_it_is_not_to():
    with_default = Schema(type=Type.STRING, optional=True, default="d")
    schema = struct_schema({"a": with_default})
    assert plain().serialize("topic", schema, {"a": None}) == b'{"a":"d"}'
    kept = plain(replace_null_with_default="false")
    assert kept.serialize("topic", schema, {"a": None}) == b'{"a":null}'
    envelope = with_schemas().serialize("topic", schema, {"a": "x"}).replace(b'{"a":"x"}', b'{"a":null}')
    assert with_schemas().deserialize("topic", envelope).value == {"a": "d"}
    assert with_schemas(replace_null_with_default="false").deserialize("topic", envelope).value == {"a": None}
    missing = envelope.replace(b'{"a":null}', b"{}")
    assert with_schemas().deserialize("topic", missing).value == {"a": "d"}


def test_a_null_in_a_required_field_whose_default_may_not_be_used_is_refused():
    schema = struct_schema({"a": Schema(type=Type.STRING, default="d")})
    assert plain().serialize("topic", schema, {}) == b'{"a":"d"}'
    with pytest.raises(DataError):
        plain(replace_null_with_default="false").serialize("topic", schema, {"a": None})


def test_numbers_of_decimals_are_written_if_asked_for_and_always_read():
    schema = struct_schema({"d": decimal_schema(2), "o": decimal_schema(3, optional=True)})
    value = {"d": Decimal("1234567890123456789012345678.90"), "o": None}
    numeric = with_schemas(decimal_format="numeric")
    written = numeric.serialize("topic", schema, value)
    assert written.endswith(b'"payload":{"d":1234567890123456789012345678.90,"o":null}}')
    assert with_schemas().deserialize("topic", written).value == value
    as_text = with_schemas().serialize("topic", schema, value)
    assert numeric.deserialize("topic", as_text).value == value


def test_a_decimal_gets_the_digits_of_its_schema():
    assert plain(decimal_format="NUMERIC").serialize("topic", decimal_schema(2), Decimal("1.5")) == b"1.50"


def test_fields_that_the_schema_does_not_know_are_ignored_and_those_missing_are_null():
    schema = struct_schema({"a": INT32, "b": STRING.as_optional()})
    envelope = with_schemas().serialize("topic", schema, {"a": 1, "b": "x"})
    other = envelope.replace(b'{"a":1,"b":"x"}', b'{"c":[1],"a":1}')
    assert with_schemas().deserialize("topic", other).value == {"a": 1, "b": None}


def test_numbers_that_json_has_not_are_text_as_in_kafka():
    schema = array_schema(FLOAT64)
    value = [float("inf"), float("-inf"), 1.0]
    written = with_schemas().serialize("topic", schema, value)
    assert b'["Infinity","-Infinity",1.0]' in written
    assert with_schemas().deserialize("topic", written).value == value
    assert plain().serialize("topic", None, {"a": [float("nan"), None], "b": 1.0}) == b'{"a":["NaN",null],"b":1.0}'
    assert plain().serialize("topic", None, {"null": 1.0}) == b'{"null":1.0}'


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**64), 10**40])
def test_integers_beyond_64_bits_stay_exact_without_schema(number):
    text = plain().serialize("topic", None, {"n": number})
    assert text == f'{{"n":{number}}}'.encode()
    assert plain().deserialize("topic", text) == (None, {"n": number})


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, {"a": {object(): 1}}])
def test_a_value_that_json_cannot_say_is_refused(value):
    with pytest.raises(DataError):
        plain().serialize("topic", None, value)


def test_a_value_that_contains_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(DataError):
        plain().serialize("topic", None, value)


def test_schemas_are_remembered_up_to_the_size_of_the_cache():
    made = with_schemas(schemas_cache_size=2)
    for number in range(5):
        schema = struct_schema({f"f{number}": INT32})
        written = made.serialize("topic", schema, {f"f{number}": number})
        first = made.deserialize("topic", written)
        again = made.deserialize("topic", written)
        assert first == (schema, {f"f{number}": number})
        assert first.schema is again.schema
    assert made._learn.cache_info().currsize == 2
    assert len(made._written) == 2


def test_headers_are_converted_like_values():
    made = with_schemas()
    written = made.serialize_header("topic", Header("h", 5, INT32))
    assert made.deserialize_header("topic", "h", written) == (INT32, 5)


def test_all_settings_that_are_wrong_are_named():
    with pytest.raises(InvalidConfig) as caught:
        converter(decimal_format="hex", schemas_cache_size=0, schemas_enable="perhaps")
    assert {each.key for each in caught.value.problems} == {"decimal.format", "schemas.cache.size", "schemas.enable"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(json_values)
def test_whatever_json_can_say_comes_back_without_schema(value):
    made = plain()
    text = made.serialize("topic", None, value)
    if value is None:
        assert text is None
        return
    assert made.deserialize("topic", text).value == value
    assert json.loads(text) == value
    assert made.deserialize("topic", json.dumps(value).encode()).value == value
