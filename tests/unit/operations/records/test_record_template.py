"""Lines in kcat's letters."""

import pytest

from ottla_operations.records.field_codec import FieldFormat, plain_codec
from ottla_operations.records.record_line import BadLine, Format, LineOptions, Record
from ottla_operations.records.record_template import BadTemplate, template_writer

RECORD = Record(
    topic="flights", partition=2, offset=7, timestamp=1357016400000, key=b"AA", value=b"on time",
    headers=(("trace", b"x1"), ("empty", None)),
)  # fmt: skip
LINES = LineOptions(Format.LINES)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        (r"%t [%p] at %o: %k = %s\n", b"flights [2] at 7: AA = on time\n"),
        ("%K %S %T", b"2 7 1357016400000"),
        ("%h", b"trace=x1,empty=NULL"),
        (r"100%%\t\x41\\", b"100%\tA\\"),
        ("%R", b"\x00\x00\x00\x07"),
        ("ü%s", "üon time".encode()),
    ],
)
def test_letters_and_escapes_are_kcats(template, line):
    assert template_writer(template, LINES)(RECORD) == line


def test_what_is_not_there_is_minus_one_and_the_text_for_null():
    options = LineOptions(Format.LINES, null_text=b"NULL")
    assert template_writer("%k|%s|%K|%S|%T", options)(Record(value=None)) == b"NULL|NULL|-1|-1|-1"


@pytest.mark.parametrize(("template", "named"), [("%q", "%q"), ("%", "%"), (r"%s\d", r"\\d"), ("%s\\", r"\\")])
def test_what_means_nothing_is_named(template, named):
    with pytest.raises(BadTemplate, match=named):
        template_writer(template, LINES)


def test_keys_and_values_are_shown_by_their_formats():
    options = LineOptions(Format.LINES, key_codec=plain_codec(FieldFormat.INT64))
    assert template_writer("%k", options)(Record(key=bytes(7) + b"\x05", value=b"")) == b"5"
    with pytest.raises(BadLine, match="its key is no int64"):
        template_writer("%k", options)(Record(key=b"5", value=b""))
