"""Names of the files that a sink writes: from a template to a path, and from paths back to offsets. Pure.

The names are the sink's memory. A finished file's name says which offsets of which partition it holds, and is there
at once with the file itself; so after any crash the names tell exactly what need not be written again.
"""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ottla_sdk import TopicPartition

OFFSET_DIGITS = 12
"""Offsets have leading zeros up to this length, so that names sort, and cannot be taken for a part of a topic."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_DATE_PARTS = {"month": "%m", "day": "%d", "hour": "%H"}
_OFFSETS = ("start_offset", "end_offset")
_REQUIRED = ("topic", "partition", *_OFFSETS)
_TOPIC_ID = "topic_id"
_MS_PER_HOUR = 3_600_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HOURS_PER_CYCLE = 146_097 * 24
"""In 400 years, after which the calendar is the same again."""
_YEARS_PER_CYCLE = 400
_LAST_HOUR = 253_402_300_799 // 3600
"""Of the year 9999, where Python's times end."""
_FIRST_HOUR = -62_135_596_800 // 3600
"""Of the year 1."""


class InvalidTemplate(ValueError):
    """A template of file names cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names that a template makes.

    Attributes:
        template: a relative path with ``${topic}``, ``${partition}``, ``${start_offset}``, ``${end_offset}``, and
            ``${year}``, ``${month}``, ``${day}``, ``${hour}`` of the first record's timestamp, in UTC; perhaps with
            ``${topic_id}``, which tells topics apart that had the same name one after the other.
        extension: what comes behind it, such as ``.csv.gz``.
    """

    template: str
    extension: str

    def __post_init__(self) -> None:
        names = _VARIABLE.findall(self.template)
        if unknown := sorted(set(names) - set(_known())):
            raise InvalidTemplate(
                f"there is no ${{{unknown[0]}}}; there are {', '.join(f'${{{name}}}' for name in _known())}"
            )
        if missing := [name for name in _REQUIRED if name not in names]:
            raise InvalidTemplate(f"must have ${{{missing[0]}}}: the names say what has been written already")
        path = PurePosixPath(self.template)
        if path.is_absolute() or ".." in path.parts or any(part.startswith(".") for part in path.parts):
            raise InvalidTemplate("must be relative to file.directory, without .. and names that begin with a point")
        if any(offset in part for offset in _OFFSETS for part in path.parts[:-1]):
            raise InvalidTemplate("must have the offsets in the file's name, not in that of a directory")

    @property
    def has_date(self) -> bool:
        """Whether names depend on the records' timestamps."""
        return any(f"${{{part}}}" in self.template for part in ("year", *_DATE_PARTS))

    @property
    def has_topic_id(self) -> bool:
        """Whether names say which topic it is that bore a name."""
        return f"${{{_TOPIC_ID}}}" in self.template

    def path(
        self, partition: TopicPartition, *, start_offset: int, end_offset: int, hour: int, topic_id: str | None = None
    ) -> str:
        """Return the path of a file.

        Args:
            partition: where its records are from.
            start_offset: the first record's offset.
            end_offset: the last record's.
            hour: hours between the epoch and the first record.
            topic_id: the topic's id; None if it has none, for names that do not say it.
        """
        values = {
            "topic": partition.topic,
            _TOPIC_ID: topic_id or "",
            "partition": str(partition.partition),
            "start_offset": f"{start_offset:0{OFFSET_DIGITS}}",
            "end_offset": f"{end_offset:0{OFFSET_DIGITS}}",
            **(_date_parts(hour) if self.has_date else {}),
        }
        return _VARIABLE.sub(lambda matched: values[matched[1]], self.template) + self.extension

    def period(self, hour: int) -> tuple[str, ...]:
        """Return the date parts of names for this hour since the epoch; a file holds records of one period only."""
        return tuple(value for part, value in _date_parts(hour).items() if f"${{{part}}}" in self.template)

    def patterns(self, partition: TopicPartition, topic_id: str | None = None) -> Sequence[re.Pattern[str]]:
        """Return one pattern for each part of the paths of a partition's files, with any extension.

        The last has the group ``end``, the offset of the last record in the file.

        Args:
            partition: where their records are from.
            topic_id: the topic's id; None finds the files of all topics that have borne the name.
        """
        parts = PurePosixPath(self.template).parts
        made = [_pattern(part, partition, topic_id) for part in parts]
        made[-1] += r"(?:\.\w+)*"
        return [re.compile(each) for each in made]


def hour_of(timestamp_ms: int) -> int:
    """Return the hours between the epoch and a time in ms."""
    return timestamp_ms // _MS_PER_HOUR


def is_before_year_1(hour: int) -> bool:
    """Return whether an hour since the epoch has no date that names could hold."""
    return hour < _FIRST_HOUR


def _date_parts(hour: int) -> dict[str, str]:
    """Return the date parts of names for an hour since the epoch; years may be beyond 9999, where Python's end."""
    cycles = max(0, -((_LAST_HOUR - hour) // _HOURS_PER_CYCLE))
    moment = _EPOCH + dt.timedelta(hours=hour - cycles * _HOURS_PER_CYCLE)
    year = moment.year + cycles * _YEARS_PER_CYCLE
    return {"year": f"{year:04}", **{part: format(moment, form) for part, form in _DATE_PARTS.items()}}


def _pattern(part: str, partition: TopicPartition, topic_id: str | None) -> str:
    forms = {
        "topic": re.escape(partition.topic),
        _TOPIC_ID: re.escape(topic_id) if topic_id else r"[\w-]+",
        "partition": str(partition.partition),
        "start_offset": rf"\d{{{OFFSET_DIGITS},}}",
        "end_offset": rf"(?P<end>\d{{{OFFSET_DIGITS},}})",
        **dict.fromkeys(("year", *_DATE_PARTS), r"\d+"),
    }
    pieces = _VARIABLE.split(part)  # text and names of variables in turn
    seen: set[str] = set()
    made = []
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            made.append(re.escape(piece))
        else:
            made.append(r"\d+" if piece == "end_offset" and piece in seen else forms[piece])
            seen.add(piece)
    return "".join(made)


def _known() -> tuple[str, ...]:
    return (*_REQUIRED, _TOPIC_ID, "year", *_DATE_PARTS)
