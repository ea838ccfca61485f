"""Types of settings that Spark itself would only refuse at start: durations, watermarks, offsets, names."""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from ottla_sdk import CommaSeparated

FormatName = Literal["json", "avro", "string", "bytes"]
BadRecords = Literal["fail", "null", "drop"]
OutputMode = Literal["append", "update", "complete"]
DeliveryGuarantee = Literal["at-least-once", "exactly-once"]

DELIVERY_GUARANTEE = "delivery.guarantee"
AT_LEAST_ONCE: DeliveryGuarantee = "at-least-once"
EXACTLY_ONCE: DeliveryGuarantee = "exactly-once"

_UNITS = "milliseconds?|seconds?|minutes?|hours?|days?|weeks?"
_DURATION = re.compile(rf"\d+ ({_UNITS})( \d+ ({_UNITS}))*", re.IGNORECASE)
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OUTPUT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may come.

    Attributes:
        column: their time.
        delay: such as ``1 hour``.
    """

    column: str
    delay: str


def _duration(text: str) -> str:
    words = " ".join(text.split())
    if _DURATION.fullmatch(words) is None:
        raise ValueError("is no duration such as '10 seconds' or '1 hour 30 minutes'")
    return words


def _watermark(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    column, _, delay = value.strip().partition(" ")
    try:
        return Watermark(column.strip("`"), _duration(delay))
    except ValueError:
        raise ValueError("must be a column and how late rows may come, such as 'time_hour 1 hour'") from None


def _offsets(text: str) -> str:
    if text in ("earliest", "latest"):
        return text
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not all(map(_are_offsets, document.values())):
        raise ValueError(
            'must be earliest, latest, or offsets by topic and partition: {"flights": {"0": 23, "1": -2}}'
        )
    return text


def _are_offsets(value: object) -> bool:
    return isinstance(value, dict) and all(
        partition.isdecimal() and type(offset) is int and offset >= _EARLIEST for partition, offset in value.items()
    )


def _table_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return _names(names, _TABLE_NAME, "letters, digits and underscores")


def _output_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return _names(names, _OUTPUT_NAME, "letters, digits, underscores and hyphens")


def _names(names: tuple[str, ...], pattern: re.Pattern[str], allowed: str) -> tuple[str, ...]:
    if not names:
        raise ValueError("must name at least one")
    if bad := [name for name in names if pattern.fullmatch(name) is None]:
        raise ValueError(f"a name may have {allowed}, which {', '.join(map(repr, bad))} has not")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("a name stands twice in it; small and capital letters count as the same")
    return names


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Duration = Annotated[str, AfterValidator(_duration)]
OptionalWatermark = Annotated[Watermark | None, BeforeValidator(_watermark)]
StartingOffsets = Annotated[str, AfterValidator(_offsets)]
TableNames = Annotated[CommaSeparated, AfterValidator(_table_names)]
OutputNames = Annotated[CommaSeparated, AfterValidator(_output_names)]
Pattern = Annotated[str, AfterValidator(_regular_expression)]
