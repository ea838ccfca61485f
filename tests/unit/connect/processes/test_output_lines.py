"""What processes write is cut into lines, and log records are told from other text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.processes.output_lines import LineSplitter, OutputLine, parse_line


@given(
    st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: not set(line) & set(b"\r\n"))), st.integers(1, 30)
)
def test_lines_come_out_however_the_output_is_cut(lines: list[bytes], part_size: int) -> None:
    output = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    parts = (output[at : at + part_size] for at in range(0, len(output), part_size))
    assert [line for part in parts for line in splitter.feed(part)] == lines
    assert not list(splitter.flush())


def test_a_long_line_is_cut_and_says_how_much_is_missing() -> None:
    splitter = LineSplitter(bytes_max=10)
    assert not list(splitter.feed(b"0123456"))
    assert list(splitter.feed(b"789abc\nnext\nbegun")) == ["0123456789 … (3 bytes more)".encode(), b"next"]
    assert list(splitter.flush()) == [b"begun"]


def test_a_log_record_keeps_its_level_its_logger_and_its_trace() -> None:
    line = parse_line(b'{"level":"ERROR","logger":"plugin","message":"no","trace":"a\\nb","time":1}')
    assert line == OutputLine(level="error", logger="plugin", message="no", trace="a\nb")
    assert list(line.texts()) == ["ERROR plugin: no", "a", "b"]


def test_a_level_that_nobody_knows_is_shown_as_info() -> None:
    assert parse_line(b'{"level":"NOTICE","logger":"x","message":"m"}').level == "info"


@pytest.mark.parametrize("line", [b"plain", b"{", b'{"level":1}', b'{"message":"m"}', b"{\xff}"])
def test_other_text_is_passed_on_as_it_is(line: bytes) -> None:
    parsed = parse_line(line)
    assert parsed == OutputLine(level="info", message=line.decode(errors="backslashreplace"))
    assert list(parsed.texts()) == [parsed.message]
