"""Header values as text and back, without a schema beside them: the form of Kafka's class `Values`.

Written are strings as they are, `1`, `true`, `[1,2]`, `{"a":1}`, and ISO 8601 dates and times. Reading guesses: the
smallest type in which a number fits, arrays and maps whose elements have a type in common, dates and times. What
looks like none of them is a string.
"""

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ottla_sdk import NO_VALUE, Schema, SchemaAndValue, Type
from ottla_sdk.schema import (
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGER_BITS,
    STRING,
    TIME,
    TIMESTAMP,
    decimal_schema,
)
from ottla_standard.converters.text_form import scalar_text

_FLOAT32_MAX = 3.4028235677973366e38
"""From here on Java's floatValue is infinite."""
_NUMERIC_TYPES = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_INTEGERS = (INT8, INT16, INT32, INT64)


def to_text(value: Any) -> str:
    """Return the text of a header's value; None within arrays and maps is ``null``.

    Raises:
        DataError: a value of a type that no schema has.
    """
    return _text(value, embedded=False)


def from_text(text: str) -> SchemaAndValue:
    """Return what a header's text seems to say; the text ``null`` is no value."""
    if not text:
        return SchemaAndValue(STRING, text)
    parser = _Parser(text)
    found = parser.parse(embedded=False) or NO_VALUE
    # Kafka would drop what is behind a number or an array.
    return found if parser.is_at_end() else SchemaAndValue(STRING, text)


def _text(value: Any, *, embedded: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(each, embedded=True) for each in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{_text(key, embedded=True)}:{_text(each, embedded=True)}" for key, each in value.items())
        return "{" + ",".join(pairs) + "}"
    text = scalar_text(value)
    if not embedded or not isinstance(value, str | bytes | bytearray | memoryview):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_TOKEN = re.compile(r"(?:\\.|[^:,{}\[\]\"\\])+|.", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DATE_LENGTH, _TIME_LENGTH, _TIMESTAMP_LENGTH = 10, 13, 24


class _NotStructured(Exception):
    """The text is no array or map after all."""


@dataclass(slots=True)
class _Parser:
    """Reads one value; the text in tokens: the delimiters, and what stands between them."""

    text: str
    tokens: Sequence[str] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        self.tokens = _TOKEN.findall(self.text)

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        """Return the next value; None for null and at the end."""
        if self.at == len(self.tokens):
            return None
        if embedded and self._takes('"'):
            return self._quoted()
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self._takes_alone(word, embedded):
                return None if value is None else SchemaAndValue(BOOLEAN, value)
        start = self.at
        try:
            if self._takes("["):
                return self._array()
            if self._takes("{"):
                return self._map()
        except _NotStructured:
            self.at = start
        token = self._next()
        if not token.strip():
            return SchemaAndValue(STRING, token)
        return self._scalar(token.strip(), embedded)

    def is_at_end(self) -> bool:
        """Return whether nothing but blanks is left."""
        return not "".join(self.tokens[self.at :]).strip()

    def _scalar(self, token: str, embedded: bool) -> SchemaAndValue:
        if token[0].isdigit() and (found := self._several_tokens_as_time(token)):
            return found
        if found := _number(token):
            return found
        if embedded:
            raise _NotStructured
        return SchemaAndValue(STRING, self.text)

    def _several_tokens_as_time(self, token: str) -> SchemaAndValue | None:
        # The colons of a time are tokens: 12, :, 34, :, 56.789Z
        if self.at + 4 <= len(self.tokens):
            joined = token + "".join(self.tokens[self.at : self.at + 4])
            if found := _time(joined):
                self.at += 4
                return found
        return _time(token)

    def _quoted(self) -> SchemaAndValue:
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at] != '"':
            self.at += 1
        text = "".join(self.tokens[start : self.at])
        self.at = min(self.at + 1, len(self.tokens))
        return _time(text) or SchemaAndValue(STRING, re.sub(r'\\([\\"])', r"\1", text))

    def _array(self) -> SchemaAndValue:
        values: list[Any] = []
        common = _CommonSchema()
        while self.at < len(self.tokens):
            if self._takes("]"):
                elements = common.schema
                return SchemaAndValue(
                    Schema(type=Type.ARRAY, value_schema=elements), [_widened(elements, each) for each in values]
                )
            if self._takes(","):
                raise _NotStructured
            element = self.parse(embedded=True)
            common.add(element)
            values.append(None if element is None else element.value)
            if not self._sees("]") and not self._takes(","):
                raise _NotStructured
        raise _NotStructured

    def _map(self) -> SchemaAndValue:
        pairs: list[tuple[Any, Any]] = []
        keys, values = _CommonSchema(), _CommonSchema()
        while self.at < len(self.tokens):
            if self._takes("}"):
                return _as_map(pairs, keys.schema, values.schema)
            if self._takes(","):
                raise _NotStructured
            key = self.parse(embedded=True)
            if key is None or key.value is None or not self._takes(":"):
                raise _NotStructured
            value = self.parse(embedded=True)
            pairs.append((key.value, None if value is None else value.value))
            keys.add(key)
            values.add(value)
            self._takes(",")
        raise _NotStructured

    def _next(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _sees(self, expected: str) -> bool:
        start = self.at
        seen = self._takes(expected)
        self.at = start
        return seen

    def _takes(self, expected: str) -> bool:
        """Go behind the next token if it is the expected one, with blanks around it or not."""
        at = self.at
        while at < len(self.tokens) and not self.tokens[at].strip():
            at += 1
        if at == len(self.tokens) or self.tokens[at].strip() != expected:
            return False
        self.at = at + 1
        return True

    def _takes_alone(self, word: str, embedded: bool) -> bool:
        start = self.at
        if self._takes(word) and (embedded or self.at == len(self.tokens)):
            return True
        self.at = start
        return False


def _as_map(pairs: list[tuple[Any, Any]], keys: Schema | None, values: Schema | None) -> SchemaAndValue:
    schema = Schema(type=Type.MAP, key_schema=keys, value_schema=values if keys is not None else None)
    try:
        return SchemaAndValue(schema, {_widened(keys, key): _widened(values, value) for key, value in pairs})
    except TypeError:  # A key that is an array or a map.
        raise _NotStructured from None


@dataclass(slots=True)
class _CommonSchema:
    """The schema that fits all elements; None if there are none, or no such schema.

    Attributes:
        schema: that schema.
    """

    schema: Schema | None = None
    _compatible: bool = True

    def add(self, element: SchemaAndValue | None) -> None:
        if element is None or element.schema is None or not self._compatible:
            return
        if self.schema is None:
            self.schema = element.schema
            return
        self.schema = _wider(self.schema, element.schema)
        self._compatible = self.schema is not None


def _wider(one: Schema, other: Schema) -> Schema | None:
    if one.type is other.type:
        return other if one.name == other.name else None
    if one.type in _NUMERIC_TYPES and other.type in _NUMERIC_TYPES and not one.name and not other.name:
        return max(one, other, key=lambda each: _NUMERIC_TYPES.index(each.type))
    return None


def _widened(schema: Schema | None, value: Any) -> Any:
    is_float = schema is not None and schema.type in (Type.FLOAT32, Type.FLOAT64)
    return float(value) if is_float and isinstance(value, int) else value


def _number(token: str) -> SchemaAndValue | None:
    if not _NUMBER.fullmatch(token):
        return None
    number = Decimal(token)
    if number.adjusted() <= 18 and number == number.to_integral_value():
        integer = int(number)
        for schema in _INTEGERS:
            if -(1 << INTEGER_BITS[schema.type] - 1) <= integer < 1 << INTEGER_BITS[schema.type] - 1:
                return SchemaAndValue(schema, integer)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a finite number"
    approximate = float(number)
    if exponent == 0 or math.isinf(approximate):
        return SchemaAndValue(decimal_schema(-exponent), number)
    return SchemaAndValue(FLOAT32 if abs(approximate) < _FLOAT32_MAX else FLOAT64, approximate)


def _time(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    try:
        if len(text) == _DATE_LENGTH:
            return SchemaAndValue(DATE, dt.datetime.strptime(text, "%Y-%m-%d").date())  # noqa: DTZ007 - a date has none
        if len(text) == _TIME_LENGTH:
            return SchemaAndValue(TIME, dt.datetime.strptime(text, "%H:%M:%S.%fZ").time())  # noqa: DTZ007 - nor a time
        if len(text) == _TIMESTAMP_LENGTH:
            parsed = dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=dt.UTC)
            return SchemaAndValue(TIMESTAMP, parsed)
    except ValueError:
        pass
    return None
