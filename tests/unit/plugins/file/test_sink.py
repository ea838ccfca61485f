"""Files that the sink finishes: when, under which names, with what in them, and what a crash leaves."""

import bz2
import csv
import datetime as dt
import decimal
import gzip
import io
import json
import lzma
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ottla_file import FileSink
from ottla_file.unfinished_file import TakenOver
from ottla_sdk import Header, RetriableError, SinkRecord, TopicPartition
from ottla_sdk.conformance import SinkRun, sink_records

ONE = TopicPartition("conformance", 0)


def settings(directory: Path, **others: str) -> Mapping[str, str]:
    named = {f"file.{key.replace('_', '.')}": value for key, value in others.items()}
    return {"file.directory": str(directory), "file.fsync": "false", "file.roll.ms": "3600000", **named}


def finished(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and ".unfinished" not in path.parts
    )


def run_of(directory: Path, values: list[Any], **others: str) -> SinkRun:
    return SinkRun(FileSink, settings(directory, **others), sink_records(values, partitions=1))


def text_of(directory: Path) -> str:
    return "".join((directory / name).read_text() for name in finished(directory))


def test_a_file_is_finished_when_it_has_enough_rows(tmp_path: Path) -> None:
    with run_of(tmp_path, list(range(5)), roll_rows="2") as run:
        run.put_all()
        assert finished(tmp_path) == [
            "conformance/conformance-0-000000000000-000000000001.jsonl",
            "conformance/conformance-0-000000000002-000000000003.jsonl",
        ]
        assert run.context.commit_requests == 2
        assert run.commit() == {ONE: 4}


def test_a_file_is_finished_when_it_is_long_enough(tmp_path: Path) -> None:
    with run_of(tmp_path, ["x" * 50] * 5, roll_bytes="100") as run:
        run.put_all()
        assert run.commit() == {ONE: 4}


def test_a_file_is_finished_when_it_is_old_enough_also_without_records(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2], roll_ms="1") as run:
        run.put_all()
        run.commit_all()
        assert text_of(tmp_path) == "1\n2\n"


def test_nothing_is_committed_before_its_file_is_finished(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2]) as run:
        run.put_all()
        assert run.commit() == {ONE: 0}
        assert finished(tmp_path) == []


def test_unfinished_files_are_gone_when_partitions_are(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2]) as run:
        run.put_all()
        assert list((tmp_path / ".unfinished").rglob("*-0.*"))
    assert not list((tmp_path / ".unfinished").rglob("*-0.*"))


def test_what_a_killed_task_left_is_removed_and_its_finished_files_count(tmp_path: Path) -> None:
    killed = run_of(tmp_path, [1, 2, 3], roll_rows="2")
    killed.__enter__()
    killed.put_all()  # the first file is finished, but its offsets are not committed
    with run_of(tmp_path, [1, 2, 3], roll_rows="1") as run:
        assert not list((tmp_path / ".unfinished").rglob("*-0.*"))
        run.put_all()
        run.commit_all()
    assert text_of(tmp_path) == "1\n2\n3\n"


def test_a_task_that_lost_its_partition_cannot_finish_a_file(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2, 3, 4], roll_rows="3") as paused:
        paused.put(paused.next_records(2))
        with run_of(tmp_path, [1, 2, 3, 4], roll_rows="2") as run:
            run.put_all()
            run.commit_all()
        with pytest.raises(TakenOver):
            paused.put_all()
        paused.crash()
    assert text_of(tmp_path) == "1\n2\n3\n4\n"


def test_nothing_is_lost_or_twice_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [7]
    really_write = os.write

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = really_write(descriptor, bytes(data[: room[0]]))
        room[0] -= written
        return written

    with run_of(tmp_path, ["first", "second", "third"], compression="gzip", roll_rows="3") as run:
        monkeypatch.setattr("ottla_file.unfinished_file.os.write", write)
        batch = run.next_records(3)
        for _ in range(3):
            with pytest.raises(RetriableError, match="No space left"):
                run.task.put(batch)
        room[0] = 1_000_000
        run.put(batch)
        run.put([*sink_records(["fourth", "fifth", "sixth", "seventh"], partitions=1)][3:])
    texts = [gzip.decompress((tmp_path / name).read_bytes()).decode() for name in finished(tmp_path)]
    assert texts == ['"first"\n"second"\n"third"\n']


def test_names_may_have_dates_and_a_file_ends_with_its_period(tmp_path: Path) -> None:
    template = "${topic}/${year}-${month}-${day}/${hour}-${partition}-${start_offset}-${end_offset}"
    hour_ms = 3_600_000
    records = [
        record.replaced(timestamp_ms=1_700_000_000_000 + number // 2 * hour_ms)
        for number, record in enumerate(sink_records(list(range(5)), partitions=1))
    ]
    with SinkRun(FileSink, {**settings(tmp_path), "file.name": template}, records) as run:
        run.put_all()
    assert finished(tmp_path) == [
        "conformance/2023-11-14/22-0-000000000000-000000000001.jsonl",
        "conformance/2023-11-14/23-0-000000000002-000000000003.jsonl",
    ]
    with SinkRun(FileSink, {**settings(tmp_path, roll_rows="1"), "file.name": template}, records) as run:
        run.put_all()
    assert text_of(tmp_path) == "0\n1\n2\n3\n4\n"


def test_partitions_and_topics_with_similar_names_are_told_apart(tmp_path: Path) -> None:
    topics = ("a", "a-1", "a.1")
    records = [each for topic in topics for each in sink_records(list(range(20)), topic=topic, partitions=2)]
    for _ in range(2):
        with SinkRun(
            FileSink,
            settings(tmp_path, roll_rows="3", name="${topic}-${partition}-${start_offset}-${end_offset}"),
            records,
        ) as run:
            run.put_all()
    assert sorted(map(int, text_of(tmp_path).split())) == sorted(list(range(18)) * len(topics))


def test_offsets_may_not_go_back_behind_finished_files(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2], roll_rows="2") as run:
        run.put_all()
    sink = FileSink()
    sink.configure(settings(tmp_path))
    (problem,) = sink.check_offsets({ONE: 1})

    assert "before offset 2" in problem.message
    assert not list(sink.check_offsets({ONE: 2}))


@pytest.mark.parametrize(
    ("compression", "suffix", "decompress"),
    [
        ("gzip", "gz", gzip.decompress),
        ("bzip2", "bz2", bz2.decompress),
        ("xz", "xz", lzma.decompress),
        ("zstd", "zst", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ],
)
def test_files_are_compressed(
    tmp_path: Path, compression: str, suffix: str, decompress: Callable[[bytes], bytes]
) -> None:
    with run_of(tmp_path, ["ü" * 1000], compression=compression, roll_rows="1", format="lines") as run:
        run.put_all()
    (name,) = finished(tmp_path)

    assert name.endswith(f".txt.{suffix}")
    assert decompress((tmp_path / name).read_bytes()).decode() == "ü" * 1000 + "\n"


def test_json_says_what_it_has_no_types_for(tmp_path: Path) -> None:
    value = {
        "at": dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
        "price": decimal.Decimal("1.50"),
        "raw": b"\x00\xff",
        "day": dt.date(2026, 1, 31),
        "text": "ü",
    }
    with run_of(tmp_path, [value], roll_rows="1") as run:
        run.put_all()
    assert json.loads(text_of(tmp_path)) == {
        "at": "2026-01-31T00:00:00+00:00",
        "price": "1.50",
        "raw": "AP8=",
        "day": "2026-01-31",
        "text": "ü",
    }


def test_whole_records_can_be_written(tmp_path: Path) -> None:
    (record,) = sink_records([{"a": 1}], partitions=1)
    described = record.replaced(headers=(Header("h", "x"),))
    with SinkRun(FileSink, settings(tmp_path, content="record", roll_rows="1"), [described]) as run:
        run.put_all()
    assert json.loads(text_of(tmp_path)) == {
        "topic": "conformance",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 1_700_000_000_000,
        "key": "key-0",
        "headers": [{"key": "h", "value": "x"}],
        "value": {"a": 1},
    }


def test_csv_has_a_header_and_other_columns_begin_another_file(tmp_path: Path) -> None:
    values = [{"a": 1, "b": 'x,"y"'}, {"b": None}, {"a": True, "c": [1, {"d": 2}]}]
    with run_of(tmp_path, values, format="csv", csv_null="NULL", roll_rows="2") as run:
        run.put_all()
        run.task._finish(ONE)
    first, second = (list(csv.reader(io.StringIO((tmp_path / name).read_text()))) for name in finished(tmp_path))

    assert first == [["a", "b"], ["1", 'x,"y"'], ["NULL", "NULL"]]
    assert second == [["a", "c"], ["true", '[1,{"d":2}]']]


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    with run_of(tmp_path, [b"\x00\n", "text"], format="bytes", roll_rows="2") as run:
        run.put_all()
    assert text_of(tmp_path) == "\x00\ntext"


@pytest.mark.parametrize(
    ("format_", "value"), [("lines", "two\nlines"), ("bytes", {"a": 1}), ("csv", "text"), ("json", object())]
)
def test_what_a_format_cannot_say_is_reported(tmp_path: Path, format_: str, value: object) -> None:
    bad = sink_records([value], partitions=1)
    with SinkRun(FileSink, settings(tmp_path, format=format_), bad) as run:
        run.put_all()
        assert [record for record, _ in run.context.reported] == bad
        assert run.commit() == {ONE: 1}


@pytest.mark.parametrize(
    ("null_values", "reported", "text"), [("report", 1, "1\n"), ("skip", 0, "1\n"), ("write", 0, "1\nnull\n")]
)
def test_records_without_values_are_treated_as_is_said(
    tmp_path: Path, null_values: str, reported: int, text: str
) -> None:
    with run_of(tmp_path, [1, None], null_values=null_values) as run:
        run.put_all()
        run.task._finish(ONE)
        assert len(run.context.reported) == reported
    assert text_of(tmp_path) == text


def test_a_directory_that_cannot_be_written_to_is_found_wrong(tmp_path: Path) -> None:
    sink = FileSink()
    sink.configure(settings(tmp_path / "missing"))

    assert [problem.key for problem in sink.check()] == ["file.directory"]


def test_records_of_a_retried_put_are_written_once(tmp_path: Path) -> None:
    records: list[SinkRecord] = sink_records([1, 2, 3], partitions=1)
    with SinkRun(FileSink, settings(tmp_path, roll_rows="3"), records) as run:
        run.put(records[:2])
        run.put(records)
    assert text_of(tmp_path) == "1\n2\n3\n"
