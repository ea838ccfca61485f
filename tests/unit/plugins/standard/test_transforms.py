"""The single message transforms, by examples."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pytest

import ottla_standard as plugins
from ottla_sdk import DataError, Header, InvalidConfig, Schema, SinkRecord, SourceRecord, Type
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
from ottla_standard.transforms.field_path import parse_path

WITH_DEFAULT = Schema(type=Type.STRING, optional=True, default="default")
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=dt.UTC)


def made(kind, **config):
    transform = kind()
    transform.configure({key.replace("_", "."): str(value) for key, value in config.items()})
    return transform


def value_record(schema, value, **more):
    return SourceRecord(
        source_partition={}, source_offset={}, topic="topic", value_schema=schema, value=value, **more
    )


def on_value(transform, schema, value):
    changed = transform.apply(value_record(schema, value))
    return changed.value_schema, changed.value


def test_the_variants_for_keys_leave_the_value_alone_and_the_other_way_round():
    record = value_record(None, {"a": 1}, key={"a": 2})
    by_key = made(plugins.HoistFieldKey, field="x").apply(record)
    assert (by_key.key, by_key.value) == ({"x": {"a": 2}}, {"a": 1})
    by_value = made(plugins.HoistFieldValue, field="x").apply(record)
    assert (by_value.key, by_value.value) == ({"a": 2}, {"x": {"a": 1}})
    assert record.key == {"a": 2}


# Cast.


@pytest.mark.parametrize(
    ("target", "value", "cast"),
    [
        ("int8", 42, 42),
        ("int8", 300, 44),
        ("int8", -129, 127),
        ("int8", 300.7, 44),
        ("int16", 40000, -25536),
        ("int32", 2**31, -(2**31)),
        ("int32", 1e20, 2**31 - 1),
        ("int32", float("-inf"), -(2**31)),
        ("int32", float("nan"), 0),
        ("int32", -1.9, -1),
        ("int64", 2**63, -(2**63)),
        ("int64", 1e30, 2**63 - 1),
        ("int64", "42", 42),
        ("int64", "+42", 42),
        ("int32", True, 1),
        ("int32", Decimal("42.9"), 42),
        ("float32", 42, 42.0),
        ("float32", 0.1, 0.1),
        ("float32", 1 / 3, 0.33333334),
        ("float32", 1e300, float("inf")),
        ("float64", "1.5e3", 1500.0),
        ("float64", " -Infinity ", float("-inf")),
        ("float64", "1.5f", 1.5),
        ("boolean", 42, True),
        ("boolean", 0, False),
        ("boolean", "TRUE", True),
        ("boolean", "yes", False),
        ("string", 42, "42"),
        ("string", False, "false"),
        ("string", Decimal("1.50"), "1.50"),
        ("string", b"\xfe\xdc\xba\x98\x76\x54\x32\x10", "/ty6mHZUMhA="),
        ("string", dt.date(2024, 2, 29), "2024-02-29"),
        ("string", dt.time(12, 0), "12:00:00.000Z"),
        ("string", NOON, "2024-02-29T12:00:00.123Z"),
        ("int64", NOON, 1709208000123),
        ("int32", dt.date(1970, 1, 2), 1),
        ("int64", dt.time(0, 0, 0, 1000), 1),
    ],
)
def test_a_whole_value_is_cast_by_javas_rules(target, value, cast):
    assert on_value(made(plugins.CastValue, spec=target), None, value) == (None, cast)


@pytest.mark.parametrize(
    ("target", "value"),
    [
        ("int8", "128"),
        ("int32", "4.2"),
        ("int32", " 42"),
        ("int32", "x"),
        ("int64", "1_0"),
        ("float64", "x"),
        ("float64", "0x1"),
        ("int32", b"1"),
        ("string", {"a": 1}),
        ("int8", [1]),
        ("int8", object()),
    ],
)
def test_what_cannot_be_cast_is_refused(target, value):
    with pytest.raises(DataError):
        on_value(made(plugins.CastValue, spec=target), None, value)


def test_a_whole_key_is_cast_with_its_schema_and_default():
    record = SourceRecord(
        source_partition={},
        source_offset={},
        topic="topic",
        key_schema=Schema(type=Type.FLOAT32, default=-42.125, optional=True),
        key=42.125,
    )
    changed = made(plugins.CastKey, spec="int32").apply(record)
    assert changed.key == 42
    assert changed.key_schema == Schema(type=Type.INT32, default=-42, optional=True)


def test_a_cast_date_is_no_date_any_more():
    assert on_value(made(plugins.CastValue, spec="int32"), DATE, dt.date(1970, 1, 2)) == (INT32, 1)


def test_fields_are_cast_with_their_schemas_and_the_others_stay():
    schema = (
        StructBuilder("s", version=1)
        .add("a", INT8)
        .add("b", Schema(type=Type.INT32, default=2))
        .add("c", STRING.as_optional())
        .add("d", decimal_schema(0))
        .add("e", DATE.as_optional())
        .add("f", BYTES)
        .build()
    )
    value = {"a": 8, "b": 32, "c": "42", "d": Decimal(42), "e": None, "f": b"x"}
    cast = made(plugins.CastValue, spec="a:int16, b:int64,c:int32,d:string,e:string,nothing:int8")
    changed_schema, changed = on_value(cast, schema, value)
    assert changed == {"a": 8, "b": 32, "c": 42, "d": "42", "e": None, "f": b"x"}
    assert changed_schema == (
        StructBuilder("s", version=1)
        .add("a", INT16)
        .add("b", Schema(type=Type.INT64, default=2))
        .add("c", INT32.as_optional())
        .add("d", STRING)
        .add("e", STRING.as_optional())
        .add("f", BYTES)
        .build()
    )
    assert value["c"] == "42"


@pytest.mark.parametrize(("replaced", "expected"), [("true", "42"), ("false", None)])
def test_the_default_of_a_null_field_is_cast_if_wanted(replaced, expected):
    schema = struct_schema({"magic": Schema(type=Type.INT64, optional=True, default=42)})
    cast = made(plugins.CastValue, spec="magic:string", replace_null_with_default=replaced)
    assert on_value(cast, schema, {"magic": None})[1] == {"magic": expected}


def test_fields_of_maps_are_cast_and_null_stays_null():
    cast = made(plugins.CastValue, spec="a:int8,b:string")
    assert on_value(cast, None, {"a": "5", "c": 1}) == (None, {"a": 5, "c": 1, "b": None})
    assert on_value(cast, None, None) == (None, None)
    record = value_record(STRING.as_optional(), None)
    assert cast.apply(record) is record


@pytest.mark.parametrize(
    "spec", ["", "foo:faketype", "bytes", "foo:bytes", "foo:int8:x", "foo:int8,int8", "int8,int8"]
)
def test_a_wrong_cast_is_refused_before_it_starts(spec):
    with pytest.raises(InvalidConfig, match="spec"):
        made(plugins.CastValue, spec=spec)


def test_a_cast_of_fields_needs_fields():
    with pytest.raises(DataError, match="int"):
        on_value(made(plugins.CastValue, spec="a:int8"), None, 5)
    with pytest.raises(DataError, match="INT32"):
        on_value(made(plugins.CastValue, spec="a:int8"), INT32, 5)


# ExtractField.

NESTED = struct_schema({"foo": struct_schema({"bar": INT32, "baz": struct_schema({"inner": STRING}, optional=True)})})


@pytest.mark.parametrize(
    ("path", "value"),
    [("foo.bar", 42), ("foo", {"bar": 42, "baz": None}), ("foo.baz", None), ("foo.baz.inner", None)],
)
def test_a_path_leads_into_structs_and_maps(path, value):
    extract = made(plugins.ExtractFieldValue, field=path, field_syntax_version="v2")
    whole = {"foo": {"bar": 42, "baz": None}}
    assert on_value(extract, NESTED, whole)[1] == value
    assert on_value(extract, None, whole) == (None, value)
    assert on_value(extract, None, None) == (None, None)


@pytest.mark.parametrize("path", ["un.known", "foo.unknown", "unknown", "foo.bar.x"])
def test_an_unknown_field_is_an_error_with_a_schema(path):
    extract = made(plugins.ExtractFieldValue, field=path, field_syntax_version="V2")
    with pytest.raises(DataError):
        on_value(extract, NESTED, {"foo": {"bar": 42}})


def test_an_unknown_field_of_a_map_is_null():
    extract = made(plugins.ExtractFieldValue, field="un.known", field_syntax_version="V2")
    assert on_value(extract, None, {"foo": 1}) == (None, None)
    with pytest.raises(DataError, match="map"):
        on_value(made(plugins.ExtractFieldValue, field="foo.x", field_syntax_version="V2"), None, {"foo": 1})


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("foo.bar.baz", ("foo", "bar", "baz")),
        ("foo", ("foo",)),
        ("foo.", ("foo", "")),
        (".foo", ("", "foo")),
        ("foo..bar", ("foo", "", "bar")),
        ("`foo.bar`.baz", ("foo.bar", "baz")),
        ("foo.`bar.baz`", ("foo", "bar.baz")),
        ("`foo.bar.baz`", ("foo.bar.baz",)),
        ("fo`o.ba`r", ("fo`o", "ba`r")),
        ("`foo`bar.baz`", ("foo`bar.baz",)),
        ("`foo\\`.bar`.baz", ("foo`.bar", "baz")),
        ("foo\\.bar", ("foo\\", "bar")),
    ],
)
def test_paths_are_split_at_dots_outside_backticks(path, steps):
    assert parse_path(path, "V2") == steps
    assert parse_path(path, "V1") == (path,)


@pytest.mark.parametrize("path", ["`foo", "foo.`bar", "`foo\\`", "`foo.bar.baz", "`", ""])
def test_a_wrong_path_is_refused_before_it_starts(path):
    with pytest.raises(InvalidConfig, match="field"):
        made(plugins.ExtractFieldValue, field=path, field_syntax_version="V2")


def test_a_name_with_dots_is_one_name_in_the_first_syntax():
    assert on_value(made(plugins.ExtractFieldValue, field="a.b"), None, {"a.b": 1}) == (None, 1)


def test_the_schema_of_an_extracted_field_is_its_own_also_of_null():
    schema = struct_schema({"a": WITH_DEFAULT}, optional=True)
    extract = made(plugins.ExtractFieldValue, field="a")
    assert on_value(extract, schema, {"a": None}) == (WITH_DEFAULT, "default")
    assert on_value(extract, schema, None) == (WITH_DEFAULT, None)
    kept = made(plugins.ExtractFieldValue, field="a", replace_null_with_default="false")
    assert on_value(kept, schema, {}) == (WITH_DEFAULT, None)


# Flatten.


def test_nested_structs_become_one():
    inner = struct_schema({"int8": INT8, "list": array_schema(STRING), "time": TIMESTAMP})
    schema = struct_schema({"A": struct_schema({"B": inner}), "c": STRING}, name="outer")
    value = {"A": {"B": {"int8": 8, "list": ["x"], "time": NOON}}, "c": "y"}
    flat_schema, flat = on_value(made(plugins.FlattenValue), schema, value)
    assert flat == {"A.B.int8": 8, "A.B.list": ["x"], "A.B.time": NOON, "c": "y"}
    fields = {"A.B.int8": INT8, "A.B.list": array_schema(STRING), "A.B.time": TIMESTAMP, "c": STRING}
    assert flat_schema == struct_schema(fields, name="outer")


def test_nested_maps_become_one():
    flatten = made(plugins.FlattenKey, delimiter="#")
    record = value_record(None, None, key={"A": {"B": {"x": 1, "l": [{"y": 2}], "n": None}}})
    assert flatten.apply(record).key == {"A#B#x": 1, "A#B#l": [{"y": 2}], "A#B#n": None}


def test_fields_below_an_optional_struct_are_optional_and_null_with_it():
    schema = struct_schema({"B": struct_schema({"x": INT32}, optional=True), "c": INT32})
    flat_schema, flat = on_value(made(plugins.FlattenValue), schema, {"B": None, "c": 1})
    assert flat == {"B.x": None, "c": 1}
    assert flat_schema == struct_schema({"B.x": INT32.as_optional(), "c": INT32})


def test_defaults_of_a_struct_are_those_of_the_flat_fields():
    inner = replace(struct_schema({"x": INT32.as_optional(), "y": INT32}, optional=True), default={"x": 7, "y": 8})
    flat_schema, flat = on_value(made(plugins.FlattenValue), struct_schema({"B": inner}), {"B": None})
    assert flat == {"B.x": 7, "B.y": 8}
    assert [each.schema.default for each in flat_schema.fields] == [7, 8]
    assert all(each.schema.optional for each in flat_schema.fields)


def test_flattening_needs_fields_and_no_maps_with_schemas():
    flatten = made(plugins.FlattenValue)
    with pytest.raises(DataError, match="struct"):
        on_value(flatten, INT32, 5)
    with pytest.raises(DataError, match="map"):
        on_value(flatten, None, 5)
    schema = struct_schema({"m": map_schema(STRING, STRING)})
    with pytest.raises(DataError, match="field m"):
        on_value(flatten, schema, {"m": {}})
    record = value_record(struct_schema({"x": INT32}, optional=True), None)
    assert flatten.apply(record) is record


# Headers.


def test_headers_are_dropped_by_name():
    record = value_record(None, 1, headers=(Header("a", 1), Header("b", 2), Header("a", 3)))
    assert made(plugins.DropHeaders, headers="a, c").apply(record).headers == (Header("b", 2),)
    assert made(plugins.DropHeaders, headers="x").apply(record) is record
    with pytest.raises(InvalidConfig, match="headers"):
        made(plugins.DropHeaders, headers="")


@pytest.mark.parametrize(
    ("literal", "header"),
    [("text", Header("h", "text", STRING)), ("87", Header("h", 87, INT8)), ("null", Header("h", None))],
)
def test_a_header_is_inserted_behind_the_others(literal, header):
    insert = plugins.InsertHeader()
    insert.configure({"header": "h", "value.literal": literal})
    assert insert.apply(value_record(None, 1, headers=(Header("h", 0),))).headers == (Header("h", 0), header)


def test_fields_are_copied_and_moved_into_headers():
    schema = struct_schema({"a": STRING, "b": WITH_DEFAULT, "c": INT32}, name="s")
    record = value_record(schema, {"a": "x", "b": None, "c": 1}, headers=(Header("old", 0),))
    headers = (Header("old", 0), Header("h1", "x", STRING), Header("h2", "default", WITH_DEFAULT))
    copied = made(plugins.HeaderFromValue, fields="a,b", headers="h1,h2", operation="copy").apply(record)
    assert (copied.headers, copied.value, copied.value_schema) == (headers, record.value, schema)
    moved = made(plugins.HeaderFromValue, fields="a,b", headers="h1,h2", operation="move").apply(record)
    assert (moved.headers, moved.value) == (headers, {"c": 1})
    assert moved.value_schema == struct_schema({"c": INT32}, name="s")
    kept = made(plugins.HeaderFromValue, fields="b", headers="h", operation="copy", replace_null_with_default="false")
    assert kept.apply(record).headers[-1] == Header("h", None, WITH_DEFAULT)


def test_fields_of_a_map_are_copied_and_moved_into_headers():
    record = value_record(None, None, key={"a": 1, "b": 2})
    moved = made(plugins.HeaderFromKey, fields="a,x", headers="h,i", operation="move").apply(record)
    assert (moved.key, moved.headers) == ({"b": 2}, (Header("h", 1), Header("i", None)))


def test_what_header_from_cannot_do_is_refused():
    with pytest.raises(InvalidConfig) as caught:
        made(plugins.HeaderFromValue, fields="a,b", headers="h", operation="copy")
    assert [each.key for each in caught.value.problems] == ["headers"]
    with pytest.raises(InvalidConfig, match="operation"):
        made(plugins.HeaderFromValue, fields="a", headers="h", operation="swap")
    transform = made(plugins.HeaderFromValue, fields="a", headers="h", operation="copy")
    with pytest.raises(DataError, match="'a'"):
        transform.apply(value_record(struct_schema({"b": INT32}), {"b": 1}))
    with pytest.raises(DataError, match="null"):
        transform.apply(value_record(None, None))


# HoistField, InsertField, MaskField.


def test_a_value_is_hoisted_with_its_schema_be_it_null():
    hoist = made(plugins.HoistFieldValue, field="magic")
    assert on_value(hoist, INT32, 42) == (struct_schema({"magic": INT32}), {"magic": 42})
    assert on_value(hoist, INT32.as_optional(), None)[1] == {"magic": None}
    assert on_value(hoist, None, None) == (None, {"magic": None})


INSERT_ALL = {
    "topic_field": "topic_field!",
    "partition_field": "partition_field",
    "timestamp_field": "timestamp_field?",
    "static_field": "instance_id",
    "static_value": "my-instance-id",
}


def inserting(kind, **config):
    transform = kind()
    transform.configure({key.replace("_", ".", 1): value for key, value in config.items()})
    return transform


def test_what_is_known_of_a_record_is_inserted():
    record = value_record(
        struct_schema({"magic": WITH_DEFAULT}, name="n"), {"magic": None}, partition=3, timestamp_ms=1709208000123
    )
    changed = inserting(plugins.InsertFieldValue, **INSERT_ALL).apply(record)
    assert changed.value == {
        "magic": "default",
        "topic_field": "topic",
        "partition_field": 3,
        "timestamp_field": NOON,
        "instance_id": "my-instance-id",
    }
    assert changed.value_schema == struct_schema(
        {
            "magic": WITH_DEFAULT,
            "topic_field": STRING,
            "partition_field": INT32.as_optional(),
            "timestamp_field": TIMESTAMP.as_optional(),
            "instance_id": STRING.as_optional(),
        },
        name="n",
    )


def test_without_schema_only_what_there_is_is_inserted():
    record = value_record(None, None, key={"magic": 42})
    changed = inserting(plugins.InsertFieldKey, **INSERT_ALL).apply(record)
    assert changed.key == {"magic": 42, "topic_field": "topic", "instance_id": "my-instance-id"}
    assert record.key == {"magic": 42}
    null = value_record(None, None)
    assert inserting(plugins.InsertFieldKey, **INSERT_ALL).apply(null) is null


def test_offsets_are_those_of_sinks():
    insert = inserting(plugins.InsertFieldValue, offset_field="at!")
    record = SinkRecord(topic="t", partition=0, value={"a": 1}, offset=7)
    assert insert.apply(record).value == {"a": 1, "at": 7}
    with_schema = replace(record, value_schema=struct_schema({"a": INT32}))
    assert insert.apply(with_schema).value_schema == struct_schema({"a": INT32, "at": INT64})
    with pytest.raises(DataError, match="sink"):
        insert.apply(value_record(None, {"a": 1}))


def test_inserting_nothing_is_refused_before_it_starts():
    with pytest.raises(InvalidConfig, match="no field"):
        inserting(plugins.InsertFieldValue)
    with pytest.raises(InvalidConfig, match=r"static\.value"):
        inserting(plugins.InsertFieldValue, static_field="x")


MASKED = {
    "bool": (BOOLEAN, True, False),
    "byte": (INT8, 42, 0),
    "long": (INT64, 42, 0),
    "float": (FLOAT32, 1.5, 0.0),
    "string": (STRING, "55.121.20.20", ""),
    "date": (DATE, dt.date(2024, 1, 1), dt.date(1970, 1, 1)),
    "time": (TIME, dt.time(1), dt.time(0)),
    "timestamp": (TIMESTAMP, NOON, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    "decimal": (decimal_schema(2), Decimal("42.00"), Decimal(0)),
    "array": (array_schema(INT32), [1, 2], []),
    "map": (map_schema(STRING, STRING), {"a": "b"}, {}),
    "null": (STRING.as_optional(), None, None),
}


def test_fields_are_masked_with_what_is_empty_in_their_type():
    mask = made(plugins.MaskFieldValue, fields=",".join(MASKED))
    value = {name: found for name, (_, found, _) in MASKED.items()} | {"other": "stays"}
    expected = {name: masked for name, (_, _, masked) in MASKED.items()} | {"other": "stays"}
    schema = struct_schema({name: each for name, (each, _, _) in MASKED.items()} | {"other": STRING})
    assert on_value(mask, schema, value) == (schema, expected)
    assert on_value(mask, None, value) == (None, expected)


@pytest.mark.parametrize(
    ("schema", "value", "replacement", "masked"),
    [
        (STRING, "secret", "***", "***"),
        (INT8, 42, "123", 123),
        (INT64, 42, "-7.9", -7),
        (FLOAT64, 4.2, "0.5", 0.5),
        (decimal_schema(1), Decimal("1.0"), "2.5", Decimal("2.5")),
    ],
)
def test_fields_are_masked_with_a_replacement(schema, value, replacement, masked):
    mask = made(plugins.MaskFieldValue, fields="f", replacement=replacement)
    assert on_value(mask, struct_schema({"f": schema}), {"f": value})[1] == {"f": masked}
    assert on_value(mask, None, {"f": value})[1] == {"f": masked}


@pytest.mark.parametrize(
    ("schema", "value", "replacement"),
    [
        (INT8, 42, "300"),
        (INT32, 42, "text"),
        (BOOLEAN, True, "false"),
        (DATE, dt.date(2024, 1, 1), "x"),
        (BYTES, b"x", None),
        (struct_schema({"a": INT32}), {"a": 1}, None),
        (INT64, 42, "Infinity"),
    ],
)
def test_what_cannot_be_masked_is_refused(schema, value, replacement):
    config = {} if replacement is None else {"replacement": replacement}
    mask = made(plugins.MaskFieldValue, fields="f", **config)
    with pytest.raises(DataError):
        on_value(mask, struct_schema({"f": schema}), {"f": value})


# Routers.


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "routed"),
    [
        ("foo", "bar", "foo", "bar"),
        ("foo", "bar", "orig", "orig"),
        ("(.*)", "$1", "orig", "orig"),
        ("(.*)", "prefix-$1", "orig", "prefix-orig"),
        ("(.*)", "$1-suffix", "orig", "orig-suffix"),
        (r"(.*)-(\d{8})", "$1", "index-20160117", "index"),
        ("(?<base>.*)-x", "${base}", "name-x", "name"),
        (r"(?<c>.)\k<c>", "double-${c}", "aa", "double-a"),
        ("(a)(b)?", "$1$2!", "a", "a!"),
        ("(a)", "$10", "a", "a0"),
        (".*", r"\$1", "x", "$1"),
        ("fo", "bar", "foo", "foo"),
    ],
)
def test_topics_are_renamed_by_javas_regular_expressions(regex, replacement, topic, routed):
    router = made(plugins.RegexRouter, regex=regex, replacement=replacement)
    record = value_record(None, 1).replaced(topic=topic)
    assert router.apply(record).topic == routed


@pytest.mark.parametrize(
    ("regex", "replacement", "key"),
    [("(", "x", "regex"), ("a", "$1", "replacement"), ("a", "${b}", "replacement"), ("a", "$", "replacement"),
     ("a", "\\", "replacement"), ("a", "$x", "replacement")],
)  # fmt: skip
def test_a_wrong_pattern_or_replacement_is_refused_before_it_starts(regex, replacement, key):
    with pytest.raises(InvalidConfig) as caught:
        made(plugins.RegexRouter, regex=regex, replacement=replacement)
    assert [each.key for each in caught.value.problems] == [key]


def test_topics_are_chosen_by_time():
    record = value_record(None, 1, timestamp_ms=1483425001864)
    assert made(plugins.TimestampRouter).apply(record).topic == "topic-20170103"
    monthly = made(plugins.TimestampRouter, topic_format="${timestamp}/${topic}", timestamp_format="yyyy-MM")
    assert monthly.apply(record).topic == "2017-01/topic"
    with pytest.raises(DataError, match="timestamp"):
        monthly.apply(value_record(None, 1))
    with pytest.raises(InvalidConfig, match="letter"):
        made(plugins.TimestampRouter, timestamp_format="bbb")


# ReplaceField, SetSchemaMetadata, ValueToKey.


def test_fields_are_dropped_kept_and_renamed():
    schema = struct_schema({"dont": STRING, "abc": WITH_DEFAULT, "foo": BOOLEAN, "etc": STRING}, name="s")
    value = {"dont": "whatever", "abc": None, "foo": True, "etc": "etc"}
    replace_field = made(
        plugins.ReplaceFieldValue, exclude="dont", include="abc,foo,dont", renames="abc:xyz,foo:bar,no:where"
    )
    changed_schema, changed = on_value(replace_field, schema, value)
    assert changed == {"xyz": "default", "bar": True}
    assert changed_schema == struct_schema({"xyz": WITH_DEFAULT, "bar": BOOLEAN}, name="s")
    assert on_value(replace_field, None, value) == (None, {"xyz": None, "bar": True})
    null = value_record(schema.as_optional(), None)
    assert replace_field.apply(null) is null


def test_two_fields_can_swap_their_names():
    swap = made(plugins.ReplaceFieldValue, renames="a:b,b:a")
    schema = struct_schema({"a": INT32, "b": STRING})
    assert on_value(swap, schema, {"a": 1, "b": "x"}) == (
        struct_schema({"b": INT32, "a": STRING}),
        {"b": 1, "a": "x"},
    )


@pytest.mark.parametrize("renames", ["a", "a:", ":b", "a:b:c"])
def test_a_wrong_rename_is_refused_before_it_starts(renames):
    with pytest.raises(InvalidConfig, match="renames"):
        made(plugins.ReplaceFieldValue, renames=renames)


def test_a_schema_gets_another_name_and_version():
    schema = struct_schema({"a": WITH_DEFAULT}, name="old")
    both = made(plugins.SetSchemaMetadataValue, schema_name="foo", schema_version="42")
    changed_schema, changed = on_value(both, schema, {"a": None})
    assert (changed_schema.name, changed_schema.version, changed) == ("foo", 42, {"a": "default"})
    version = made(plugins.SetSchemaMetadataValue, schema_version="42")
    assert on_value(version, array_schema(INT32), [1]) == (replace(array_schema(INT32), version=42), [1])
    assert on_value(both, None, None) == (None, None)
    with pytest.raises(DataError, match="no schema"):
        on_value(both, None, 5)
    with pytest.raises(InvalidConfig, match="neither"):
        made(plugins.SetSchemaMetadataValue)


def test_a_key_is_made_of_fields_of_the_value():
    to_key = made(plugins.ValueToKey, fields="b,a")
    changed = to_key.apply(value_record(None, {"a": 1, "c": 3}))
    assert (changed.key_schema, changed.key) == (None, {"b": None, "a": 1})
    schema = struct_schema({"a": INT32, "b": WITH_DEFAULT, "c": INT32})
    changed = to_key.apply(value_record(schema, {"a": 1, "b": None, "c": 3}))
    assert changed.key_schema == struct_schema({"b": WITH_DEFAULT, "a": INT32})
    assert changed.key == {"b": "default", "a": 1}
    with pytest.raises(DataError, match="'b'"):
        to_key.apply(value_record(struct_schema({"a": INT32}), {"a": 1}))
    with pytest.raises(DataError, match="null"):
        to_key.apply(value_record(None, None))


# Filter and predicates.


def test_filter_drops_everything():
    assert made(plugins.Filter).apply(value_record(None, 1)) is None


def test_predicates_judge_records():
    record = value_record(None, None, headers=(Header("h", None),))
    assert made(plugins.RecordIsTombstone).test(record)
    assert not made(plugins.RecordIsTombstone).test(value_record(None, {}))
    assert made(plugins.HasHeaderKey, name="h").test(record)
    assert not made(plugins.HasHeaderKey, name="x").test(record)
    assert made(plugins.TopicNameMatches, pattern="to?.*").test(record)
    assert not made(plugins.TopicNameMatches, pattern="to").test(record)
    for kind, config in ((plugins.HasHeaderKey, {"name": ""}), (plugins.TopicNameMatches, {"pattern": "("})):
        with pytest.raises(InvalidConfig):
            made(kind, **config)
