"""How keys and values of messages are shown, whatever stands in them."""

import json

import pytest

from ottla_console.views.message_field import DEPTH_MAX, NOT_DECODED, shown_field


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b"plain text", "text", "plain text"),
        ("Grüße ✓".encode(), "text", "Grüße ✓"),
        (b"\x00\x00\x00\x2a", "32-bit number", "42 (0x0000002a)"),
        (b"\xff" * 8, "64-bit number", f"-1 (0x{'ff' * 8})"),
        (b"\x00\xff\x10", "binary", "00 ff 10"),
        (b"a\x1b[31mred and a long text\x07", "text", "a\\x1b[31mred and a long text\\x07"),
        ("invoice\u202efdp.exe".encode(), "text", "invoice\\u202efdp.exe"),
        (b'{"a":1.10,"b":[1,{}],"a":[]}', "JSON", '{\n  "a": 1.10,\n  "b": [\n    1,\n    {}\n  ],\n  "a": []\n}'),
        (b'{"text": "a,b:{\\"c"}', "JSON", '{\n  "text": "a,b:{\\"c"\n}'),
        (b'{"not": closed', "text", '{"not": closed'),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, kind: str, text: str) -> None:
    shown = shown_field(data)
    assert (shown.kind, shown.text, shown.is_cut) == (kind, text, False)
    assert shown.size == (None if data is None else len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 1_000_000,
        "ü".encode() * 500_000,
        bytes(range(256)) * 4000,
        json.dumps(["x"] * 5000).encode(),
        b"[" * 500_000,
        b"[" * 900 + b"]" * 900,
        b"\x1b" * 1_000_000,
    ],
)
@pytest.mark.parametrize("most", [600, 100_000])
def test_large_values_are_cut(data: bytes, most: int) -> None:
    shown = shown_field(data, None, most)
    assert len(shown.text) <= 6 * most
    assert shown.size == len(data)
    assert shown.is_cut or len(data) < most


def test_a_character_that_is_cut_in_two_does_not_make_a_text_binary() -> None:
    assert shown_field(b"a" + "ü".encode() * 5000).kind == "text"


def test_json_that_is_too_deep_is_shown_as_text() -> None:
    deep = b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1)
    assert (shown_field(deep, None, 100_000).kind, shown_field(deep[1:-1], None, 100_000).kind) == ("text", "JSON")


def test_what_has_a_schema_is_shown_by_it() -> None:
    shown = shown_field(b"\0\0\0\0\7xyz", lambda _: {"from": "J\x1bFK"})
    assert (shown.kind, shown.text) == ("schema 7", '{\n  "from": "J\\u001bFK"\n}')
    assert shown_field(b"text", lambda _: NOT_DECODED).kind == "text"
