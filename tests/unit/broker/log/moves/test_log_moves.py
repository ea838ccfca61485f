"""Moving logs between log directories: while they are in use, given up, and over a crash at any step."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.log.directories.log_directory import parse_future_directory
from ottla_broker.log.moves import interrupted_moves, log_moves
from ottla_broker.log.moves.future_log import FutureFiles
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.store.log_store import LogStore
from ottla_core.errors import InvalidTopic, KafkaStorageError, LogDirectoryNotFound, ReplicaNotAvailable
from ottla_core.throttle_config import UNLIMITED
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.compactions import compacted, put
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, crash, retire, store_in, until
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    problems_in,
    read_values,
    segment_files,
    small_segments,
)
from tests.support.broker.transactional_logs import aborts, committed_values, end, write

SMALL = small_segments(file_delete_delay_ms=0)


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


class Rate:
    """The rate of a test, which it may change."""

    def __init__(self, bytes_per_second: int = UNLIMITED) -> None:
        self.bytes_per_second = bytes_per_second

    def __call__(self) -> int:
        return self.bytes_per_second


async def filled(store: LogStore, config: Any = SMALL, *, rounds: int = 30) -> PartitionLog:
    """A log of several segments with an idempotent producer, in the first directory."""
    log = await store.create(FLIGHTS, TOPIC_ID, config, is_new=True)
    for number in range(rounds):
        append(log, b"value %d" % number, producer=(5, 0, number), leader_epoch=number // 10)
    await log.wait_until_idle()
    return log


def other_of(log: PartitionLog, disks: tuple[Path, Path]) -> Path:
    return next(disk for disk in disks if disk != log.directory.parent)


MOVED_WITHIN_S = 240.0
APPENDED_DURING_MOVE_MAX = 300
"""More, and a machine with much else to do might never copy as fast as the test appends."""


def futures_in(*disks: Path) -> list[Path]:
    return [path for disk in disks for path in disk.iterdir() if parse_future_directory(path.name)]


async def settled_in(disk: Path, log: PartitionLog, *disks: Path) -> None:
    """Wait until a log is in a directory and nothing is left but it and the directories' own files."""

    def is_settled() -> bool:
        directories = [path for disk in disks for path in disk.iterdir() if path.is_dir()]
        marked = (log.directory / interrupted_moves.MOVED_FROM).exists()
        return log.directory.parent == disk and directories == [log.directory] and not marked

    await until(is_settled)


async def test_a_log_is_moved_while_it_is_appended_to_and_read(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        held = log.read(0, max_bytes=200, end_offset=log.log_end_offset, at_least_one_batch=True)
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        number = 30
        async with asyncio.timeout(MOVED_WITHIN_S):
            while log.directory.parent != target:
                if number < APPENDED_DURING_MOVE_MAX:
                    append(log, b"value %d" % number, producer=(5, 0, number), leader_epoch=3)
                    number += 1
                await asyncio.sleep(0.001)  # between two looks; the deadline ends them
        append(log, b"value %d" % number, producer=(5, 0, number), leader_epoch=3)
        assert store.get(FLIGHTS) is log
        assert read_values(log) == [(offset, b"value %d" % offset) for offset in range(number + 1)]
        assert held is not None
        await settled_in(target, log, *disks)
        assert [list(row.partition_sizes) for row in store.describe() if row.path == target] == [[FLIGHTS]]
    for was_clean in (True, False):
        if not was_clean:
            crash(target)
        async with store_in(*disks, config=SMALL) as store:
            found = store.logs[FLIGHTS]
            assert found.directory.parent == target
            assert read_values(found) == [(offset, b"value %d" % offset) for offset in range(number + 1)]
            assert found.high_watermark == number + 1
            assert found.leader_epochs.latest == 3
            assert [entry.producer_id for entry in found.active_producers()] == [5]
            assert problems_in(found.directory) == []


async def test_a_move_there_and_back_leaves_the_same_log(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        for _ in range(3):
            target = other_of(log, disks)
            await store.move(FLIGHTS, target)
            await settled_in(target, log, *disks)
            append(log, b"more")
        assert len(read_values(log)) == 33


async def test_a_log_start_that_was_moved_up_moves_along(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        log.delete_records_before(17)
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        await settled_in(target, log, *disks)
        assert (target / "log-start-offset-checkpoint").read_text() == "0\n1\nflights 3 17\n"
        assert (target / "replication-offset-checkpoint").read_text() == "0\n1\nflights 3 30\n"
        source = other_of(log, disks)
        assert "flights" not in (source / "recovery-point-offset-checkpoint").read_text()


async def test_what_retention_deletes_meanwhile_is_not_in_the_copy(
    disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        loop = asyncio.get_running_loop()
        with seen(FutureFiles, "make_durable", lambda: loop.call_soon_threadsafe(begun.set), monkeypatch):
            target = other_of(log, disks)
            await store.move(FLIGHTS, target)
            await begun.wait()
            log.delete_records_before(25)
            log.enforce_retention(NOW_MS)
            await settled_in(target, log, *disks)
        assert [path.name for path in segment_files(log.directory)] == [
            segment.path().name for segment in log.segments
        ]
        assert read_values(log)[0] == (25, b"value 25")


async def test_a_truncated_log_is_copied_anew(disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        loop = asyncio.get_running_loop()
        with seen(FutureFiles, "make_durable", lambda: loop.call_soon_threadsafe(begun.set), monkeypatch):
            target = other_of(log, disks)
            await store.move(FLIGHTS, target)
            await begun.wait()
            log.truncate_to(12, NOW_MS)
            for _ in range(5):
                append(log, b"other", leader_epoch=9)
            await settled_in(target, log, *disks)
        expected = [(n, b"value %d" % n) for n in range(12)] + [(12 + n, b"other") for n in range(5)]
        assert read_values(log) == expected
    async with store_in(*disks, config=SMALL) as store:
        assert read_values(store.logs[FLIGHTS]) == expected


async def test_a_move_is_shown_held_back_and_given_up(disks: tuple[Path, Path]) -> None:
    rate = Rate(0)
    async with store_in(*disks, config=SMALL, move_rate=rate) as store:
        log = await filled(store)
        source, target = log.directory.parent, other_of(log, disks)
        await store.move(FLIGHTS, target)
        await until(lambda: len(futures_in(*disks)) == 1)
        assert futures_in(*disks)[0].parent == target
        (described,) = [row.futures for row in store.describe() if row.path == target]
        assert (described[FLIGHTS].size_bytes, described[FLIGHTS].offset_lag) == (0, 30)
        await store.move(FLIGHTS, target)
        assert len(futures_in(*disks)) == 1
        await store.move(FLIGHTS, source)
        assert futures_in(*disks) == []
        await settled_in(source, log, *disks)
        await store.move(FLIGHTS, target)
        rate.bytes_per_second = UNLIMITED
        await until(lambda: log.directory.parent == target)


async def test_a_rate_holds_a_move_back(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL, move_rate=Rate(50_000)) as store:
        log = await filled(store, rounds=100)
        began = asyncio.get_running_loop().time()
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        await settled_in(target, log, *disks)
        assert asyncio.get_running_loop().time() - began >= log.size_bytes / 50_000 * 0.9


async def test_a_deleted_topic_ends_its_move(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL, move_rate=Rate(0)) as store:
        log = await filled(store)
        await store.move(FLIGHTS, other_of(log, disks))
        await retire(store, FLIGHTS)
        await until(lambda: not [path for disk in disks for path in disk.iterdir() if path.is_dir()])


async def test_a_stop_puts_a_move_off(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL, move_rate=Rate(0)) as store:
        log = await filled(store)
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        await until(lambda: len(futures_in(*disks)) == 1)
    async with store_in(*disks, config=SMALL) as store:
        log = store.logs[FLIGHTS]
        await settled_in(target, log, *disks)
        assert len(read_values(log)) == 30


async def test_a_full_disk_ends_a_move_and_costs_nothing(
    disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[int] = []

    def refuse(*_: Any) -> None:
        refusals.append(28)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FutureFiles, "copy", refuse)
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        source = log.directory.parent
        await store.move(FLIGHTS, other_of(log, disks))
        await until(lambda: len(refusals) == 1)
        await settled_in(source, log, *disks)
        assert len(read_values(log)) == 30


async def test_a_log_is_not_compacted_while_it_moves(disks: tuple[Path, Path]) -> None:
    config = replace(compacted(), file_delete_delay_ms=0)
    rate = Rate(0)
    async with store_in(*disks, config=config, move_rate=rate) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, config, is_new=True)
        for number in range(20):
            put(log, *((key, b"%d" % number * 10) for key in (b"a", b"b")))
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        await until(lambda: len(futures_in(*disks)) == 1)
        assert store.cleaner._paused[FLIGHTS] == 1
        rate.bytes_per_second = UNLIMITED
        await settled_in(target, log, *disks)
        await until(lambda: store.cleaner._paused[FLIGHTS] == 0)


async def test_a_log_that_comes_later_is_created_where_it_was_wanted(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks) as store:
        for disk in (*disks, disks[1]):
            with pytest.raises(ReplicaNotAvailable):
                await store.move(FLIGHTS, disk)
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert log.directory.parent == disks[1]


async def test_what_cannot_be_moved_is_refused(disks: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    async with store_in(*disks) as store:
        with pytest.raises(LogDirectoryNotFound):
            await store.move(FLIGHTS, tmp_path / "elsewhere")
        with pytest.raises(InvalidTopic):
            await store.move(TopicPartition("t" * 220, 0), disks[0])
    async with store_in(*disks, tmp_path / "file") as store:
        with pytest.raises(KafkaStorageError):
            await store.move(FLIGHTS, disks[0])


STEPS: dict[str, tuple[Any, str]] = {
    "the copy is begun": (FutureFiles, "begin"),
    "a piece is copied": (FutureFiles, "copy"),
    "what was copied is fsynced": (FutureFiles, "make_durable"),
    "the copy is marked": (log_moves, "mark_moved"),
    "the copy takes the name": (PartitionLog, "relocate"),
    "the name is fsynced": (log_moves, "sync_directory"),
    "the former directory is retired": (log_moves, "retire_former"),
    "the mark is removed": (log_moves, "_forget_source"),
}


def copy_directory(source: Path, target: Path) -> None:
    """Copy what is there at one moment; files of a retired directory go in the background meanwhile."""
    while True:
        try:
            shutil.copytree(source, target)
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(target, ignore_errors=True)
        else:
            return


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_at_any_step_loses_nothing(
    disks: tuple[Path, Path], tmp_path: Path, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = tmp_path / "crashed"

    def keep() -> None:
        if not crashed.exists():
            crashed.mkdir()
            for disk in disks:
                copy_directory(disk, crashed / disk.name)

    before, after = (keep, None) if when == "before" else (None, keep)
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        source, target = log.directory.parent, other_of(log, disks)
        with seen(*STEPS[step], after, monkeypatch, before=before):
            await store.move(FLIGHTS, target)
            await settled_in(target, log, *disks)
    found_in = crashed / "a", crashed / "b"
    async with store_in(*found_in, config=SMALL) as store:
        log = store.logs[FLIGHTS]
        assert read_values(log) == [(offset, b"value %d" % offset) for offset in range(30)]
        assert log.high_watermark in {0, 30}  # the checkpoint may not have been written yet
        append(log, b"after the crash")
        has_begun = not (step == "the copy is begun" and when == "before")
        await settled_in(crashed / (target if has_begun else source).name, log, *found_in)
        assert len(read_values(log)) == 31


async def test_a_former_copy_on_a_disk_that_was_away_is_not_taken_for_the_log(
    disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(log_moves, "retire_former", refuse)
        async with store_in(*disks, config=SMALL) as store:
            log = await filled(store)
            source, target = log.directory.parent, other_of(log, disks)
            await store.move(FLIGHTS, target)
            await until(lambda: log.directory.parent == target)
    async with store_in(target, config=SMALL) as store:
        append(store.logs[FLIGHTS], b"only there")
    assert (source / "flights-3").exists()
    async with store_in(source, target, config=SMALL) as store:
        log = store.logs[FLIGHTS]
        assert read_values(log)[-1] == (30, b"only there")
        await settled_in(target, log, source, target)


@contextmanager
def seen(
    owner: Any,
    name: str,
    after: Callable[[], object] | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Call something before or after a function each time it is called."""
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before()
        result = original(*arguments, **named)
        if after is not None:
            after()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


async def test_a_moved_log_has_its_aborts_and_what_is_open(disks: tuple[Path, Path]) -> None:
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store, rounds=1)
        for number in range(6):
            write(log, b"aborted", producer=(7, 0, number), leader_epoch=3)
            end(log, 7, 0, commit=False, leader_epoch=3)
        await log.wait_until_idle()
        target = other_of(log, disks)
        await store.move(FLIGHTS, target)
        number = 6
        async with asyncio.timeout(MOVED_WITHIN_S):
            while log.directory.parent != target:
                if number < APPENDED_DURING_MOVE_MAX:
                    write(log, b"aborted", producer=(7, 0, number), leader_epoch=3)
                    end(log, 7, 0, commit=False, leader_epoch=3)
                    number += 1
                await asyncio.sleep(0.001)  # the copy goes on meanwhile
        write(log, b"committed", producer=(7, 0, number), leader_epoch=3)
        end(log, 7, 0, commit=True, leader_epoch=3)
        write(log, b"aborted in the new place", producer=(7, 0, number + 1), leader_epoch=3)
        end(log, 7, 0, commit=False, leader_epoch=3)
        write(log, b"open", producer=(7, 0, number + 2), leader_epoch=3)
        assert committed_values(log) == [b"value 0", b"committed"]
        await settled_in(target, log, *disks)
        assert problems_in(log.directory) == []
    for was_clean in (True, False):
        if not was_clean:
            crash(target)
        async with store_in(*disks, config=SMALL) as store:
            found = store.logs[FLIGHTS]
            assert committed_values(found) == [b"value 0", b"committed"]
            assert len(aborts(found)) == number + 1


async def test_a_log_that_cannot_be_copied_whole_is_not_moved(disks: tuple[Path, Path]) -> None:
    """A segment whose file is gone, as a swap that was interrupted leaves it, can come back only where it was."""
    async with store_in(*disks, config=SMALL) as store:
        log = await filled(store)
        source = log.directory.parent
        (kept_as := log.segments[1].path().with_suffix(".log.kept")).hardlink_to(log.segments[1].path())
        log.segments[1].path().unlink()
        await store.move(FLIGHTS, other_of(log, disks))
        await until(lambda: not store._moves.is_under_way(FLIGHTS))
        assert log.directory.parent == source
        assert not futures_in(*disks)
        kept_as.rename(log.segments[1].path())
        assert len(read_values(log)) == 30
