"""The cleaner of a log store, with real cleaning processes."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.log.cleaning.cleaner import CleanerSettings, LogCleaner
from ottla_broker.log.partition.log_compaction import RoundLimits
from ottla_broker.log.partition.log_transactions import LogTransactions
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.transaction_index import AbortedTransaction
from ottla_broker.log.store.log_store import LogStore
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.compactions import DELETE_RETENTION_MS, compacted, last_values, pairs_of, put, records_of
from tests.support.broker.log_stores import FLIGHTS, TOPIC_ID, crash, retire, store_in, until
from tests.support.broker.partition_logs import NOW_MS, read_batches
from tests.support.broker.transactional_logs import committed_values, end, write

pytestmark = pytest.mark.slow

LIMITS = RoundLimits(map_bytes=1 << 20, buffer_bytes=1 << 17)
QUICK = CleanerSettings(backoff_ms=20, limits=LIMITS)
CONFIG = compacted()
OTHER = TopicPartition("other", 0)
CHECKPOINT = "cleaner-offset-checkpoint"


@asynccontextmanager
async def cleaning_store(
    directory: Path, config: TopicConfig = CONFIG, cleaner: CleanerSettings = QUICK, **settings: Any
) -> AsyncIterator[LogStore]:
    async with store_in(directory, config=config, cleaner=cleaner, **settings) as store:
        yield store


def fill(log: PartitionLog, rounds: int = 20) -> None:
    """Overwrite three keys again and again, and leave the last values in the inactive segments."""
    for number in range(rounds):
        put(log, *((key, b"%d" % number * 10) for key in (b"a", b"b", b"c")))
    log.roll(NOW_MS)


def checkpoint_of(directory: Path) -> str:
    path = directory / CHECKPOINT
    return path.read_text() if path.exists() else ""


async def test_dirty_logs_are_compacted_and_the_checkpoint_written(tmp_path: Path) -> None:
    async with cleaning_store(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        other = await store.create(OTHER, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        fill(other, 30)
        await until(lambda: log.compaction.first_dirty_offset == 60)
        assert [(key, value) for _, key, value in pairs_of(log)] == [(key, b"19" * 10) for key in (b"a", b"b", b"c")]
        await until(lambda: checkpoint_of(tmp_path) == "0\n2\nflights 3 60\nother 0 90\n")
        assert store.cleaner.written_bytes < store.cleaner.read_bytes / 5
        put(log, (b"a", b"newer"))
        log.roll(NOW_MS)
        await until(lambda: log.compaction.first_dirty_offset == 61)
        assert last_values(records_of(log)) == {b"a": b"newer", b"b": b"19" * 10, b"c": b"19" * 10}
        await until(lambda: "flights 3 61\n" in checkpoint_of(tmp_path))


async def test_a_restart_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    async with cleaning_store(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: log.compaction.first_dirty_offset == 60)
    crash(tmp_path)
    async with cleaning_store(tmp_path) as store:
        log = store.logs[FLIGHTS]
        assert log.compaction.first_dirty_offset == 60
        assert len(pairs_of(log)) == 3


async def test_nothing_is_compacted_where_the_cleaner_is_disabled(tmp_path: Path) -> None:
    async with cleaning_store(tmp_path, cleaner=replace(QUICK, enable=False)) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: log.recovery_point == 60)
        assert log.compaction.assess(NOW_MS).is_due
        assert store.cleaner.rounds == 0


async def test_a_damaged_log_is_set_aside_and_does_not_hold_up_another(tmp_path: Path) -> None:
    off = replace(QUICK, enable=False)
    async with cleaning_store(tmp_path, cleaner=off) as store:
        damaged = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(damaged, 60)
        fill(await store.create(OTHER, TOPIC_ID, CONFIG, is_new=True))
        path = damaged.segments[1].path()
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    async with cleaning_store(tmp_path) as store:
        await until(lambda: store.logs[OTHER].compaction.first_dirty_offset == 60)
        await until(lambda: store.cleaner.uncleanable_count == 1)
        assert store.logs[FLIGHTS].compaction.first_dirty_offset is None
        assert not list(path.parent.glob("*.cleaned"))
        fill(store.logs[OTHER])
        await until(lambda: store.logs[OTHER].compaction.first_dirty_offset == 120)
        assert store.cleaner.uncleanable_count == 1


async def test_a_log_whose_aborts_cannot_be_read_rests_and_does_not_hold_up_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cleaning_store(tmp_path, cleaner=replace(QUICK, enable=False)) as store:
        for name in (FLIGHTS, OTHER):
            fill(await store.create(name, TOPIC_ID, CONFIG, is_new=True))
    aborted_entries = LogTransactions.aborted_entries

    def refused(self: LogTransactions, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        if self is store.logs[FLIGHTS].transactions:
            raise OSError(errno.EIO, "broken")
        return aborted_entries(self, start_offset, end_offset)

    monkeypatch.setattr(LogTransactions, "aborted_entries", refused)
    async with cleaning_store(tmp_path) as store:
        await until(lambda: store.logs[OTHER].compaction.first_dirty_offset == 60)
        await until(lambda: store.cleaner.uncleanable_count == 1)
        assert store.logs[FLIGHTS].compaction.first_dirty_offset is None


async def test_transactions_are_compacted_in_the_process(tmp_path: Path) -> None:
    async with cleaning_store(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        put(log, (b"a", b"kept"))
        write(log, b"aborted", key=b"a", producer=(7, 0, 0))
        write(log, b"committed", key=b"b", producer=(8, 0, 0))
        end(log, 7, 1, commit=False, transaction_version=2)
        end(log, 8, 1, commit=True, transaction_version=2)
        log.roll(NOW_MS)
        await until(lambda: log.compaction.first_dirty_offset == 5)
        assert committed_values(log) == [b"kept", b"committed"]
        assert [header.base_offset for header, _ in read_batches(log)] == [0, 2, 3, 4]


async def test_a_log_that_is_deleted_while_it_is_compacted_goes_at_once(tmp_path: Path) -> None:
    slow = replace(QUICK, limits=replace(LIMITS, bytes_per_second=100.0))
    async with cleaning_store(tmp_path, cleaner=slow) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: FLIGHTS in store.cleaner._underway)
        await retire(store, FLIGHTS)
        assert FLIGHTS not in store.logs
        assert FLIGHTS not in store.cleaner._underway
        again = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert again.compaction.first_dirty_offset is None
        assert store.cleaner.uncleanable_count == 0


async def test_a_log_of_an_old_name_begins_without_the_old_checkpoint(tmp_path: Path) -> None:
    async with cleaning_store(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: "flights" in checkpoint_of(tmp_path))
        await retire(store, FLIGHTS)
        await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert "flights" not in checkpoint_of(tmp_path)


async def test_a_store_closes_in_the_middle_of_a_round(tmp_path: Path) -> None:
    slow = replace(QUICK, limits=replace(LIMITS, bytes_per_second=100.0))
    async with cleaning_store(tmp_path, cleaner=slow) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: FLIGHTS in store.cleaner._underway)
    assert not list((tmp_path / str(FLIGHTS)).glob("*.cleaned"))
    async with cleaning_store(tmp_path) as store:
        await until(lambda: store.logs[FLIGHTS].compaction.first_dirty_offset == 60)


async def test_a_killed_cleaning_process_costs_a_round_and_nothing_else(tmp_path: Path) -> None:
    slow = replace(QUICK, limits=replace(LIMITS, bytes_per_second=100.0))
    async with cleaning_store(tmp_path, cleaner=slow) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: FLIGHTS in store.cleaner._underway)
        store.cleaner._underway[FLIGHTS].process.kill()
        await until(lambda: store.cleaner.uncleanable_count == 1)
        assert len(pairs_of(log)) == 60
        put(log, (b"a", b"still"))


async def test_two_workers_take_two_logs(tmp_path: Path) -> None:
    slow = replace(QUICK, threads=2, limits=replace(LIMITS, bytes_per_second=100.0))
    async with cleaning_store(tmp_path, cleaner=slow) as store:
        fill(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True))
        fill(await store.create(OTHER, TOPIC_ID, CONFIG, is_new=True))
        await until(lambda: store.cleaner._underway.keys() == {FLIGHTS, OTHER})
        processes = {underway.process.pid for underway in store.cleaner._underway.values()}
        assert len(processes) == 2


async def test_a_truncation_during_a_round_makes_it_void(tmp_path: Path) -> None:
    slow = replace(QUICK, limits=replace(LIMITS, bytes_per_second=3000.0))
    async with cleaning_store(tmp_path, cleaner=slow) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        fill(log)
        await until(lambda: FLIGHTS in store.cleaner._underway)
        log.truncate_to(30, NOW_MS)
        await until(lambda: FLIGHTS not in store.cleaner._underway)
        assert [offset for offset, _, _ in pairs_of(log)][-1] == 29
        assert (log.compaction.first_dirty_offset or 0) <= 30
        assert store.cleaner.uncleanable_count == 0


async def test_other_settings_take_effect_while_the_cleaner_runs(tmp_path: Path) -> None:
    """A long rest ends at once, and there are as many workers as are wanted, whatever was wanted before."""

    def workers() -> int:
        return sum(task.get_name().startswith("log cleaner") for task in asyncio.all_tasks())

    never = CleanerSettings(backoff_ms=3_600_000, limits=LIMITS)
    async with cleaning_store(tmp_path, cleaner=never) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        await until(lambda: workers() == 1)
        fill(log)
        store.cleaner.reconfigure(replace(QUICK, threads=3))
        await until(lambda: log.compaction.first_dirty_offset == 60)
        assert workers() == 3
        store.cleaner.reconfigure(QUICK)
        await until(lambda: workers() == 1)
        put(log, (b"a", b"newer"))
        log.roll(NOW_MS)
        await until(lambda: log.compaction.first_dirty_offset == 61)


async def test_a_deleted_key_is_not_back_for_good_where_a_power_failure_undoes_a_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log counts as compacted only when that is on the disk: else a tombstone goes that has deleted nothing."""
    data, before = tmp_path / "data", tmp_path / "before"
    partition = data / str(FLIGHTS)
    async with cleaning_store(data, cleaner=replace(QUICK, enable=False)) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        for value in (b"deleted", None):
            put(log, (b"key", value))
            log.roll(NOW_MS)
        await until(lambda: log.recovery_point == 2)
    shutil.copytree(partition, before)
    with monkeypatch.context() as patched:
        refuse_fsyncs_of(partition, patched)
        async with cleaning_store(data) as store:
            await until(lambda: store.cleaner.rounds + store.cleaner.uncleanable_count == 1)
            assert [(key, value) for _, key, value in pairs_of(store.logs[FLIGHTS])] == [(b"key", None)]
    shutil.rmtree(partition)
    before.rename(partition)
    crash(data)
    for later_ms in (0, DELETE_RETENTION_MS + 1):
        async with cleaning_store(data, later_ms=later_ms) as store:
            log = store.logs[FLIGHTS]
            put(log, (b"other", b"%d" % later_ms))
            log.roll(NOW_MS)
            await until(lambda log=log: log.compaction.first_dirty_offset == log.log_end_offset)  # type: ignore[misc]
            assert b"key" not in last_values(records_of(log))


def refuse_fsyncs_of(directory: Path, patched: pytest.MonkeyPatch) -> None:
    """Have no change of the names in a directory become durable."""
    fsync = os.fsync

    def refusing(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == directory:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    patched.setattr(os, "fsync", refusing)


async def test_a_process_that_is_ended_right_after_a_round_costs_no_other_log_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a move that begins while the checkpoint is written."""
    async with cleaning_store(tmp_path, cleaner=replace(QUICK, enable=False)) as store:
        for name in (FLIGHTS, OTHER):
            fill(await store.create(name, TOPIC_ID, CONFIG, is_new=True))
    ended: list[TopicPartition] = []

    async def end_process(cleaner: LogCleaner, topic_partition: TopicPartition) -> None:
        if not ended:
            cleaner._underway[topic_partition].process.kill()
        ended.append(topic_partition)

    async with cleaning_store(tmp_path, cleaner=replace(QUICK, enable=False)) as store:
        cleaner = store.cleaner
        monkeypatch.setattr(cleaner, "_write_checkpoint", partial(end_process, cleaner))
        cleaner.reconfigure(QUICK)
        cleaner.start()
        await until(lambda: len(ended) + cleaner.uncleanable_count == 2)
        assert cleaner.uncleanable_count == 0
