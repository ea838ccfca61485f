"""Values of a schema to JSON and back, as Kafka Connect's JsonConverter does it.

For each schema a plan is made once: a type that msgspec checks and takes apart at the speed of C, and a function that
finishes the rest (logical types, defaults, maps whose keys are not strings), or none if there is nothing to finish.
The values `None` and "missing" are the same to Kafka Connect; a default stands for them if `replace_null` says so.

What Kafka silently bends (text in a number's place becomes 0, an integer too large loses its upper bits) is an error.
"""

import base64
import binascii
import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Annotated, Any, NotRequired, Required, TypedDict

import msgspec

from ottla_sdk import DataError, Schema, Type
from ottla_sdk.logical_types import (
    bytes_to_decimal,
    date_to_days,
    days_to_date,
    decimal_to_bytes,
    decimal_to_unscaled,
    ms_to_time,
    ms_to_timestamp,
    scale_of,
    time_to_ms,
    timestamp_to_ms,
    unscaled_to_decimal,
)
from ottla_sdk.schema import DATE_NAME, DECIMAL_NAME, INTEGER_BITS, TIME_NAME, TIMESTAMP_NAME

Finish = Callable[[Any], Any]
Write = Callable[[Any], Any]
Read = Callable[[bytes | msgspec.Raw], Any]

_FLOATS_AS_TEXT: Mapping[str, float] = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""What JSON has no numbers for, as Kafka's JSON library writes it."""

_AS_THEY_ARE = (bytes, bytearray, memoryview, dt.date, dt.time, dt.datetime, decimal.Decimal)
"""Types for which msgspec shall not take text instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the converter's settings say about values.

    Attributes:
        replace_null: whether a default stands for None.
        numeric_decimals: whether decimals are written as JSON numbers, rather than as base64 of their bytes.
    """

    replace_null: bool = True
    numeric_decimals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How values of a schema are taken apart, or put together.

    Attributes:
        shape: the type that msgspec checks them against.
        finish: what is done with each value then; None if nothing.
    """

    shape: Any
    finish: Finish | None = None

    @property
    def finish_always(self) -> Finish:
        """What is done with each value, be it nothing."""
        return self.finish or _same


def compile_writer(schema: Schema, rules: Rules) -> Write:
    """Return a function from values of a schema to what msgspec can encode; both may raise DataError."""
    plan = _plan(schema, rules, _WRITING)
    shape, finish = plan.shape, plan.finish_always
    return lambda value: finish(_checked(value, shape))


def compile_reader(schema: Schema, rules: Rules) -> Read:
    """Return a function from JSON text to values of a schema; both may raise DataError, the function DecodeError."""
    plan = _plan(schema, rules, _READING)
    decode, finish = msgspec.json.Decoder(plan.shape).decode, plan.finish_always

    def read(text: bytes | msgspec.Raw) -> Any:
        try:
            return finish(decode(text))
        except msgspec.ValidationError as error:
            raise DataError(f"the payload does not fit its schema: {error}") from None

    return read


@dataclass(frozen=True, slots=True)
class _Direction:
    """What differs between writing and reading.

    Attributes:
        leaf: the plan of a logical or plain type that needs one of its own.
        pairs: the plan of a map whose keys are not strings, from those of its keys and values.
        struct: the plan of a struct from its msgspec type, an empty value, and what finishes its fields.
    """

    leaf: Callable[[Schema, Rules], _Plan | None]
    pairs: Callable[[_Plan, _Plan], _Plan]
    struct: Callable[[Any, dict[str, Any], list[tuple[str, Finish]]], _Plan]


def _plan(schema: Schema, rules: Rules, direction: _Direction) -> _Plan:
    plan = direction.leaf(schema, rules) or _plain(schema, rules, direction)
    has_default = schema.has_default and schema.default is not None and rules.replace_null
    if not (schema.optional or has_default):
        return _Plan(shape=plan.shape, finish=_never_null(plan.finish_always)) if plan.shape is msgspec.Raw else plan
    default = schema.default if has_default else None
    if default is not None and direction is _WRITING:
        default = plan.finish_always(_checked(default, plan.shape))
    if plan.finish is None and default is None:
        return _Plan(shape=plan.shape | None)
    shape = plan.shape if plan.shape in (Any, msgspec.Raw) else plan.shape | None
    return _Plan(shape=shape, finish=_unless_null(plan.finish_always, default))


def _plain(schema: Schema, rules: Rules, direction: _Direction) -> _Plan:
    if bits := INTEGER_BITS.get(schema.type):
        return _Plan(shape=Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)])
    if schema.type is Type.ARRAY:
        return _array(_plan(_part(schema.value_schema, schema), rules, direction))
    if schema.type is Type.MAP:
        key_schema = _part(schema.key_schema, schema)
        value = _plan(_part(schema.value_schema, schema), rules, direction)
        if key_schema.type is Type.STRING:
            return _object(value)
        return direction.pairs(_plan(key_schema, rules, direction), value)
    if schema.type is Type.STRUCT:
        return _struct(schema, rules, direction)
    return _Plan(shape=bool if schema.type is Type.BOOLEAN else str)


def _array(element: _Plan) -> _Plan:
    shape, finish = list[element.shape], element.finish  # type: ignore[name-defined]
    return _Plan(shape=shape, finish=None if finish is None else lambda values: [finish(each) for each in values])


def _object(value: _Plan) -> _Plan:
    shape, finish = dict[str, value.shape], value.finish  # type: ignore[name-defined]
    if finish is None:
        return _Plan(shape=shape)
    return _Plan(shape=shape, finish=lambda pairs: {key: finish(each) for key, each in pairs.items()})


def _struct(schema: Schema, rules: Rules, direction: _Direction) -> _Plan:
    shapes: dict[str, Any] = {}
    finishes: list[tuple[str, Finish]] = []
    for each in schema.fields:
        plan = _plan(each.schema, rules, direction)
        may_be_missing = each.schema.optional or (each.schema.has_default and rules.replace_null)
        # msgspec knows no required Raw in a TypedDict; `_never_null` notices when it is missing.
        may_be_missing = may_be_missing or plan.shape is msgspec.Raw
        shapes[each.name] = NotRequired[plan.shape] if may_be_missing else Required[plan.shape]
        if plan.finish is not None:
            finishes.append((each.name, plan.finish))
    # The fields are only known now: a type made from them is what msgspec compiles.
    shape = TypedDict("Struct", shapes)  # type: ignore[misc]
    return direction.struct(shape, dict.fromkeys(shapes), finishes)


def _finished(value: dict[str, Any], finishes: list[tuple[str, Finish]]) -> dict[str, Any]:
    name = ""
    try:
        for name, finish in finishes:
            value[name] = finish(value[name])
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return value


def _checked(value: Any, shape: Any) -> Any:
    try:
        return msgspec.convert(value, shape, builtin_types=_AS_THEY_ARE)
    except msgspec.ValidationError as error:
        raise DataError(f"the value does not fit its schema: {error}") from None


def _part(part: Schema | None, schema: Schema) -> Schema:
    if part is None:
        raise DataError(f"the {schema.type} schema does not say what is in it")
    return part


def _same(value: Any) -> Any:
    return value


def _unless_null(finish: Finish, default: Any) -> Finish:
    return lambda value: default if value is None or _is_null_text(value) else finish(value)


def _never_null(finish: Finish) -> Finish:
    def finished(value: Any) -> Any:
        if value is None or _is_null_text(value):
            raise DataError("null, but the schema is not optional")
        return finish(value)

    return finished


def _is_null_text(value: Any) -> bool:
    return isinstance(value, msgspec.Raw) and bytes(value) == b"null"


# Writing.


def _leaf_to_write(schema: Schema, rules: Rules) -> _Plan | None:
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        if rules.numeric_decimals:
            return _Plan(
                shape=decimal.Decimal,
                finish=lambda value: unscaled_to_decimal(decimal_to_unscaled(value, scale), scale),
            )
        return _Plan(shape=decimal.Decimal, finish=lambda value: decimal_to_bytes(value, scale))
    if schema.name == DATE_NAME:
        return _Plan(shape=dt.date, finish=date_to_days)
    if schema.name == TIME_NAME:
        return _Plan(shape=dt.time, finish=time_to_ms)
    if schema.name == TIMESTAMP_NAME:
        return _Plan(shape=dt.datetime, finish=timestamp_to_ms)
    if schema.type is Type.BYTES:
        return _Plan(shape=Any, finish=_write_bytes)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return _Plan(shape=float, finish=float_to_json)
    return None


def _pairs_to_write(key: _Plan, value: _Plan) -> _Plan:
    write_key, write_value = key.finish_always, value.finish_always
    return _Plan(
        shape=dict[key.shape, value.shape],  # type: ignore[name-defined]
        finish=lambda pairs: [[write_key(each), write_value(found)] for each, found in pairs.items()],
    )


def _struct_to_write(shape: Any, empty: dict[str, Any], finishes: list[tuple[str, Finish]]) -> _Plan:
    def write(value: Any) -> dict[str, Any]:
        known: dict[str, Any] = _checked(value, shape)
        if len(known) != len(value):
            unknown = next(name for name in value if name not in empty)
            raise DataError(f"the value does not fit its schema: there is no field {unknown!r:.80}")
        return _finished(empty | known, finishes)

    return _Plan(shape=Any, finish=write)


def float_to_json(value: float) -> float | str:
    """Return a number that JSON has, or the text for one that it has not."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _write_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise DataError(f"{value!r:.80} ({type(value).__name__}) does not fit the schema BYTES")


# Reading.


def _leaf_to_read(schema: Schema, rules: Rules) -> _Plan | None:
    del rules  # Both forms of decimals are read.
    if schema.name == DECIMAL_NAME:
        scale = scale_of(schema)
        # The text of the number: a float might be another number.
        return _Plan(shape=msgspec.Raw, finish=lambda text: _read_decimal(bytes(text), scale))
    if schema.name == DATE_NAME:
        return _Plan(shape=int, finish=days_to_date)
    if schema.name == TIME_NAME:
        return _Plan(shape=int, finish=ms_to_time)
    if schema.name == TIMESTAMP_NAME:
        return _Plan(shape=int, finish=ms_to_timestamp)
    if schema.type is Type.BYTES:
        return _Plan(shape=str, finish=_read_bytes)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return _Plan(shape=float | str, finish=_read_float)
    return None


def _pairs_to_read(key: _Plan, value: _Plan) -> _Plan:
    read_key, read_value = key.finish_always, value.finish_always

    def read(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        try:
            return {read_key(each): read_value(found) for each, found in pairs}
        except TypeError:
            raise DataError("a map's key is an array, a map or a struct, which cannot be looked up") from None

    return _Plan(shape=list[tuple[key.shape, value.shape]], finish=read)  # type: ignore[name-defined]


def _struct_to_read(shape: Any, empty: dict[str, Any], finishes: list[tuple[str, Finish]]) -> _Plan:
    return _Plan(shape=shape, finish=lambda value: _finished(empty | value, finishes))


def _read_decimal(text: bytes, scale: int) -> decimal.Decimal:
    if text.startswith(b'"'):
        return bytes_to_decimal(_read_bytes(msgspec.json.decode(text, type=str)), scale)
    try:
        return decimal.Decimal(text.decode())
    except decimal.InvalidOperation:
        raise DataError(f"a Decimal must be a number or base64 text, not {text[:80]!r}") from None


def _read_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"bytes must be base64 text, not {text!r:.80}") from None


def _read_float(value: float | str) -> float:
    if isinstance(value, float):
        return value
    if value in _FLOATS_AS_TEXT:
        return _FLOATS_AS_TEXT[value]
    raise DataError(f"expected a number, got the text {value!r:.80}")


_WRITING = _Direction(leaf=_leaf_to_write, pairs=_pairs_to_write, struct=_struct_to_write)
_READING = _Direction(leaf=_leaf_to_read, pairs=_pairs_to_read, struct=_struct_to_read)
