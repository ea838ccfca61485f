"""The HTTP connectors pass the suite that every plugin passes."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla_http import HttpSink, HttpSource
from ottla_sdk.conformance import sink_connector_suite, sink_records, source_connector_suite
from tests.support.servers.http_service import HttpService, Reply, Request

PROMPT = {"http.retry.backoff.ms": "1", "http.retry.backoff.max.ms": "20", "http.request.timeout.ms": "2000"}
ITEMS = [{"id": number, "text": "ü" * number} for number in range(11)]
PAGE = 4
PLANTED = "planted-secret"

_services: dict[str, HttpService] = {}


@pytest.fixture(scope="module", autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    for service in _services.values():
        service.stop()


def _started(respond: Callable[[Request], Reply]) -> HttpService:
    """A service that runs until the next one is started, which is in the next test."""
    for service in _services.values():
        service.stop()
    _services.clear()
    service = HttpService(respond)
    service.start()
    _services[service.url] = service
    return service


def _of(settings: Mapping[str, str]) -> HttpService:
    return next(service for url, service in _services.items() if settings["http.url"].startswith(url))


@contextmanager
def _away(settings: Mapping[str, str]) -> Iterator[None]:
    service = _of(settings)
    service.stop()
    yield
    service.start()


def _page(request: Request) -> Reply:
    begin = int(request.query.get("begin") or 0)
    if "page" in request.query:
        begin = (int(request.query["page"]) - 1) * PAGE
    if "since" in request.query:
        begin = int(request.query["since"] or 0)
    following = begin + PAGE if begin + PAGE < len(ITEMS) else None
    links = (("Link", f'</items?begin={following}>; rel="next"'),) if following else ()
    items = ITEMS[begin : begin + PAGE]
    return Reply(body={"items": items, "next": following}, headers=links)


def _source(path: str, **settings: str) -> Callable[[Path], Mapping[str, str]]:
    written = {key.replace("_", "."): value for key, value in settings.items()}

    def make(_: Path) -> Mapping[str, str]:
        service = _started(_page)
        return {
            **PROMPT,
            "topic": "items",
            "http.url": service.url + path,
            "http.response.records": "/items",
            "http.poll.interval.ms": "10",
            **written,
        }

    return make


def _source_suite(path: str, **settings: str) -> type:
    return source_connector_suite(
        HttpSource, settings=_source(path, **settings), expect_records=len(ITEMS), interruption=_away
    )


TestCursor = source_connector_suite(
    HttpSource,
    settings=_source(
        f"/items?key={PLANTED}&begin=${{cursor}}", http_pages="cursor", http_cursor="/next", http_record_key="/id"
    ),
    expect_records=len(ITEMS),
    interruption=_away,
    secrets=[PLANTED],
    bad_settings=[
        ({"http.url": "${cursor}", "topic": ""}, ["topic"]),
        ({"http.url": "ftp://host/", "http.cursor": ""}, ["http.url", "http.cursor"]),
        ({"http.auth": "bearer", "http.record.key": "id"}, ["http.auth.token", "http.record.key"]),
    ],
)
# Of the sources and the sinks, one each in `make check`.
TestLink = pytest.mark.slow(_source_suite("/items", http_pages="link"))
TestPage = pytest.mark.slow(_source_suite("/items?page=${cursor}", http_pages="page", http_page_size=str(PAGE)))
TestOffset = pytest.mark.slow(_source_suite("/items?begin=${cursor}", http_pages="offset"))
TestRecord = pytest.mark.slow(_source_suite("/items?since=${cursor}", http_pages="record", http_cursor="/id"))

VALUES = [{"number": number, "text": "ü" * number} for number in range(12)]
REFUSED = {"number": -1}


def _sink(**settings: str) -> Callable[[Path], Mapping[str, str]]:
    written = {key.replace("_", "."): value for key, value in settings.items()}

    def respond(request: Request) -> Reply:
        found = _items(request)
        return Reply(status=422) if REFUSED in found else Reply(status=204)

    def make(_: Path) -> Mapping[str, str]:
        return {
            **PROMPT,
            "http.url": f"{_started(respond).url}/items?key={PLANTED}",
            "http.batch.linger.ms": "1",
            **written,
        }

    return make


def _items(request: Request) -> list[Any]:
    if request.headers["Content-Type"] == "application/x-ndjson":
        return [json.loads(line) for line in request.body.splitlines()]
    return request.json if isinstance(request.json, list) else [request.json]


def _received(settings: Mapping[str, str]) -> Iterable[Any]:
    accepted = (found for request in _of(settings).requests if REFUSED not in (found := _items(request)))
    return itertools.chain.from_iterable(accepted)


def _sink_suite(**settings: str) -> type:
    return sink_connector_suite(
        HttpSink,
        settings=_sink(**settings),
        records=sink_records(VALUES),
        read_back=_received,
        bad_record=sink_records([REFUSED])[0],
        interruption=_away,
        secrets=[PLANTED],
        bad_settings=[
            ({"http.url": "ftp://host/", "http.retry.statuses": "5xx"}, ["http.url", "http.retry.statuses"]),
            (
                {"http.auth": "oauth2", "http.fatal.statuses": "x"},
                ["http.auth.oauth2.token.url", "http.fatal.statuses"],
            ),
        ],
    )


TestSingle = pytest.mark.slow(_sink_suite(http_batch_format="single"))
TestArray = _sink_suite(http_batch_format="array", http_batch_records_max="5")
TestLines = pytest.mark.slow(_sink_suite(http_batch_format="ndjson", http_concurrent_requests_max="2"))
