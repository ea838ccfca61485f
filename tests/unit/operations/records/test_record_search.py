"""What is searched for in records: a text, or what stands at a path."""

import json
from typing import Any

import pytest

from ottla_operations.records.record_line import Record
from ottla_operations.records.record_search import NOTHING, BadSearch, search


def found(words: str, value: Any, place: str = "") -> bool:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return search(words, place)(Record(value=data, key=b"the key", headers=(("name", b"inside"), ("none", None))))


@pytest.mark.parametrize(
    ("words", "place", "is_found"),
    [
        ("key", "", True),
        ("key", "value", False),
        ("key", "key", True),
        ("inside", "headers", True),
        ("nam", "", True),
        ("inside", "value", False),
        ("fog", "value", True),
        ("absent", "", False),
    ],
)
def test_a_text_is_looked_for_where_it_was_asked_for(words: str, place: str, is_found: bool) -> None:
    assert found(words, b"fog \xff", place) is is_found


DOCUMENT = {"delay": 61, "legs": [{"from": "JFK"}], "note": "thick fog", "gone": None, "late": True, "number": "7"}


@pytest.mark.parametrize(
    "words",
    [
        "$.delay",
        "$.delay > 60",
        "$.delay>=61",
        "$.delay = 61",
        "$.delay != 60",
        "$.legs[0].from = JFK",
        '$.legs[0].from = "JFK"',
        "$.legs ~ JFK",
        "$.note ~ fog",
        "$.note < u",
        "$.late = true",
        "$.number = 7",
        "$.gone = null",
    ],
)
def test_a_path_finds_what_is_there(words: str) -> None:
    assert found(words, DOCUMENT)


@pytest.mark.parametrize(
    "words",
    [
        "$.gone",
        "$.absent",
        "$.delay < 61",
        "$.delay ~ fog",
        "$.legs[1]",
        "$.legs.from",
        "$.note[0]",
        "$.late = 1",
        "$.delay = true",
        "$.note > 5z",
        "$.legs > 1",
        "$.late > 0",
    ],
)
def test_a_path_does_not_find_what_is_not_there(words: str) -> None:
    assert found(words, DOCUMENT) is (words == "$.note > 5z")


@pytest.mark.parametrize("value", [None, b"", b"\xff\x00", b"{", b"[" * 100_000, b"plain", b"12"])
def test_a_path_finds_nothing_in_what_is_no_json(value: bytes | None) -> None:
    assert not found("$.a", value)


def test_what_has_a_schema_is_searched_as_it_is_decoded() -> None:
    record = Record(value=b"\0\0\0\0\7xyz")
    assert search("JFK", "", lambda _: {"from": "JFK"})(record)
    assert search("$.from = JFK", "", lambda _: {"from": "JFK"})(record)
    assert not search("JFK", "", lambda _: NOTHING)(record)


@pytest.mark.parametrize("words", ["$.", "$.a >", "$.a b", "$[x]", "$.a > [1]", "x" * 1001])
def test_a_search_that_cannot_be_read_is_refused(words: str) -> None:
    with pytest.raises(BadSearch, match="Search"):
        search(words)
