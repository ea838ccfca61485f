"""Which messages of a topic an address asks for. Pure.

Every part of it stands in the address: the order, where to begin, the partition, the search, and the place at which a
page goes on, as ``0:170,1:99`` (offsets by partition).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ottla_operations.records.reading_plan import Place
from ottla_operations.records.record_search import PLACES, TEXT_MAX
from ottla_operations.records.start_offset import Anchor, BadOffset, StartOffset, parse_start_offset

ORDERS: Final = {"newest": "Newest first", "oldest": "Oldest first"}
PARTITIONS_MAX: Final = 200
"""Partitions of which messages are shown together; of a larger topic, one is chosen."""
PLACE: Final = re.compile(r"\d{1,9}:\d{1,18}(?:,\d{1,9}:\d{1,18})*")
START: Final = "start"


class BadQuery(ValueError):
    """An address asks for something that cannot be; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """What is asked for.

    Attributes:
        order: ``newest`` or ``oldest``.
        start: where to begin; None for the end, or the beginning, that the order begins with.
        start_text: as it was typed.
        partition: the only one, or None for all.
        words: what is searched for; empty for nothing.
        where: in which part of messages.
        place: where a page goes on, or None for the first.
    """

    order: str = "newest"
    start: StartOffset | None = None
    start_text: str = ""
    partition: int | None = None
    words: str = ""
    where: str = ""
    place: Place | None = None

    @property
    def newest_first(self) -> bool:
        """Whether it goes back."""
        return self.order == "newest"

    def parameters(self) -> dict[str, str]:
        """Return the parameters of its first page's address."""
        return {
            "order": "" if self.newest_first else self.order,
            START: self.start_text,
            "partition": "" if self.partition is None else str(self.partition),
            "q": self.words,
            "where": self.where,
        }


def message_query(given: Mapping[str, str], partitions: int) -> MessageQuery:
    """Return what an address asks for of a topic.

    Raises:
        BadQuery: names what cannot be used.
    """
    order = given.get("order", "") or "newest"
    if order not in ORDERS:
        raise BadQuery("Order: newest or oldest")
    start_text = given.get(START, "").strip()
    words, where = given.get("q", ""), given.get("where", "")
    if len(words) > TEXT_MAX or where not in PLACES:
        raise BadQuery(f"Search: at most {TEXT_MAX:,} characters, in key, value or headers")
    partition = _partition(given.get("partition", "").strip(), partitions)
    if partition is None and partitions > PARTITIONS_MAX:
        partition = 0
    return MessageQuery(
        order=order,
        start=_start(start_text),
        start_text=start_text,
        partition=partition,
        words=words,
        where=where,
        place=_place(given.get("at", ""), partitions),
    )


def place_text(place: Place) -> str:
    """Return a place as it stands in an address."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(place.items()))


def time_text(time_ms: int | None) -> str:
    """Return milliseconds since the epoch as a time in UTC, whatever number a producer has written."""
    if time_ms is None:
        return "–"
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def _start(text: str) -> StartOffset | None:
    if not text:
        return None
    try:
        found = parse_start_offset(text)
    except BadOffset as error:
        raise BadQuery(f"Begin at: {error}") from None
    if found.anchor is Anchor.TIME_MS and found.number < 0:
        raise BadQuery("Begin at: a time since 1970")
    return found


def _partition(text: str, partitions: int) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) >= partitions:
        raise BadQuery(f"Partition: a number from 0 to {partitions - 1}, or nothing for all")
    return int(text)


def _place(text: str, partitions: int) -> dict[int, int] | None:
    if not text:
        return None
    if PLACE.fullmatch(text) is None or text.count(",") >= PARTITIONS_MAX:
        raise BadQuery("at: it is PARTITION:OFFSET, several with commas between, as the page's own links have it")
    pairs = [each.partition(":") for each in text.split(",")]
    return {int(partition): int(offset) for partition, _, offset in pairs if int(partition) < partitions}
