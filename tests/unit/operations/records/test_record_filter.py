"""Which records `ottla consume` shows, and how many it takes."""

import pytest

from ottla.records.record_printer import Layout, RecordPrinter
from ottla_operations.errors import UsageProblem
from ottla_operations.records.field_codec import FieldFormat, plain_codec
from ottla_operations.records.record_filter import NotDecided, expression_filter, text_filter
from ottla_operations.records.record_line import Format, LineOptions, Record, record_writer

LINES = LineOptions(Format.LINES)
FLIGHT = Record(
    topic="flights", partition=1, offset=5, timestamp=1000, key=b"AA", value=b'{"carrier": "AA", "delay": 61}',
    headers=(("trace", b"x1"),),
)  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        '.key == "AA"',
        ".value.delay > 60",
        '.value.carrier | startswith("A")',
        '.headers.trace == "x1"',
        ".partition == 1 and .offset == 5 and .timestamp == 1000",
        '.topic == "flights"',
        '.value | has("delay")',
    ],
)
def test_an_expression_sees_all_of_a_record(expression):
    assert expression_filter(expression, LINES)(FLIGHT)
    assert not expression_filter(f"({expression}) | not", LINES)(FLIGHT)


def test_an_expression_sees_keys_and_values_by_their_formats():
    options = LineOptions(Format.LINES, key_codec=plain_codec(FieldFormat.INT32))
    assert expression_filter(".key > 4", options)(Record(key=b"\0\0\0\5", value=None))
    assert expression_filter('.key == "x" and .value == null', options)(Record(key=b"x", value=None))


def test_text_that_is_no_json_object_is_a_string():
    assert expression_filter('.value == "12"', LINES)(Record(value=b"12"))
    assert expression_filter('.value == "{no json"', LINES)(Record(value=b"{no json"))


def test_a_wrong_expression_is_refused_and_one_that_does_not_fit_a_record_is_told():
    with pytest.raises(UsageProblem, match="syntax error"):
        expression_filter(".value >", LINES)
    with pytest.raises(NotDecided, match="cannot"):
        expression_filter('.value | contains("x")', LINES)(FLIGHT)


@pytest.mark.parametrize(
    ("text", "is_there"), [("carr", True), ("AA", True), ("x1", True), ("trace", True), ("zz", False)]
)
def test_a_text_is_looked_for_in_key_value_and_headers(text, is_there):
    assert text_filter(text)(FLIGHT) is is_there


def printer(options: LineOptions, *filters) -> RecordPrinter:
    return RecordPrinter(Layout(record_writer(options), record_writer(LINES)), filters)


def test_the_limit_counts_what_is_shown_and_nothing_behind_it_is_looked_at(capfdbinary):
    records = [Record(value=b"%d" % number) for number in range(10)]
    even = lambda record: int(record.value) % 2 == 0  # noqa: E731
    assert printer(LINES, even).print(records, 2) == (3, 2)
    assert capfdbinary.readouterr().out == b"0\n2\n"
    assert printer(LINES, even).print(records, None) == (10, 5)


def test_a_record_that_is_not_what_its_format_says_is_shown_as_text_and_told(capfdbinary):
    made = printer(LineOptions(Format.LINES, value_codec=plain_codec(FieldFormat.INT16)))
    made.print([Record(value=b"\0\5"), Record(topic="t", partition=0, offset=1, value=b"\xff")], None)
    made.tell()
    written = capfdbinary.readouterr()
    assert written.out == b"5\n\\xff\n"
    assert b"1 record could not be decoded" in written.err
    assert b"t-0 at offset 1: its value is no int16: it has 1 bytes, not 2" in written.err
    assert made.undecoded == 1
