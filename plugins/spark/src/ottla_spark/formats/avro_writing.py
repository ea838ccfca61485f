"""Which Avro schema columns are written by, and how they are made to fit it. Only types are looked at, no rows.

In a schema made from columns every field is a union with null, which is its default, so that columns may come and go.
Columns are fitted to a given schema by name, at every depth; numbers become wider, or narrower as far as they fit
(Spark checks), and nothing else is converted without being asked.
"""

import json
import re
from typing import Any

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

from ottla_spark.formats.avro_types import AvroType
from ottla_spark.formats.errors import UnusableFormat

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[type[types.DataType], Any] = {
    types.NullType: "null",
    types.BooleanType: "boolean",
    types.ByteType: "int",
    types.ShortType: "int",
    types.IntegerType: "int",
    types.LongType: "long",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.BinaryType: "bytes",
    types.StringType: "string",
    types.CharType: "string",
    types.VarcharType: "string",
    types.DateType: {"type": "int", "logicalType": "date"},
    types.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    types.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_CONVERTIBLE = (
    (types.NumericType, types.NumericType),
    (types.NullType, types.DataType),
    (types.DateType, types.TimestampType),
    (types.StringType, types.StringType),
)


def schema_of(content: types.DataType, name: str) -> str:
    """Return the Avro schema of columns, as JSON text.

    Args:
        content: a struct of the columns, or a plain type.
        name: of the record; those of nested ones begin with it.

    Raises:
        UnusableFormat: a name or a type is none that Avro has; the message says which column.
    """
    return json.dumps(_schema_of(content, name, ""))


def _schema_of(content: types.DataType, name: str, path: str) -> Any:
    if isinstance(content, types.StructType):
        fields = []
        for each in content:
            place = f"{path}.{each.name}" if path else each.name
            if not _NAME.fullmatch(each.name):
                raise UnusableFormat(
                    f"Avro has no names like that of the column {place}: letters, digits and _; rename it with AS"
                )
            made = _schema_of(each.dataType, f"{name}_{each.name}", place)
            fields.append({"name": each.name, "type": made if made == "null" else ["null", made], "default": None})
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(content, types.ArrayType):
        return {"type": "array", "items": _element(content.elementType, f"{name}_element", f"{path}[]")}
    if isinstance(content, types.MapType):
        if not isinstance(content.keyType, types.StringType):
            raise UnusableFormat(
                f"the column {path} is a map with keys of {content.keyType.simpleString().upper()}, Avro has STRING"
            )
        return {"type": "map", "values": _element(content.valueType, f"{name}_value", f"{path}{{}}")}
    if isinstance(content, types.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": content.precision, "scale": content.scale}
    if type(content) not in _PLAIN:
        raise UnusableFormat(f"the column {path} is {content.simpleString().upper()}, which Avro lacks: cast it")
    return _PLAIN[type(content)]


def _element(content: types.DataType, name: str, path: str) -> Any:
    made = _schema_of(content, name, path)
    return made if made == "null" else ["null", made]


def fitted(content: Column, have: types.DataType, wanted: AvroType) -> Column:
    """Return columns as a schema wants them.

    Args:
        content: a struct of the columns, or one of a plain type.
        have: its type.
        wanted: the schema's.

    Raises:
        UnusableFormat: a column is missing, the schema lacks one, or a type would have to be converted.
    """
    return _fitted(content, have, wanted.spark, "", wanted.defaults)


def _fitted(
    content: Column, have: types.DataType, want: types.DataType, path: str, optional: frozenset[str]
) -> Column:
    if isinstance(have, types.StructType) and isinstance(want, types.StructType):
        _check_fields(have, want, path, optional)
        types_wanted = {each.name: each.dataType for each in want}
        fields = [
            _fitted(
                content.getField(each.name), each.dataType, types_wanted[each.name],
                f"{path}.{each.name}" if path else each.name, frozenset(),
            ).alias(each.name)
            for each in have
        ]  # fmt: skip
        return sf.when(content.isNotNull(), sf.struct(*fields))
    if isinstance(have, types.ArrayType) and isinstance(want, types.ArrayType):
        own, other = have.elementType, want.elementType
        return sf.transform(content, lambda each: _fitted(each, own, other, f"{path}[]", frozenset()))
    if isinstance(have, types.MapType) and isinstance(want, types.MapType):
        own, other = have.valueType, want.valueType
        return sf.transform_values(content, lambda _, each: _fitted(each, own, other, f"{path}{{}}", frozenset()))
    if have == want:
        return content
    if not any(isinstance(have, own) and isinstance(want, other) for own, other in _CONVERTIBLE):
        raise UnusableFormat(
            f"the column {path or 'to write'} is {have.simpleString().upper()}, where the Avro schema wants "
            f"{want.simpleString().upper()}: cast it"
        )
    return content.cast(want)


def _check_fields(have: types.StructType, want: types.StructType, path: str, optional: frozenset[str]) -> None:
    where = f" in {path}" if path else ""
    if unknown := [each for each in have.names if each not in want.names]:
        raise UnusableFormat(f"the Avro schema lacks the columns {', '.join(unknown)}{where}: it has {want.names}")
    nullable = {each.name for each in want if each.nullable}
    missing = [each for each in want.names if each not in have.names and each not in optional | nullable]
    if missing:
        raise UnusableFormat(
            f"the columns {', '.join(missing)}{where} are missing: the Avro schema has no default for them"
        )
