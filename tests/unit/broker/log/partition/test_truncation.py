"""Truncations and crashes: what was cut off must not come back, and nothing on the disk may still speak of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla_broker.log.directories import directory_checkpoints
from ottla_broker.log.files import checkpoint_file
from ottla_broker.log.files.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, read_leader_epochs
from ottla_broker.log.partition import truncation
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.producer_snapshot import snapshot_offsets
from ottla_broker.log.store.log_store import LogStore
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from tests.support.broker.log_stores import FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.broker.partition_logs import (
    NOW_MS,
    HeldBackground,
    append,
    batch_of,
    open_log,
    read_values,
    small_segments,
)

CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")


def lead(log: PartitionLog, epoch: int, count: int, *, producer_id: int = -1) -> None:
    """Append so many records, a batch each, as the leader of an epoch."""
    for _ in range(count):
        producer = (producer_id, 0, log.log_end_offset) if producer_id >= 0 else (-1, -1, -1)
        append(log, b"of epoch %d" % epoch, leader_epoch=epoch, producer=producer)


def follow(log: PartitionLog, epoch: int, count: int) -> None:
    """Append so many records that a leader had received in an epoch."""
    for _ in range(count):
        batch = batch_of(b"of epoch %d" % epoch, base_offset=log.log_end_offset, leader_epoch=epoch)
        log.append_as_follower(batch, now_ms=NOW_MS)
    log.high_watermark = log.log_end_offset


def kill(log: PartitionLog, recovery_point: int | None = None) -> PartitionLog:
    """Load a log anew, as after kill -9."""
    known = log.recovery_point if recovery_point is None else recovery_point
    log.abandon()
    return open_log(log.directory, config=log.config, was_clean=False, recovery_point=known)


def entries(log: PartitionLog) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in log.leader_epochs.entries]


@contextmanager
def content_kept(directory: Path) -> Iterator[None]:
    """Put a folder's files back afterwards as they were, as a power failure may that loses what was not fsynced."""
    kept = {path: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    yield
    for path in directory.iterdir():
        path.unlink()
    for path, data in kept.items():
        path.write_bytes(data)


# Leader epochs


def test_epochs_that_were_truncated_do_not_come_back_after_a_kill(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    lead(log, 1, 10)
    lead(log, 2, 5)  # nobody else ever got these
    log.flush()
    log.truncate_to(10, NOW_MS)
    follow(log, 1, 2)
    follow(log, 3, 4)
    assert read_leader_epochs(tmp_path).entries == ((1, 0), (2, 10)), "nothing was flushed since"
    log = kill(log)
    assert entries(log) == [(1, 0), (3, 12)]
    assert log.end_offset_for_epoch(2) == (1, 12), "who has records of epoch 2 is told to cut them"


def test_epochs_that_begin_elsewhere_by_the_batches_are_put_right(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    follow(log, 1, 10)
    follow(log, 3, 5)
    log.flush()
    log.truncate_to(8, NOW_MS)
    follow(log, 2, 3)
    follow(log, 3, 9)
    assert entries(kill(log)) == [(1, 0), (2, 8), (3, 11)]


def test_an_epoch_without_records_in_the_middle_of_the_log_is_none(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    follow(log, 1, 10)
    log.start_leader_epoch(2)
    log.flush()
    log.truncate_to(10, NOW_MS)
    follow(log, 1, 3)
    log = kill(log)
    assert entries(log) == [(1, 0)]
    assert log.end_offset_for_epoch(1) == (1, 13)


def test_epochs_whose_records_are_compacted_away_are_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch, first in ((1, 0), (2, 12), (4, 20)):  # offsets 6 to 11 and epoch 3 are gone
        batch = batch_of(b"v", b"v", base_offset=first, leader_epoch=epoch)
        log.append_as_follower(batch, now_ms=NOW_MS)
    for epoch, start_offset in ((1, 0), (2, 6), (3, 15), (4, 20)):
        log.leader_epochs.assign(epoch, start_offset)
    log.leader_epochs.is_dirty = True
    log.flush()
    (tmp_path / LEADER_EPOCH_CHECKPOINT).write_text("0\n4\n1 0\n2 6\n3 15\n4 20\n")
    assert entries(kill(log, 0)) == [(1, 0), (2, 6), (3, 15), (4, 20)]


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("content", [None, "", "0\n1\n1 0", "garbage", "0\n2\n1 0\n2 x\n"])
def test_epochs_are_read_from_the_batches_where_the_file_does_not_know_them(
    tmp_path: Path, content: str | None, was_clean: bool
) -> None:
    log = open_log(tmp_path, config=small_segments())
    for epoch, count in ((1, 5), (2, 4), (5, 6)):
        lead(log, epoch, count)
    log.close()
    path = tmp_path / LEADER_EPOCH_CHECKPOINT
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    log = open_log(tmp_path, config=small_segments(), was_clean=was_clean, recovery_point=15)
    assert entries(log) == [(1, 0), (2, 5), (5, 9)]
    log.close()
    assert read_leader_epochs(tmp_path).entries == ((1, 0), (2, 5), (5, 9)), "and are written again"


async def test_of_two_flushes_that_overtake_each_other_the_newer_epochs_stay(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, background=background)
    lead(log, 1, 1)
    log.roll(NOW_MS)
    lead(log, 2, 1)
    log.roll(NOW_MS)
    lead(log, 3, 1)
    background.waiting.reverse()
    background.run_one()
    background.run_one()
    assert read_leader_epochs(tmp_path).entries == ((1, 0), (2, 1))


# Before the cut


async def test_the_disk_knows_of_a_truncation_before_anything_is_cut(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await fill(store, 20)
        log.delete_records_before(15)
        await write_checkpoints(store)
        assert offsets_in(tmp_path) == {"recovery": 20, "high watermark": 20, "log start": 15}
        async with log.truncation.prepared(12):
            assert log.log_end_offset == 20
            assert offsets_in(tmp_path) == {"recovery": 12, "high watermark": 12, "log start": 12}
            await write_checkpoints(store)
            assert offsets_in(tmp_path)["recovery"] == 12, "nobody writes the former ones meanwhile"
            log.truncate_to(12, NOW_MS)
        follow(log, 3, 30)
        crash_copy = {name: (tmp_path / name).read_bytes() for name in CHECKPOINTS}
        lead_on = read_values(log)
    crash(tmp_path)
    for name, data in crash_copy.items():
        (tmp_path / name).write_bytes(data)
    async with store_in(tmp_path) as store:
        log = store.logs[FLIGHTS]
        assert (log.log_start_offset, log.high_watermark, read_values(log)) == (12, 12, lead_on)


async def test_a_truncation_that_is_given_up_leaves_the_checkpoints_to_the_log(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await fill(store, 20)
        async with log.truncation.prepared(12):
            pass
        await write_checkpoints(store)
        assert offsets_in(tmp_path) == {"recovery": 20, "high watermark": 20, "log start": None}


async def test_a_truncation_whose_checkpoints_cannot_be_written_is_refused(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await fill(store, 20)
        await write_checkpoints(store)
        (tmp_path / "recovery-point-offset-checkpoint.tmp").mkdir()
        with pytest.raises(KafkaStorageError, match="Cannot prepare to truncate flights-3"):
            async with log.truncation.prepared(12):
                pytest.fail("the log must not be cut")
        (tmp_path / "recovery-point-offset-checkpoint.tmp").rmdir()


async def test_truncations_at_the_same_time_share_the_writing_of_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_in(tmp_path) as store:
        logs = [await fill(store, 5, partition) for partition in range(50)]
        writes = []
        write_each = directory_checkpoints._write_each
        monkeypatch.setattr(
            directory_checkpoints, "_write_each", lambda contents: (writes.append(1), write_each(contents))
        )

        async def cut(log: PartitionLog) -> None:
            async with log.truncation.prepared(3):
                log.truncate_to(3, NOW_MS)
            await log.truncation.settled()

        await asyncio.gather(*map(cut, logs))
        assert {log.log_end_offset for log in logs} == {3}
        assert len(writes) <= 2


# After the cut


async def test_a_truncation_is_settled_when_files_names_and_epochs_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_in(tmp_path, config=small_segments()) as store:
        log = await fill(store, 20)
        log.flush()
        synced: list[str] = []
        monkeypatch.setattr(
            checkpoint_file.os,
            "fsync",
            lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())),
        )
        assert log.truncation.is_settled
        log.truncate_to(7, NOW_MS)
        assert not log.truncation.is_settled
        await log.truncation.settled()
        assert log.truncation.is_settled
        assert {str(log.segments.active.path()), str(log.directory)} <= set(synced)
        assert read_leader_epochs(log.directory).entries == log.leader_epochs.entries
        synced.clear()
        await log.truncation.settled()
        assert synced == []


@pytest.mark.parametrize("offset", [0, 7])
async def test_a_truncation_is_settled_at_the_latest_when_the_log_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """Or a power failure would bring back what was cut, in a directory that was closed cleanly."""
    async with store_in(tmp_path, config=small_segments()) as store:
        log = await fill(store, 20)
        log.flush()
        log.truncate_to(offset, NOW_MS)
        log.leader_epochs.is_dirty = False
        active = log.segments.active.path()
        synced: list[str] = []
        monkeypatch.setattr(
            checkpoint_file.os,
            "fsync",
            lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink())),
        )
    assert {str(active), str(log.directory)} <= set(synced)


async def test_a_flush_that_began_before_a_truncation_does_not_settle_it(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, background=background)
    lead(log, 1, 5)
    before = asyncio.ensure_future(log._flush.wait_for_one())
    await asyncio.sleep(0)
    log.truncate_to(3, NOW_MS)
    settled = asyncio.ensure_future(log.truncation.settled())
    await asyncio.sleep(0)
    background.run_one()
    await before
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not settled.done()
    background.run_one()
    await asyncio.wait_for(settled, 10)
    assert log.recovery_point == 3


def test_a_power_failure_right_after_a_cut_leaves_the_log_before_it_or_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 6)
    lead(log, 2, 9)
    log.flush()
    with content_kept(tmp_path):
        log.truncate_to(6, NOW_MS)
        log.abandon()
    log = open_log(tmp_path, config=small_segments(), was_clean=False, recovery_point=6)
    assert (log.log_end_offset, entries(log)) == (15, [(1, 0), (2, 6)])


def test_segments_are_removed_from_the_end_so_that_no_hole_is_ever_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 40)
    bases = [segment.base_offset for segment in log.segments]
    renamed: list[int] = []
    rename = Path.rename

    def note(self: Path, target: Path) -> Path:
        if self.suffix == ".log":
            renamed.append(int(self.stem))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", note)
    log.truncate_to(1, NOW_MS)
    assert renamed == bases[:0:-1]


# What recovery believes


def test_a_recovery_point_beyond_the_logs_end_is_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 30)
    log.flush()
    log.truncate_to(2, NOW_MS)
    follow(log, 4, 20)
    damaged = log.segments[1].path()
    log.abandon()
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    log = open_log(tmp_path, config=small_segments(), was_clean=False, recovery_point=30)
    assert log.recovery_point <= log.log_end_offset
    assert damaged.with_name(damaged.name + ".corrupt").exists(), "every CRC was checked"
    assert entries(log) == [(1, 0), (4, 2)]


def test_what_lies_before_a_log_start_offset_that_cannot_be_is_kept_beside_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 10)
    log.close()
    held = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
    log = open_log(tmp_path, config=small_segments(), log_start_offset=10**12)
    assert (log.log_start_offset, log.log_end_offset) == (10**12, 10**12)
    log.close()
    open_log(tmp_path, config=small_segments(), log_start_offset=10**12)
    assert {path.name.removesuffix(".corrupt"): path.read_bytes() for path in tmp_path.glob("*.corrupt")} == held


# Producers


async def test_producers_are_read_before_the_cut_and_away_from_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 12, producer_id=7)
    lead(log, 2, 12, producer_id=8)
    async with log.truncation.prepared(14):
        monkeypatch.setattr("ottla_broker.log.partition.log_removal.read_producers", pytest.fail)
        log.truncate_to(14, NOW_MS)
    found = {entry.producer_id: entry.last_offset for entry in log.active_producers()}
    assert found == {7: 11, 8: 13}
    assert max(snapshot_offsets(tmp_path), default=0) <= 14
    log.close()
    reopened = open_log(tmp_path, config=small_segments())
    assert {entry.producer_id: entry.last_offset for entry in reopened.active_producers()} == found


async def test_a_log_that_moved_on_while_a_truncation_was_prepared_is_cut_all_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    lead(log, 1, 12, producer_id=7)
    async with log.truncation.prepared(9):
        lead(log, 1, 5, producer_id=7)
        log.truncate_to(8, NOW_MS)  # and elsewhere than was prepared
    assert [entry.last_offset for entry in log.active_producers()] == [7]


async def test_a_long_rebuild_of_producers_leaves_the_loop_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    lead(log, 1, 12, producer_id=7)
    read_producers = truncation.read_producers
    may_end = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*arguments: object, **named: object) -> object:
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result(10)
        return read_producers(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(truncation, "read_producers", slow)

    async def cut() -> None:
        async with log.truncation.prepared(9):
            log.truncate_to(9, NOW_MS)

    task = asyncio.create_task(cut())
    for _ in range(100):
        await asyncio.sleep(0)
    assert (task.done(), log.log_end_offset) == (False, 12)
    may_end.set()
    await asyncio.wait_for(task, 10)
    assert log.log_end_offset == 9


# Helpers


async def fill(store: LogStore, count: int, partition: int = FLIGHTS.partition) -> PartitionLog:
    config = next(iter(store.logs.values())).config if store.logs else TopicConfig()
    log = await store.create(FLIGHTS._replace(partition=partition), TOPIC_ID, config, is_new=True)
    lead(log, 1, count // 2)
    lead(log, 2, count - count // 2)
    log.flush()
    return log


async def write_checkpoints(store: LogStore) -> None:
    for directory in store.directories.online():
        await store._checkpoints.write_all(directory)


def offsets_in(directory: Path) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, kind in zip(CHECKPOINTS, ("recovery", "high watermark", "log start"), strict=True):
        lines = (directory / name).read_text().splitlines()[2:]
        found[kind] = next((int(line.split()[2]) for line in lines if line.startswith("flights 3 ")), None)
    return found
