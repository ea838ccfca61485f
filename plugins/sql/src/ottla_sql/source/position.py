"""Where a source is in a table: the last row it has read, as offsets hold it. Pure.

The format is that of Confluent's JDBC source (its TimestampIncrementingOffset): `incrementing`, `timestamp` in
milliseconds since the epoch, and `timestamp_nanos`, the whole fraction of that second in nanoseconds. Beside them
stands `table_id`, which says of which table it is.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TABLE_ID = "table_id"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class InvalidPosition(ValueError):
    """An offset is not one of a SQL source."""


@dataclass(frozen=True, slots=True)
class Position:
    """The last row.

    Attributes:
        incrementing: its incrementing column; None before the first row.
        timestamp_us: its timestamp, in microseconds since the epoch; None before the first row.
    """

    incrementing: int | None = None
    timestamp_us: int | None = None

    @property
    def timestamp(self) -> dt.datetime | None:
        """The timestamp, in UTC."""
        return None if self.timestamp_us is None else _EPOCH + self.timestamp_us * _MICROSECOND

    def to_offset(self) -> dict[str, int]:
        """Return it as a source offset."""
        offset: dict[str, int] = {}
        if self.incrementing is not None:
            offset["incrementing"] = self.incrementing
        if self.timestamp_us is not None:
            offset["timestamp"] = self.timestamp_us // 1000
            offset["timestamp_nanos"] = self.timestamp_us % 1_000_000 * 1000
        return offset

    @property
    def is_at_beginning(self) -> bool:
        """Whether no row was read yet."""
        return self.incrementing is None and self.timestamp_us is None

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any] | None) -> "Position":
        """Return what a source offset says.

        Raises:
            InvalidPosition: it says something else; the message tells what.
        """
        if not offset:
            return cls()
        for name in ("incrementing", "timestamp", "timestamp_nanos"):
            value = offset.get(name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise InvalidPosition(f"{name} must be an integer, not {value!r}")
        milliseconds, nanoseconds = offset.get("timestamp"), offset.get("timestamp_nanos")
        if milliseconds is None:
            return cls(offset.get("incrementing"))
        if nanoseconds is None:
            return cls(offset.get("incrementing"), milliseconds * 1000)
        if not 0 <= nanoseconds < 1_000_000_000:
            raise InvalidPosition(f"timestamp_nanos must be from 0 to 999999999, not {nanoseconds}")
        return cls(offset.get("incrementing"), milliseconds // 1000 * 1_000_000 + nanoseconds // 1000)


def table_id_in(offset: Mapping[str, Any] | None) -> str | None:
    """Return which table a source offset is of; None if it does not say so.

    Raises:
        InvalidPosition: it says something else.
    """
    found = (offset or {}).get(TABLE_ID)
    if found is not None and not isinstance(found, str):
        raise InvalidPosition(f"{TABLE_ID} must be a text, not {found!r}")
    return found


def microseconds(time: dt.datetime) -> int:
    """Return an aware time as microseconds since the epoch."""
    return (time - _EPOCH) // _MICROSECOND
