"""The sink against a service that misbehaves in every way."""

import datetime as dt
import gzip
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import format_datetime
from typing import Any

import pytest

from ottla_http import HttpSink
from ottla_sdk import ConnectError, DataError, FatalError, InvalidConfig, RetriableError, SinkRecord, TopicPartition
from ottla_sdk.conformance import SinkRun, sink_records
from tests.support.eventually import eventually
from tests.support.servers.http_service import RESET, HttpService, Reply, Request

PROMPT = {"http.retry.backoff.ms": "1", "http.retry.backoff.max.ms": "20", "http.batch.linger.ms": "0"}


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as service:
        yield service


def sink(
    service: HttpService,
    records: Sequence[SinkRecord],
    *,
    path: str = "/items",
    tolerant: bool = True,
    **settings: str,
) -> SinkRun:
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return SinkRun(HttpSink, {**PROMPT, "http.url": service.url + path, **written}, records, tolerant=tolerant)


def write(run: SinkRun) -> None:
    run.put_all()
    run.commit_all()


def numbers(count: int, **kind: Any) -> list[SinkRecord]:
    return sink_records([{"n": number} for number in range(count)], **kind)


def test_each_record_is_a_request_in_the_order_of_its_partition(service: HttpService):
    with sink(service, numbers(10), http_headers="X-Team: data | X-Env: test") as run:
        write(run)
    assert Counter(each.json["n"] for each in service.requests) == Counter(range(10))
    for remainder in (0, 1):
        sent = [each.json["n"] for each in service.requests if each.json["n"] % 2 == remainder]
        assert sent == sorted(sent)
    (first, *_) = service.requests
    assert (first.method, first.path, first.headers["Content-Type"]) == ("POST", "/items", "application/json")
    assert (first.headers["X-Team"], first.headers["X-Env"], first.headers["User-Agent"]) == (
        "data",
        "test",
        "ottla-http",
    )


def test_placeholders_are_filled_and_quoted(service: HttpService):
    record = numbers(1, topic="a-b")[0].replaced(key="x/y ?ü")
    with sink(service, [record], path="/${topic}/${partition}/${key}?again=${key}", http_method="PUT") as run:
        write(run)
    (request,) = service.requests
    assert (request.method, request.path) == ("PUT", "/a-b/0/x%2Fy%20%3F%C3%BC")
    assert request.query == {"again": "x/y ?ü"}


@pytest.mark.parametrize("key", [None, "", ".", "..", {"a": 1}, b"\xff"])
def test_a_key_that_cannot_stand_in_a_url_makes_a_bad_record(service: HttpService, key: Any):
    bad, good = numbers(2, partitions=1)
    with sink(service, [bad.replaced(key=key), good.replaced(key=7)], path="/items/${key}") as run:
        write(run)
        assert [record.key for record, _ in run.context.reported] == [key]
    assert [each.path for each in service.requests] == ["/items/7"]


def test_batches_are_arrays_lines_or_objects_with_an_array(service: HttpService):
    for settings, body in [
        ({"http_batch_format": "array"}, b'[{"n":0},{"n":1},{"n":2}]'),
        ({"http_batch_format": "array", "http_batch_member": "rows"}, b'{"rows":[{"n":0},{"n":1},{"n":2}]}'),
        ({"http_batch_format": "ndjson"}, b'{"n":0}\n{"n":1}\n{"n":2}\n'),
    ]:
        service.requests.clear()
        with sink(service, numbers(3, partitions=1), http_batch_linger_ms="60000", **settings) as run:
            run.put_all()
            assert service.requests == [], "the batch waits for more records"
            run.commit_all()
        (request,) = service.requests
        assert request.body == body


def test_a_batch_is_sent_when_it_is_full_or_old(service: HttpService):
    settings = {"http_batch_format": "array", "http_batch_records_max": "4", "http_batch_linger_ms": "60000"}
    with sink(service, numbers(10), **settings) as run:
        run.put_all(3)
        assert [len(each.json) for each in service.requests] == [4, 4]
    service.requests.clear()
    with sink(
        service, numbers(10), **{**settings, "http_batch_records_max": "100", "http_batch_bytes_max": "21"}
    ) as run:
        run.put_all()
        assert [len(each.json) for each in service.requests] == [3, 3, 3]
    service.requests.clear()
    with sink(service, numbers(2), **{**settings, "http_batch_linger_ms": "300"}) as run:
        run.put_all()
        assert service.requests == []

        def sent() -> list[Any]:
            run.put([])
            return service.requests

        eventually(sent, "the batch has become old and is sent")
        assert [len(each.json) for each in service.requests] == [2]


def test_a_batch_has_one_target(service: HttpService):
    records = [record.replaced(key=f"k{number % 2}") for number, record in enumerate(numbers(6, partitions=1))]
    with sink(service, records, path="/${key}", http_batch_format="array", http_batch_linger_ms="60000") as run:
        write(run)
    assert {each.path: [item["n"] for item in each.json] for each in service.requests} == {
        "/k0": [0, 2, 4],
        "/k1": [1, 3, 5],
    }


def test_whole_records_and_compressed_bodies(service: HttpService):
    record = sink_records([{"at": dt.date(2026, 1, 2), "raw": b"\x00"}])[0]
    with sink(service, [record], http_body_content="record", http_body_compression="gzip") as run:
        write(run)
    (request,) = service.requests
    assert request.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(request.body) == (
        b'{"topic":"conformance","partition":0,"offset":0,"timestamp_ms":1700000000000,"key":"key-0","headers":[],'
        b'"value":{"at":"2026-01-02","raw":"AA=="}}'
    )


def test_text_and_bytes_are_sent_as_they_are(service: HttpService):
    with sink(service, sink_records(["grüße", {"a": 1}]), http_body_format="text") as run:
        write(run)
    assert [each.body for each in service.requests] == ["grüße".encode(), b'{"a":1}']
    service.requests.clear()
    with sink(service, sink_records([b"\x00\xff", {"a": 1}]), http_body_format="bytes") as run:
        write(run)
        assert len(run.context.reported) == 1
    (request,) = service.requests
    assert (request.body, request.headers["Content-Type"]) == (b"\x00\xff", "application/octet-stream")


@pytest.mark.parametrize(
    ("setting", "sent", "reported"),
    [("report", [], 1), ("skip", [], 0), ("send", [("POST", b"null")], 0), ("delete", [("DELETE", b"")], 0)],
)
def test_records_without_a_value(service: HttpService, setting: str, sent: list[tuple[str, bytes]], reported: int):
    with sink(service, sink_records([None]), path="/items/${key}", http_null_values=setting) as run:
        write(run)
        assert len(run.context.reported) == reported
    assert [(each.method, each.body) for each in service.requests] == sent


@pytest.mark.parametrize(
    "trouble",
    [
        Reply(status=500, body=b"oops"),
        Reply(status=503),
        Reply(status=429),
        Reply(status=408),
        RESET,
        Reply(body=b"x" * 1000, cut_after=10),
    ],
    ids=["500", "503", "429", "408", "reset", "cut"],
)
def test_a_service_that_fails_gets_the_records_again_in_order(service: HttpService, trouble: Reply):
    attempts: Counter[int] = Counter()

    def respond(request: Request) -> Reply:
        attempts[request.json["n"]] += 1
        return trouble if attempts[request.json["n"]] <= 2 and request.json["n"] % 3 == 0 else Reply(status=201)

    service.respond = respond
    with sink(service, numbers(7, partitions=1), http_request_timeout_ms="30000") as run:
        write(run)
        assert run.context.reported == []
        assert run.context.metrics.values["records"] == 7
        assert run.context.metrics.values["retries"] == 6
    assert [each.json["n"] for each in service.requests] == [0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6]


def test_a_service_that_hangs_gets_the_records_again_in_order(service: HttpService):
    attempts: Counter[int] = Counter()

    def respond(request: Request) -> Reply:
        attempts[request.json["n"]] += 1
        return Reply(status=201, hangs=attempts[request.json["n"]] <= 2 and request.json["n"] % 3 == 0)

    service.respond = respond
    with sink(service, numbers(7, partitions=1), http_request_timeout_ms="400") as run:
        write(run)
        assert run.context.reported == []
        assert run.context.metrics.values["records"] == 7
        assert run.context.metrics.values["retries"] == len(service.requests) - 7
    # A good answer, too, may be late on a slow machine, and is asked for again.
    assert [number for number, _ in itertools.groupby(each.json["n"] for each in service.requests)] == list(range(7))
    assert all(attempts[number] >= 3 for number in (0, 3, 6))


def test_nothing_is_committed_that_was_not_accepted(service: HttpService):
    service.respond = lambda request: Reply(status=503 if request.json["n"] >= 4 else 200)
    records = numbers(6, partitions=1)
    with sink(service, records) as run:
        with pytest.raises(RetriableError, match="503"):
            run.task.put(records)
        partition = records[0].origin
        assert run.task.pre_commit({partition: 6}) == {partition: 4}
        assert run.context.retry_ms is not None
        run.crash()


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_a_services_wish_for_patience_is_respected_up_to_the_maximum(service: HttpService, kind: str):
    until = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3600), usegmt=True)
    service.respond = lambda _: Reply(status=429, headers=(("Retry-After", "3600" if kind == "seconds" else until),))
    records = numbers(1)
    with sink(service, records, http_retry_backoff_max_ms="50000") as run:
        with pytest.raises(RetriableError, match="429"):
            run.task.put(records)
        assert run.context.retry_ms is not None
        assert 49_000 < run.context.retry_ms <= 50_000
        with pytest.raises(RetriableError, match="not due yet"):
            run.task.put(records)
        run.crash()
    assert len(service.requests) == 1, "it is not asked before"


def test_a_service_that_is_away_for_too_many_attempts_fails_the_task_and_costs_no_record(service: HttpService):
    service.respond = lambda request: Reply(status=503 if request.json["n"] == 1 else 200)
    with sink(service, numbers(4, partitions=1), http_retry_attempts_max="3") as run:
        with pytest.raises(ConnectError, match="gave up after 3 attempts") as failed:
            write(run)
        assert not isinstance(failed.value, RetriableError)
        assert run.context.reported == []
        run.crash()
    assert [each.json["n"] for each in service.requests] == [0, 1, 1, 1]


def test_a_server_that_is_gone_for_too_many_attempts_fails_the_task(service: HttpService):
    service.stop()
    with sink(service, numbers(1), http_retry_attempts_max="2") as run:
        with pytest.raises(ConnectError, match="gave up after 2 attempts"):
            write(run)
        assert run.context.reported == []
        run.crash()


def test_a_bad_record_does_not_condemn_its_batch(service: HttpService):
    bad = {3, 11}
    accepted: list[int] = []

    def respond(request: Request) -> Reply:
        found = [item["n"] for item in request.json]
        if bad & set(found):
            return Reply(status=422, body={"error": "n is unlucky"})
        accepted.extend(found)
        return Reply()

    service.respond = respond
    with sink(service, numbers(16, partitions=1), http_batch_format="array") as run:
        run.put_all(16)
        run.commit_all()
        assert [record.value["n"] for record, _ in run.context.reported] == sorted(bad)
        assert all('422: {"error": "n is unlucky"}' in str(error) for _, error in run.context.reported)
    assert accepted == [number for number in range(16) if number not in bad], "in order, once each"


def test_a_bad_record_fails_the_task_where_errors_are_not_tolerated(service: HttpService):
    service.respond = lambda request: Reply(status=400)
    with sink(service, numbers(2), tolerant=False) as run:
        with pytest.raises(DataError, match="was answered with 400"):
            write(run)
        run.crash()


@pytest.mark.parametrize("status", [301, 401, 403])
def test_what_is_not_the_records_fault_fails_the_task(service: HttpService, status: int):
    service.respond = lambda request: Reply(status=status, headers=(("Location", "https://elsewhere/"),))
    with sink(service, numbers(2)) as run:
        with pytest.raises(FatalError, match=f"was answered with {status} to https://elsewhere/"):
            write(run)
        assert run.context.reported == []
        run.crash()


def test_several_requests_at_once_keep_the_order_of_each_partition(service: HttpService):
    arrived, two_are_here, met = itertools.count(), threading.Event(), list[bool]()

    def respond(_: Request) -> Reply:
        if next(arrived) > 0:
            two_are_here.set()
        met.append(two_are_here.wait(10))  # the first is answered when a second has come
        return Reply()

    service.respond = respond
    with sink(service, numbers(40, partitions=8), http_concurrent_requests_max="8") as run:
        run.put(run.next_records(40))
        run.commit_all()
    assert all(met), "they were sent one after another"
    for partition in range(8):
        sent = [each.json["n"] for each in service.requests if each.json["n"] % 8 == partition]
        assert sent == sorted(sent)
    assert len(service.requests) == 40


def test_the_same_record_has_the_same_idempotency_key(service: HttpService):
    replies = iter([Reply(status=500), Reply()])
    service.respond = lambda _: next(replies)
    with sink(service, numbers(1), http_idempotency_header="Idempotency-Key") as run:
        write(run)
    assert [each.headers["Idempotency-Key"] for each in service.requests] == ["conformance-0-0"] * 2


def test_records_of_partitions_that_are_taken_away_are_dropped(service: HttpService):
    service.respond = lambda _: Reply(status=503)
    records = numbers(6)
    with sink(service, records) as run:
        with pytest.raises(RetriableError):
            run.task.put(records)
        lost, kept = TopicPartition("conformance", 0), TopicPartition("conformance", 1)
        run.task.close([lost])
        service.respond = lambda _: Reply()
        service.requests.clear()

        def retried() -> bool:
            with suppress(RetriableError):
                run.task.put([])
                return True
            return False

        eventually(retried, "the pause before the next try is over")
        assert [each.json["n"] for each in service.requests] == [1, 3, 5]
        assert run.task.pre_commit({kept: 3}) == {kept: 3}
        run.crash()


def put_or_wait(run: SinkRun, records: Sequence[SinkRecord]) -> None:
    with suppress(RetriableError):
        run.task.put(records)


def test_a_topic_created_anew_while_the_service_is_away_loses_no_record(service: HttpService):
    service.respond = lambda _: Reply(status=503)
    former = numbers(6, partitions=1)
    anew = [each.replaced(value={"anew": each.offset}) for each in former[:2]]
    place = former[0].origin
    run = sink(service, former)
    run.context.topic_ids = {place.topic: "former"}
    with run:
        put_or_wait(run, former)
        run.context.topic_ids = {place.topic: "anew"}
        put_or_wait(run, former)  # as the runtime repeats what failed
        assert run.context.seeks == {place: 0}
        assert run.task.pre_commit({place: 6}) == {}
        service.respond = lambda _: Reply()
        service.requests.clear()
        for _ in range(2):  # the runtime finds out, too, and begins again itself
            run.put(anew)
        assert run.task.pre_commit({place: 2}) == {place: 2}
        run.crash()
    assert [each.json["anew"] for each in service.requests if "anew" in each.json] == [0, 1]


def test_a_topic_created_anew_while_a_task_gets_another_partition_of_it_loses_no_record(service: HttpService):
    former = numbers(6, partitions=1)
    anew = [each.replaced(value={"anew": each.offset}) for each in former[:2]]
    place, other = former[0].origin, TopicPartition(former[0].origin.topic, 1)
    run = sink(service, former)
    run.context.topic_ids = {place.topic: "former"}
    with run:
        write(run)
        run.context.topic_ids = {place.topic: "anew"}
        run.task._topics._asked_s.clear()  # it was asked for long ago
        run.context.assign([place, other])
        run.task.open([other])  # as cooperative rebalances give it what comes in addition
        run.put(anew)  # the runtime finds out by itself, too
        assert run.task.pre_commit({place: 2}) == {place: 2}
        run.crash()
    assert [each.json["anew"] for each in service.requests if "anew" in each.json] == [0, 1]


def test_a_broker_that_has_not_heard_of_a_new_topic_costs_no_record(service: HttpService):
    records = numbers(6, partitions=1)
    place = records[0].origin
    run = sink(service, records)
    run.context.topic_ids = {place.topic: "former"}
    with run:
        run.put(records)
        run.put(records[:3])
        run.context.topic_ids = {place.topic: "anew"}
        assert run.task.pre_commit({place: 3}) == {}
        assert run.context.seeks == {place: 0}
        run.put(records[:3])
        assert run.task.pre_commit({place: 3}) == {place: 3}
        run.crash()
    assert [each.json["n"] for each in service.requests] == [0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_a_long_answer_is_not_read_to_its_end(service: HttpService):
    service.respond = lambda _: Reply(body=b"x" * 10_000_000)
    with sink(service, numbers(2)) as run:
        write(run)
    assert len(service.requests) == 2


def test_a_sink_with_much_to_send_asks_for_no_more(service: HttpService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ottla_http.sink.WAITING_RECORDS_MAX", 3)
    settings: Mapping[str, str] = {"http_batch_format": "array", "http_batch_linger_ms": "60000"}
    with sink(service, numbers(6), **settings) as run:
        run.put(run.next_records(6))
        assert run.context.paused == run.context.assignment
        run.commit_all()
        run.put([])
        assert run.context.paused == set()


def test_everything_wrong_with_the_settings_is_named_at_once():
    with pytest.raises(InvalidConfig) as refused:
        HttpSink.config_model.parse(
            {
                "http.url": "https://user:pw@host/${week}",
                "http.auth": "oauth2",
                "http.headers": "Content-Length: 7",
                "http.retry.statuses": "5xx",
                "http.fatal.statuses": "499-400",
                "http.body.format": "text",
                "http.batch.format": "ndjson",
                "http.batch.member": "rows",
                "http.null.values": "delete",
                "http.idempotency.header": "Idempotency-Key",
                "http.tls.key": "/key.pem",
                "http.proxy": "socks",
            }
        )
    assert {problem.key for problem in refused.value.problems} == {
        "http.url",
        "http.auth.oauth2.token.url",
        "http.auth.oauth2.client.id",
        "http.auth.oauth2.client.secret",
        "http.headers",
        "http.retry.statuses",
        "http.fatal.statuses",
        "http.body.format",
        "http.batch.member",
        "http.null.values",
        "http.idempotency.header",
        "http.tls.certificate",
        "http.proxy",
    }


@pytest.mark.parametrize("reply", [Reply(status=400), Reply(status=503), Reply(status=401), RESET])
def test_no_error_has_what_may_be_secret_in_a_url(
    service: HttpService, reply: Reply, caplog: pytest.LogCaptureFixture
):
    service.respond = lambda _: reply
    with sink(service, numbers(2), path="/items?api_key=SECRET", http_retry_attempts_max="2") as run:
        said = []
        for _ in range(3):
            try:
                run.task.put(run.next_records(2))
                run.task.pre_commit({})
            except ConnectError as error:
                said.append(str(error))
        said += [str(error) for _, error in run.context.reported]
        run.crash()
    assert said
    assert all("SECRET" not in each for each in [*said, caplog.text])
    assert any("/items?api_key=…" in each for each in said)


def test_a_redirection_is_told_without_what_may_be_secret(service: HttpService):
    service.respond = lambda _: Reply(status=302, headers=(("Location", "https://u:SECRET@h/x?t=SECRET"),))
    with sink(service, numbers(1)) as run:
        with pytest.raises(FatalError, match=r"302 to https://h/x\?t=…"):
            write(run)
        run.crash()
