"""Lines of the logs of a local cluster: when, how grave, from which process, and what they say. Pure.

Services write a JSON object a line, etcd does with other names, the supervisor writes text. A line of none of these
forms, such as one of a traceback, belongs to the line before it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla_operations.records.field_codec import readable

LEVELS = ("debug", "info", "warning", "error", "critical")
_LEVEL_NAMES = {**{name: name for name in LEVELS}, "warn": "warning", "fatal": "critical", "panic": "critical"}
_START = re.compile(r"--- (?P<time>\S+) (?P<text>ottla starts .*)")
_SUPERVISOR = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?P<level>[A-Z]+) +(?P<text>.*)", re.DOTALL)
_COLOURS = {"debug": "\033[2m", "warning": "\033[33m", "error": "\033[31m", "critical": "\033[1;31m"}
_PROCESS_COLOURS = ("\033[36m", "\033[32m", "\033[35m", "\033[34m", "\033[96m", "\033[92m", "\033[95m", "\033[94m")
_PLAIN = "\033[0m"
_KNOWN_FIELDS = frozenset({"event", "msg", "timestamp", "ts", "level", "service", "exception", "caller", "logger"})
LEVEL_WIDTH = 8


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message.

    Attributes:
        time: when it was logged; that of the message before for a line that does not say.
        process: its log's name, such as ``broker-1``.
        level: one of `LEVELS`.
        text: the message itself.
        fields: what else it says.
        detail: further lines, such as a traceback.
        raw: the line as it stands in the log.
    """

    time: datetime
    process: str
    level: str
    text: str
    raw: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""


class LogLineParser:
    """Reads the lines of one process's log in their order.

    Args:
        process: its name.
        local_offset: returns how far the local time of the supervisor's log is ahead of UTC.
    """

    def __init__(self, process: str, local_offset: Callable[[datetime], timedelta]) -> None:
        self._process = process
        self._local_offset = local_offset
        self._time = datetime.min.replace(tzinfo=UTC)
        self._level = "info"

    def read(self, line: str) -> LogLine:
        """Return a line as a message; a line that is none goes on with the time and the level of the one before."""
        made = self._of_json(line) or self._of_text(line)
        if made is None:
            return LogLine(self._time, self._process, self._level, line, line)
        self._time, self._level = made.time, made.level
        return made

    def _of_json(self, line: str) -> LogLine | None:
        if not line.startswith("{"):
            return None
        try:
            document = json.loads(line)
            time = datetime.fromisoformat(document.get("timestamp") or document["ts"])
        except (ValueError, LookupError, TypeError):
            return None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return LogLine(
            time=time,
            process=self._process,
            level=_LEVEL_NAMES.get(str(document.get("level")), "info"),
            text=str(document.get("event", document.get("msg", ""))),
            raw=line,
            fields={name: value for name, value in document.items() if name not in _KNOWN_FIELDS},
            detail=str(document.get("exception") or ""),
        )

    def _of_text(self, line: str) -> LogLine | None:
        try:
            if (start := _START.fullmatch(line)) is not None:
                time = datetime.fromisoformat(start["time"])
                return LogLine(time, self._process, "info", start["text"], line)
            if (found := _SUPERVISOR.fullmatch(line)) is not None:
                local = datetime.strptime(found["time"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                level = _LEVEL_NAMES.get(found["level"].lower(), "info")
                return LogLine(local - self._local_offset(local), self._process, level, found["text"], line)
        except ValueError:
            pass
        return None


def is_at_least(line: LogLine, level: str) -> bool:
    """Return whether a message is as grave as a level, or graver."""
    return LEVELS.index(line.level) >= LEVELS.index(level)


def as_json(line: LogLine) -> str:
    """Return the line as it stands in the log if it is JSON, else a JSON object that says the same.

    What does not name its process, as etcd's messages, is given its name.
    """
    if line.raw.startswith("{") and line.raw != line.text:
        said: dict[str, Any] = json.loads(line.raw)
        return line.raw if "service" in said else json.dumps({**said, "service": line.process}, ensure_ascii=False)
    document = {"event": line.text, "service": line.process, "level": line.level, "timestamp": line.time.isoformat()}
    return json.dumps(document, ensure_ascii=False)


def for_people(line: LogLine, *, process_width: int, colour_of: Mapping[str, str] | None) -> str:
    """Return a message as a line of text, maybe with a traceback below it.

    Args:
        line: the message.
        process_width: how wide the longest name of a process is.
        colour_of: the colour of each process, or None for no colours at all.
    """
    time = line.time.astimezone().strftime("%Y-%m-%d %H:%M:%S.") + f"{line.time.microsecond // 1000:03d}"
    process = line.process.ljust(process_width)
    level = line.level.upper().ljust(LEVEL_WIDTH)
    said = " ".join([line.text, *(f"{name}={_value(value)}" for name, value in line.fields.items())])
    said += f"\n{line.detail.rstrip()}" if line.detail else ""
    said = readable(said.encode(errors="backslashreplace")).decode()
    if colour_of is None:
        return f"{time} {process} {level} {said}"
    grave = _COLOURS.get(line.level, "")
    return f"{time} {colour_of[line.process]}{process}{_PLAIN} {grave}{level} {said}{_PLAIN if grave else ''}"


def process_colours(processes: list[str]) -> dict[str, str]:
    """Return a colour for each process."""
    return {name: _PROCESS_COLOURS[number % len(_PROCESS_COLOURS)] for number, name in enumerate(processes)}


def _value(value: Any) -> str:
    if isinstance(value, str) and value and not re.search(r"[\s=\"]", value):
        return value
    return json.dumps(value, ensure_ascii=False)
