"""The SDK's own tests of plugins, run on all of the standard ones."""

import datetime as dt
from decimal import Decimal

import ottla_standard as plugins
from ottla_sdk import ConnectRecord, Header, Role
from ottla_sdk.conformance import config_provider_suite, converter_suite, predicate_suite, transform_suite
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
    decimal_schema,
    struct_schema,
)

SCHEMA = struct_schema({"id": INT32, "price": decimal_schema(2), "when": DATE.as_optional()}, name="acme.Order")
VALUE = {"id": 7, "price": Decimal("1.50"), "when": dt.date(2024, 2, 29)}

TestJsonConverter = converter_suite(
    plugins.JsonConverter,
    settings={},
    values=[(SCHEMA, VALUE), (None, {"a": [1, None, 2.5, "x", True]}), (STRING, "x"), (BYTES, b"\0\xff")],
    unfitting=[(INT32, "x"), (SCHEMA, {"id": 1}), (STRING, None), (None, object())],
    damaged=[b"{", b"\xff", b"1", b'{"schema":{"type":"x"},"payload":1}'],
    bad_settings=[({"schemas.cache.size": "0", "decimal.format": "hex"}, ["schemas.cache.size", "decimal.format"])],
)
TestStringConverter = converter_suite(
    plugins.StringConverter,
    settings={},
    values=[(STRING.as_optional(), "Grüße")],
    damaged=[b"\xff"],
    bad_settings=[({"converter.encoding": "none"}, ["converter.encoding"])],
)
TestByteArrayConverter = converter_suite(
    plugins.ByteArrayConverter,
    settings={},
    values=[(BYTES.as_optional(), b"\0")],
    unfitting=[(None, "x"), (INT32, 1)],
)
TestBooleanConverter = converter_suite(
    plugins.BooleanConverter, settings={}, values=[(BOOLEAN.as_optional(), True)], damaged=[b"\2"]
)
TestSimpleHeaderConverter = converter_suite(
    plugins.SimpleHeaderConverter,
    settings={},
    values=[(STRING, "x"), (INT8, 1), (BOOLEAN, True)],
    unfitting=[(None, object())],
    roles=[Role.HEADER],
)
for _kind, _schema in (
    (plugins.ShortConverter, INT16),
    (plugins.IntegerConverter, INT32),
    (plugins.LongConverter, INT64),
    (plugins.FloatConverter, FLOAT32),
    (plugins.DoubleConverter, FLOAT64),
):
    globals()[f"Test{_kind.__name__}"] = converter_suite(
        _kind,
        settings={},
        values=[(_schema.as_optional(), 1.5 if "FLOAT" in _schema.type else 1)],
        unfitting=[(_schema, "x")],
        damaged=[b"\0"],
    )


def record(part, schema, value, **more):
    both = {f"{part}_schema": schema, part: value}
    return ConnectRecord(topic="orders", partition=3, timestamp_ms=86400000, **both, **more)


PLAIN = {"id": 7, "tag": "x", "inner": {"a": 1}}
BY_PART = {
    "Cast": ({"spec": "id:string"}, PLAIN | {"id": "7"}, ()),
    "ExtractField": ({"field": "tag"}, "x", ()),
    "Flatten": ({}, {"id": 7, "tag": "x", "inner.a": 1}, ()),
    "HeaderFrom": (
        {"fields": "tag", "headers": "h", "operation": "move"},
        {"id": 7, "inner": {"a": 1}},
        (Header("h", "x"),),
    ),
    "HoistField": ({"field": "all"}, {"all": PLAIN}, ()),
    "InsertField": (
        {"topic.field": "topic", "timestamp.field": "at"},
        PLAIN | {"topic": "orders", "at": 86400000},
        (),
    ),
    "MaskField": ({"fields": "tag,id"}, PLAIN | {"tag": "", "id": 0}, ()),
    "ReplaceField": ({"exclude": "inner", "renames": "id:key"}, {"key": 7, "tag": "x"}, ()),
    "TimestampConverter": (
        {"field": "id", "target.type": "Timestamp"},
        PLAIN | {"id": dt.datetime(1970, 1, 1, 0, 0, 0, 7000, tzinfo=dt.UTC)},
        (),
    ),
}
BAD = {
    "Cast": [({"spec": "id:thing"}, ["spec"])],
    "HeaderFrom": [({"headers": "a,b", "operation": "swap"}, ["operation"])],
    "TimestampConverter": [({"target.type": "string"}, ["format"])],
}
for _name, (_settings, _expected, _headers) in BY_PART.items():
    for _part in ("key", "value"):
        _class = getattr(plugins, f"{_name}{_part.capitalize()}")
        _before = record(_part, None, PLAIN)
        globals()[f"Test{_class.__name__}"] = transform_suite(
            _class,
            cases=[(_settings, _before, _before.replaced(**{_part: _expected}, headers=_headers))],
            bad_settings=BAD.get(_name, ()),
        )

for _part in ("key", "value"):
    _class = getattr(plugins, f"SetSchemaMetadata{_part.capitalize()}")
    _before = record(_part, SCHEMA, VALUE)
    globals()[f"Test{_class.__name__}"] = transform_suite(
        _class,
        cases=[({"schema.name": "n"}, _before, _before.replaced(**{f"{_part}_schema": SCHEMA.with_name("n")}))],
        bad_settings=[({"schema.name": None, "schema.version": "x"}, ["schema.version"])],
    )

BEFORE = record("value", None, PLAIN, headers=(Header("a", 1),))
TestDropHeaders = transform_suite(
    plugins.DropHeaders, cases=[({"headers": "a"}, BEFORE, BEFORE.replaced(headers=()))]
)
TestInsertHeader = transform_suite(
    plugins.InsertHeader,
    cases=[
        (
            {"header": "b", "value.literal": "x"},
            BEFORE,
            BEFORE.replaced(headers=(Header("a", 1), Header("b", "x", STRING))),
        )
    ],
)
TestFilter = transform_suite(plugins.Filter, cases=[({}, BEFORE, None)])
TestRegexRouter = transform_suite(
    plugins.RegexRouter,
    cases=[({"regex": "(.*)s", "replacement": "$1"}, BEFORE, BEFORE.replaced(topic="order"))],
    bad_settings=[({"regex": "("}, ["regex"])],
)
TestTimestampRouter = transform_suite(
    plugins.TimestampRouter, cases=[({}, BEFORE, BEFORE.replaced(topic="orders-19700102"))]
)
TestValueToKey = transform_suite(
    plugins.ValueToKey, cases=[({"fields": "id"}, BEFORE, BEFORE.replaced(key={"id": 7}))]
)
TestTopicNameMatches = predicate_suite(plugins.TopicNameMatches, cases=[({"pattern": "or.*"}, BEFORE, True)])
TestHasHeaderKey = predicate_suite(plugins.HasHeaderKey, cases=[({"name": "a"}, BEFORE, True)])
TestRecordIsTombstone = predicate_suite(plugins.RecordIsTombstone, cases=[({}, BEFORE, False)])


def _with_file(folder):
    (folder / "secrets").write_text("user=admin\n")
    return {"allowed.paths": str(folder)}


TestFileConfigProvider = config_provider_suite(
    plugins.FileConfigProvider,
    settings=_with_file,
    known={("{directory}/secrets", "user"): "admin"},
    unknown=("{directory}/secrets", "none"),
)
TestDirectoryConfigProvider = config_provider_suite(
    plugins.DirectoryConfigProvider,
    settings=_with_file,
    known={("{directory}", "secrets"): "user=admin\n"},
    unknown=("{directory}", "none"),
)
