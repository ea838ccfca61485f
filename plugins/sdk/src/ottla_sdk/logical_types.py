"""The numbers and bytes that stand for the values of logical types.

Kafka Connect defines each logical type by a plain one: DATE is the days since 1970-01-01, TIME the milliseconds since
midnight, TIMESTAMP the milliseconds since the epoch, and DECIMAL the unscaled number in two's complement, big-endian,
its scale being in the schema. Converters write those; connectors see Python's own types.
"""

import datetime as dt
import decimal

from ottla_sdk.errors import DataError
from ottla_sdk.schema import SCALE_PARAMETER, Schema

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MS_PER_DAY = 24 * 60 * 60 * 1000
DECIMAL_DIGITS_MAX = 10_000
"""Longer decimals are refused: ten characters of text would otherwise suffice to fill the memory."""

_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_MILLISECOND = dt.timedelta(milliseconds=1)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def date_to_days(value: dt.date) -> int:
    """Return the days from 1970-01-01 to a date; negative before it."""
    return value.toordinal() - _EPOCH_ORDINAL


def days_to_date(days: int) -> dt.date:
    """Return the date so many days after 1970-01-01.

    Raises:
        DataError: Python's dates end before: they go from year 1 to year 9999.
    """
    try:
        return dt.date.fromordinal(days + _EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        raise DataError(f"{days} days since 1970-01-01 is no date of the years 1 to 9999") from None


def time_to_ms(value: dt.time) -> int:
    """Return the milliseconds since midnight; what is below a millisecond is cut off."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def ms_to_time(ms: int) -> dt.time:
    """Return the time of day so many milliseconds after midnight.

    Raises:
        DataError: a day is not that long.
    """
    if not 0 <= ms < MS_PER_DAY:
        raise DataError(f"{ms} ms since midnight is no time of a day")
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return dt.time(hours, minutes, seconds, ms * 1000)


def timestamp_to_ms(value: dt.datetime) -> int:
    """Return the milliseconds from the epoch to a time; what is below a millisecond is cut off.

    Raises:
        DataError: the time has no zone.
    """
    if value.tzinfo is None:
        raise DataError(f"the timestamp {value.isoformat()} has no time zone")
    return (value - EPOCH) // _MILLISECOND


def ms_to_timestamp(ms: int) -> dt.datetime:
    """Return the time, in UTC, so many milliseconds after the epoch.

    Raises:
        DataError: Python's times end before: they go from year 1 to year 9999.
    """
    try:
        return EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError:
        raise DataError(f"{ms} ms since the epoch is no time of the years 1 to 9999") from None


def scale_of(schema: Schema) -> int:
    """Return how many digits after the point a DECIMAL schema has; negative for whole tens, hundreds and so on.

    Raises:
        DataError: the schema does not say.
    """
    text = schema.parameters.get(SCALE_PARAMETER, "")
    try:
        return int(text)
    except ValueError:
        raise DataError(f"a Decimal schema needs a number as its parameter scale, not {text!r}") from None


def decimal_to_unscaled(value: decimal.Decimal, scale: int) -> int:
    """Return the integer that is `value` times ten to the power of `scale`.

    Raises:
        DataError: digits would be lost, the value is no finite number, or is too long.
    """
    if not value.is_finite():
        raise DataError(f"a Decimal cannot be {value}")
    if abs(value.adjusted()) + abs(scale) > DECIMAL_DIGITS_MAX:
        raise DataError(f"a Decimal of more than {DECIMAL_DIGITS_MAX} digits")
    scaled = value.scaleb(scale, _EXACT)
    unscaled = int(scaled)
    if scaled != unscaled:
        raise DataError(f"the decimal {value} does not fit a schema of scale {scale}: digits would be lost")
    return unscaled


def unscaled_to_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    """Return `unscaled` divided by ten to the power of `scale`, with exactly so many digits after the point."""
    return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)


def decimal_to_bytes(value: decimal.Decimal, scale: int) -> bytes:
    """Return the unscaled number in two's complement, big-endian, in as few bytes as possible.

    Raises:
        DataError: as `decimal_to_unscaled`.
    """
    unscaled = decimal_to_unscaled(value, scale)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def bytes_to_decimal(data: bytes, scale: int) -> decimal.Decimal:
    """Return the decimal whose unscaled number, in two's complement and big-endian, these bytes are."""
    return unscaled_to_decimal(int.from_bytes(data, "big", signed=True), scale)
