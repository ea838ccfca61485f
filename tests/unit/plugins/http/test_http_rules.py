"""The pure parts: templates, pointers, statuses, retries, answers."""

import datetime as dt
import re
from itertools import islice
from typing import Any

import pytest

from ottla_http.answers import AnswerReader, Unreadable, same_server
from ottla_http.json_pointer import MISSING, JsonPointer
from ottla_http.outbox import Entry, Outbox, Target
from ottla_http.retry import backoff_ms, retry_after_ms
from ottla_http.source_config import HttpSourceConfig
from ottla_http.statuses import Statuses
from ottla_http.url_template import fill_json, shown_url, url_problem
from ottla_sdk import TopicPartition
from ottla_sdk.conformance import sink_records

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def test_json_pointers_find_what_the_rfc_says():
    document = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, "deep": {"list": [{"x": None}]}}
    found = {"": document, "/foo": ["bar", "baz"], "/foo/0": "bar", "/": 0, "/a~1b": 1, "/m~0n": 8}
    for text, value in found.items():
        assert JsonPointer(text).find(document) == value
    assert JsonPointer("/deep/list/0/x").find(document) is None
    for text in ("/foo/2", "/foo/01", "/foo/-", "/foo/x", "/nothing", "/foo/0/bar"):
        assert JsonPointer(text).find(document) is MISSING


@pytest.mark.parametrize("text", ["data", "/a~2", "/a~"])
def test_malformed_json_pointers_are_refused(text: str):
    with pytest.raises(ValueError, match="JSON pointer"):
        JsonPointer(text)


def test_statuses():
    assert [status in Statuses.parse("408, 500-502") for status in (408, 409, 500, 502, 503)] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert 500 not in Statuses.parse("")
    for text in ("5xx", "99", "600", "500-400", "500-", "-500"):
        with pytest.raises(ValueError, match=r"status|range"):
            Statuses.parse(text)


def test_backoff_doubles_up_to_its_maximum():
    waits = [backoff_ms(failures, first_ms=100, max_ms=1_000, chance=0.0) for failures in (1, 2, 3, 4, 5, 99)]
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    assert backoff_ms(1, first_ms=100, max_ms=1_000, chance=1.0) == 80


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("120", 120_000),
        (" 0 ", 0),
        ("Fri, 02 Jan 2026 03:05:05 GMT", 60_000),
        ("Fri, 02 Jan 2026 03:04:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("99999999999999", 999_999_999_000),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: int | None):
    assert retry_after_ms(value, lambda: NOW) == expected


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("https://host/${topic}?a=${key}", None),
        ("http://[::1]:8080/", None),
        ("ftp://host/", "must begin with http"),
        ("host/path", "must begin with http"),
        ("https:///path", "must begin with http"),
        ("https://host:99999/", "out of range"),
        ("https://user@host/", "http.auth"),
        ("https://${topic}/", "before the path"),
        ("https://host/${week}", r"no placeholder \$\{week\}; there are: \$\{key\}, \$\{topic\}"),
    ],
)
def test_urls_are_checked(template: str, problem: str | None):
    said = url_problem(template, {"topic", "key"})
    if problem is None:
        assert said is None
    else:
        assert said is not None
        assert re.search(problem, said)


def test_cursors_are_escaped_in_json():
    assert fill_json('{"after": "${cursor}"}', {"cursor": 'a"b\n'}) == '{"after": "a\\"b\\n"}'
    assert fill_json('{"page": ${cursor}}', {"cursor": 3}) == '{"page": 3}'


def reader(**settings: str) -> AnswerReader:
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return AnswerReader(HttpSourceConfig.parse({"http.url": "https://host/", "topic": "t", **written}))


@pytest.mark.parametrize(
    ("body", "pointer", "records"),
    [
        (b"[1, 2]", "", [1, 2]),
        (b'{"a": 1}', "", [{"a": 1}]),
        (b'{"data": {"items": [1]}}', "/data/items", [1]),
        (b'{"data": null}', "/data", []),
        (b"null", "", []),
    ],
)
def test_records_are_found_in_documents(body: bytes, pointer: str, records: list[Any]):
    assert reader(http_response_records=pointer).page(body, links=[], url="https://host/").records == records


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON"),
        (b"<html>", "no JSON"),
        (b'{"data": [1', "no JSON"),
        (b"[NaN]", "NaN is no JSON"),
        (b"\xff", "no UTF-8"),
        (b'{"error": "busy"}', "nothing at /data"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_answer_is_told(body: bytes, message: str):
    with pytest.raises(Unreadable, match=message):
        reader(http_response_records="/data").page(body, links=[], url="https://host/")


def test_lines_and_texts():
    lines = reader(http_response_format="ndjson").page(b'{"a": 1}\n\n{"b": "\xe2\x80\xa8"}\r\n', links=[], url="")
    assert lines.records == [{"a": 1}, {"b": "\u2028"}]
    assert reader(http_response_format="text").page(b"all of it\n", links=[], url="").records == ["all of it\n"]
    assert reader(http_response_format="text").page(b"", links=[], url="").records == []


@pytest.mark.parametrize(
    ("links", "following"),
    [
        (['<https://host/?p=2>; rel="next"'], "https://host/?p=2"),
        (['<https://host/?p=1>; rel=prev, </?p=3,4>; title="a, b"; rel="last next"'], "https://host/?p=3,4"),
        (["<?p=2>;rel=next"], "https://host/items?p=2"),
        (['<https://host/?p=1>; rel="prev"', "<x>; REL=NEXT"], "https://host/x"),
        (['<https://host/?p=2>; rel="nextish"'], None),
        ([], None),
    ],
)
def test_link_headers(links: list[str], following: str | None):
    assert reader().page(b"[]", links=links, url="https://host/items?p=1").next_link == following


def test_records_have_keys_values_and_times():
    parts = reader(http_record_key="/id", http_record_value="/data", http_record_timestamp="/at").parts
    assert parts({"id": 7, "data": [1], "at": "1970-01-01T00:00:01.5Z"}) == (7, [1], 1500)
    assert parts({"id": 7, "data": [1], "at": "1970-01-01T01:00:00+01:00"}) == (7, [1], 0)
    assert parts({"data": None, "at": "yesterday"}) == (None, None, None)
    assert parts({"at": 1500}).timestamp_ms == 1500
    assert parts({"at": -1}).timestamp_ms is None
    assert reader(http_record_timestamp="/at", http_record_timestamp_unit="s").parts({"at": 1.5}).timestamp_ms == 1500
    assert reader().parts({"a": 1}) == (None, {"a": 1}, None)


def test_servers_are_the_same_by_scheme_host_and_port():
    assert same_server("https://host/a", "https://host:443/b?c")
    for other in ("http://host/a", "https://other/a", "https://host:8443/a", "file:///etc/passwd"):
        assert not same_server("https://host/a", other)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:8/a/b?key=SECRET&page=2#x", "https://h:8/a/b?key=…&page=…"),
        ("https://user:SECRET@h/a", "https://h/a"),
        ("https://h/a?SECRET", "https://h/a?…"),
        ("/relative?token=SECRET", "/relative?token=…"),
        ("http://[SECRET", "a malformed URL"),
    ],
)
def test_urls_are_shown_without_what_may_be_secret(url: str, shown: str):
    assert shown_url(url) == shown


def test_the_outbox_forgets_lanes_without_records():
    outbox = Outbox(records_max=10, bytes_max=1000, linger_s=0)
    records = sink_records(list(range(500)))
    for number, record in enumerate(records):
        outbox.add(Target("PUT", f"http://h/{number}"), Entry(record, b"1"), 0.0)
    assert outbox.first_offsets() == {TopicPartition("conformance", 0): 0, TopicPartition("conformance", 1): 0}
    looked_at = 0
    while due := list(islice(outbox.due(1.0, all_of_them=True), 2)):
        for batch in due:
            outbox.remove(batch)
        looked_at += len(outbox._lanes)
    assert looked_at == sum(range(0, 500, 2))  # each lane that is left is one with records
    assert (len(outbox), outbox.first_offsets(), outbox._lanes) == (0, {}, {})
