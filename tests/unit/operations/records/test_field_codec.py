"""The bytes of keys and values as text and as JSON, both ways."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_operations.records.field_codec import OF_REGISTRY, BadField, FieldFormat, plain_codec, readable

PLAIN = sorted(set(FieldFormat) - OF_REGISTRY)
EXACT = [FieldFormat.BASE64, FieldFormat.HEX]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"Malm\xc3\xb6\ttab", "Malmö\ttab".encode()),
        (b"\x00\x00\x01\xff", rb"\x00\x00\x01\xff"),
        (b"ok \xe2\x82", rb"ok \xe2\x82"),
        (b"\x1b[31mred", rb"\x1b[31mred"),
        (b"a\r\nb", b"a\r\nb"),
    ],
)
def test_what_is_no_text_is_escaped_and_text_stays(data, shown):
    assert readable(data) == shown


@given(st.binary(max_size=60))
def test_any_bytes_can_be_shown_as_text(data):
    shown = readable(data)
    assert shown.decode() or not data
    assert not set(shown) & {0, 7, 27, 127}


@given(st.binary(max_size=60), st.sampled_from(EXACT))
def test_base64_and_hex_come_back_exactly(data, format_):
    codec = plain_codec(format_)
    assert codec.from_text(codec.to_text(data)) == data
    assert codec.from_json(codec.to_json(data)) == data


@given(st.binary(max_size=60), st.sampled_from(PLAIN))
def test_bytes_that_do_not_fit_a_format_are_bad_and_nothing_worse(data, format_):
    codec = plain_codec(format_)
    for function in (codec.to_text, codec.to_json, codec.from_text):
        with suppress(BadField):
            function(data)


@pytest.mark.parametrize(
    ("format_", "layout", "number"),
    [
        (FieldFormat.INT16, ">h", -2),
        (FieldFormat.INT32, ">i", 70_000),
        (FieldFormat.INT64, ">q", -(2**40)),
        (FieldFormat.FLOAT32, ">f", 0.5),
        (FieldFormat.FLOAT64, ">d", 0.1),
    ],
)
def test_numbers_are_those_of_kafkas_serializers(format_, layout, number):
    codec = plain_codec(format_)
    data = struct.pack(layout, number)
    assert codec.to_text(data) == repr(number).encode()
    assert codec.to_json(data) == number
    assert codec.from_text(str(number).encode()) == codec.from_json(number) == codec.from_json(str(number)) == data


@pytest.mark.parametrize(
    ("text", "format_"), [(b"40000", "int16"), (b"x", "int64"), (b"1.5", "int32"), (b"", "float64")]
)
def test_what_is_no_such_number_is_named(text, format_):
    with pytest.raises(BadField, match=f"is no {format_}: {text.decode()}"):
        plain_codec(FieldFormat(format_)).from_text(text)


def test_a_boolean_is_no_number():
    with pytest.raises(BadField):
        plain_codec(FieldFormat.INT64).from_json(True)


def test_json_is_shown_in_one_line_and_published_as_it_stands():
    codec = plain_codec(FieldFormat.JSON)
    assert codec.to_text(b'{\n  "a": 1\n}') == b'{"a": 1}'
    assert codec.from_text(b'{"a":1}') == b'{"a":1}'
    with pytest.raises(BadField, match="is no JSON"):
        codec.from_text(b"{")
