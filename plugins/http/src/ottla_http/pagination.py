"""How a source walks through pages, and what it remembers of where it was. Pure.

A source offset is JSON: `cursor` is what the next request asks with, and the rest says which records of its answer
came already. Every record has the offset behind itself, so a task may go on behind any of them: it asks for the same
page again and leaves out what came before. `check` is a digest of the last record that came, by which it is found
again if the page has changed meanwhile; if it is not there any more, the whole page comes again: twice rather than
never.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla_http.json_pointer import MISSING, JsonPointer

Offset = Mapping[str, Any]

SAME_CURSOR_RECORDS_MAX = 1_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Misread(ValueError):
    """A page is not what the settings say it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer.

    Attributes:
        records: the records in it.
        document: the whole of it; None if it is no JSON document.
        next_link: the URL of its ``Link`` header for what is next; None if there is none.
    """

    records: Sequence[Any]
    document: Any = None
    next_link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a page has brought.

    Attributes:
        records: those that are new, each with the offset behind it.
        after: where to go on.
        is_last: whether there is nothing more to be had at once.
        notice: something to tell people; empty if there is nothing.
    """

    records: Sequence[tuple[Any, Offset]] = field(default_factory=tuple)
    after: Offset
    is_last: bool
    notice: str = ""


class Pagination(ABC):
    """A way to walk through pages."""

    def __init__(self, initial: Any) -> None:
        """Begin with a cursor; None or empty if there is none at first."""
        self._initial = initial

    def first(self) -> Offset:
        """Return where a source begins that has never read anything."""
        return {"cursor": self._initial}

    @abstractmethod
    def read(self, offset: Offset, page: Page) -> Reading:
        """Return what the page has brought that was asked for with an offset's cursor.

        Raises:
            Misread: the page is not what the settings say.
        """


class WholeAnswer(Pagination):
    """There are no pages: each answer is everything, and comes again as a whole if it has changed."""

    def __init__(self, *, skip_unchanged: bool) -> None:
        super().__init__(None)
        self._skip_unchanged = skip_unchanged

    def read(self, offset: Offset, page: Page) -> Reading:
        """Return all records; only those that did not come yet if the answer is the one that was begun with."""
        check = digest(list(page.records))
        begun = int(offset.get("record", 0)) if offset.get("check") == check else 0
        if begun >= len(page.records):
            begun = len(page.records) if self._skip_unchanged else 0
        numbered = list(enumerate(page.records, start=1))[begun:]
        records = [(record, {"cursor": None, "record": number, "check": check}) for number, record in numbered]
        return Reading(records=records, after=records[-1][1] if records else offset, is_last=True)


class NextCursor(Pagination):
    """Each page says what to ask the next with: in its document, or in a ``Link`` header."""

    def __init__(self, pointer: JsonPointer | None, *, initial: Any) -> None:
        """Prepare.

        Args:
            pointer: where the next cursor is; None: it is the URL in the ``Link`` header.
            initial: the first cursor.
        """
        super().__init__(initial)
        self._pointer = pointer

    def read(self, offset: Offset, page: Page) -> Reading:
        """Return the new records; the last has the next page's cursor in its offset."""
        following = page.next_link if self._pointer is None else self._pointer.find(page.document)
        has_next = following not in (MISSING, None, "", False) and following != offset["cursor"]
        if has_next and not isinstance(following, str | int | float):
            raise Misread(f"the next cursor at {self._pointer} is a {type(following).__name__}, no text or number")
        if not has_next:
            return _begun_page(offset, page)
        return _finished_page(offset, page, following, is_last=not page.records)


class PageNumber(Pagination):
    """Pages are numbered, and full but for the last."""

    def __init__(self, *, first: int, size: int) -> None:
        super().__init__(first)
        self._size = size

    def read(self, offset: Offset, page: Page) -> Reading:
        """Return the new records; a page that is not full is asked for again."""
        if len(page.records) < self._size:
            return _begun_page(offset, page)
        return _finished_page(offset, page, _number(offset) + 1, is_last=False)


class RecordNumber(Pagination):
    """Records are numbered, and a page begins with the one that is asked for."""

    def __init__(self, *, first: int, size: int) -> None:
        """Prepare; `size` is how many records a full page has, 0 if that is not known."""
        super().__init__(first)
        self._size = size

    def read(self, offset: Offset, page: Page) -> Reading:
        """Return all records."""
        begin = _number(offset)
        records = [(record, {"cursor": begin + number}) for number, record in enumerate(page.records, start=1)]
        is_last = len(page.records) < max(self._size, 1)
        return Reading(records=records, after=records[-1][1] if records else offset, is_last=is_last)


class LastRecord(Pagination):
    """The cursor is a part of the last record that came, such as an id or a time of change.

    It does not matter whether the service's answer includes the records at the cursor or begins behind them. For
    times it should include them, as several records may have the same; those that came already are told by their
    digests.
    """

    def __init__(self, pointer: JsonPointer, *, initial: Any) -> None:
        super().__init__(initial)
        self._pointer = pointer

    def read(self, offset: Offset, page: Page) -> Reading:
        """Return the records that did not come yet."""
        cursor, seen = offset["cursor"], list(offset.get("seen", ()))
        records: list[tuple[Any, Offset]] = []
        for record in page.records:
            own = self._pointer.find(record)
            if not isinstance(own, str | int | float) or isinstance(own, bool):
                raise Misread(f"a record has no text or number at {self._pointer}, where its cursor should be")
            if own == cursor and digest(record) in seen:
                continue
            if _descends(cursor, own):
                raise Misread(
                    f"{own!r} comes behind {cursor!r}: the service must sort records by {self._pointer}, and return "
                    "none from before the cursor"
                )
            seen = [*seen, digest(record)] if own == cursor else [digest(record)]
            if len(seen) > SAME_CURSOR_RECORDS_MAX:
                raise Misread(f"more than {SAME_CURSOR_RECORDS_MAX} records have {own!r} at {self._pointer}")
            cursor = own
            records.append((record, {"cursor": cursor, "seen": seen}))
        return Reading(records=records, after=records[-1][1] if records else offset, is_last=not records)


def _begun_page(offset: Offset, page: Page) -> Reading:
    """Return what is new on a page to which more may be added."""
    skipped, notice = _skipped(offset, page)
    records = [(record, _within(offset, page, number)) for number, record in _numbered(page, skipped)]
    return Reading(records=records, after=records[-1][1] if records else offset, is_last=True, notice=notice)


def _finished_page(offset: Offset, page: Page, following: Any, *, is_last: bool) -> Reading:
    """Return what is new on a page behind which there is another."""
    skipped, notice = _skipped(offset, page)
    after = {"cursor": following}
    records: list[tuple[Any, Offset]] = [
        (record, after if number == len(page.records) else _within(offset, page, number))
        for number, record in _numbered(page, skipped)
    ]
    return Reading(records=records, after=after, is_last=is_last, notice=notice)


def _numbered(page: Page, skipped: int) -> list[tuple[int, Any]]:
    return list(enumerate(page.records, start=1))[skipped:]


def _within(offset: Offset, page: Page, number: int) -> Offset:
    return {"cursor": offset["cursor"], "record": number, "check": digest(page.records[number - 1])}


def _skipped(offset: Offset, page: Page) -> tuple[int, str]:
    """Return how many records of a page came already; and what to tell people if that is not clear."""
    count, check = int(offset.get("record", 0)), offset.get("check")
    if not count:
        return 0, ""
    if check is None:  # a user has set the offset
        return min(count, len(page.records)), ""
    if count <= len(page.records) and digest(page.records[count - 1]) == check:
        return count, ""
    for number in range(len(page.records), 0, -1):
        if digest(page.records[number - 1]) == check:
            return number, f"the page at {offset['cursor']!r} has changed: record {count} is now record {number}"
    return 0, f"the page at {offset['cursor']!r} has changed, and comes again: record {count} is not there any more"


def _number(offset: Offset) -> int:
    cursor = offset["cursor"]
    if isinstance(cursor, bool) or not isinstance(cursor, int):
        raise Misread(f"the offset has the cursor {cursor!r}, which is no whole number")
    return cursor


def _descends(before: Any, after: Any) -> bool:
    """Return whether a cursor is less than the one before it; of texts only dates and times have an order."""
    if isinstance(before, str) and isinstance(after, str):
        return bool(_DATE.match(before) and _DATE.match(after)) and len(before) == len(after) and after < before
    return isinstance(before, int | float) and isinstance(after, int | float) and after < before


def digest(value: Any) -> str:
    """Return a short text that is the same for the same JSON value only."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
