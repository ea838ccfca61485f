"""Where reading begins: what `--offset` of `ottla consume` means. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto


class BadOffset(ValueError):
    """An `--offset` of no known form; the message lists them."""


class Anchor(Enum):
    """What the number of a `StartOffset` counts from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    BEFORE_END = auto()
    TIME_MS = auto()


@dataclass(frozen=True, slots=True)
class StartOffset:
    """A place in every partition.

    Attributes:
        number: the offset, the distance from the end, or milliseconds since the epoch, as the anchor says.
    """

    anchor: Anchor
    number: int = 0


def parse_start_offset(text: str) -> StartOffset:
    """Read ``earliest``, ``latest``, ``17``, ``-10`` (ten before the end), ``@1357034400000`` or a date and time.

    A date and time without a zone is UTC.

    Raises:
        BadOffset: it is something else.
    """
    if text in ("earliest", "beginning"):
        return StartOffset(Anchor.EARLIEST)
    if text in ("latest", "end"):
        return StartOffset(Anchor.LATEST)
    if re.fullmatch(r"\d{1,18}", text):
        return StartOffset(Anchor.OFFSET, int(text))
    if re.fullmatch(r"-\d{1,18}", text):
        return StartOffset(Anchor.BEFORE_END, int(text[1:]))
    if re.fullmatch(r"@\d{1,15}", text):
        return StartOffset(Anchor.TIME_MS, int(text[1:]))
    time_ms = parse_time_ms(text)
    if time_ms is None:
        raise BadOffset(
            f"{text} is no offset; use earliest, latest, a number, -N for the last N, "
            "@MILLISECONDS or a date and time such as 2013-01-01T05:00"
        )
    return StartOffset(Anchor.TIME_MS, time_ms)


def parse_time_ms(text: str) -> int | None:
    """Return a date and time as milliseconds since the epoch, None if it is malformed; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
