"""What is typed to publish a message."""

import pytest

from ottla_console.views.message_form import BadMessage, copied_form, typed_message
from ottla_operations.records.record_line import Record


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, (b"", b"")),
        ({"key_format": "none", "value_format": "none"}, (None, None)),
        ({"key": "a\r\nb", "value": " kept "}, (b"a\nb", b" kept ")),
        ({"key": "-1", "key_format": "int32", "value": "ff 00".replace(" ", ""), "value_format": "hex"}, None),
    ],
)
def test_a_form_describes_a_message(form: dict[str, str], expected: tuple[bytes | None, bytes | None] | None) -> None:
    record = typed_message(form, "t", 3, {})
    assert (record.key, record.value) == (expected or (b"\xff\xff\xff\xff", b"\xff\0"))
    assert (record.topic, record.partition) == ("t", None)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"partition": "3"}, "Partition"),
        ({"partition": "-1"}, "Partition"),
        ({"key": "x", "key_format": "int64"}, "Key"),
        ({"value": "{", "value_format": "json"}, "Value"),
        ({"value": "x", "value_format": "pickle"}, "Value"),
        ({"value": "{}", "value_format": "schema"}, "Value"),
        ({"headers": "no colon"}, "Headers"),
        ({"headers": "a: b\n" * 101}, "Headers"),
    ],
)
def test_what_cannot_be_published_names_its_field(form: dict[str, str], field: str) -> None:
    with pytest.raises(BadMessage, match=f"^{field}: "):
        typed_message(form, "t", 3, {})


@pytest.mark.parametrize("data", [None, b"", b"text\n", b"\nline", b"a\r\nb", b"\xff\x00", "Grüße".encode(), b"\0"])
def test_a_copy_has_the_same_bytes(data: bytes | None) -> None:
    record = Record(topic="t", key=data, value=data, headers=(("a", b"b: c"), ("d", b"")))
    sent = {name: value.replace("\n", "\r\n") for name, value in copied_form(record).items()}
    assert typed_message(sent, "t", 1, {}) == record
