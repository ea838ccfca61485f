"""What turns Connect's values into those that fastavro writes by an Avro schema. Pure.

The Avro schema is the one made of the Connect schema, or the latest of a subject, which may have fewer fields, more
of them with defaults, or wider numbers. Values in unions are paired with the name of their type, so that fastavro
need not guess.
"""

import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from ottla_schema_registry.avro.conventions import (
    ANYTHING,
    ENUM_PARAMETER,
    KEY_FIELD,
    NAME_PROPERTY,
    VALUE_FIELD,
    AvroRules,
    is_enum,
    is_fixed,
    is_union,
    scrubbed,
    scrubbed_field,
)
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.logical_types import date_to_days, decimal_to_bytes, scale_of, time_to_ms, timestamp_to_ms
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, INTEGER_BITS, TIME_NAME, TIMESTAMP_NAME

Write = Callable[[Any], Any]

_INTEGERS = tuple(INTEGER_BITS)
_ACCEPTED: Mapping[str, tuple[Type, ...]] = {
    "boolean": (Type.BOOLEAN,),
    "int": (Type.INT8, Type.INT16, Type.INT32),
    "long": _INTEGERS,
    "float": (*_INTEGERS, Type.FLOAT32, Type.FLOAT64),
    "double": (*_INTEGERS, Type.FLOAT32, Type.FLOAT64),
    "string": (Type.STRING,),
    "bytes": (Type.BYTES,),
    "enum": (Type.STRING,),
    "fixed": (Type.BYTES,),
    "array": (Type.ARRAY, Type.MAP),
    "map": (Type.MAP,),
    "record": (Type.STRUCT,),
}


def write_plan(avro: Any, schema: Schema | None, named: Mapping[str, Any], rules: AvroRules) -> Write:
    """Return what makes values of a Connect schema fit an Avro schema.

    Args:
        avro: the Avro schema, parsed by fastavro.
        schema: the Connect schema; None for values without one.
        named: the named types by full name.
        rules: the converter's settings.

    Raises:
        DataError: no value of the one fits the other; the function raises it for values that do not fit.
    """
    if schema is None:
        if not (isinstance(avro, dict) and avro.get("name") == ANYTHING):
            raise DataError("a value without schema can only be written by the Avro schema for such values")
        return write_anything
    return _Translation(named, rules).translate(avro, schema)


def write_anything(value: Any) -> dict[str, Any]:
    """Return the record `Anything` that holds a value without schema."""
    if value is None:
        return {}
    if isinstance(value, list | tuple):
        return {"array": ("array", [write_anything(each) for each in value])}
    if isinstance(value, dict):
        pairs = [{KEY_FIELD: write_anything(key), VALUE_FIELD: write_anything(each)} for key, each in value.items()]
        return {"map": ("array", pairs)}
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise DataError(f"{value} is out of the range of Avro's long")
    for kind, name in _KINDS_OF_ANYTHING:
        if isinstance(value, kind):
            return {name: (name, value)}
    raise DataError(f"a value of the type {type(value).__name__} needs a schema")


_KINDS_OF_ANYTHING: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int: a bool is one
    (int, "long"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
)


class _Translation:
    def __init__(self, named: Mapping[str, Any], rules: AvroRules) -> None:
        self._named = named
        self._rules = rules

    def translate(self, avro: Any, schema: Schema) -> Write:
        """Return what makes values of a Connect schema fit an Avro schema."""
        if isinstance(avro, list):
            return self._union(avro, schema)
        full = self._in_full(avro)
        kind = full["type"]
        if isinstance(kind, list | dict):
            return self.translate(kind, schema)
        if schema.type not in _ACCEPTED.get(kind, ()):
            raise DataError(f"the Connect schema {_shown(schema)} does not fit the Avro schema {kind}")
        write = self._plain(kind, full, schema)
        if schema.has_default and schema.default is not None and not self._keeps_null(schema):
            default = write(schema.default)
            return lambda value: default if value is None else write(value)
        return _required(write, schema)

    def _union(self, branches: list[Any], schema: Schema) -> Write:
        has_null = "null" in branches
        if is_union(schema):
            return self._one_of_several(branches, schema)
        branch = self._branch_for(branches, schema)
        name, write = self._name(branch), self.translate(branch, schema)
        if not has_null:
            return lambda value: (name, write(value))
        default = schema.default if schema.has_default and not self._keeps_null(schema) else None
        written = None if default is None else (name, write(default))
        return lambda value: written if value is None else (name, write(value))

    def _keeps_null(self, schema: Schema) -> bool:
        return schema.optional and self._rules.ignore_default_for_nullables

    def _one_of_several(self, branches: list[Any], schema: Schema) -> Write:
        writes: dict[str, tuple[str, Write]] = {}
        for each in schema.fields:
            branch = self._branch_for(branches, each.schema)
            writes[each.name] = (self._name(branch), self.translate(branch, each.schema))
        has_null = "null" in branches

        def write(value: Any) -> Any:
            if isinstance(value, dict):
                for name, found in value.items():
                    if found is not None and name in writes:
                        branch, write_branch = writes[name]
                        return branch, write_branch(found)
            if has_null and (value is None or isinstance(value, dict)):
                return None
            raise DataError(f"a union needs a struct in which one of {', '.join(writes)} is set, not {value!r:.80}")

        return write

    def _branch_for(self, branches: list[Any], schema: Schema) -> Any:
        """Return the type of a union that values of a schema are of: by its name, or the first that takes them."""
        fitting = [each for each in branches if each != "null" and schema.type in self._accepted(each)]
        name = schema.parameters.get(ENUM_PARAMETER) if is_enum(schema) else schema.name
        by_name = [each for each in fitting if name is not None and self._is_called(each, name)]
        exact = [each for each in fitting if self._name(each) in _EXACT.get(schema.type, ())]
        plain = [each for each in fitting if (self._in_full(each)["type"] == "fixed") == is_fixed(schema)]
        for candidates in (by_name, exact, plain, fitting):
            if candidates:
                return candidates[0]
        raise DataError(f"the Connect schema {_shown(schema)} fits none of the types of a union")

    def _is_called(self, avro: Any, name: str) -> bool:
        full = self._in_full(avro)
        allowed = scrubbed(name, self._rules)
        full_name = self._name(avro)
        return full.get(NAME_PROPERTY) == name or full_name == allowed or full_name.endswith(f".{allowed}")

    def _accepted(self, avro: Any) -> tuple[Type, ...]:
        return _ACCEPTED.get(self._in_full(avro)["type"], ())

    def _in_full(self, avro: Any) -> dict[str, Any]:
        if isinstance(avro, dict):
            return avro
        found = self._named.get(avro)
        return found if isinstance(found, dict) else {"type": avro}

    def _name(self, avro: Any) -> str:
        full = self._in_full(avro)
        name: str = full["name"] if "name" in full else full["type"]
        return name

    def _plain(self, kind: str, avro: dict[str, Any], schema: Schema) -> Write:
        if kind == "record":
            return self._record(avro, schema)
        if kind == "array":
            return self._entries(avro, schema) if schema.type is Type.MAP else self._array(avro, schema)
        if kind == "map":
            return self._map(avro, schema)
        if kind == "enum":
            return _enum(frozenset(avro["symbols"]))
        if schema.type is Type.BYTES:
            return _bytes(schema, avro["size"] if kind == "fixed" else None)
        return _scalar(schema, kind)

    def _record(self, avro: dict[str, Any], schema: Schema) -> Write:
        by_avro_name = {scrubbed_field(each.name, self._rules): each for each in schema.fields}
        writes: list[tuple[str, str, Write]] = []
        for each in avro["fields"]:
            field = by_avro_name.get(each["name"])
            if field is not None:
                writes.append((field.name, each["name"], self._field(each["type"], field)))
            elif "default" not in each:
                raise DataError(
                    f"the Avro record {avro['name']} needs a field {each['name']}, which the value has not"
                )
        known = frozenset(schema.field_by_name)
        return lambda value: _struct(value, writes, known)

    def _field(self, avro: Any, field: Field) -> Write:
        try:
            return self.translate(avro, field.schema)
        except DataError as error:
            raise DataError(f"{field.name}: {error}") from None

    def _array(self, avro: dict[str, Any], schema: Schema) -> Write:
        write = self.translate(avro["items"], _part(schema.value_schema))

        def write_all(value: Any) -> list[Any]:
            if not isinstance(value, list | tuple):
                raise _unfitting(value, schema)
            return [write(each) for each in value]

        return write_all

    def _map(self, avro: dict[str, Any], schema: Schema) -> Write:
        write = self.translate(avro["values"], _part(schema.value_schema))

        def write_all(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict) or not all(isinstance(each, str) for each in value):
                raise _unfitting(value, schema)
            return {key: write(each) for key, each in value.items()}

        return write_all

    def _entries(self, avro: dict[str, Any], schema: Schema) -> Write:
        entry = self._in_full(avro["items"])
        types = {each["name"]: each["type"] for each in entry.get("fields", ())}
        if set(types) != {KEY_FIELD, VALUE_FIELD}:
            raise DataError("a map does not fit an Avro array of something else than entries")
        write_key = self.translate(types[KEY_FIELD], _part(schema.key_schema))
        write_value = self.translate(types[VALUE_FIELD], _part(schema.value_schema))

        def write_all(value: Any) -> list[dict[str, Any]]:
            if not isinstance(value, dict):
                raise _unfitting(value, schema)
            return [{KEY_FIELD: write_key(key), VALUE_FIELD: write_value(each)} for key, each in value.items()]

        return write_all


_EXACT: Mapping[Type, tuple[str, ...]] = {
    Type.INT8: ("int",),
    Type.INT16: ("int",),
    Type.INT32: ("int",),
    Type.INT64: ("long",),
    Type.FLOAT32: ("float",),
    Type.FLOAT64: ("double",),
    Type.STRING: ("string",),
}


def _struct(value: Any, writes: list[tuple[str, str, Write]], known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{value!r:.80} ({type(value).__name__}) is no struct")
    if not known.issuperset(value):
        raise DataError(f"the schema has no field {next(each for each in value if each not in known)!r:.80}")
    name = ""
    try:
        made = {}
        for name, avro_name, write in writes:
            made[avro_name] = write(value.get(name))
        return made
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _required(write: Write, schema: Schema) -> Write:
    if schema.type in (Type.STRUCT, Type.ARRAY, Type.MAP) or schema.optional:

        def checked(value: Any) -> Any:
            if value is None:
                raise DataError(f"null, but the schema {_shown(schema)} is not optional, or the Avro schema is not")
            return write(value)

        return checked
    return write


def _scalar(schema: Schema, kind: str) -> Write:
    if schema.name is not None and schema.name in _LOGICAL:
        expected, convert = _LOGICAL[schema.name]
        is_date = schema.name == DATE_NAME

        def write_logical(value: Any) -> int:
            if isinstance(value, expected) and not (is_date and isinstance(value, dt.datetime)):
                return convert(value)
            raise _unfitting(value, schema)

        return write_logical
    if bits := INTEGER_BITS.get(schema.type):
        least, most = -(1 << bits - 1), (1 << bits - 1) - 1
        is_float = kind in ("float", "double")

        def write_integer(value: Any) -> float:
            if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
                return float(value) if is_float else value
            raise _unfitting(value, schema)

        return write_integer
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return _checked((float, int), schema)
    return _checked((bool,) if schema.type is Type.BOOLEAN else (str,), schema)


_LOGICAL: Mapping[str, tuple[type, Callable[[Any], int]]] = {
    DATE_NAME: (dt.date, date_to_days),
    TIME_NAME: (dt.time, time_to_ms),
    TIMESTAMP_NAME: (dt.datetime, timestamp_to_ms),
}


def _checked(kinds: tuple[type, ...], schema: Schema) -> Write:
    is_boolean = bool in kinds

    def write(value: Any) -> Any:
        if isinstance(value, kinds) and (is_boolean or not isinstance(value, bool)):
            return value
        raise _unfitting(value, schema)

    return write


def _bytes(schema: Schema, size: int | None) -> Write:
    scale = scale_of(schema) if schema.name == DECIMAL_NAME else None

    def write(value: Any) -> bytes:
        if scale is not None:
            if not isinstance(value, decimal.Decimal):
                raise _unfitting(value, schema)
            data = decimal_to_bytes(value, scale)
            if size is not None and len(data) < size:
                data = (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data
        elif isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
        else:
            raise _unfitting(value, schema)
        if size is not None and len(data) != size:
            raise DataError(f"{len(data)} bytes for an Avro fixed of {size}")
        return data

    return write


def _enum(symbols: frozenset[str]) -> Write:
    def write(value: Any) -> str:
        if isinstance(value, str) and value in symbols:
            return value
        raise DataError(f"{value!r:.80} is none of the symbols of an Avro enum: {', '.join(sorted(symbols))}")

    return write


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("the schema of an array or a map does not say what is in it")
    return schema


def _unfitting(value: Any, schema: Schema) -> DataError:
    return DataError(f"{value!r:.80} ({type(value).__name__}) does not fit the schema {_shown(schema)}")


def _shown(schema: Schema) -> str:
    return f"{schema.type} {schema.name}" if schema.name else str(schema.type)
