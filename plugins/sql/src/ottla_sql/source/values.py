"""Turns what database drivers return into the Python values of Connect's types. Pure.

Drivers differ: SQLite returns text for times and whatever was stored for anything, MySQL a timedelta for a time of
day and numbers for booleans. Each function takes any of these; None never comes here.
"""

import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla_sdk import DataError
from ottla_sql.source.config import TimestampGranularity
from ottla_sql.source.position import microseconds

_MIDNIGHT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])


def to_int(value: Any) -> int:
    """Return an integer.

    Raises:
        DataError: it is none, which SQLite allows in columns of integers.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):  # BIT of MySQL
        return int.from_bytes(value, "big")
    if isinstance(value, decimal.Decimal | float) and value == int(value):
        return int(value)
    raise DataError(f"{value!r:.80} is no integer")


def to_float(value: Any) -> float:
    """Return a floating point number.

    Raises:
        DataError: it is none.
    """
    if isinstance(value, int | float | decimal.Decimal):
        return float(value)
    raise DataError(f"{value!r:.80} is no number")


def to_bool(value: Any) -> bool:
    """Return a truth value.

    Raises:
        DataError: it is none.
    """
    if isinstance(value, int):
        return bool(value)
    if isinstance(value, bytes):
        return any(value)
    raise DataError(f"{value!r:.80} is neither true nor false")


def to_text(value: Any) -> str:
    """Return text: JSON for structures, else what Python makes of the value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def to_bytes(value: Any) -> bytes:
    """Return bytes.

    Raises:
        DataError: it is something else.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise DataError(f"{value!r:.80} is not bytes")


def to_decimal(scale: int) -> Callable[[Any], decimal.Decimal]:
    """Return what makes decimals with exactly so many digits after the point; it refuses to round."""
    exponent = decimal.Decimal(1).scaleb(-scale)

    def convert(value: Any) -> decimal.Decimal:
        # Floats come from SQLite, which has no decimals; the shortest text for one is what was written.
        try:
            exact = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            raise DataError(f"{value!r:.80} is no number") from None
        if not exact.is_finite():
            raise DataError(f"a Decimal cannot be {exact}")
        quantized = exact.quantize(exponent, context=_EXACT)
        if quantized != exact:
            raise DataError(
                f"{exact} has more than {scale} digits after the point (see numeric.scale.default, if its column "
                "does not say how many)"
            )
        return quantized

    return convert


def to_date(value: Any) -> dt.date:
    """Return a date.

    Raises:
        DataError: it is none.
    """
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value[:10])
        except ValueError:
            pass
    raise DataError(f"{value!r:.80} is no date")


def to_time(value: Any) -> dt.time:
    """Return a time of day, with milliseconds.

    Raises:
        DataError: it is none.
    """
    if isinstance(value, str):
        try:
            value = dt.time.fromisoformat(value)
        except ValueError:
            raise DataError(f"{value!r:.80} is no time of day") from None
    elif isinstance(value, dt.timedelta):
        if not dt.timedelta(0) <= value < dt.timedelta(days=1):
            raise DataError(f"{value} is no time of day")
        value = (_MIDNIGHT + value).time()
    if not isinstance(value, dt.time):
        raise DataError(f"{value!r:.80} is no time of day")
    return value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=None)


def to_utc(timezone: dt.tzinfo) -> Callable[[Any], dt.datetime]:
    """Return what makes times in UTC, with microseconds; those without a zone are in `timezone`."""

    def convert(value: Any) -> dt.datetime:
        if isinstance(value, str):
            try:
                value = dt.datetime.fromisoformat(value)
            except ValueError:
                raise DataError(f"{value!r:.80} is no timestamp") from None
        if not isinstance(value, dt.datetime):
            raise DataError(f"{value!r:.80} is no timestamp")
        if value.tzinfo is None:
            value = value.replace(tzinfo=timezone)
        utc: dt.datetime = value.astimezone(dt.UTC)
        return utc

    return convert


def to_timestamp(timezone: dt.tzinfo, granularity: TimestampGranularity) -> Callable[[Any], Any]:
    """Return what makes of times what the setting `timestamp.granularity` says."""
    utc = to_utc(timezone)
    shape = _GRANULARITIES[granularity]
    return lambda value: shape(utc(value))


def _milliseconds(time: dt.datetime) -> dt.datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def _iso(time: dt.datetime) -> str:
    return time.replace(tzinfo=None).isoformat(timespec="microseconds")


_GRANULARITIES: Mapping[TimestampGranularity, Callable[[dt.datetime], Any]] = {
    TimestampGranularity.CONNECT_LOGICAL: _milliseconds,
    TimestampGranularity.MICROS_LONG: microseconds,
    TimestampGranularity.MICROS_STRING: lambda time: str(microseconds(time)),
    TimestampGranularity.MICROS_ISO: _iso,
    TimestampGranularity.NANOS_LONG: lambda time: microseconds(time) * 1000,
    TimestampGranularity.NANOS_STRING: lambda time: str(microseconds(time) * 1000),
    TimestampGranularity.NANOS_ISO: lambda time: _iso(time) + "000",
}


def to_list(element: Callable[[Any], Any] | None) -> Callable[[Any], list[Any]]:
    """Return what makes lists whose elements are converted, however deep they are."""

    def convert(value: Any) -> list[Any]:
        return [
            None
            if each is None
            else convert(each)
            if isinstance(each, list)
            else each
            if element is None
            else element(each)
            for each in value
        ]

    return convert
