"""Avro's types in Spark, and how fastavro is made to speak them. Pure.

| Avro | Spark |
|---|---|
| boolean, int, long, float, double, bytes, string | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, BINARY, STRING |
| record, array, map, enum, fixed | STRUCT, ARRAY, MAP<STRING, …>, STRING, BINARY |
| date, timestamp-*, local-timestamp-* | DATE, TIMESTAMP, TIMESTAMP_NTZ (microseconds; nanoseconds are cut off) |
| time-millis, time-micros | INT of milliseconds, BIGINT of microseconds, for not every store of Spark knows TIME |
| decimal (bytes, fixed), uuid | DECIMAL(p, s), STRING (BINARY if it is fixed) |
| union of null and one type; of int and long, float and double | that type; BIGINT, DOUBLE |
| other unions | STRUCT<member0 …, member1 …>, all null but the one that is there, as in Spark's own Avro |

Between fastavro and Spark stands Arrow. Logical types but decimal are taken out of the schema that fastavro reads and
writes by: dates and times stay the numbers they are, and Arrow gives them their meaning. A union of several types
becomes one of records that each have one field, `member0` and so on: a record is written as its fields are, one after
the other, so the bytes are the same, and fastavro gives and takes what Spark calls that struct.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from pyspark.sql import types

from ottla_spark.formats.errors import UnusableFormat

Schema = Any
"""A schema of Avro, as JSON has it: a name, a list (a union) or an object."""

NULL = "null"
DECIMAL_DIGITS_MAX = 38
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_PLAIN: Mapping[str, tuple[types.DataType, pa.DataType]] = {
    NULL: (types.NullType(), pa.null()),
    "boolean": (types.BooleanType(), pa.bool_()),
    "int": (types.IntegerType(), pa.int32()),
    "long": (types.LongType(), pa.int64()),
    "float": (types.FloatType(), pa.float32()),
    "double": (types.DoubleType(), pa.float64()),
    "bytes": (types.BinaryType(), pa.binary()),
    "string": (types.StringType(), pa.string()),
}
_LOGICAL: Mapping[tuple[str, str], tuple[types.DataType, pa.DataType]] = {
    ("int", "date"): (types.DateType(), pa.date32()),
    **{
        ("long", f"timestamp-{name}"): (types.TimestampType(), pa.timestamp(unit, "UTC"))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
    **{
        ("long", f"local-timestamp-{name}"): (types.TimestampNTZType(), pa.timestamp(unit))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """An Avro type in the three languages that meet here.

    Attributes:
        spark: as Spark has it.
        arrow: as Arrow has it, times in the unit that Avro has them in.
        wire: the schema that fastavro is given.
        nullable: whether null is one of its values.
        defaults: of a record, the names of fields that may be left out in writing.
    """

    spark: types.DataType
    arrow: pa.DataType
    wire: Schema
    nullable: bool = False
    defaults: frozenset[str] = frozenset()


def avro_type(text: str) -> AvroType:
    """Return what a schema stands for.

    Args:
        text: the schema, as JSON text.

    Raises:
        UnusableFormat: it is no JSON or no Avro schema, or Spark has nothing like it.
    """
    try:
        written = json.loads(text)
    except ValueError as error:
        raise UnusableFormat(f"the Avro schema {_shown(text)} is no JSON: {error}") from None
    named: dict[str, dict[str, Any]] = {}
    try:
        schema = parse_schema(written, named_schemas=named)
    except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"the type {error.name} is not known" if isinstance(error, UnknownType) else str(error) or repr(error)
        raise UnusableFormat(f"{_shown(text)} is no Avro schema: {said}") from None
    return _Translation(named).translated(schema, "")


def wire_schema(known: AvroType) -> Schema:
    """Return the schema that fastavro is given, in the form it wants it in."""
    return _with_bytes(parse_schema(known.wire))


def _with_bytes(schema: Schema) -> Schema:
    """Return a schema whose defaults of bytes are bytes; fastavro hands them out as the text that JSON has."""
    if isinstance(schema, list):
        return [_with_bytes(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _with_bytes(each) if key in ("type", "items", "values") else each for key, each in schema.items()}
    if "fields" in made:
        made["fields"] = [_with_bytes(each) for each in made["fields"]]
    kind = made["type"]["type"] if isinstance(made.get("type"), dict) else made.get("type")
    if isinstance(made.get("default"), str) and kind in ("bytes", "fixed"):
        made["default"] = made["default"].encode("iso-8859-1")
    return made


class _Translation:
    """One pass over a schema.

    Args:
        named: its records, enums and fixed types by full name.
    """

    def __init__(self, named: Mapping[str, dict[str, Any]]) -> None:
        self._named = named
        self._known: dict[str, AvroType] = {}
        self._members: dict[str, str] = {}
        self._within: list[str] = []

    def translated(self, schema: Schema, path: str) -> AvroType:
        """Return what a schema stands for; `path` says where it is in the whole."""
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema in _PLAIN:
                spark, arrow = _PLAIN[schema]
                return AvroType(spark=spark, arrow=arrow, wire=schema, nullable=schema == NULL)
            return self._by_name(self._named[schema], path)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._by_name(schema, path)
        if kind == "array":
            items = self.translated(schema["items"], f"{path}[]")
            return AvroType(
                spark=types.ArrayType(items.spark),
                arrow=pa.list_(items.arrow),
                wire={"type": "array", "items": items.wire},
            )
        if kind == "map":
            values = self.translated(schema["values"], f"{path}{{}}")
            return AvroType(
                spark=types.MapType(types.StringType(), values.spark),
                arrow=pa.map_(pa.string(), values.arrow),
                wire={"type": "map", "values": values.wire},
            )
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema, schema, path)
        if not isinstance(kind, str) or kind not in _PLAIN:
            return self.translated(kind, path)
        spark, arrow = _LOGICAL.get((kind, logical), _PLAIN[kind])
        return AvroType(spark=spark, arrow=arrow, wire=kind, nullable=kind == NULL)

    def _by_name(self, schema: dict[str, Any], path: str) -> AvroType:
        name = schema["name"]
        if name in self._within:
            raise UnusableFormat(
                f"the record {name} contains itself, at {path or 'the top'}: Spark has no recursive types; "
                "read the topic as bytes, or with a schema that ends before"
            )
        if name not in self._known:
            self._within.append(name)
            made = self._record(schema, path) if "fields" in schema else _enum_or_fixed(schema, path)
            self._within.pop()
            self._known[name] = made
            return made
        # A second definition of the same name would be an error.
        return replace(self._known[name], wire=name)

    def _record(self, schema: dict[str, Any], path: str) -> AvroType:
        fields: dict[str, AvroType] = {}
        wires: list[dict[str, Any]] = []
        for each in schema["fields"]:
            name = each["name"]
            if name in fields:
                raise UnusableFormat(f"the record {schema['name']} has the field {name} twice")
            fields[name] = made = self.translated(each["type"], f"{path}.{name}" if path else name)
            wire = {"name": name, "type": made.wire}
            if "aliases" in each:
                wire["aliases"] = each["aliases"]
            if "default" in each:
                wire["default"] = _default(each["default"], made)
            wires.append(wire)
        kept = {key: schema[key] for key in ("aliases",) if key in schema}
        return AvroType(
            spark=types.StructType(
                [types.StructField(name, each.spark, each.nullable) for name, each in fields.items()]
            ),
            arrow=pa.struct([pa.field(name, each.arrow) for name, each in fields.items()]),
            wire={"type": "record", "name": schema["name"], "fields": wires, **kept},
            defaults=frozenset(wire["name"] for wire in wires if "default" in wire or fields[wire["name"]].nullable),
        )

    def _union(self, branches: list[Schema], path: str) -> AvroType:
        nullable = NULL in branches
        others = [each for each in branches if each != NULL]
        if not others:
            return replace(self.translated(NULL, path), wire=[NULL])
        if len(others) == 1:
            only = self.translated(others[0], path)
            wire = [NULL if each == NULL else only.wire for each in branches]
            return replace(only, wire=wire, nullable=nullable or only.nullable)
        if all(isinstance(each, str) for each in others) and (wider := _WIDER.get(frozenset(others))):
            return replace(self.translated(wider, path), wire=branches, nullable=nullable)
        members, numbers = [], iter(range(len(others)))
        wire = []
        for each in branches:
            if each == NULL:
                wire.append(NULL)
                continue
            name = f"member{next(numbers)}"
            member = self.translated(each, f"{path}.{name}")
            members.append((name, member))
            wire.append(self._member(name, each, member))
        return AvroType(
            spark=types.StructType([types.StructField(name, each.spark) for name, each in members]),
            arrow=pa.struct([pa.field(name, each.arrow) for name, each in members]),
            wire=wire,
            nullable=nullable,
        )

    def _member(self, name: str, branch: Schema, member: AvroType) -> Schema:
        """Return the record that stands for a branch; named by place and type, so that it is found in other versions.

        A union that has changed is read where the branches both versions have are at the same place.
        """
        content = json.dumps(branch, sort_keys=True, default=str)
        kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        own = f"ottla_{name}_{kind}".replace(".", "_")
        while self._members.get(own, content) != content:
            own += "_"
        if own in self._members:
            return own
        self._members[own] = content
        return {"type": "record", "name": own, "fields": [{"name": name, "type": member.wire}]}


def _decimal(schema: dict[str, Any], wire: dict[str, Any], path: str) -> AvroType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise UnusableFormat(f"{path or 'the schema'} is a decimal without a precision")
    if precision > DECIMAL_DIGITS_MAX:
        raise UnusableFormat(
            f"{path or 'the schema'} is a decimal of {precision} digits, Spark has {DECIMAL_DIGITS_MAX}"
        )
    return AvroType(spark=types.DecimalType(precision, scale), arrow=pa.decimal128(precision, scale), wire=wire)


def _enum_or_fixed(schema: dict[str, Any], path: str) -> AvroType:
    if schema["type"] == "enum":
        return AvroType(spark=types.StringType(), arrow=pa.string(), wire=schema)
    if schema.get("logicalType") == "decimal":
        return _decimal(schema, schema, path)
    wire = {key: each for key, each in schema.items() if key != "logicalType"}
    return AvroType(spark=types.BinaryType(), arrow=pa.binary(), wire=wire)


def _default(default: Any, made: AvroType) -> Any:
    """Return a field's default as it is to be in the schema for fastavro, where unions are of records."""
    first = made.wire[0] if isinstance(made.wire, list) else None
    if isinstance(first, dict) and first["name"].startswith("ottla_member"):
        return {first["fields"][0]["name"]: default}
    return default


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
