"""The source against a service that misbehaves in every way."""

import hashlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla_http import HttpSource
from ottla_http.source import source_partition
from ottla_sdk import ConnectError, FatalError, InvalidConfig, RetriableError
from ottla_sdk.conformance import MemoryOffsets, MemorySourceTaskContext, SourceRun
from tests.support.eventually import eventually
from tests.support.servers.http_service import RESET, HttpService, Reply, Request

PROMPT = {
    "topic": "t",
    "http.retry.backoff.ms": "1",
    "http.retry.backoff.max.ms": "20",
    "http.poll.interval.ms": "5",
    "http.request.timeout.ms": "30000",
}


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as service:
        yield service


def source(
    service: HttpService, path: str = "/", *, offsets: MemoryOffsets | None = None, **settings: str
) -> SourceRun:
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return SourceRun(HttpSource, {**PROMPT, "http.url": service.url + path, **written}, offsets=offsets)


def poll_until(run: SourceRun, count: int) -> list[Any]:
    """Polls as a worker does, also after failures, until there are so many records."""
    deadline_s = time.monotonic() + 10
    while len(run.all_records) < count:
        assert time.monotonic() < deadline_s, run.all_records
        try:
            run.poll()
        except RetriableError:
            continue
    return [record.value for record in run.all_records]


def poll_for_ever(run: SourceRun) -> None:
    while True:
        run.poll()


def pages(request: Request) -> Reply:
    """Ten records in pages of three, by cursor."""
    begin = int(request.query.get("after") or 0)
    following = str(begin + 3) if begin + 3 < 10 else None
    items = [{"id": number, "at": number * 1000} for number in range(10)][begin : begin + 3]
    return Reply(body={"items": items, "next": following})


CURSOR = {
    "path": "/items?after=${cursor}",
    "http_pages": "cursor",
    "http_cursor": "/next",
    "http_response_records": "/items",
}


def test_records_have_topic_key_time_and_offset(service: HttpService):
    service.respond = pages
    with source(service, **CURSOR, http_record_key="/id", http_record_timestamp="/at", http_headers="X-A: b") as run:
        (first, *_) = run.read(10)
    assert (first.topic, first.key, first.timestamp_ms) == ("t", 0, 0)
    assert first.value == {"id": 0, "at": 0}
    digest = hashlib.sha256(b"/items").hexdigest()[:32]
    assert first.source_partition == {"url": f"{service.url}/", "path": f"sha256:{digest}"}
    assert first.source_offset["cursor"] == ""
    assert service.requests[0].headers["X-A"] == "b"
    assert service.requests[0].headers["Accept"] == "application/json"
    assert [each.query["after"] for each in service.requests[:4]] == ["", "3", "6", "9"]


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(status=500),
        Reply(status=429),
        RESET,
        Reply(hangs=True),
        Reply(body=b"<html>busy</html>"),
        Reply(body={"error": "busy"}),
        Reply(body={"items": [1, 2, 3]}, cut_after=12),
        Reply(body=b'{"items": [1, 2'),
    ],
    ids=["500", "429", "reset", "timeout", "html", "other JSON", "cut", "half JSON"],
)
def test_a_service_that_fails_now_and_then_loses_nothing(service: HttpService, trouble: Reply):
    asked = 0

    def respond(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        return trouble if asked % 2 else pages(request)

    service.respond = respond
    timeout_ms = "300" if trouble.hangs else "30000"
    with source(service, **CURSOR, http_request_timeout_ms=timeout_ms) as run:
        values = poll_until(run, 10)
        assert run.tasks[0].context.metrics.values["retries"] >= 4  # type: ignore[attr-defined]
    assert [value["id"] for value in values] == list(range(10))


def test_a_services_wish_for_patience_is_respected(service: HttpService):
    service.respond = lambda _: Reply(status=429, headers=(("Retry-After", "1"),))
    with source(service, **CURSOR, http_retry_backoff_max_ms="60000") as run:
        with pytest.raises(RetriableError, match="429") as failed:
            run.poll()
        assert failed.value.retry_in_ms == 1000
        assert run.poll() == []
        assert len(service.requests) == 1


def test_a_service_that_fails_too_often_fails_the_task(service: HttpService):
    service.respond = lambda _: Reply(status=503)
    with source(service, **CURSOR, http_retry_attempts_max="2") as run:
        with pytest.raises(RetriableError):
            run.poll()
        with pytest.raises(ConnectError, match="gave up after 2 attempts"):
            poll_until(run, 1)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(status=404, body=b"no such thing"), "was answered with 404: no such thing"),
        (Reply(status=401), "401"),
        (Reply(status=302, headers=(("Location", "https://elsewhere/"),)), "302 to https://elsewhere/"),
        (Reply(body={"items": [], "next": ["x"]}), "next cursor at /next is a list"),
        (Reply(body=b"[" + b"1," * 5000), "more than 4096 bytes"),
    ],
)
def test_what_will_not_get_better_fails_the_task(service: HttpService, reply: Reply, message: str):
    service.respond = lambda _: reply
    with source(service, **CURSOR, http_response_bytes_max="4096") as run, pytest.raises(FatalError, match=message):
        run.poll()


def test_a_link_to_another_server_is_not_followed(service: HttpService):
    service.respond = lambda _: Reply(body=[1], headers=(("Link", '<http://localhost:1/x>; rel="next"'),))
    with source(service, http_pages="link") as run:
        assert [record.value for record in run.read(1)] == [1]
        with pytest.raises(FatalError, match="another server than that of http"):
            run.poll()


def test_links_are_followed(service: HttpService):
    def respond(request: Request) -> Reply:
        page = int(request.query.get("p", "0"))
        links = (("Link", f'</items?p={page + 1}>; rel="next"'),) if page < 2 else ()
        return Reply(body=[page], headers=links)

    service.respond = respond
    with source(service, "/items", http_pages="link") as run:
        assert [record.value for record in run.read(3)] == [0, 1, 2]


def test_a_key_that_the_service_repeats_in_its_links_is_in_no_offset(service: HttpService):
    def respond(request: Request) -> Reply:
        page = int(request.query.get("p", "0"))
        following = f"/items?a=%2F&the%20key={request.query['the key']}&p={page + 1}#x"
        return Reply(body=[page], headers=(("Link", f'<{following}>; rel="next"'),) if page < 2 else ())

    service.respond = respond
    key = {"http_auth": "api-key", "http_auth_api_key_in": "query"}
    key |= {"http_auth_api_key_name": "the key", "http_auth_api_key_value": "geheim"}
    with source(service, "/items", http_pages="link", **key) as run:
        assert [record.value for record in run.read(3)] == [0, 1, 2]
        assert "geheim" not in str([record.source_offset for record in run.all_records])
        assert "a=%2F&p=1#x" in str(run.all_records[0].source_offset)
    assert all(each.query["the key"] == "geheim" for each in service.requests)


def test_a_cursor_in_the_body_of_a_post(service: HttpService):
    def respond(request: Request) -> Reply:
        begin = request.json["from"]
        return Reply(body=list(range(7))[begin : begin + request.json["size"]])

    service.respond = respond
    body = '{"from": ${cursor}, "size": 2}'
    with source(service, http_pages="offset", http_page_size="2", http_method="POST", http_body=body) as run:
        assert [record.value for record in run.read(7)] == list(range(7))
    assert service.requests[0].headers["Content-Type"] == "application/json"


def test_the_first_request_may_go_elsewhere(service: HttpService):
    service.respond = lambda request: Reply(
        body={"items": [request.path], "next": "c1" if request.path == "/first" else None}
    )
    with source(service, **CURSOR, http_url_first=f"{service.url}/first") as run:
        assert [record.value for record in run.read(2)] == ["/first", "/items"]


def test_a_service_is_asked_again_after_the_poll_interval_and_not_before(service: HttpService):
    service.respond = lambda _: Reply(body=[])
    with source(service, http_poll_interval_ms="200") as run:
        began_s = time.monotonic()
        while len(service.requests) < 3:
            run.poll()
        assert time.monotonic() - began_s >= 0.4


def test_requests_keep_their_distance(service: HttpService):
    service.respond = pages
    with source(service, **CURSOR, http_request_interval_ms="60") as run:
        began_s = time.monotonic()
        run.read(10)
        assert time.monotonic() - began_s >= 3 * 0.06


def test_a_slow_answer_does_not_hold_the_task_up(service: HttpService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ottla_http.source.POLL_WAIT_S", 0.02)
    may_answer = threading.Event()

    def answer_late(_: Request) -> Reply:
        may_answer.wait(60)
        return Reply(body=["late"])

    service.respond = answer_late
    with source(service) as run:
        assert run.poll() == run.poll() == []
        may_answer.set()
        assert poll_until(run, 1) == ["late"]
    assert len(service.requests) == 1


def test_a_service_that_hangs_after_a_failure_is_still_waited_for(
    service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ottla_http.source.POLL_WAIT_S", 0.01)
    may_answer = threading.Event()
    service.respond = lambda _: Reply(status=503)
    with source(service) as run:
        with pytest.raises(RetriableError, match="503") as failed:
            poll_for_ever(run)

        def hang(_: Request) -> Reply:
            may_answer.wait(30)
            return Reply(body=[1])

        service.respond = hang
        eventually(lambda: run.poll() == [] and len(service.requests) == 2, "it asks again")
        run.poll()
        context = run.tasks[0].context
        assert isinstance(context, MemorySourceTaskContext)
        waiting = context.waiting
        may_answer.set()
        poll_until(run, 1)
    assert waiting == str(failed.value)


def test_batches_are_bounded(service: HttpService):
    service.respond = lambda _: Reply(body=list(range(5)))
    with source(service, http_batch_records_max="2") as run:
        sizes: list[int] = []
        while sum(sizes) < 5:
            sizes.append(len(run.poll()))
    assert [size for size in sizes if size] == [2, 2, 1]


def test_a_committed_offset_of_something_else_is_refused(service: HttpService):
    offsets = MemoryOffsets()
    offsets.commit({"url": f"{service.url}/"}, {"position": 7})
    with pytest.raises(FatalError, match='no "cursor"'), source(service, offsets=offsets):
        pass


def test_offsets_that_a_user_sets_are_checked(service: HttpService):
    connector = HttpSource()
    connector.configure({**PROMPT, "http.url": f"{service.url}/items?key=secret"})
    partition = source_partition(connector.config)
    former = {"url": f"{service.url}/items"}
    assert list(connector.check_offsets([(partition, {"cursor": 3}), (partition, None), (former, None)])) == []
    problems = [str(each) for each in connector.check_offsets([({"url": "x"}, None), (partition, {"at": 3})])]
    assert "no partition" in problems[0]
    assert 'no "cursor"' in problems[1]
    assert "secret" not in str(problems)


def test_everything_wrong_with_the_settings_is_named_at_once():
    wrong = {
        "topic": "t",
        "http.url": "https://host/",
        "http.url.first": "host",
        "http.body": '{"a": "${page}"}',
        "http.pages": "page",
        "http.cursor.initial": "one",
        "http.record.key": "id",
        "http.response.records": "/items",
        "http.response.format": "text",
        "http.auth": "basic",
    }
    with pytest.raises(InvalidConfig) as refused:
        HttpSource.config_model.parse(wrong)
    assert {problem.key for problem in refused.value.problems} == {
        "http.url",
        "http.url.first",
        "http.body",
        "http.page.size",
        "http.cursor.initial",
        "http.record.key",
        "http.response.records",
        "http.auth.username",
        "http.auth.password",
    }


def test_no_offset_holds_the_path_which_may_be_a_key(service: HttpService):
    def respond(request: Request) -> Reply:
        page = int(request.query.get("p", "0"))
        links = (("Link", f'</hooks/SECRET?p={page + 1}>; rel="next"'),) if page < 2 else ()
        return Reply(body=[page], headers=links)

    service.respond = respond
    offsets = MemoryOffsets()
    with source(service, "/hooks/SECRET", offsets=offsets, http_pages="link") as run:
        records = run.read(2)
        run.commit()
    assert [record.value for record in records] == [0, 1]
    assert "SECRET" not in str([(each.source_partition, each.source_offset) for each in records])
    with source(service, "/hooks/SECRET", offsets=offsets, http_pages="link") as run:
        assert run.read(1)[0].value == 2


def test_an_offset_that_was_stored_under_the_path_itself_is_gone_on_from(service: HttpService):
    service.respond = lambda request: Reply(body={"items": [request.query["after"]]})
    offsets = MemoryOffsets()
    offsets.commit({"url": f"{service.url}/items"}, {"cursor": "c7"})
    with source(service, offsets=offsets, **CURSOR) as run:
        assert run.read(1)[0].value == "c7"
