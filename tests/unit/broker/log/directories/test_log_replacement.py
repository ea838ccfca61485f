"""Logs that come and go under one name: nothing of the one may reach the other, and nothing is lost on the way."""

import asyncio
import errno
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ottla_broker.log.directories import log_creation
from ottla_broker.log.directories.log_directories import LogDirectories
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.files.offset_checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint, Offsets
from ottla_broker.log.files.partition_metadata import write_partition_metadata
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.store.log_store import LogStore
from ottla_core.errors import KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import CONFIG, DEADLINE_S, FLIGHTS, TOPIC_ID, crash, retire, store_in, until
from tests.support.broker.partition_logs import NOW_MS, append, read_values, small_segments


def refuse(*_arguments: object, **_keywords: object) -> None:
    """Stand in for something that the disk refuses."""
    raise OSError(errno.EIO, "Input/output error")


def checkpointed(directory: Path, partition: TopicPartition = FLIGHTS) -> dict[str, int]:
    """What each checkpoint file says of a partition."""
    offsets = {}
    for name in ("recovery-point", "replication", "log-start"):
        found = OffsetCheckpoint(directory / f"{name}-offset-checkpoint").read()
        if partition in found:
            offsets[name] = found[partition]
    return offsets


class HeldWrites:
    """Writes of high watermarks that wait, in their threads, until they may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.count = self.count_at_once = self.count_at_once_max = 0


def held_writes(monkeypatch: pytest.MonkeyPatch) -> HeldWrites:
    """Hold every write of high watermarks that knows of a log."""
    held = HeldWrites()
    write = OffsetCheckpoint.write

    def wait_and_write(checkpoint: OffsetCheckpoint, offsets: Offsets) -> None:
        if checkpoint.path.name == HIGH_WATERMARK_CHECKPOINT and offsets:
            held.count += 1
            held.count_at_once += 1
            held.count_at_once_max = max(held.count_at_once_max, held.count_at_once)
            assert held.go_on.wait(DEADLINE_S)
            write(checkpoint, offsets)
            held.count_at_once -= 1
        else:
            write(checkpoint, offsets)

    monkeypatch.setattr(OffsetCheckpoint, "write", wait_and_write)
    return held


async def create_while_writes_are_held(store: LogStore, held: HeldWrites) -> PartitionLog:
    """Create the log; nothing is held yet, as no log is known whose offsets could be written."""
    log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
    assert not held.go_on.is_set()
    return log


async def test_a_new_log_does_not_inherit_the_checkpoints_of_one_with_its_name(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        old = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        other = await store.create(TopicPartition("other", 0), TOPIC_ID, CONFIG, is_new=True)
        for log in (old, other):
            for _ in range(10):
                append(log, b"old")
        old.delete_records_before(10)
        for log in (old, other):
            log.flush()
    crash(tmp_path)
    assert checkpointed(tmp_path) == {"recovery-point": 10, "replication": 10, "log-start": 10}
    async with store_in(tmp_path) as store:
        await retire(store, FLIGHTS)
        new = await store.create(FLIGHTS, uuid4(), CONFIG, is_new=True)
        assert checkpointed(tmp_path) == {}, "before the first record can be acknowledged"
        append(new, b"acknowledged")
        assert "other 0 10" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


async def test_a_log_made_after_a_crash_does_not_inherit_checkpoints_either(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    shutil.rmtree(tmp_path / "flights-3")
    async with store_in(tmp_path) as store:
        await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert checkpointed(tmp_path) == {}


async def test_a_checkpoint_under_way_does_not_bring_a_deleted_log_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_in(tmp_path, high_watermark_checkpoint_interval_ms=10) as store:
        writing = held_writes(monkeypatch)
        append(await create_while_writes_are_held(store, writing), b"v")
        await until(lambda: writing.count > 0)
        await retire(store, FLIGHTS)
        creation = asyncio.create_task(store.create(FLIGHTS, uuid4(), CONFIG, is_new=True))
        await asyncio.sleep(0)
        writing.go_on.set()
        await creation
        assert "replication" not in checkpointed(tmp_path)


async def test_a_log_whose_directory_cannot_be_renamed_stays_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        append(log, b"one")
        for retirement in LogDisposal:
            with monkeypatch.context() as patch:
                patch.setattr(Path, "rename", refuse)
                with pytest.raises(KafkaStorageError, match="Cannot rename"):
                    await retire(store, FLIGHTS, retirement)
            assert store.get(FLIGHTS) is log
            append(log, b"still in use")
        await retire(store, FLIGHTS)
        assert not (tmp_path / "flights-3").exists()


async def test_a_directory_in_the_way_is_set_aside(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        in_the_way = tmp_path / "flights-3"
        in_the_way.mkdir()
        write_partition_metadata(in_the_way, uuid4())
        (in_the_way / f"{0:020d}.log").write_bytes(b"old")
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert (log.topic_id, read_values(log)) == (TOPIC_ID, [])
        (kept,) = tmp_path.glob("flights-3.*-stray")
        assert (kept / f"{0:020d}.log").read_bytes() == b"old"


async def test_a_log_of_another_topic_id_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"old")
        new_id = uuid4()
        with pytest.raises(KafkaStorageError, match="in the way"):
            await store.create(FLIGHTS, new_id, CONFIG, is_new=True)
        await retire(store, FLIGHTS, LogDisposal.SET_ASIDE)
        new = await store.create(FLIGHTS, new_id, CONFIG, is_new=True)
        assert (new.topic_id, read_values(new)) == (new_id, [])
        assert len(list(tmp_path.glob("flights-3.*-stray"))) == 1


async def test_a_creation_that_fails_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store_in(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(log_creation, "begin_partition_metadata", refuse)
            with pytest.raises(KafkaStorageError, match="Cannot create flights-3"):
                await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert not (tmp_path / "flights-3").exists()


async def test_what_may_lie_in_an_offline_directory_is_not_begun_anew(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("a file where a directory should be")
    async with store_in(good, bad) as store:
        with pytest.raises(KafkaStorageError, match="may lie in a log directory that is offline"):
            await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=False)
        assert not (good / "flights-3").exists()
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=False) is log, "it is known where this one lies"


async def test_a_directory_that_fails_while_loading_leaves_no_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for directory in (good, bad):
        async with store_in(directory) as store:
            for number in range(3):
                await store.create(TopicPartition(directory.name, number), TOPIC_ID, CONFIG, is_new=True)
    load, set_offline = PartitionLog.open, LogDirectories.set_offline
    is_offline = threading.Event()

    def fail_or_dawdle(request: LoadRequest, *others: Any) -> PartitionLog:
        if request.topic_partition == TopicPartition("bad", 0):
            raise OSError(errno.EIO, "Input/output error")
        if request.topic_partition.topic == "bad":
            is_offline.wait(0.2)  # as long as this log is being loaded, the directory must not be given up
        return load(request, *others)

    def note_offline(directories: LogDirectories, directory: LogDirectory, error: OSError) -> None:
        set_offline(directories, directory, error)
        is_offline.set()

    monkeypatch.setattr(PartitionLog, "open", fail_or_dawdle)
    monkeypatch.setattr(LogDirectories, "set_offline", note_offline)
    async with store_in(good, bad) as store:
        assert {key.topic for key in store.logs} == {"good"}


async def test_a_deletion_waits_for_the_flush_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every_record = replace(CONFIG, flush_messages=1)
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, every_record, is_new=True)
        started, go_on = threading.Event(), threading.Event()

        def held_fsync(descriptor: int) -> None:
            started.set()
            assert go_on.wait(DEADLINE_S)

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", held_fsync)
            append(log, b"v", leader_epoch=7)
            producer = asyncio.create_task(log.flushed(1))
            await until(started.is_set)
            deletion = asyncio.create_task(retire(store, FLIGHTS))
            await asyncio.sleep(0)
            assert (tmp_path / "flights-3").exists(), "what the flush writes by path must not meet a new log"
            go_on.set()
            await asyncio.gather(producer, deletion)
        new = await store.create(FLIGHTS, uuid4(), every_record, is_new=True)
        assert not (new.directory / "leader-epoch-checkpoint").exists()


async def test_a_deleted_log_does_not_touch_the_one_that_got_its_name(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        config = small_segments(file_delete_delay_ms=0, flush_ms=1)
        old = await store.create(FLIGHTS, TOPIC_ID, config, is_new=True)
        for _ in range(3):
            append(old, b"old" * 50)
        await retire(store, FLIGHTS)
        new = await store.create(FLIGHTS, uuid4(), config, is_new=True)
        append(new, b"new")
        uses: list[Callable[[], object]] = [
            lambda: append(old, b"late"),
            old.flush,
            lambda: old.flush_if_due(NOW_MS + 10**12),
            lambda: old.enforce_retention(NOW_MS + 10**12),
            lambda: old.truncate_to(1, NOW_MS),
            lambda: old.read(0, max_bytes=1, end_offset=3, at_least_one_batch=True),
        ]
        for use in uses:
            with pytest.raises(NotLeaderOrFollower, match="deleted or closed"):
                use()
        old.update_config(replace(config, flush_messages=1))
        with pytest.raises(NotLeaderOrFollower):
            await old.flushed(3)
        assert read_values(new) == [(0, b"new")]


async def test_closing_waits_for_a_checkpoint_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the older offsets could replace those of the clean stop, or both could write the same file."""
    async with store_in(tmp_path, high_watermark_checkpoint_interval_ms=10) as store:
        writing = held_writes(monkeypatch)
        log = await create_while_writes_are_held(store, writing)
        append(log, b"v")
        await until(lambda: writing.count > 0)
        append(log, b"w")
        asyncio.get_running_loop().call_later(0.05, writing.go_on.set)
    assert writing.count_at_once_max == 1
    assert checkpointed(tmp_path)["replication"] == 2
