"""What files hold, and the records that come of it."""

import bz2
import datetime as dt
import decimal
import gzip
import hashlib
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla_file import FileSource
from ottla_file.csv_decoder import CsvDecoder, CsvDialect
from ottla_file.rows import split_lines
from ottla_sdk import FatalError
from ottla_sdk.conformance import SourceRun

PROMPT = {"topic": "t", "file.settle.ms": "0", "file.poll.interval.ms": "10", "file.scan.interval.ms": "10"}


def read(path: Path, count: int, settings: Mapping[str, str]) -> list[object]:
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path), **settings}) as run:
        return [each.value for each in run.read(count, within_s=5)]


def zstd_in_two_frames(data: bytes) -> bytes:
    compress = zstandard.ZstdCompressor().compress
    return compress(data[:10]) + compress(data[10:])


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd_in_two_frames)],
)
def test_compressed_files_are_read(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    path = tmp_path / f"lines.txt.{suffix}"
    path.write_bytes(compress("\n".join(lines).encode()))
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path)}) as run:
        assert [each.value for each in run.read(5_000)] == lines
        run.commit(run.all_records[:4_000])
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path)}, offsets=run.offsets) as run:
        assert [each.value for each in run.read(1_000)] == lines[4_000:]


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst"])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(b"this is not compressed at all, whatever its name says")
    (tmp_path / "b.txt").write_text("fine\n")

    assert read(tmp_path, 1, {"file.errors": "skip"}) == ["fine"]
    with pytest.raises(FatalError, match=f"a.{suffix}"):
        read(tmp_path / f"a.{suffix}", 1, {})


def zstd_with_checksum(data: bytes) -> bytes:
    skippable = (0x184D2A57).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"any"
    return skippable + zstandard.ZstdCompressor(write_checksum=True).compress(data)


def polled_often(run: SourceRun) -> None:
    for _ in range(20):
        run.commit(run.poll())


@pytest.mark.parametrize("cut", [1, 5, 2_000])
@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("zst", zstd_in_two_frames),
        ("zst", zstd_with_checksum),
    ],
)
def test_a_compressed_file_that_is_cut_off_is_named_and_its_torn_line_is_no_row(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes], cut: int
) -> None:
    lines = [f"line {hashlib.sha256(number.to_bytes(4)).hexdigest()}" for number in range(1_000)]
    path = tmp_path / f"lines.txt.{suffix}"
    whole = compress("\n".join(lines).encode())
    path.write_bytes(whole[:-cut])
    removes = {"file.follow": "false", "file.done": "delete"}
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path), **removes}) as run:
        with pytest.raises(FatalError, match=path.name):
            polled_often(run)
        assert [each.value for each in run.all_records] == lines[: len(run.all_records)]
    assert path.exists()
    path.write_bytes(whole)
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path)}, offsets=run.offsets) as again:
        left = len(lines) - len(run.all_records)
        assert [each.value for each in again.read(left)] == lines[len(run.all_records) :]


def test_cells_have_the_types_of_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "\ufeffi,f,b,d,day,t,at,s\n1,1.5,true,1.5,2026-01-31,12:30:00,2026-01-31T12:00:00+01:00,x\nNA,,,,,,,\n"
    )
    types = "i:int8,f:float64,b:boolean,d:decimal(2),day:date,t:time,at:timestamp"

    assert read(path, 2, {"file.format": "csv", "file.csv.types": types, "file.csv.null": "NA"}) == [
        {
            "i": 1,
            "f": 1.5,
            "b": True,
            "d": decimal.Decimal("1.50"),
            "day": dt.date(2026, 1, 31),
            "t": dt.time(12, 30),
            "at": dt.datetime(2026, 1, 31, 11, tzinfo=dt.UTC),
            "s": "x",
        },
        {**dict.fromkeys(("i", "f", "b", "d", "day", "t", "at")), "s": ""},
    ]


def test_integers_that_are_written_with_a_point_keep_all_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("i\n9007199254740993.0\n9223372036854775807.0\n-9.223372036854775808e18\n")
    assert read(path, 3, {"file.format": "csv", "file.csv.types": "i:int64"}) == [
        {"i": 9007199254740993},
        {"i": 2**63 - 1},
        {"i": -(2**63)},
    ]


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("1e999999999", "'1e999999999' in the column i"),
        ("nan", "'nan' in the column i"),
        ("128", "'128' in the column i, which is no INT8"),
        ("1.5", "'1.5' in the column i"),
        ("inf", "'inf' in the column i"),
        ("1,2", "has 2 columns, not the 1"),
        ('"1\r2"x\r"', "carriage return"),
    ],
)
def test_a_row_that_does_not_fit_its_columns_is_named(tmp_path: Path, cell: str, problem: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"i\n1\n{cell}\n")

    with pytest.raises(FatalError, match=f"rows.csv: line 3 .*{problem}"):
        read(path, 2, {"file.format": "csv", "file.csv.types": "i:int8"})
    assert read(path, 1, {"file.format": "csv", "file.csv.types": "i:int8", "file.errors": "skip"}) == [{"i": 1}]


@pytest.mark.parametrize(
    ("header", "settings", "problem"),
    [
        ("a,b,a", {}, "the column 'a' twice"),
        ("a,,c", {}, "no name for column 2"),
        ("a,b", {"file.csv.types": "c:int8"}, "there is no column c"),
    ],
)
def test_a_header_that_cannot_be_used_is_named(
    tmp_path: Path, header: str, settings: Mapping[str, str], problem: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1,2\n")

    with pytest.raises(FatalError, match=f"rows.csv: .*{problem}"):
        read(path, 1, {"file.format": "csv", **settings})


def test_columns_may_be_named_by_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('1\t"2\n')
    settings = {
        "file.format": "csv",
        "file.csv.header": "false",
        "file.csv.columns": "a, b",
        "file.csv.delimiter": "tab",
        "file.csv.quote": "none",
        "file.csv.schema.name": "row",
        "file.key.field": "a",
    }
    with SourceRun(FileSource, {**PROMPT, "file.path": str(path), **settings}) as run:
        (record,) = run.read(1)

    assert (record.key, record.value) == ("1", {"a": "1", "b": '"2'})
    assert record.value_schema is not None
    assert record.value_schema.name == "row"


def test_text_is_decoded_as_it_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("Zürich\r\n".encode("latin-1") + b"plain\n")

    assert read(path, 2, {"file.encoding": "latin-1"}) == ["Zürich", "plain"]
    assert read(path, 2, {"file.encoding.errors": "replace"}) == ["Z\ufffdrich", "plain"]
    assert read(path, 1, {"file.errors": "skip"}) == ["plain"]
    (tmp_path / "marked.txt").write_text("\ufefffirst\nsecond\n", encoding="utf-8")
    assert read(tmp_path / "marked.txt", 2, {"file.encoding": "utf-8-sig"}) == ["first", "second"]
    with pytest.raises(FatalError, match=r"lines\.txt: line 1 is not encoded in utf-8"):
        read(path, 1, {})


@given(
    text=st.text(st.sampled_from('ab,"\nü\r'), max_size=60),
    sizes=st.lists(st.integers(1, 20), max_size=20),
    rows_max=st.integers(1, 5),
)
def test_rows_do_not_depend_on_how_the_file_was_cut_up(text: str, sizes: list[int], rows_max: int) -> None:
    data = text.encode()
    dialect = CsvDialect(types={}, columns=("a", "b"), row_bytes_max=1000)

    def decoded(pieces: list[int], rows_max: int) -> tuple[list[object], list[int]]:
        decoder = CsvDecoder(dialect)
        values: list[object] = []
        problems = []
        position = line = known = 0
        while True:
            known = min(len(data), known + (pieces.pop() if pieces else len(data)))
            rows = decoder.decode(data[position:known], final=known == len(data), rows_max=rows_max)
            values += rows.values
            problems += [line + bad.line for bad in rows.bad]
            position += rows.consumed
            line += rows.consumed_lines
            if known == len(data) and not rows.consumed:
                assert position == len(data)
                return values, problems

    assert decoded(list(sizes), rows_max) == decoded([], 1000)


@given(data=st.binary(max_size=80), rows_max=st.integers(1, 4), final=st.booleans())
def test_lines_end_where_their_ends_are(data: bytes, rows_max: int, final: bool) -> None:
    lines = split_lines(data, final=final, rows_max=rows_max, encoding="utf-8", errors="strict")
    expected = [data[begin:end] for begin, end in zip(lines.begins, lines.ends, strict=True)]

    assert len(lines.texts) == len(expected) <= rows_max
    assert b"".join(expected) == data[: lines.ends[-1] if lines.ends else 0]
    assert [line.removesuffix(b"\n").removesuffix(b"\r") for line in expected] == [
        text.encode(errors="surrogateescape") for text in lines.texts
    ]
