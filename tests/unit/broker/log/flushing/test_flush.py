"""Durability: the recovery point, shared fsyncs, and what a failed one means."""

import asyncio
import errno
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla_broker.log.files.checkpoint_file import FsyncFailed
from ottla_broker.log.files.shutdown_record import FSYNC_FAILED
from ottla_broker.log.flushing import flush, flush_plan
from ottla_broker.log.producers.producer_snapshot import snapshot_path
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_config import TopicConfig
from tests.support.broker.partition_logs import NOW_MS, HeldBackground, append, open_log, read_values, small_segments


def refuse(*_arguments: object, **_keywords: object) -> None:
    """Stand in for something that the disk refuses."""
    raise OSError(5, "Input/output error")


def refuse_for_lack_of_space(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Leave this process no descriptor to open anything with."""
    gc.collect()  # files that earlier tests have left open would be closed meanwhile, and their numbers be free
    gc.disable()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.open("/dev/null", os.O_RDONLY)
    os.close(taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        gc.enable()


EVERY_RECORD = replace(TopicConfig(), flush_messages=1)


async def test_without_a_demand_nobody_waits(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, background=background)
    append(log, b"v")
    await asyncio.wait_for(log.flushed(1), 5)
    assert (background.waiting, log.recovery_point) == ([], 0)


async def test_appends_that_wait_share_one_fsync(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    append(log, b"first")
    waiters = [asyncio.create_task(log.flushed(1))]
    await asyncio.sleep(0)
    for number in range(2, 6):
        append(log, b"more")
        waiters.append(asyncio.create_task(log.flushed(number)))
    await asyncio.sleep(0)
    assert len(background.waiting) == 1
    background.run_one()
    await asyncio.wait(waiters[:1])
    assert log.recovery_point == 1
    await asyncio.sleep(0)
    assert len(background.waiting) == 1, "the four that came meanwhile wait for one more"
    background.run_one()
    await asyncio.gather(*waiters)
    assert (log.recovery_point, background.waiting) == (5, [])


async def test_flush_messages_counts_records(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=replace(TopicConfig(), flush_messages=3), background=background)
    append(log, b"1", b"2")
    await log.flushed(2)
    assert not log.flush_is_due
    append(log, b"3")
    assert log.flush_is_due
    waiter = asyncio.create_task(log.flushed(3))
    await asyncio.sleep(0)
    background.run_one()
    await waiter
    assert log.recovery_point == 3


async def test_a_failed_fsync_ends_appends_but_not_reads(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    append(log, b"v")
    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    background.run_one(FsyncFailed(5, "Input/output error"))
    with pytest.raises(KafkaStorageError, match=r"fsync failed in .*Input/output error"):
        await waiter
    with pytest.raises(KafkaStorageError, match="restart the broker"):
        append(log, b"w")
    assert read_values(log) == [(0, b"v")]
    with pytest.raises(KafkaStorageError):
        log.close()


async def test_a_flush_that_finds_no_descriptor_is_tried_again(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    append(log, b"v")
    log.roll(NOW_MS)
    background.waiting.clear()
    append(log, b"w")
    waiter = asyncio.create_task(log.flushed(2))
    await asyncio.sleep(0)
    (work, _, failed) = background.waiting.pop()
    with without_descriptors(), pytest.raises(OSError, match="Too many open files") as refused:
        work()
    failed(refused.value)
    with pytest.raises(KafkaStorageError, match="Too many open files"):
        await waiter
    assert log.recovery_point == 0

    append(log, b"x")
    waiter = asyncio.create_task(log.flushed(3))
    await asyncio.sleep(0)
    background.run_one()
    await waiter
    assert log.recovery_point == 3


async def test_a_producer_snapshot_that_could_not_be_fsynced_is_fsynced_by_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, background=background)
    append(log, b"v")
    log.roll(NOW_MS)
    background.run_one(OSError(errno.EMFILE, "Too many open files"))
    synced: list[Path] = []
    monkeypatch.setattr(flush_plan, "sync_file", synced.append)
    log.flush()
    assert snapshot_path(log.directory, 1) in synced


async def test_no_flush_succeeds_after_one_that_failed(tmp_path: Path) -> None:
    """The kernel tells of lost writes once; the next fsync succeeds although the records are gone."""
    background = HeldBackground()
    log = open_log(tmp_path, config=replace(EVERY_RECORD, flush_ms=1), background=background)
    append(log, b"v")
    first = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    background.run_one(FsyncFailed(5, "Input/output error"))
    with pytest.raises(KafkaStorageError):
        await first
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        await asyncio.wait_for(log.flushed(1), 5)
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        log.flush_if_due(NOW_MS + 5000)
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        log.flush()
    assert (background.waiting, log.recovery_point) == ([], 0)


@pytest.mark.parametrize("is_first", [True, False])
async def test_of_two_flushes_under_way_neither_counts_if_one_fails(tmp_path: Path, is_first: bool) -> None:
    """Whether its waiters hear of the failure before or after their own flush ends."""
    background = HeldBackground()
    log = open_log(tmp_path, config=replace(EVERY_RECORD, flush_ms=1), background=background)
    append(log, b"v")
    log.flush_if_due(NOW_MS + 5000)
    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    if not is_first:
        background.waiting.reverse()
    background.run_one(FsyncFailed(5, "Input/output error"))
    background.run_one()
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        await waiter
    assert log.recovery_point == 0


def test_a_flush_in_a_thread_does_not_succeed_behind_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=replace(TopicConfig(), flush_ms=1), background=background)
    append(log, b"v")
    for _ in range(2):
        log.flush_if_due(NOW_MS + 5000 * (1 + len(background.waiting)))
    (first, _, first_failed), (second, _, second_failed) = background.waiting
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(OSError, match="Input/output") as refused:
            first()
    with pytest.raises(OSError, match="Input/output"):
        second()  # the kernel would let it succeed, and its end may be seen before the first one's
    first_failed(refused.value)
    second_failed(refused.value)
    assert log.recovery_point == 0


def test_a_full_disk_that_holds_no_leader_epochs_fails_the_flush_but_not_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, b"v", leader_epoch=3)
    with monkeypatch.context() as patch:
        patch.setattr(flush_plan, "write_leader_epochs", refuse_for_lack_of_space)
        with pytest.raises(KafkaStorageError, match="Cannot flush"):
            log.flush()
    assert log.recovery_point == 0
    append(log, b"w", leader_epoch=3)
    log.flush()
    assert log.recovery_point == 2
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


async def test_those_who_wait_are_told_of_a_failure_even_if_it_cannot_be_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    append(log, b"v")
    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    monkeypatch.setattr(flush, "_logger", SimpleNamespace(error=refuse))
    with pytest.raises(OSError, match="Input/output"):
        background.run_one(FsyncFailed(5, "Input/output error"))
    with pytest.raises(KafkaStorageError):
        await asyncio.wait_for(waiter, 5)


def test_a_flush_that_could_not_begin_leaves_nothing_to_sync_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=small_segments(), background=background)
    while len(log.segments) < 2:
        append(log, b"v" * 50)
    append(log, b"v" * 50)
    background.waiting.clear()
    log._flush.add_snapshot(tmp_path / "a.snapshot")
    active = log.segments.active
    active.release_file()
    hidden = active.path().rename(tmp_path / "hidden")
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="Cannot flush"):
            log.flush()
    hidden.rename(active.path())
    synced: list[Path] = []
    monkeypatch.setattr(flush_plan, "sync_file", synced.append)
    log.flush()
    assert len(synced) == len(set(synced))
    assert tmp_path / "a.snapshot" in synced


async def test_a_truncation_meanwhile_fails_those_who_wait(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    append(log, b"1")
    append(log, b"2")
    waiter = asyncio.create_task(log.flushed(2))
    await asyncio.sleep(0)
    log.truncate_to(1, NOW_MS)
    append(log, b"other")
    background.run_one()
    with pytest.raises(NotLeaderOrFollower, match="truncated"):
        await waiter
    assert log.recovery_point == 0, "the fsync may not have covered what is there now"


def test_a_roll_flushes_the_full_segment_in_the_background(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=small_segments(), background=background)
    while len(log.segments) < 2:
        append(log, b"v" * 50)
    assert log.recovery_point == 0
    background.run_one()
    assert log.recovery_point == log.segments.active.base_offset


def test_flush_ms_begins_a_flush_when_its_time_has_come(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), flush_ms=1000))
    log.flush_if_due(NOW_MS + 500)
    append(log, b"v")
    log.flush_if_due(NOW_MS + 1400)
    assert log.recovery_point == 0
    log.flush_if_due(NOW_MS + 1500)
    assert log.recovery_point == 1


def test_flush_ms_counts_anew_when_the_clock_is_set_back(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), flush_ms=1000))
    append(log, b"v")
    hours_before_ms = NOW_MS - 6 * 3_600_000
    log.flush_if_due(hours_before_ms)
    assert log.recovery_point == 0
    log.flush_if_due(hours_before_ms + 1000)
    assert log.recovery_point == 1


def test_leader_epochs_are_on_disk_before_the_recovery_point_moves(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.start_leader_epoch(3)
    append(log, b"v", leader_epoch=3)
    assert not (tmp_path / "leader-epoch-checkpoint").exists()
    log.flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
    assert log.recovery_point == 1


async def test_whoever_holds_the_log_is_told_that_it_has_failed(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=EVERY_RECORD, background=background)
    told: list[str | None] = []
    log.when_failed(lambda: told.append(log.failure))
    append(log, b"v")
    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    background.run_one(OSError(errno.EMFILE, "Too many open files"))
    assert (told, log.failure) == ([], None)
    with pytest.raises(KafkaStorageError):
        await waiter

    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    background.run_one(FsyncFailed(5, "Input/output error"))
    assert told == [log.failure]
    assert "fsync failed" in str(log.failure)
    with pytest.raises(KafkaStorageError):
        await waiter


def refuse_writes(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_one(*_arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.pwritev", refuse_one)


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_a_write_is_asked_for_an_fsync_and_may_have_failed_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"v")
    with monkeypatch.context() as patch:
        refuse_writes(code, patch)
        patch.setattr("os.fsync", refuse)
        with pytest.raises(KafkaStorageError, match="Cannot append"):
            append(log, b"w")
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        append(log, b"w")
    assert read_values(log) == [(0, b"v")]


def test_a_refused_write_is_no_failure_of_a_disk_that_can_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"v")
    with monkeypatch.context() as patch:
        refuse_writes(errno.EIO, patch)
        with pytest.raises(KafkaStorageError, match="Cannot append"):
            append(log, b"w")
    assert log.recovery_point == 0, "such an fsync covers one file only"
    append(log, b"x")
    assert read_values(log) == [(0, b"v"), (1, b"x")]


def test_a_disk_without_space_is_asked_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "t-0")
    with monkeypatch.context() as patch:
        refuse_writes(errno.ENOSPC, patch)
        patch.setattr("os.fsync", refuse)
        with pytest.raises(KafkaStorageError, match="Cannot append"):
            append(log, b"w")
    append(log, b"x")


def test_a_failed_fsync_makes_the_next_start_one_after_an_unclean_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"v")
    failing = {log.segments.active.file().fileno()}
    fsync = os.fsync

    def refuse_some(descriptor: int) -> None:
        if descriptor in failing:
            refuse()
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", refuse_some)
    with pytest.raises(KafkaStorageError, match="fsync failed"):
        log.flush()
    assert (tmp_path / FSYNC_FAILED).exists()
