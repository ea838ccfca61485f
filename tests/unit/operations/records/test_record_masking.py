"""What is masked of records, and that in doubt more is masked."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import (
    BadMasking,
    How,
    Mask,
    Masking,
    MaskingRule,
    how_of,
    masked_field,
)
from ottla_operations.records.record_search import NOTHING, search

SECRET = "4111111111111111"


def rule(*fields: str, how: str = "hide", **more: Any) -> MaskingRule:
    kind, last = how_of(how)
    given = {"name": "cards", "topics": ("*",), **more}
    return MaskingRule(fields=tuple(map(masked_field, fields)), how=kind, last=last, **given)


def mask(*fields: str, how: str = "hide") -> Mask:
    return Mask([rule(*fields, how=how)], b"k" * 32)


def masked_json(place: str, document: Any, how: str = "hide") -> Any:
    found = mask(place, how=how).record(Record(value=json.dumps(document).encode())).value
    assert found is not None
    return json.loads(found)


@pytest.mark.parametrize(
    ("place", "document", "wanted"),
    [
        ("$.card", {"card": SECRET, "sum": 1}, {"card": "***", "sum": 1}),
        ("$.card.number", {"card": {"number": int(SECRET)}}, {"card": {"number": "***"}}),
        (
            "$.cards.number",
            {"cards": [{"number": SECRET}, {"other": 1}]},
            {"cards": [{"number": "***"}, {"other": 1}]},
        ),
        ("$.card", [[{"card": SECRET}], 5], [[{"card": "***"}], 5]),
        ("$..card", {"a": [{"b": {"card": {"card": 1}}}], "card": 2}, {"a": [{"b": {"card": "***"}}], "card": "***"}),
        ("$..a..b", {"a": {"a": {"b": SECRET}}}, {"a": {"a": {"b": "***"}}}),
        ("$.*.number", {"x": {"number": 1}, "y": {"number": 2}}, {"x": {"number": "***"}, "y": {"number": "***"}}),
        ("$.legs[1]", {"legs": [1, 2, 3]}, {"legs": [1, "***", 3]}),
        ("$.legs[*].to", {"legs": [{"to": "JFK"}]}, {"legs": [{"to": "***"}]}),
        ("$.card", {"card": None}, {"card": None}),
        ("$.card", {"card": {"number": SECRET}}, {"card": "***"}),
        ("$.card", {"card": False}, {"card": "***"}),
    ],
)
def test_what_stands_at_a_place_of_json_is_masked(place: str, document: Any, wanted: Any) -> None:
    assert masked_json(place, document) == wanted


@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        f'"{SECRET}"',
        f'{{"card": "{SECRET}"',
        f'{{"card": "{SECRET}"}} trailing',
        f'{{"card": "{SECRET}", "card": 5}}',
        f'{{"card": {{"number": "{SECRET}"}}, "card": {{"number": 5}}}}',
        f'{"[" * 100_000}"{SECRET}"',
        f"\0\0\0\0\x07{SECRET}",
        "",
    ],
)
def test_what_cannot_be_looked_into_is_hidden_as_a_whole(value: str) -> None:
    assert mask("$.card.number").record(Record(value=value.encode())).value == b"***"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_json_in_other_encodings_is_masked_as_well(encoding: str) -> None:
    value = json.dumps({"card": SECRET}).encode(encoding)
    assert mask("$.card").record(Record(value=value)).value == b'{"card": "***"}'


def test_what_has_nothing_to_mask_keeps_its_own_digits_and_order() -> None:
    value = b'{ "b": 1.10, "a": 12345678901234567890 }'
    assert mask("$.card").record(Record(value=value)).value == value


def test_keys_values_and_headers_are_masked_as_wholes_and_null_stays_null() -> None:
    record = Record(key=b"ann", value=b"text", headers=(("Trace", b"1"), ("trace", None), ("other", b"2")))
    assert mask("key", "header:TRACE").record(record) == Record(
        key=b"***", value=b"text", headers=(("Trace", b"***"), ("trace", None), ("other", b"2"))
    )
    assert mask("value", "headers").record(record) == Record(
        key=b"ann", value=b"***", headers=(("Trace", b"***"), ("trace", None), ("other", b"***"))
    )
    assert mask("key", "value").record(Record(key=None, value=None)) == Record(key=None, value=None)
    assert mask("key:$.id").record(Record(key=b'{"id": 5}', value=b"1")).key == b'{"id": "***"}'


def test_the_last_characters_stay_where_they_are_less_than_half() -> None:
    assert masked_json("$.card", {"card": SECRET}, "last:4") == {"card": "***1111"}
    assert masked_json("$.card", {"card": 12345678}, "last:4") == {"card": "***5678"}
    assert masked_json("$.card", {"card": "1234567"}, "last:4") == {"card": "***"}
    assert masked_json("$.card", {"card": {"number": SECRET}}, "last:4") == {"card": "***"}
    assert mask("key", how="last:2").record(Record(key=b"\xff" * 8, value=None)).key == b"***"


def test_a_hash_is_the_same_for_the_same_content_under_the_same_key_and_tells_its_length_to_nobody() -> None:
    hashed = masked_json("$.card", {"card": SECRET}, "hash")["card"]
    assert hashed == masked_json("$.card", [{"card": SECRET}, 1], "hash")[0]["card"]
    assert hashed.encode() == mask("key", how="hash").record(Record(key=SECRET.encode(), value=None)).key
    other = Mask([rule("$.card", how="hash")], b"other").record(Record(value=b'{"card": "%s"}' % SECRET.encode()))
    assert other.value is not None
    assert hashed not in other.value.decode()
    assert len(masked_json("$.card", {"card": "x" * 5000}, "hash")["card"]) == len(hashed)
    assert masked_json("$.card", {"card": {"a": 1, "b": 2}}, "hash") == masked_json(
        "$.card", {"card": {"b": 2, "a": 1}}, "hash"
    )


def test_what_a_schema_decodes_is_masked_also_behind_unions_and_becomes_json() -> None:
    def decoded(document: Any) -> Callable[[bytes], Any]:
        return lambda data: document if data.startswith(b"\0") else NOTHING

    framed = Record(value=b"\0\0\0\0\1" + SECRET.encode())
    for document in (
        {"card": {"number": SECRET}},
        {"card": {"bank.Card": {"number": {"string": SECRET}}}},
        {"bank.Payment": {"card": {"array": [{"number": SECRET}]}}},
    ):
        found = mask("$.card.number").record(framed, decoded(document)).value
        assert found is not None
        assert SECRET.encode() not in found
        assert json.loads(found)
    assert mask("$.card", how="last:4").record(framed, decoded({"card": {"string": SECRET}})).value == (
        b'{"card": {"string": "***1111"}}'
    )
    assert mask("$.other").record(framed, decoded({"card": 1})) == framed
    assert mask("$.card").record(framed, decoded(5)).value == b"***"


def test_a_search_of_what_is_masked_finds_only_what_is_shown() -> None:
    record = mask("$.card", how="last:4").record(Record(value=b'{"card": "%s"}' % SECRET.encode()))
    for text in (SECRET, SECRET[:6], f"$.card = {SECRET}", "$.card ~ 41111", "$.card > 4"):
        assert not search(text)(record), text
    assert search("$.card ~ 1111")(record)


def test_rules_concern_topics_clusters_and_those_who_are_not_exempt() -> None:
    masking = Masking(
        [rule("value", topics=("payments.*", "cards"), clusters=("prod",), exempt=frozenset({"ann", "role:admin"}))],
        b"k",
    )
    assert masking.of("prod", "payments.eu", ["bob"])
    assert masking.of("prod", "cards", [])
    assert not masking.of("prod", "paymentsXeu", ["bob"])
    assert not masking.of("prod", "cards.more", ["bob"])
    assert not masking.of("test", "cards", ["bob"])
    assert not masking.of("prod", "cards", ["ann"])
    assert not masking.of("prod", "cards", ["bob", "role:admin"])
    assert masking.of("prod", "cards", ["admin"])


def test_rules_of_one_part_come_one_after_the_other() -> None:
    both = Mask([rule("$.a"), rule("$.b", how="last:1")], b"k")
    assert both.record(Record(value=b'{"a": 1, "b": "xyz"}')).value == b'{"a": "***", "b": "***z"}'
    assert Mask([rule("value"), rule("$.b")], b"k").record(Record(value=b"{}")).value == b"***"


@pytest.mark.parametrize("text", ["", "keys", "header:", "$", "$.", "$.a b", "$.a[x]", "$[", "value:key", "a.b"])
def test_a_field_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadMasking):
        masked_field(text)


@pytest.mark.parametrize("text", ["", "show", "last", "last:0", "last:17", "last:x", "hide:1", "last:-1"])
def test_a_way_to_mask_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadMasking):
        how_of(text)


def test_ways_to_mask_are_read() -> None:
    assert [how_of(each) for each in ("hide", "hash", "last:4")] == [(How.HIDE, 0), (How.HASH, 0), (How.LAST, 4)]
