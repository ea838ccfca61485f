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
from ottla_sdk import ConnectError, FatalError, Header, RetriableError, SinkRecord, TopicPartition
from ottla_sdk.conformance import SinkRun, sink_records

ONE = TopicPartition("conformance", 0)


def settings(directory: Path, **others: str) -> Mapping[str, str]:
    named = {f"file.{key.replace('_', '.')}": value for key, value in others.items()}
    return {"file.directory": str(directory), "file.fsync": "false", "file.roll.ms": "3600000", **named}


def finished(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
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


def test_the_names_of_new_directories_are_on_the_disk_before_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path.relative_to(tmp_path) if path.is_dir() and finished(tmp_path) else Path("elsewhere"))

    monkeypatch.setattr(os, "fsync", fsync)
    name = "of/${topic}/${partition}-${start_offset}-${end_offset}"
    with SinkRun(
        FileSink,
        {**settings(tmp_path, roll_rows="2", name=name), "file.fsync": "true"},
        sink_records([1, 2], partitions=1),
    ) as run:
        run.put_all()
        assert run.commit() == {ONE: 2}
        assert {Path("of/conformance"), Path("of"), Path()} <= set(synced)


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
    sink.configure({**settings(tmp_path), "name": "conformance"})
    assert sink.kept_offsets() == {ONE: 2}


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


def test_no_file_is_finished_behind_a_record_whose_dead_letter_is_lost(tmp_path: Path) -> None:
    values = [1, None, 2]
    with run_of(tmp_path, values, null_values="report", roll_rows="2") as run:
        run.context.lost = ConnectError("the dead letter topic does not take a record")
        with pytest.raises(ConnectError, match="does not take a record"):
            run.put_all()
        run.crash()
    assert finished(tmp_path) == []
    with run_of(tmp_path, values, null_values="report", roll_rows="2") as run:
        run.put_all()
        assert len(run.context.reported) == 1
        assert run.commit() == {ONE: 3}
    assert text_of(tmp_path) == "1\n2\n"


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


def test_a_paused_task_that_begins_a_file_after_its_successor_has_cleaned_up_cannot_finish_it(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2, 3, 4], roll_rows="2") as paused:
        with run_of(tmp_path, [1, 2, 3, 4], roll_rows="4") as run:
            run.put_all()
            run.commit_all()
            with pytest.raises(TakenOver):
                paused.put_all()
        paused.crash()
    assert text_of(tmp_path) == "1\n2\n3\n4\n"
    assert not list((tmp_path / ".unfinished").rglob("*-0.*"))


NAME_WITH_ID = "${topic}/${topic_id}/${topic}-${partition}-${start_offset}-${end_offset}"


def test_a_topic_that_was_created_anew_between_two_runs_is_refused(tmp_path: Path) -> None:
    with run_of(tmp_path, [1, 2, 3], roll_rows="1") as run:
        run.context.topic_ids = {"conformance": "first"}
        run.open([ONE])
        run.put_all()
    anew = run_of(tmp_path, [4, 5], roll_rows="1")
    anew.context.topic_ids = {"conformance": "second"}
    with pytest.raises(FatalError, match=r"was created anew: its id is second.* with the id first"), anew:
        pass
    for path in tmp_path.rglob("*.jsonl"):
        path.unlink()
    again = run_of(tmp_path, [4, 5], roll_rows="1")
    again.context.topic_ids = {"conformance": "second"}
    with again:
        again.put_all()
    assert text_of(tmp_path) == "4\n5\n"


def test_a_topic_that_was_created_anew_in_between_is_not_taken_for_written(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1, 2, 3], roll_rows="2")
    run.context.topic_ids = {"conformance": "first"}
    with run:
        run.put_all()
        run.context.topic_ids = {"conformance": "second"}
        with pytest.raises(FatalError, match="was created anew"):
            run.task.put(sink_records(["a", "b"], partitions=1))
        run.crash()
    assert text_of(tmp_path) == "1\n2\n3\n"  # what was left of the former topic is not lost either


def test_names_with_topic_ids_begin_anew_with_the_topic(tmp_path: Path) -> None:
    run = run_of(tmp_path, [1, 2, 3], roll_rows="2", name=NAME_WITH_ID)
    run.context.topic_ids = {"conformance": "first"}
    with run:
        run.put_all()
        run.context.topic_ids = {"conformance": "second"}
        run.task.put(sink_records(["a", "b", "c", "d"], partitions=1)[1:])  # where the consumer happened to be
        assert run.context.seeks == {ONE: 0}
        assert run.task.pre_commit({ONE: 4}) == {ONE: 0}
        run.context.seeks.clear()
        run.task.put(sink_records(["a", "b", "c", "d"], partitions=1))
        assert run.task.pre_commit({ONE: 4}) == {ONE: 4}
    assert {name: (tmp_path / name).read_text() for name in finished(tmp_path)} == {
        "conformance/first/conformance-0-000000000000-000000000001.jsonl": "1\n2\n",
        "conformance/first/conformance-0-000000000002-000000000002.jsonl": "3\n",
        "conformance/second/conformance-0-000000000000-000000000001.jsonl": '"a"\n"b"\n',
        "conformance/second/conformance-0-000000000002-000000000003.jsonl": '"c"\n"d"\n',
    }


def test_names_with_topic_ids_need_a_cluster_that_has_them(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="gives topics no ids"), run_of(tmp_path, [1], name=NAME_WITH_ID):
        pass


@pytest.mark.parametrize(
    ("timestamp_ms", "name"),
    [
        (253_402_300_799_999, "9999-12-31T23"),
        (253_402_300_800_000, "10000-01-01T00"),
        (1_700_000_000_000_000, "55840-11-08T22"),  # microseconds, given for milliseconds
        (2**63 - 1, "292278994-08-17T07"),
        (-62_135_596_800_000, "0001-01-01T00"),
    ],
)
def test_names_have_the_right_date_whatever_the_year(tmp_path: Path, timestamp_ms: int, name: str) -> None:
    template = "${year}-${month}-${day}T${hour}-${topic}-${partition}-${start_offset}-${end_offset}"
    records = [each.replaced(timestamp_ms=timestamp_ms) for each in sink_records([1, 2], partitions=1)]
    for _ in range(2):
        with SinkRun(FileSink, settings(tmp_path, name=template, roll_rows="2"), records) as run:
            run.put_all()
    assert finished(tmp_path) == [f"{name}-conformance-0-000000000000-000000000001.jsonl"]


def test_a_date_before_the_year_1_is_reported(tmp_path: Path) -> None:
    template = "${year}-${topic}-${partition}-${start_offset}-${end_offset}"
    records = [each.replaced(timestamp_ms=-(2**63)) for each in sink_records([1, 2], partitions=1)]
    with SinkRun(FileSink, settings(tmp_path, name=template, roll_rows="1"), records) as run:
        run.put_all()
        assert "before the year 1" in str(run.context.reported[0][1])
