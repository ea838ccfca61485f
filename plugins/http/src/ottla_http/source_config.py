"""The settings of `HttpSource`."""

from collections.abc import Iterable, Iterator
from typing import Literal

from ottla_http.client_config import HttpClientConfig
from ottla_http.json_pointer import JsonPointer
from ottla_http.pagination import LastRecord, NextCursor, PageNumber, Pagination, RecordNumber, WholeAnswer
from ottla_http.url_template import placeholders, url_problem
from ottla_sdk import Importance, Problem, Width, setting

CURSOR = "cursor"
_ANSWERS = "Answers"
_PAGES = "Pages"
_POLLING = "Polling"


class HttpSourceConfig(HttpClientConfig):
    """What to ask, how to read the answers, how to walk through pages, and how often.

    In http.url and http.body, ${cursor} stands for the cursor.
    """

    topic: str = setting("topic", doc="The topic for the records.", importance=Importance.HIGH, min_length=1)
    method: Literal["GET", "POST"] = setting("http.method", "GET", doc="The method of requests.")
    body: str = setting(
        "http.body",
        "",
        doc="The body of requests by POST, JSON as a rule. ${cursor} in it is escaped; quotes around it are yours.",
        width=Width.LONG,
    )
    first_url: str = setting(
        "http.url.first",
        "",
        doc="The URL while there is no cursor yet, if it is another.",
        width=Width.LONG,
    )
    response_format: Literal["json", "ndjson", "text"] = setting(
        "http.response.format",
        "json",
        doc="json: a document with records in it. ndjson: a line of JSON for each record. text: each answer is a "
        "record, a string.",
        group=_ANSWERS,
    )
    records: str = setting(
        "http.response.records",
        "",
        doc="JSON pointer to the array of records in the document, such as /data/items; empty: the document is the "
        "array, or the only record.",
        importance=Importance.HIGH,
        group=_ANSWERS,
    )
    value: str = setting(
        "http.record.value", "", doc="JSON pointer to the value in a record; empty: all of it.", group=_ANSWERS
    )
    key: str = setting(
        "http.record.key", "", doc="JSON pointer to the key in a record; empty: there is no key.", group=_ANSWERS
    )
    timestamp: str = setting(
        "http.record.timestamp",
        "",
        doc="JSON pointer to the time in a record: ISO 8601, or a number; empty: the time of publishing.",
        group=_ANSWERS,
    )
    timestamp_unit: Literal["ms", "s"] = setting(
        "http.record.timestamp.unit",
        "ms",
        doc="What a time that is a number counts since 1970: ms or s.",
        group=_ANSWERS,
    )
    response_bytes_max: int = setting(
        "http.response.bytes.max",
        67_108_864,
        doc="Most bytes in an answer; a longer one fails the task.",
        group=_ANSWERS,
        ge=1,
        le=2_147_483_648,
    )
    pages: Literal["none", "cursor", "link", "page", "offset", "record"] = setting(
        "http.pages",
        "none",
        doc="How to get from one answer to the next. none: each answer is everything. cursor: a part of the answer. "
        "link: the Link header with rel=next. page: the page's number. offset: the number of records that came. "
        "record: a part of the last record, such as its id or its time of change.",
        importance=Importance.HIGH,
        group=_PAGES,
    )
    cursor_pointer: str = setting(
        "http.cursor",
        "",
        doc="JSON pointer to the cursor: in the document for http.pages cursor, in a record for record.",
        group=_PAGES,
    )
    cursor_initial: str = setting(
        "http.cursor.initial",
        "",
        doc="The first cursor; empty is 1 for page and 0 for offset, and nothing for the others.",
        group=_PAGES,
    )
    page_size: int = setting(
        "http.page.size",
        0,
        doc="How many records a full page has: must be set for page; helps with offset.",
        group=_PAGES,
        ge=0,
        le=10_000_000,
    )
    skip_unchanged: bool = setting(
        "http.skip.unchanged",
        True,
        doc="With http.pages none: whether an answer with the same records as the last is passed over.",
        group=_PAGES,
    )
    poll_interval_ms: int = setting(
        "http.poll.interval.ms",
        10_000,
        doc="How long to wait before asking again when there is nothing more to be had, in ms.",
        importance=Importance.HIGH,
        group=_POLLING,
        ge=1,
        le=86_400_000 * 31,
    )
    request_interval_ms: int = setting(
        "http.request.interval.ms",
        0,
        doc="Least time between two requests, in ms, also when there is more to be had.",
        group=_POLLING,
        ge=0,
        le=86_400_000,
    )
    batch_records_max: int = setting(
        "http.batch.records.max",
        500,
        doc="Most records to hand on at once.",
        importance=Importance.LOW,
        group=_POLLING,
        ge=1,
        le=1_000_000,
    )

    @property
    def pagination(self) -> Pagination:
        """How to walk through pages."""
        match self.pages:
            case "none":
                return WholeAnswer(skip_unchanged=self.skip_unchanged)
            case "cursor":
                return NextCursor(JsonPointer(self.cursor_pointer), initial=self.cursor_initial)
            case "link":
                return NextCursor(None, initial="")
            case "page":
                return PageNumber(first=int(self.cursor_initial or 1), size=self.page_size)
            case "offset":
                return RecordNumber(first=int(self.cursor_initial or 0), size=self.page_size)
            case "record":
                return LastRecord(JsonPointer(self.cursor_pointer), initial=self.cursor_initial)

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together."""
        yield from super().check()
        yield from self._request_problems()
        yield from self._pointer_problems()
        yield from self._page_problems()

    def _request_problems(self) -> Iterator[Problem]:
        for key, url in (("http.url", self.url), ("http.url.first", self.first_url)):
            if url and (problem := url_problem(url, {CURSOR})):
                yield Problem(key, problem)
        if unknown := sorted(placeholders(self.body) - {CURSOR}):
            yield Problem("http.body", f"there is no placeholder ${{{unknown[0]}}}; there is ${{cursor}}")
        if self.body and self.method != "POST":
            yield Problem("http.body", "is for http.method POST")
        uses_cursor = CURSOR in placeholders(self.url) | placeholders(self.body)
        if self.pages in ("cursor", "page", "offset", "record") and not uses_cursor:
            yield Problem("http.url", f"must have ${{cursor}} in it, or http.body, for http.pages {self.pages}")
        if self.pages in ("none", "link") and uses_cursor:
            yield Problem("http.url", f"${{cursor}} means nothing for http.pages {self.pages}")

    def _pointer_problems(self) -> Iterator[Problem]:
        pointers = {
            "http.response.records": self.records,
            "http.record.value": self.value,
            "http.record.key": self.key,
            "http.record.timestamp": self.timestamp,
            "http.cursor": self.cursor_pointer,
        }
        for key, text in pointers.items():
            try:
                JsonPointer(text)
            except ValueError as error:
                yield Problem(key, str(error))
        if self.records and self.response_format != "json":
            yield Problem("http.response.records", f"is for http.response.format json, not {self.response_format}")

    def _page_problems(self) -> Iterator[Problem]:
        if self.pages in ("cursor", "record") and not self.cursor_pointer:
            yield Problem("http.cursor", f"must be set for http.pages {self.pages}")
        if self.pages == "cursor" and self.response_format != "json":
            yield Problem("http.pages", f"cursor is for http.response.format json, not {self.response_format}")
        if self.pages == "page" and not self.page_size:
            yield Problem("http.page.size", "must be set for http.pages page, to tell when a page is full")
        if self.pages in ("page", "offset") and not _is_whole_number(self.cursor_initial or "0"):
            yield Problem("http.cursor.initial", f"must be a whole number for http.pages {self.pages}")


def _is_whole_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal()
