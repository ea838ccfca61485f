"""Reading a source's answers: which records are in them, and what of a record is key, value and time. Pure."""

import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ottla_http.json_pointer import MISSING, JsonPointer
from ottla_http.pagination import Page
from ottla_http.source_config import HttpSourceConfig

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LINK = re.compile(
    r'<(?P<url>[^>]*)>(?P<parameters>(?:\s*;\s*[\w!#$%&\'*+.^`|~-]+\s*(?:=\s*(?:"[^"]*"|[^\s",;]*))?)*)'
)
_RELATION = re.compile(r';\s*rel\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s",;]+))', re.IGNORECASE)


class Unreadable(ValueError):
    """An answer is not of the format that it should be; it may be the next time."""


class Parts(NamedTuple):
    """What a record is made of."""

    key: Any
    value: Any
    timestamp_ms: int | None


class AnswerReader:
    """Reads answers as the settings say."""

    def __init__(self, config: HttpSourceConfig) -> None:
        self._format = config.response_format
        self._records = JsonPointer(config.records)
        self._key = JsonPointer(config.key) if config.key else None
        self._value = JsonPointer(config.value)
        self._timestamp = JsonPointer(config.timestamp) if config.timestamp else None
        self._ms_per_unit = 1 if config.timestamp_unit == "ms" else 1000

    def page(self, body: bytes, *, links: Iterable[str], url: str) -> Page:
        """Return the records of an answer.

        Args:
            body: the answer's body.
            links: the values of its ``Link`` headers.
            url: what was asked, to which links may be relative.

        Raises:
            Unreadable: the body is not of the format.
        """
        next_link = _next_link(links, url)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Unreadable("the answer is no UTF-8") from None
        match self._format:
            case "text":
                return Page(records=[text] if text else [], next_link=next_link)
            case "ndjson":
                lines = (line for line in text.split("\n") if line.strip())
                return Page(records=[_parsed(line) for line in lines], next_link=next_link)
            case "json":
                document = _parsed(text)
                return Page(records=self._found(document), document=document, next_link=next_link)

    def parts(self, record: Any) -> Parts:
        """Return what a record is made of; None for what it does not have."""
        value = self._value.find(record)
        key = MISSING if self._key is None else self._key.find(record)
        time = MISSING if self._timestamp is None else self._timestamp.find(record)
        return Parts(
            key=None if key is MISSING else key,
            value=None if value is MISSING else value,
            timestamp_ms=self._milliseconds(time),
        )

    def _found(self, document: Any) -> list[Any]:
        found = self._records.find(document)
        if found is MISSING:
            raise Unreadable(f"the answer has nothing at {self._records}, where its records should be")
        if found is None:
            return []
        return found if isinstance(found, list) else [found]

    def _milliseconds(self, time: Any) -> int | None:
        if isinstance(time, str):
            try:
                read = dt.datetime.fromisoformat(time)
            except ValueError:
                return None
            aware = read if read.tzinfo is not None else read.replace(tzinfo=dt.UTC)
            return max(0, (aware - _EPOCH) // dt.timedelta(milliseconds=1))
        if isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
            count = int(time * self._ms_per_unit)
            return count if 0 <= count < 1 << 63 else None
        return None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the answer is no JSON: {error}") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _next_link(links: Iterable[str], url: str) -> str | None:
    """Return the URL with the relation ``next`` (RFC 8288)."""
    for link in links:
        for found in _LINK.finditer(link):
            relation = _RELATION.search(found["parameters"])
            words = (relation["quoted"] or relation["bare"] or "").lower().split() if relation else []
            if "next" in words:
                return urljoin(url, str(found["url"]))
    return None


def same_server(url: str, other: str) -> bool:
    """Return whether two URLs lead to the same server, by scheme, host and port."""
    return _server(url) == _server(other)


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default: Mapping[str, int] = {"http": 80, "https": 443}
    return parts.scheme, parts.hostname, parts.port or default.get(parts.scheme)
