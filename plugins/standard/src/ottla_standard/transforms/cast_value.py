"""Casting of plain values, by the rules of Java's conversions, which Kafka's Cast uses. Pure.

Numbers too large for an integer type lose their upper bits; fractions are cut off, and beyond the range they become
its end. Text must be a number that fits. Dates and times count as the numbers that stand for them, unless the target
is text, which then is ISO 8601.
"""

import datetime as dt
import math
import re
import struct
from decimal import Decimal
from typing import Any

from ottla_sdk import DataError, Type
from ottla_sdk.logical_types import date_to_days, time_to_ms, timestamp_to_ms
from ottla_sdk.schema import INTEGER_BITS
from ottla_standard.converters.text_form import scalar_text

TARGET_TYPES = (*INTEGER_BITS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING)

_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT_TEXT = re.compile(
    r"\s*(?P<number>[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?\s*"
)
_FLOAT32 = struct.Struct(">f")


def cast_value(value: Any, target: Type) -> Any:
    """Return a value as the target type; None stays None.

    Raises:
        DataError: there is no such cast, or text is no number that fits.
    """
    if value is None:
        return None
    if isinstance(value, dict | list | tuple):
        raise DataError(f"a {type(value).__name__} cannot be cast")
    if target is Type.STRING:
        return scalar_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"bytes can be cast to STRING only, not to {target}")
    value = _without_logic(value)
    if bits := INTEGER_BITS.get(target):
        return _integer(value, target, bits)
    if target is Type.BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else _integer(value, Type.INT64, 64) != 0
    return as_float32(_float(value, target)) if target is Type.FLOAT32 else _float(value, target)


def as_float32(value: float) -> float:
    """Return the number of 32 bits that is nearest, as the float that prints as it: 0.1, not 0.10000000149011612."""
    if not math.isfinite(value):
        return value
    try:
        packed = _FLOAT32.pack(value)
    except OverflowError:
        return math.copysign(math.inf, value)
    narrowed: float = _FLOAT32.unpack(packed)[0]
    candidates = (float(f"{narrowed:.{digits}g}") for digits in (6, 7, 8))
    return next((each for each in candidates if _is_float32(each, packed)), float(f"{narrowed:.9g}"))


def _is_float32(value: float, packed: bytes) -> bool:
    try:
        return _FLOAT32.pack(value) == packed
    except OverflowError:  # Rounded up beyond the range.
        return False


def _without_logic(value: Any) -> int | float | str | Decimal:
    if isinstance(value, dt.datetime):
        return timestamp_to_ms(value)
    if isinstance(value, dt.date):
        return date_to_days(value)
    if isinstance(value, dt.time):
        return time_to_ms(value)
    if isinstance(value, int | float | str | Decimal):
        return value
    raise DataError(f"{value!r:.80} ({type(value).__name__}) cannot be cast")


def _integer(value: int | float | str | Decimal, target: Type, bits: int) -> int:
    if isinstance(value, str):
        return _parsed(value, target, bits)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        # Java goes through 32 bits, or 64 for INT64, and stops at the ends of that range.
        through = max(bits, 32)
        least, most = -(1 << through - 1), (1 << through - 1) - 1
        return _narrowed(most if value >= most else least if value <= least else int(value), bits)
    return _narrowed(int(value), bits)


def _narrowed(value: int, bits: int) -> int:
    low = value & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low


def _parsed(text: str, target: Type, bits: int) -> int:
    if not _INTEGER_TEXT.fullmatch(text):
        raise DataError(f"{text!r:.80} is no {target}")
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise DataError(f"{text!r:.80} is out of the range of {target}")
    return number


def _float(value: int | float | str | Decimal, target: Type) -> float:
    if isinstance(value, str):
        if not (found := _FLOAT_TEXT.fullmatch(value)):
            raise DataError(f"{value!r:.80} is no {target}")
        return float(found["number"])
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
