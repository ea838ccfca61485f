"""Dates and times written by a pattern of Java's SimpleDateFormat, such as `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`. Pure.

Understood are the letters y M d D E a H k K h m s S z Z X, quoted text, and all other characters as themselves; names
are English, times UTC unless the text says otherwise. As in Java, text behind what the pattern describes is ignored,
and SSS are milliseconds. Otherwise than in Java, dates that do not exist are refused rather than carried over, and
more than three S are digits of a fraction rather than a great many milliseconds.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla_sdk import DataError
from ottla_sdk.logical_types import EPOCH, ms_to_timestamp

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<text>[^A-Za-z'])", re.DOTALL)
_NUMBERS = "yMdDHkKhmsS"
_LETTERS = _NUMBERS + "EazZX"
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?")
_PIVOT_YEARS = 80
"""Two digits of a year mean one from so many years before today to the end of a century from there."""


class Calendar(Protocol):
    """Knows the date; `system_calendar.py` has the one that is used."""

    def this_year(self) -> int:
        """Return the year, in UTC."""


class _Item(NamedTuple):
    """A letter of the pattern and how often it stands there; no letter: text as it is."""

    letter: str
    length: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class JavaDateFormat:
    """A pattern, taken apart.

    Attributes:
        pattern: the pattern as it was written.
    """

    pattern: str
    _items: tuple[_Item, ...]
    _matcher: re.Pattern[str]
    _this_year: int

    def format(self, ms: int) -> str:
        """Return the text of a time, in milliseconds since the epoch.

        Raises:
            DataError: a time before year 1 or after year 9999.
        """
        time = ms_to_timestamp(ms)
        return "".join(_WRITERS[each.letter](time, each.length) if each.letter else each.text for each in self._items)

    def parse(self, text: str) -> int:
        """Return the time that a text says, in milliseconds since the epoch.

        Raises:
            DataError: the text does not match, or names a date or time that does not exist.
        """
        found = self._matcher.match(text)
        if found is None:
            raise DataError(f"the timestamp {text!r:.80} does not match the pattern {self.pattern}")
        parts = {name[0]: each for name, each in found.groupdict().items()}
        try:
            return _assembled(parts, self._items, self._this_year)
        except ValueError as error:
            raise DataError(f"the timestamp {text!r:.80} does not exist: {error}") from None


def compile_format(pattern: str, *, this_year: int) -> JavaDateFormat:
    """Return a pattern, taken apart.

    Args:
        pattern: the pattern.
        this_year: the year it is, for patterns whose years have two digits.

    Raises:
        ValueError: a letter that is not understood, a quote that is not closed.
    """
    items: list[_Item] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise ValueError(f"the quote at {at} of the pattern {pattern!r} is not closed")
        letters = token["letters"]
        if letters is None:
            quoted = token["quoted"]
            items.append(_Item("", 0, token["text"] if quoted is None else quoted.replace("''", "'") or "'"))
        elif letters[0] not in _LETTERS:
            raise ValueError(f"the letter {letters[0]} of the pattern {pattern!r} is none of {_LETTERS}")
        else:
            items.append(_Item(letters[0], len(letters)))
        at = token.end()
    return JavaDateFormat(pattern, tuple(items), _compiled_matcher(items), this_year)


# Writing.


def _year(time: dt.datetime, count: int) -> str:
    return f"{time.year % 100:02}" if count == 2 else f"{time.year:0{count}}"


def _month(time: dt.datetime, count: int) -> str:
    name = _MONTHS[time.month - 1]
    return f"{time.month:0{count}}" if count < 3 else name[:3] if count == 3 else name


def _weekday(time: dt.datetime, count: int) -> str:
    name = _DAYS[time.weekday()]
    return name[:3] if count < 4 else name


def _fraction(time: dt.datetime, count: int) -> str:
    ms = time.microsecond // 1000
    return f"{ms:0{count}}" if count <= 3 else f"{ms:03}".ljust(count, "0")


_WRITERS: Mapping[str, Callable[[dt.datetime, int], str]] = {
    "y": _year,
    "M": _month,
    "d": lambda time, count: f"{time.day:0{count}}",
    "D": lambda time, count: f"{time.timetuple().tm_yday:0{count}}",
    "E": _weekday,
    "a": lambda time, _: "AM" if time.hour < 12 else "PM",
    "H": lambda time, count: f"{time.hour:0{count}}",
    "k": lambda time, count: f"{time.hour or 24:0{count}}",
    "K": lambda time, count: f"{time.hour % 12:0{count}}",
    "h": lambda time, count: f"{time.hour % 12 or 12:0{count}}",
    "m": lambda time, count: f"{time.minute:0{count}}",
    "s": lambda time, count: f"{time.second:0{count}}",
    "S": _fraction,
    "z": lambda _, count: "UTC" if count < 4 else "Coordinated Universal Time",
    "Z": lambda _, __: "+0000",
    "X": lambda _, __: "Z",
}


# Reading.


def _compiled_matcher(items: list[_Item]) -> re.Pattern[str]:
    parts = []
    for number, item in enumerate(items):
        if not item.letter:
            parts.append(re.escape(item.text))
            continue
        is_number = _is_number(item)
        is_followed_by_number = number + 1 < len(items) and _is_number(items[number + 1])
        if is_number:
            # Numbers without anything between them have the length that the pattern says.
            digits = f"{{{item.length}}}" if is_followed_by_number else "{1,9}"
            inner = rf"\s*\d{digits}"
        else:
            inner = _TEXTS[item.letter]
        parts.append(f"(?P<{item.letter}{number}>{inner})")
    return re.compile("".join(parts), re.IGNORECASE | re.ASCII)


def _is_number(item: _Item) -> bool:
    return item.letter in _NUMBERS and bool(item.letter) and not (item.letter == "M" and item.length > 2)


def _names(names: tuple[str, ...]) -> str:
    return "|".join((*names, *(each[:3] for each in names)))


_ZONE_TEXT = r"(?:GMT|UTC)?[+-]\d{1,2}:?\d{2}|GMT|UTC|Z|Coordinated Universal Time"
_TEXTS = {
    "M": _names(_MONTHS),
    "E": _names(_DAYS),
    "a": "AM|PM",
    "z": _ZONE_TEXT,
    "Z": _ZONE_TEXT,
    "X": r"[+-]\d{2}(?::?\d{2})?|Z",
}


def _assembled(parts: dict[str, str], items: tuple[_Item, ...], this_year: int) -> int:
    counts = {each.letter: each.length for each in items}
    year = _read_year(parts["y"], counts["y"], this_year) if "y" in parts else 1970
    if "D" in parts and "M" not in parts:
        days = int(parts["D"])
        date = dt.date(year, 1, 1) + dt.timedelta(days=days - 1)
        if days < 1 or date.year != year:
            raise ValueError(f"{year} has no day {days}")
    else:
        date = dt.date(year, _read_month(parts.get("M", "1")), int(parts.get("d", "1")))
    time = dt.time(_read_hour(parts), int(parts.get("m", "0")), int(parts.get("s", "0")))
    ms = _read_fraction(parts["S"].strip(), counts["S"]) if "S" in parts else 0
    whole = dt.datetime.combine(date, time, dt.UTC) - EPOCH
    offset = _read_offset(next((parts[each] for each in "zZX" if each in parts), ""))
    return (whole - offset) // dt.timedelta(milliseconds=1) + ms


def _read_year(text: str, count: int, this_year: int) -> int:
    year = int(text)
    if count > 2 or len(text.strip()) != 2:
        return year
    first = this_year - _PIVOT_YEARS
    return first + (year - first) % 100


def _read_month(text: str) -> int:
    text = text.strip()
    if text.isdigit():
        return int(text)
    return next(number for number, name in enumerate(_MONTHS, 1) if name[:3].lower() == text[:3].lower())


def _read_hour(parts: dict[str, str]) -> int:
    if "H" in parts:
        return int(parts["H"])
    if "k" in parts:
        return int(parts["k"]) % 24
    hour = int(parts.get("h", parts.get("K", "0")))
    if hour > 12:
        raise ValueError(f"half a day has no hour {hour}")
    return hour % 12 + (12 if parts.get("a", "AM").upper() == "PM" else 0)


def _read_fraction(digits: str, count: int) -> int:
    ms = int(digits) if count <= 3 else int(digits[:3].ljust(3, "0"))
    if ms > 999:
        raise ValueError(f"a second has no millisecond {ms}")
    return ms


def _read_offset(text: str) -> dt.timedelta:
    found = _OFFSET.search(text)
    if found is None:
        return dt.timedelta(0)
    offset = dt.timedelta(hours=int(found[2]), minutes=int(found[3] or "0"))
    return -offset if found[1] == "-" else offset
