"""Records as lines, both ways."""

import json

import pytest

from ottla_operations.records.field_codec import FieldFormat, plain_codec
from ottla_operations.records.record_line import BadLine, Format, LineOptions, Record, record_reader, record_writer


def read(line: bytes, options: LineOptions) -> Record:
    return record_reader(options)(line)


LINES = LineOptions(Format.LINES)
KEYED = LineOptions(Format.LINES, key_separator=b":", null_text=b"NULL")
RECORD = LineOptions(Format.RECORD)


def test_a_line_is_a_value_as_it_stands():
    assert read(b" a:b\t", LINES) == Record(value=b" a:b\t")
    assert read(b"", LINES) == Record(value=b"")


def test_the_first_separator_ends_the_key():
    assert read(b"k:v:w", KEYED) == Record(key=b"k", value=b"v:w")


def test_the_null_text_is_null_as_key_and_value():
    assert read(b"NULL:NULL", KEYED) == Record(key=None, value=None)


def test_a_line_without_separator_is_refused():
    with pytest.raises(BadLine, match="no key separator ':'"):
        read(b"only a value", KEYED)


def test_a_json_document_is_the_value_unchanged_and_gives_its_key():
    line = b'{"carrier": "AA",  "delay": 3}'
    assert read(line, LineOptions(Format.JSON, key_field="carrier")) == Record(key=b"AA", value=line)
    assert read(line, LineOptions(Format.JSON, key_field="delay")).key == b"3"


def test_a_json_document_that_is_only_checked_keeps_its_digits_and_null_is_no_document():
    checked = LineOptions(Format.JSON, value_codec=plain_codec(FieldFormat.JSON))
    line = b'{"amount": 1234567890123456789.10, "rate": 1e400}'
    assert read(line, checked).value == line
    assert read(b"null", checked).value is None


@pytest.mark.parametrize("line", [b"{", b'{"other": 1}', b"[1]"])
def test_a_json_document_without_the_key_field_is_refused(line):
    with pytest.raises(BadLine):
        read(line, LineOptions(Format.JSON, key_field="carrier"))


def test_a_record_line_holds_everything():
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "x", "n": null}, "timestamp": 5, "partition": 2}'
    assert read(line, RECORD) == Record(
        key=b"k", value=b'{"a": 1}', headers=(("h", b"x"), ("n", None)), timestamp=5, partition=2
    )


@pytest.mark.parametrize(
    "line",
    [
        b"1",
        b'{"key": "k"}',
        b'{"value": "a", "value_base64": "Yg=="}',
        b'{"value": "a", "headers": [["h", "6162", "hex"]]}',
        b'{"value": 1, "vlaue": 2}',
        b'{"value": 1, "partition": "x"}',
        b'{"value": 1, "timestamp": true}',
        b'{"value": 1, "headers": 3}',
        b'{"value": 1, "headers": [[1, "x"]]}',
        b'{"value_base64": "%%"}',
    ],
)
def test_a_record_line_with_something_wrong_is_refused(line):
    with pytest.raises(BadLine):
        read(line, RECORD)


def test_bytes_that_are_no_text_stand_in_base64():
    line = record_writer(RECORD)(Record(value=b"\xff", key=b"k"))
    assert json.loads(line)["value_base64"] == "/w=="


def test_values_are_written_with_key_and_null_text():
    assert record_writer(LINES)(Record(value=b"v", key=b"k")) == b"v\n"
    assert record_writer(KEYED)(Record(value=None, key=b"k")) == b"k:NULL\n"
