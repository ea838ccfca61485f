"""Schemas and values that all converters must bring back as they were."""

import datetime as dt
from decimal import Decimal

from ottla_sdk import Schema, Type
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

INNER = struct_schema({"x": INT8, "y": STRING.as_optional()}, name="ns.Inner")
EVERYTHING = (
    StructBuilder("ns.Outer", version=2, doc="Everything.")
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
    .add("inner", INNER)
    .add("optional_inner", INNER.as_optional())
    .add("inners", array_schema(INNER))
    .add("map", map_schema(STRING, INT64))
    .add("int_map", map_schema(INT32, STRING))
    .add("optional", INT32.as_optional())
    .add("optional_date", DATE.as_optional())
    .add("with_default", Schema(type=Type.STRING, default="d"))
    .add("optional_with_default", Schema(type=Type.INT64, optional=True, default=5))
    .build()
)
VALUE = {
    "int8": -128,
    "int16": 300,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "float32": 1.5,
    "float64": 1e300,
    "boolean": True,
    "string": "Grüße 𝄞",
    "bytes": b"\x00\xff",
    "date": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999_000),
    "timestamp": dt.datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=dt.UTC),
    "decimal": Decimal("-12.34"),
    "inner": {"x": 1, "y": "z"},
    "optional_inner": None,
    "inners": [{"x": 2, "y": None}],
    "map": {"a": 1, "b": -1},
    "int_map": {1: "one"},
    "optional": None,
    "optional_date": dt.date(2024, 2, 29),
    "with_default": "e",
    "optional_with_default": 6,
}
