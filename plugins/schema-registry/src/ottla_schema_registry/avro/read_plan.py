"""Avro schemas as Connect schemas, each with what turns the values that fastavro reads into Connect's. Pure.

fastavro gets the Avro schema without its logical types, so that it reads what is written: numbers and bytes. Of a
union it tells the name of the type that was written if that is a record, an enum or a fixed.
"""

import logging
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla_schema_registry.avro.conventions import (
    ANYTHING,
    AVRO_PREFIX,
    DEFAULT_NAME,
    DEFAULT_PROPERTY,
    DOC_PROPERTY,
    ENUM_DEFAULT_PREFIX,
    ENUM_DOC_PREFIX,
    ENUM_PARAMETER,
    FIELD_DEFAULT_FLAG,
    FIELD_DOC_PREFIX,
    FIXED_SIZE_PARAMETER,
    INTERNAL_TYPE_PROPERTY,
    KEY_FIELD,
    MAP_ENTRY,
    NAME_PROPERTY,
    NAMESPACE,
    PARAMETERS_PROPERTY,
    PRECISION_DEFAULT,
    PRECISION_PARAMETER,
    RECORD_DOC_PARAMETER,
    TYPE_PROPERTY,
    UNION_NAME,
    VALUE_FIELD,
    VERSION_PROPERTY,
    AvroRules,
)
from ottla_schema_registry.avro.defaults import default_from_json
from ottla_sdk import DataError, Field, Schema, Type
from ottla_sdk.logical_types import bytes_to_decimal, days_to_date, ms_to_time, ms_to_timestamp
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
    decimal_schema,
)

Finish = Callable[[Any], Any]
Fits = Callable[[Any], bool]

_logger = logging.getLogger(__name__)
NAMED_TYPES = ("record", "enum", "fixed", "error")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What an Avro schema means.

    Attributes:
        schema: the Connect schema; None for values without one.
        finish: makes Connect's value of fastavro's; None if they are the same.
    """

    schema: Schema
    finish: Finish | None = None


def read_plan(avro: Any, named: Mapping[str, Any], rules: AvroRules) -> ReadPlan | None:
    """Return what an Avro schema means; None if it is that of values without a Connect schema.

    Args:
        avro: the schema, parsed by fastavro, with its logical types.
        named: the named types by full name.
        rules: the converter's settings.

    Raises:
        DataError: it contains itself, is null, or a property is wrong.
    """
    if isinstance(avro, dict) and avro.get("name") == ANYTHING:
        return None
    return _Translation(named, rules).translate(avro)


def finish_anything(value: Any) -> Any:
    """Return the value without Connect schema that a record `Anything` holds."""
    for kind, held in value.items():
        if held is None:
            continue
        if kind == "array":
            return [finish_anything(each) for each in held]
        if kind == "map":
            pairs = [(finish_anything(each[KEY_FIELD]), finish_anything(each[VALUE_FIELD])) for each in held]
            return _as_map(pairs)
        return held
    return None


class _Translation:
    def __init__(self, named: Mapping[str, Any], rules: AvroRules) -> None:
        self._named = named
        self._rules = rules
        self._under_way: list[str] = []

    def translate(self, avro: Any) -> ReadPlan:
        """Return what an Avro schema means."""
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            avro = self._named.get(avro) or {"type": avro}
        kind = avro["type"]
        if isinstance(kind, list | dict):  # A schema within a schema, such as {"type": {"type": "string"}}.
            return self.translate(kind)
        plan = self._plan(kind, avro)
        return replace(plan, schema=self._described(plan.schema, avro, kind))

    def _plan(self, kind: str, avro: dict[str, Any]) -> ReadPlan:
        if kind in ("record", "error"):
            return self._record(avro)
        if kind == "array":
            return self._array(avro)
        if kind == "map":
            return self._map(avro)
        if kind == "enum":
            return ReadPlan(_enum(avro, self._rules))
        if kind in ("bytes", "fixed"):
            return _bytes(kind, avro)
        if kind in ("int", "long"):
            return _integer(kind, avro)
        plain = {"boolean": BOOLEAN, "float": FLOAT32, "double": FLOAT64, "string": STRING}.get(kind)
        if plain is None:
            raise DataError(f"an Avro schema of the type {kind} by itself means nothing to Connect")
        return ReadPlan(plain)

    def _record(self, avro: dict[str, Any]) -> ReadPlan:
        name = avro["name"]
        if name in self._under_way:
            raise DataError(f"the Avro record {name} contains itself, which a Connect schema cannot")
        self._under_way.append(name)
        fields, finishes = [], []
        parameters = {}
        keeps_docs = self._rules.connect_meta_data
        if keeps_docs and avro.get("doc") is not None:
            parameters[RECORD_DOC_PARAMETER] = avro["doc"]
        for each in avro["fields"]:
            if keeps_docs and each.get("doc") is not None:
                parameters[FIELD_DOC_PREFIX + each["name"]] = each["doc"]
            plan = self.translate(each["type"])
            fields.append(Field(each["name"], self._with_field_default(plan.schema, each)))
            if plan.finish is not None:
                finishes.append((each["name"], plan.finish))
        self._under_way.pop()
        schema = Schema(type=Type.STRUCT, fields=tuple(fields), parameters=parameters)
        return ReadPlan(schema, _struct_finish(finishes) if finishes else None)

    def _with_field_default(self, schema: Schema, field: dict[str, Any]) -> Schema:
        # The default of a nullable field is not taken over, as in AvroData: Connect would put it in place of nulls.
        is_nullable = isinstance(field["type"], list) and "null" in field["type"]
        default = field.get("default")
        if default is None or is_nullable:
            return schema
        parameters = dict(schema.parameters)
        if self._rules.connect_meta_data and not schema.has_default:
            parameters[FIELD_DEFAULT_FLAG] = "true"
        return self._with_default(replace(schema, parameters=parameters), default)

    def _array(self, avro: dict[str, Any]) -> ReadPlan:
        items = avro["items"]
        entry = self._named.get(items) if isinstance(items, str) else items
        if isinstance(entry, dict) and entry.get("type") == "record" and _is_map_entry(entry):
            return self._entries(entry)
        plan = self.translate(items)
        schema = Schema(type=Type.ARRAY, value_schema=plan.schema)
        finish = plan.finish
        return ReadPlan(schema, None if finish is None else lambda values: [finish(each) for each in values])

    def _entries(self, entry: dict[str, Any]) -> ReadPlan:
        types = {each["name"]: each["type"] for each in entry["fields"]}
        if set(types) != {KEY_FIELD, VALUE_FIELD}:
            raise DataError("a map as an array of entries, which must have the fields key and value")
        keys, values = self.translate(types[KEY_FIELD]), self.translate(types[VALUE_FIELD])
        key_finish, value_finish = keys.finish or _same, values.finish or _same
        return ReadPlan(
            Schema(type=Type.MAP, key_schema=keys.schema, value_schema=values.schema),
            lambda entries: _as_map(
                [(key_finish(each[KEY_FIELD]), value_finish(each[VALUE_FIELD])) for each in entries]
            ),
        )

    def _map(self, avro: dict[str, Any]) -> ReadPlan:
        plan = self.translate(avro["values"])
        schema = Schema(type=Type.MAP, key_schema=STRING, value_schema=plan.schema)
        finish = plan.finish
        if finish is None:
            return ReadPlan(schema)
        return ReadPlan(schema, lambda pairs: {key: finish(each) for key, each in pairs.items()})

    def _union(self, branches: list[Any]) -> ReadPlan:
        others = [each for each in branches if each != "null"]
        is_optional = len(others) < len(branches)
        if len(others) == 1 and (is_optional or self._rules.flatten_singleton_unions):
            plan = self.translate(others[0])
            schema = plan.schema.as_optional() if is_optional else plan.schema
            return ReadPlan(schema, _unwrapped(plan.finish, self._is_named(others[0])))
        return self._struct_of(others, is_optional)

    def _struct_of(self, branches: list[Any], is_optional: bool) -> ReadPlan:
        fields = []
        by_name: dict[str, tuple[str, Finish]] = {}
        by_type: list[tuple[Fits, str, Finish]] = []
        for each in branches:
            plan = self.translate(each)
            full_name = each if isinstance(each, str) else each.get("name", "")
            field_name = self._branch_name(each)
            fields.append(Field(field_name, plan.schema.as_optional()))
            if self._is_named(each):
                by_name[full_name] = (field_name, plan.finish or _same)
            else:
                by_type.append((_FITS[_kind(each)], field_name, plan.finish or _same))
        if len({each.name for each in fields}) < len(fields):
            raise DataError("a union of types with the same name; enhanced.avro.schema.support keeps them apart")
        schema = Schema(type=Type.STRUCT, name=UNION_NAME, optional=is_optional, fields=tuple(fields))
        return ReadPlan(schema, _union_finish(by_name, by_type))

    def _branch_name(self, avro: Any) -> str:
        if not self._is_named(avro):
            return _kind(avro)
        name: str = avro if isinstance(avro, str) else avro["name"]
        return name if self._rules.enhanced else name.rpartition(".")[2]

    def _is_named(self, avro: Any) -> bool:
        return avro in self._named if isinstance(avro, str) else avro["type"] in NAMED_TYPES

    def _described(self, schema: Schema, avro: dict[str, Any], kind: str) -> Schema:
        """Add what properties say: doc, version, parameters, default, name."""
        changes: dict[str, Any] = {}
        parameters = dict(schema.parameters)
        if self._rules.connect_meta_data:
            if isinstance(doc := avro.get(DOC_PROPERTY), str):
                changes["doc"] = doc
            parameters.update(_parameters(avro.get(PARAMETERS_PROPERTY) or {}))
        parameters.update({key: str(value) for key, value in avro.items() if key.startswith(AVRO_PREFIX)})
        if (version := avro.get(VERSION_PROPERTY)) is not None:
            if not isinstance(version, int):
                raise DataError(f"{VERSION_PROPERTY} must be a number, not {version!r:.80}")
            changes["version"] = version
        name = avro.get(NAME_PROPERTY)
        if name is None and kind in NAMED_TYPES and schema.name is None:
            name = avro["name"]
        if name is not None and not str(name).startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
            if schema.name is not None and schema.name != name:
                raise DataError(f"the Avro schema is one of {schema.name}, but its {NAME_PROPERTY} is {name!r:.80}")
            changes["name"] = name
        described = replace(schema, parameters=parameters, **changes)
        default = avro.get(DEFAULT_PROPERTY)
        return described if default is None else self._with_default(described, default)

    def _with_default(self, schema: Schema, default: Any) -> Schema:
        try:
            return replace(schema, default=default_from_json(schema, default, self._rules))
        except DataError as error:
            # The values are still good, so AvroData, too, goes on.
            _logger.warning("The default in an Avro schema is ignored: %s", error)
            return schema


def _is_int(value: Any) -> bool:
    return type(value) is int and -(1 << 31) <= value < 1 << 31


def _is_float(value: Any) -> bool:
    """Return whether a value is a number that a float of 32 bits can be; a double may be one, too."""
    if type(value) is not float:
        return False
    try:
        (rounded,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    except OverflowError:
        return False
    return rounded == value or math.isnan(value)


_FLOAT32 = struct.Struct("<f")
_FITS: Mapping[str, Fits] = {
    "boolean": lambda value: type(value) is bool,
    "int": _is_int,
    "long": lambda value: type(value) is int,
    "float": _is_float,
    "double": lambda value: type(value) is float,
    "string": lambda value: type(value) is str,
    "bytes": lambda value: type(value) is bytes,
    "array": lambda value: type(value) is list,
    "map": lambda value: type(value) is dict,
}
"""Whether a value may be of a type: fastavro does not say of numbers whether they were long or short."""


def _kind(avro: Any) -> str:
    kind: str = avro if isinstance(avro, str) else avro["type"]
    return kind


def _enum(avro: dict[str, Any], rules: AvroRules) -> Schema:
    short_name = avro["name"].rpartition(".")[2]
    parameters = {}
    if rules.connect_meta_data:
        if avro.get("doc") is not None:
            parameters[ENUM_DOC_PREFIX + short_name] = avro["doc"]
        if avro.get("default") is not None:
            parameters[ENUM_DEFAULT_PREFIX + short_name] = avro["default"]
    parameters[ENUM_PARAMETER] = avro["name"]
    parameters.update({f"{ENUM_PARAMETER}.{each}": each for each in avro["symbols"]})
    return replace(STRING, parameters=parameters)


def _bytes(kind: str, avro: dict[str, Any]) -> ReadPlan:
    size = {FIXED_SIZE_PARAMETER: str(avro["size"])} if kind == "fixed" else {}
    if avro.get("logicalType") != "decimal":
        return ReadPlan(replace(BYTES, parameters=size))
    scale, precision = avro.get("scale", 0), avro.get("precision")
    if not isinstance(scale, int) or not isinstance(precision, int | None):
        raise DataError("scale and precision of a decimal must be numbers")
    schema = decimal_schema(scale)
    parameters = {**schema.parameters, **size}
    if precision not in (None, PRECISION_DEFAULT):
        parameters[PRECISION_PARAMETER] = str(precision)
    return ReadPlan(replace(schema, parameters=parameters), lambda data: bytes_to_decimal(data, scale))


def _integer(kind: str, avro: dict[str, Any]) -> ReadPlan:
    logical_type = avro.get("logicalType")
    if kind == "long":
        return ReadPlan(TIMESTAMP, ms_to_timestamp) if logical_type == "timestamp-millis" else ReadPlan(INT64)
    if logical_type == "date":
        return ReadPlan(DATE, days_to_date)
    if logical_type == "time-millis":
        return ReadPlan(TIME, ms_to_time)
    connect_type = avro.get(TYPE_PROPERTY) if logical_type is None else None
    schema = {None: INT32, "int8": INT8, "int16": INT16}.get(connect_type)
    if schema is None:
        raise DataError(f"{TYPE_PROPERTY} of an Avro int must be int8 or int16, not {connect_type!r:.80}")
    return ReadPlan(schema)


def _is_map_entry(entry: dict[str, Any]) -> bool:
    return entry["name"] == f"{NAMESPACE}.{MAP_ENTRY}" or entry.get(INTERNAL_TYPE_PROPERTY) == MAP_ENTRY


def _parameters(found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise DataError(f"{PARAMETERS_PROPERTY} must be an object of strings, not {found!r:.80}")
    return found


def _same(value: Any) -> Any:
    return value


def _struct_finish(finishes: list[tuple[str, Finish]]) -> Finish:
    def finish(value: dict[str, Any]) -> dict[str, Any]:
        # The dictionary is fastavro's, made for this value: it may be changed.
        for name, finish_field in finishes:
            value[name] = finish_field(value[name])
        return value

    return finish


def _unwrapped(finish: Finish | None, is_named: bool) -> Finish | None:
    """Return what finishes a value of a union with one type besides null; with a name it comes as (name, value)."""
    if is_named:
        inner = finish or _same
        return lambda value: None if value is None else inner(value[1])
    if finish is None:
        return None
    return lambda value: None if value is None else finish(value)


def _union_finish(by_name: dict[str, tuple[str, Finish]], by_type: list[tuple[Fits, str, Finish]]) -> Finish:
    names = [name for name, _ in by_name.values()] + [name for _, name, _ in by_type]

    def finish(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        made: dict[str, Any] = dict.fromkeys(names)
        if isinstance(value, tuple):
            name, finish_branch = by_name[value[0]]
            made[name] = finish_branch(value[1])
            return made
        for fits, name, finish_branch in by_type:
            if fits(value):
                made[name] = finish_branch(value)
                return made
        raise DataError(f"{value!r:.80} is of none of a union's types")

    return finish


def _as_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    try:
        return dict(pairs)
    except TypeError:
        raise DataError("a map's key is an array, a map or a struct, which cannot be looked up") from None
