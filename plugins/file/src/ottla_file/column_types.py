"""Types of CSV columns: how users write them, their schemas, and how whole columns of texts become values. Pure."""

import datetime as dt
import decimal
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla_sdk import Schema, schema
from ottla_sdk.schema import INTEGER_BITS

_DECIMAL = re.compile(r"decimal\((\d{1,3})\)")
_TRUTHS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_MICROSECONDS_PER_MILLISECOND = 1000
_DIGITS_MAX = 20
"""Any integer with more is beyond INT64; those of very many would take long to make."""


class InvalidType(ValueError):
    """A type is not written as it should be; the message says what was and what there is."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column.

    Attributes:
        schema: the schema of its values, which may be None.
        parse: turns a text into a value, or raises ValueError.
        least: the least integer; None unless it is a type of integers.
        most: the greatest integer.
    """

    schema: Schema
    parse: Callable[[str], Any] | None
    least: int | None = None
    most: int | None = None

    def values(self, texts: Sequence[str], nulls: Collection[str]) -> list[Any]:
        """Return the values of a column; the texts in `nulls` become None, and empty ones unless these are strings.

        Raises:
            ValueError: at least one text is not of the type.
        """
        parse = self.parse
        if parse is None:
            return [None if text in nulls else text for text in texts] if nulls else list(texts)
        values = [None if not text or text in nulls else parse(text) for text in texts]
        if self.least is not None and self.most is not None:
            integers = [value for value in values if value is not None]
            if integers and (min(integers) < self.least or max(integers) > self.most):
                raise ValueError(f"out of the range of {self.schema.type.lower()}")
        return values


STRING = ColumnType(schema.STRING.as_optional(), None)


def parse_column_types(words: Iterable[str]) -> dict[str, ColumnType]:
    """Return the types that words such as ``year:int32`` give to columns.

    Raises:
        InvalidType: a word is not of that form, names an unknown type, or a column twice.
    """
    types: dict[str, ColumnType] = {}
    for word in words:
        column, separator, name = word.rpartition(":")
        if not separator or not column.strip():
            raise InvalidType(f"{word!r} is not of the form COLUMN:TYPE")
        if column.strip() in types:
            raise InvalidType(f"the column {column.strip()} stands twice")
        types[column.strip()] = _column_type(name.strip().lower())
    return types


def _column_type(name: str) -> ColumnType:
    if matched := _DECIMAL.fullmatch(name):
        scale = int(matched.group(1))
        return ColumnType(schema.decimal_schema(scale, optional=True), _decimal_parser(scale))
    if name in _INTEGERS:
        bits = INTEGER_BITS[_INTEGERS[name].type]
        return ColumnType(_INTEGERS[name].as_optional(), _integer, -(1 << bits - 1), (1 << bits - 1) - 1)
    if name in _OTHERS:
        kind, parse = _OTHERS[name]
        return ColumnType(kind.as_optional(), parse)
    raise InvalidType(f"there is no type {name!r}; there are {', '.join([*_INTEGERS, *_OTHERS])} and decimal(N)")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        # 517.0, as programs write that keep integers with gaps as floating point
        return _whole(text)


def _whole(text: str) -> int:
    """Return an integer that is written with a point or an exponent; a float would not keep all of its digits."""
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None
    if not number.is_finite() or number.adjusted() > _DIGITS_MAX or number != number.to_integral_value():
        raise ValueError(f"{text!r} is no integer, or too large")
    return int(number)


def _boolean(text: str) -> bool:
    try:
        return _TRUTHS[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def _decimal_parser(scale: int) -> Callable[[str], decimal.Decimal]:
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=1000, traps=[decimal.Inexact, decimal.InvalidOperation])

    def parse(text: str) -> decimal.Decimal:
        try:
            return context.create_decimal(text).quantize(unit, context=context)
        except decimal.DecimalException:
            raise ValueError(f"{text!r} is no number with at most {scale} digits behind the point") from None

    return parse


def _timestamp(text: str) -> dt.datetime:
    read = dt.datetime.fromisoformat(text)
    aware = read.replace(tzinfo=dt.UTC) if read.tzinfo is None else read.astimezone(dt.UTC)
    return aware.replace(
        microsecond=aware.microsecond // _MICROSECONDS_PER_MILLISECOND * _MICROSECONDS_PER_MILLISECOND
    )


_INTEGERS: Mapping[str, Schema] = {
    "int8": schema.INT8,
    "int16": schema.INT16,
    "int32": schema.INT32,
    "int64": schema.INT64,
}
_OTHERS: Mapping[str, tuple[Schema, Callable[[str], Any] | None]] = {
    "float32": (schema.FLOAT32, float),
    "float64": (schema.FLOAT64, float),
    "boolean": (schema.BOOLEAN, _boolean),
    "string": (schema.STRING, None),
    "date": (schema.DATE, dt.date.fromisoformat),
    "time": (schema.TIME, dt.time.fromisoformat),
    "timestamp": (schema.TIMESTAMP, _timestamp),
}
