"""`HttpSource`: asks a web service again and again, and publishes what it answers.

A request runs in a thread of its own, so that a slow service does not keep the task from stopping. Where the task is
changes only when an answer has been read; so what fails is asked for again.
"""

import hashlib
import random
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from ottla_http.answers import AnswerReader, Unreadable, same_server
from ottla_http.background import Background
from ottla_http.client import Answer, AnswerTooLong, Client, NoAnswer, tls_problem
from ottla_http.pagination import Misread, Offset, Pagination
from ottla_http.retry import backoff_ms
from ottla_http.source_config import CURSOR, HttpSourceConfig
from ottla_http.url_template import Unfit, fill_json, fill_url, shown_url, without_parameter
from ottla_sdk import ConnectError, FatalError, Problem, RetriableError, SourceConnector, SourceRecord, SourceTask

POLL_WAIT_S = 1.0
PATH_DIGITS = 32
"""So many hexadecimal digits of its digest stand for a URL's path."""


class HttpSourceTask(SourceTask[HttpSourceConfig]):
    """Asks one URL."""

    __module__ = "ottla_http"
    config_model: ClassVar[type[HttpSourceConfig]] = HttpSourceConfig

    _client: Client | None = None

    def start(self) -> None:
        """Go to where the committed offset says.

        Raises:
            FatalError: certificates or keys cannot be used, or the offset is none of ours.
        """
        self._client = Client(self.config)
        self._reader = AnswerReader(self.config)
        self._pagination: Pagination = self.config.pagination
        self._partition = source_partition(self.config)
        offsets = self.context.offsets
        self._offset: Offset = (
            offsets.offset(self._partition)
            or offsets.offset(former_partition(self.config))
            or self._pagination.first()
        )
        if CURSOR not in self._offset:
            raise FatalError(f'the committed offset {dict(self._offset)} has no "cursor"')
        self._ready: deque[SourceRecord] = deque()
        self._request: Background[Answer] | None = None
        self._due_s = 0.0
        self._failures = 0
        self._last_failure = ""

    def poll(self) -> Sequence[SourceRecord]:
        """Return records of the last answer; without any, ask when it is time to.

        Raises:
            RetriableError: the service fails; it will be asked again.
            FatalError: it refuses us, or answers something else than the settings say.
            ConnectError: it failed too often in a row.
        """
        if not self._ready:
            self._ask()
        count = min(len(self._ready), self.config.batch_records_max)
        return [self._ready.popleft() for _ in range(count)]

    def stop(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self) -> None:
        """Ask if it is time to, and wait a little for the answer; what is in it is ready then."""
        if self._request is None:
            left_s = self._due_s - time.monotonic()
            if left_s > 0 and (self.context.wait(min(left_s, POLL_WAIT_S)) or self._due_s > time.monotonic()):
                return
            self._request = Background(self._send, "http-source")
        if not self._request.is_done(POLL_WAIT_S):
            if self._failures:  # no answer yet is no sign that the service is back
                self.context.waits_for(self._last_failure)
            return
        request, self._request = self._request, None
        self.context.metrics.add("requests")
        try:
            self._take(request.result())
        except (NoAnswer, Unreadable) as error:
            self._failed(f"{self.config.method} {shown_url(self.config.url)}: {error}", None)
        except (Misread, AnswerTooLong) as error:
            raise FatalError(f"{self.config.method} {shown_url(self.config.url)}: {error}") from None

    def _send(self) -> Answer:
        """Ask; runs in another thread."""
        assert self._client is not None, "the task was not started"
        config, cursor = self.config, self._offset[CURSOR]
        headers = {"Accept": "application/x-ndjson" if config.response_format == "ndjson" else "application/json"}
        if config.response_format == "text":
            headers = {}
        body = None
        if config.body:
            body = fill_json(config.body, {CURSOR: "" if cursor is None else cursor}).encode()
            headers["Content-Type"] = "application/json"
        return self._client.send(
            config.method,
            self._url(cursor),
            body=body,
            headers=headers,
            bytes_max=config.response_bytes_max,
            cut=False,
        )

    def _url(self, cursor: Any) -> str:
        config = self.config
        has_cursor = cursor not in (None, "")
        if not has_cursor and config.first_url:
            return config.first_url
        if config.pages == "link" and has_cursor:
            if isinstance(cursor, str) and cursor.startswith("?"):
                return urljoin(config.url, cursor)
            if not isinstance(cursor, str) or not same_server(cursor, config.url):
                where = shown_url(cursor) if isinstance(cursor, str) else repr(cursor)
                raise FatalError(f"the next page is at {where}, another server than that of http.url")
            return cursor
        try:
            return fill_url(config.url, {CURSOR: "" if cursor is None else cursor})
        except Unfit as error:
            raise FatalError(f"the offset cannot be asked for: {error}") from None

    def _take(self, answer: Answer) -> None:
        if not answer.is_success:
            described = f"{self.config.method} {shown_url(answer.url)} was answered with {answer}"
            if answer.status not in self.config.retriable:
                raise FatalError(described)
            self._failed(described, answer.retry_after_ms)
            return
        page = self._reader.page(answer.body, links=answer.headers.get_list("Link"), url=answer.url)
        if self.config.auth == "api-key" and self.config.api_key_in == "query" and page.next_link is not None:
            # Servers repeat it in links, which become source offsets; it is added to each request anyway.
            page = replace(page, next_link=without_parameter(page.next_link, self.config.api_key_name))
        if page.next_link is not None:
            page = replace(page, next_link=without_path(page.next_link, self.config.url))
        reading = self._pagination.read(self._offset, page)
        if reading.notice:
            self.context.log.warning("%s", reading.notice)
        self._failures = 0
        self._ready.extend(self._record(record, offset) for record, offset in reading.records)
        self._offset = reading.after
        self.context.metrics.add("records", len(reading.records))
        wait_ms = self.config.poll_interval_ms if reading.is_last else 0
        self._due_s = time.monotonic() + max(wait_ms, self.config.request_interval_ms) / 1000

    def _record(self, record: Any, offset: Offset) -> SourceRecord:
        parts = self._reader.parts(record)
        return SourceRecord(
            topic=self.config.topic,
            key=parts.key,
            value=parts.value,
            timestamp_ms=parts.timestamp_ms,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _failed(self, reason: str, retry_after_ms: int | None) -> None:
        """Wait longer than the last time, as long as the service asks for at least.

        Raises:
            RetriableError: always, unless it failed too often.
            ConnectError: it did.
        """
        config = self.config
        self._failures += 1
        self._last_failure = reason
        self.context.metrics.add("retries")
        if config.retry_attempts_max and self._failures >= config.retry_attempts_max:
            raise ConnectError(f"gave up after {self._failures} attempts: {reason}")
        wait_ms = backoff_ms(
            self._failures,
            first_ms=config.retry_backoff_ms,
            max_ms=config.retry_backoff_max_ms,
            chance=random.random(),  # noqa: S311
        )
        wait_ms = max(wait_ms, min(retry_after_ms or 0, config.retry_backoff_max_ms), config.request_interval_ms)
        self._due_s = time.monotonic() + wait_ms / 1000
        raise RetriableError(reason, retry_in_ms=round(wait_ms))


def source_partition(config: HttpSourceConfig) -> Mapping[str, str]:
    """Return the only source partition: the server, and what tells its paths apart; some have keys in their paths."""
    parts = urlsplit(config.url)
    digest = hashlib.sha256(parts.path.encode()).hexdigest()
    return {"url": f"{parts.scheme}://{parts.netloc}/", "path": f"sha256:{digest[:PATH_DIGITS]}"}


def former_partition(config: HttpSourceConfig) -> Mapping[str, str]:
    """Return the source partition that held the path as it is, under which there may still be an offset."""
    parts = urlsplit(config.url)
    return {"url": f"{parts.scheme}://{parts.netloc}{parts.path}"}


def without_path(link: str, url: str) -> str:
    """Return a link without server and path if they are those of `url`: links become source offsets."""
    before, mark, query = link.partition("?")
    parts = urlsplit(url)
    return f"?{query}" if mark and before == f"{parts.scheme}://{parts.netloc}{parts.path}" else link


class HttpSource(SourceConnector[HttpSourceConfig]):
    """Asks a web service again and again, and publishes the records of its answers.

    It walks through pages by a cursor, a page number, a Link header, or a part of the last record. The cursor is the
    source offset, so after a restart it goes on where it was, in the middle of a page too. There is one task.
    """

    __module__ = "ottla_http"
    config_model: ClassVar[type[HttpSourceConfig]] = HttpSourceConfig
    task_class: ClassVar[type[HttpSourceTask]] = HttpSourceTask

    def check(self) -> Iterable[Problem]:
        """Return whether the certificates can be used."""
        if problem := tls_problem(self.config):
            yield problem

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Return what is wrong with offsets: there is one partition, and an offset has a cursor."""
        partition = source_partition(self.config)
        for given, offset in offsets:
            if offset is None and given == former_partition(self.config):
                continue
            if given != partition:
                yield Problem("", f"there is no partition {dict(given)}, only {dict(partition)}")
            elif offset is not None and CURSOR not in offset:
                yield Problem("", f'the offset {dict(offset)} has no "cursor"')
