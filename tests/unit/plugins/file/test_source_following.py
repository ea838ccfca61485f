"""Files that grow, rotate, are emptied, replaced, removed; and tasks that are restarted meanwhile."""

import gzip
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla_file import FileSource
from ottla_sdk import FatalError
from ottla_sdk.conformance import MemoryOffsets, SourceRun
from tests.support.eventually import eventually

_POLLS_MAX = 40


def settings(path: Path | str, **others: str) -> Mapping[str, str]:
    prompt = {"file.settle.ms": "0", "file.poll.interval.ms": "10", "file.scan.interval.ms": "10"}
    return {
        "file.path": str(path),
        "topic": "t",
        **prompt,
        **{key.replace("_", "."): each for key, each in others.items()},
    }


def values_of(run: SourceRun, count: int, number: int = 0) -> list[object]:
    """Poll until there are `count` more records, and see that it is no more than these."""
    before = len(run.records[number])
    for _ in range(_POLLS_MAX):
        if len(run.records[number]) >= before + count:
            break
        run.poll(number)
    run.poll(number)
    run.poll(number)
    return [each.value for each in run.records[number][before:]]


def append(path: Path, text: str) -> None:
    with path.open("a") as opened:
        opened.write(text)


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\ntwo\nthr")
    with SourceRun(FileSource, settings(log)) as run:
        assert values_of(run, 2) == ["one", "two"]
        append(log, "ee\nfour\n")
        assert values_of(run, 2) == ["three", "four"]


def test_files_that_appear_later_are_found(tmp_path: Path) -> None:
    with SourceRun(FileSource, settings(tmp_path / "**/*.log")) as run:
        assert values_of(run, 0) == []
        (tmp_path / "deep" / "er").mkdir(parents=True)
        (tmp_path / "deep" / "er" / "app.log").write_text("one\n")
        (tmp_path / "app.tmp").write_text("not this\n")
        assert values_of(run, 1) == ["one"]


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_renamed_file_is_read_to_its_end_before_the_new_one(tmp_path: Path, pattern: str) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n")
    with SourceRun(FileSource, settings(tmp_path / pattern)) as run:
        assert values_of(run, 1) == ["one"]
        append(log, "two\nthree")
        log.rename(tmp_path / "app.log.1")
        log.write_text("four\n")
        assert values_of(run, 3) == ["two", "three", "four"]


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_file_that_was_renamed_while_the_task_was_away_is_read_on(tmp_path: Path, pattern: str) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n")
    offsets = MemoryOffsets()
    with SourceRun(FileSource, settings(tmp_path / pattern), offsets=offsets) as run:
        assert values_of(run, 1) == ["one"]
        run.commit()
    append(log, "two\n")
    log.rename(tmp_path / "app.log.1")
    log.write_text("three\n")
    with SourceRun(FileSource, settings(tmp_path / pattern), offsets=offsets) as run:
        assert values_of(run, 2) == ["two", "three"]


def test_a_removed_file_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n")
    with SourceRun(FileSource, settings(log)) as run:
        assert values_of(run, 1) == ["one"]
        append(log, "two\nthree")
        log.unlink()
        assert values_of(run, 2) == ["two", "three"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def copy_and_empty(log: Path, copy: Path) -> None:
    copy.write_bytes(log.read_bytes())
    os.truncate(log, 0)


def test_the_copy_of_an_emptied_file_is_read_to_its_end_first(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n")
    with SourceRun(FileSource, settings(log)) as run:
        assert values_of(run, 1) == ["one"]
        append(log, "two\n")
        copy_and_empty(log, tmp_path / "app.log.1")
        append(log, "3\n")
        assert values_of(run, 2) == ["two", "3"]


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_the_copy_of_a_file_that_was_emptied_while_the_task_was_away_is_read_first(
    tmp_path: Path, pattern: str
) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\n")
    offsets = MemoryOffsets()
    with SourceRun(FileSource, settings(tmp_path / pattern), offsets=offsets) as run:
        assert values_of(run, 1) == ["one"]
        run.commit()
    append(log, "two\n")
    copy_and_empty(log, tmp_path / "app.log.1")
    append(log, "three and more than before\n")
    with SourceRun(FileSource, settings(tmp_path / pattern), offsets=offsets) as run:
        assert values_of(run, 2) == ["two", "three and more than before"]


def test_a_file_that_was_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\ntwo\n")
    with SourceRun(FileSource, settings(log)) as run:
        assert values_of(run, 2) == ["one", "two"]
        log.write_text("three is longer\nfour\n")
        assert values_of(run, 2) == ["three is longer", "four"]


def test_a_file_that_got_the_inode_of_a_removed_one_is_read_from_its_beginning(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("number\n1\n2\n")
    inode = rows.stat().st_ino
    offsets = MemoryOffsets()
    csv = settings(rows, file_format="csv")
    with SourceRun(FileSource, csv, offsets=offsets) as run:
        assert values_of(run, 2) == [{"number": "1"}, {"number": "2"}]
        run.commit()
    rows.write_text("number\n3\n4\n5\n")
    assert rows.stat().st_ino == inode
    with SourceRun(FileSource, csv, offsets=offsets) as run:
        assert values_of(run, 3) == [{"number": "3"}, {"number": "4"}, {"number": "5"}]


def test_rows_added_to_a_finished_file_are_read_too(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("number\n1\n2")
    with SourceRun(FileSource, settings(rows, file_format="csv", file_follow="false")) as run:
        assert values_of(run, 2) == [{"number": "1"}, {"number": "2"}]
        append(rows, "\n3\n")
        assert values_of(run, 1) == [{"number": "3"}]


def test_a_last_line_without_an_end_waits_until_its_file_has_settled(tmp_path: Path) -> None:
    log = tmp_path / "app.txt"
    log.write_text("one\ntwo")
    with SourceRun(FileSource, {**settings(log, file_follow="false"), "file.settle.ms": "3600000"}) as run:
        assert values_of(run, 1) == ["one"]
        os.utime(log, (0, 0))
        assert values_of(run, 1) == ["two"]


def test_a_changed_whole_file_is_a_new_record(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG")
    with SourceRun(FileSource, settings(picture, file_format="whole", file_key="name")) as run:
        assert values_of(run, 1) == [b"\x89PNG"]
        picture.write_bytes(b"\x89PNG, but better")
        assert values_of(run, 1) == [b"\x89PNG, but better"]
        assert run.all_records[0].key == "picture.png"


def test_tasks_divide_the_files_and_keep_families_together(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.log").write_text(f"{number}\n")
        (tmp_path / f"{number}.log.1").write_text(f"{number} before\n")
        os.utime(tmp_path / f"{number}.log.1", (0, 0))
    with SourceRun(FileSource, settings(tmp_path), tasks_max=3) as run:
        run.read(40)
        values_by_task = [[each.value for each in records] for records in run.records.values()]
        # A family's task follows from its path, so one of three tasks may get none of twenty families.
        assert sum(1 for values in values_by_task if values) > 1
        for values in values_by_task:
            for value in values:
                if not value.endswith("before"):
                    assert values.index(f"{value} before") < values.index(value)


def test_one_file_is_one_task(tmp_path: Path) -> None:
    source = FileSource()
    source.configure(settings(tmp_path / "app.log"))

    assert len(source.task_configs(5)) == 1


def test_files_are_removed_once_their_records_are_committed(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("number\n1\n2\n")
    (tmp_path / "empty.csv").write_text("")
    deleting = settings(tmp_path, file_format="csv", file_follow="false", file_done="delete")
    with SourceRun(FileSource, deleting) as run:
        records = run.read(2)
        run.poll()
        run.poll()
        run.commit(records[:1])
        run.poll()
        assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
        run.commit()
        assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_read_are_left_where_they_are(tmp_path: Path) -> None:
    rows = "number\n" + "".join(f"{number}\n" for number in range(20_000))
    damaged = bytearray(gzip.compress(rows.encode(), mtime=0))
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "damaged.csv.gz").write_bytes(damaged)
    (tmp_path / "header.csv").write_text("number,number\n1,2\n")
    deleting = settings(tmp_path, file_format="csv", file_follow="false", file_done="delete", file_errors="skip")
    with SourceRun(FileSource, deleting) as run:

        def skipped() -> bool:
            run.poll()
            run.commit()
            return run.tasks[0].context.metrics.values.get("files_skipped") == 2

        eventually(skipped, "both are skipped")
        run.poll()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.csv.gz", "header.csv"]
        (tmp_path / "header.csv").write_text("number\n7\n")  # it was being put there
        before = len(run.all_records)
        run.read(before + 1)
        run.commit()
        run.poll()
        assert [path.name for path in tmp_path.iterdir()] == ["damaged.csv.gz"]


def test_files_are_moved_once_their_records_are_committed_also_in_an_earlier_run(tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.mkdir()
    (done / "rows.csv").write_text("one of the same name")
    rows = tmp_path / "rows.csv"
    rows.write_text("number\n1\n2\n")
    csv = settings(rows, file_format="csv", file_follow="false")
    with SourceRun(FileSource, csv) as run:
        run.read(2)
        run.commit()
    with SourceRun(
        FileSource, {**csv, "file.done": "move", "file.done.directory": str(done)}, offsets=run.offsets
    ) as run:
        assert values_of(run, 0) == []
        assert not rows.exists()
        assert sorted(path.name for path in done.iterdir()) == ["rows.csv", "rows.csv.1"]


def test_a_file_that_cannot_be_opened_is_read_when_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text("a\n")
    (tmp_path / "b.log").write_text("b\n")
    really_open = os.open

    def refuse(path: str, *arguments: int) -> int:
        if str(path).endswith("a.log"):
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(path, *arguments)

    with SourceRun(FileSource, settings(tmp_path)) as run:
        with monkeypatch.context() as patched:
            patched.setattr("ottla_file.byte_streams.os.open", refuse)
            assert values_of(run, 1) == ["b"]
        assert values_of(run, 1) == ["a"]


def test_more_files_than_may_be_open_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_file.file_set.OPEN_FILES_MAX", 3)
    logs = [tmp_path / f"{number}.log" for number in range(10)]
    for log in logs:
        log.write_text("one\n")
    before = open_files()
    with SourceRun(FileSource, settings(tmp_path)) as run:
        assert len(values_of(run, 10)) == 10
        for log in logs:
            append(log, "two\n")
        assert len(values_of(run, 10)) == 10
        assert open_files() <= before + 3
    assert open_files() == before


def test_a_missing_directory_is_found_wrong_before_anything_runs(tmp_path: Path) -> None:
    source = FileSource()
    source.configure(
        settings(f"{tmp_path}/no/such/*.log", file_done="move", file_done_directory="/no/such", file_follow="false")
    )

    assert [problem.key for problem in source.check()] == ["file.path", "file.done.directory"]


def test_settings_of_kafkas_own_connector_are_understood(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\n")
    with SourceRun(FileSource, {"file": str(tmp_path / "in.txt"), "topic": "t", "batch.size": "7"}) as run:
        assert [each.value for each in run.read(1)] == ["one"]


def test_offsets_that_users_set_must_look_like_those_of_the_tasks() -> None:
    source = FileSource()
    good = {"directory": "/tmp", "inode": 7}

    assert not list(source.check_offsets([(good, {"position": 3}), (good, None)]))
    assert len(list(source.check_offsets([({"file": "x"}, {"position": 3}), (good, {"position": "x"})]))) == 2


def test_a_row_that_cannot_be_read_fails_the_task_behind_the_rows_before_it(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n\n{"a":\n{"a": 3}\n')
    with SourceRun(FileSource, settings(rows, file_format="json")) as run:
        assert [each.value for each in run.poll()] == [{"a": 1}]
        with pytest.raises(FatalError, match=r"rows\.jsonl: line 3 is not JSON"):
            run.poll()


def test_rows_that_cannot_be_read_are_left_out_if_wanted(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n{"a":\n{"a": 3}\nNaN\n')
    with SourceRun(FileSource, settings(rows, file_format="json", file_errors="skip")) as run:
        assert values_of(run, 2) == [{"a": 1}, {"a": 3}]
        assert run.tasks[0].context.metrics.values["rows_skipped"] == 2


def test_a_line_that_is_too_long_is_left_out_without_being_held(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n" + b"x" * 600_000 + b"\ntwo\n" + b"y" * 200 + b"\nthree\n" + b"z" * 600_000)
    with SourceRun(FileSource, {**settings(log, file_errors="skip"), "file.row.bytes.max": "100"}) as run:
        assert values_of(run, 3) == ["one", "two", "three"]
        append(log, "zz\nfour\n")
        assert values_of(run, 1) == ["four"]
        assert run.all_records[-1].source_offset["line"] == 7


def test_a_file_is_not_moved_over_one_that_another_task_moves_there_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, other = tmp_path / "done", tmp_path / "done" / "a.csv"
    done.mkdir()
    (tmp_path / "a.csv").write_text("x\n1\n")
    moving = settings(tmp_path / "*.csv", file_format="csv", file_follow="false", file_done="move")
    with SourceRun(FileSource, {**moving, "file.done.directory": str(done)}) as run:
        assert len(values_of(run, 1)) == 1
        monkeypatch.setattr(Path, "exists", lambda _: False)  # it was not there when that was looked at
        other.write_text("theirs")
        run.commit()
        run.poll()
    assert other.read_text() == "theirs"
    assert (done / "a.csv.1").read_text() == "x\n1\n"


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_directory_that_was_away_for_a_moment_tears_no_line(tmp_path: Path, pattern: str) -> None:
    folder, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "app.log").write_text("one\n")
    with SourceRun(FileSource, settings(folder / pattern)) as run:
        assert values_of(run, 1) == ["one"]
        folder.rename(elsewhere)
        time.sleep(0.02)  # longer than `file.scan.interval.ms`, so that this poll looks
        run.poll()
        elsewhere.rename(folder)
        append(folder / "app.log", "tw")
        assert values_of(run, 0) == []
        append(folder / "app.log", "o\nthree\n")
        assert values_of(run, 2) == ["two", "three"]
