"""All logs of a broker: start, stop, crash, create, delete, duties, and who owns a directory."""

import asyncio
import errno
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from ottla_broker.log import flush, log_store
from ottla_broker.log.log_directory import LogDirectory, parse_partition_directory, set_aside_name
from ottla_broker.log.log_duties import LogSettings
from ottla_broker.log.log_loading import LoadRequest
from ottla_broker.log.log_store import LogStore
from ottla_broker.log.offset_checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint, Offsets
from ottla_broker.log.partition_log import PartitionLog
from ottla_broker.log.partition_metadata import read_partition_metadata, write_partition_metadata
from ottla_core.clock import SystemClock
from ottla_core.errors import ConfigurationError, KafkaStorageError, NotLeaderOrFollower
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.partition_logs import NOW_MS, append, read_values, small_segments

CONFIG = replace(TopicConfig(), file_delete_delay_ms=0)
TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
FLIGHTS = TopicPartition("flights", 3)
DEADLINE_S = 10.0


class RecordsClock(SystemClock):
    """A clock that stands at the time of the records, plus what a test adds."""

    def __init__(self, later_ms: int = 0) -> None:
        self.later_ms = later_ms

    def time_ms(self) -> int:
        return NOW_MS + self.later_ms


@asynccontextmanager
async def store_in(
    *directories: Path, config: TopicConfig = CONFIG, cluster_id: str = "cluster", later_ms: int = 0, **settings: int
) -> AsyncIterator[LogStore]:
    """An open store, which is closed cleanly afterwards."""
    store = await LogStore.open(
        directories,
        node_id=1,
        cluster_id=cluster_id,
        config_for=lambda _: config,
        clock=RecordsClock(later_ms),
        settings=LogSettings(**settings),
    )
    try:
        yield store
    finally:
        await store.close()


def crash(directory: Path) -> None:
    """Make a cleanly closed directory look as if the broker had been killed."""
    (directory / ".kafka_cleanshutdown").unlink()


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


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in the background."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_log_survives_a_clean_stop_and_a_crash(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        append(log, b"one", producer=(5, 0, 0), leader_epoch=2)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    for was_clean in (True, False):
        if not was_clean:
            crash(tmp_path)
        async with store_in(tmp_path) as store:
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            found = store.get(FLIGHTS)
            assert found is not None
            assert (found.topic_id, found.high_watermark, found.log_end_offset) == (TOPIC_ID, 1, 1)
            assert read_values(found) == [(0, b"one")]
            assert found.recovery_point == 1
            assert found.leader_epochs.latest == 2
            assert [entry.producer_id for entry in found.active_producers()] == [5]


async def test_the_files_of_a_directory_are_kafkas(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nflights 3 1\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nflights 3 1\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    metadata = (tmp_path / "flights-3" / "partition.metadata").read_text()
    assert metadata == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    properties = dict(line.split("=", 1) for line in (tmp_path / "meta.properties").read_text().splitlines())
    assert properties.keys() == {"version", "cluster.id", "node.id", "directory.id"}
    assert (properties["version"], properties["node.id"]) == ("1", "1")


async def test_a_moved_log_start_survives_a_restart(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        for _ in range(4):
            append(log, b"v")
        log.delete_records_before(3)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nflights 3 3\n"
    async with store_in(tmp_path) as store:
        assert store.logs[FLIGHTS].log_start_offset == 3


async def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    async with store_in(first, second) as store:
        for number in range(6):
            await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG, is_new=True)
        assert sorted(len(row.partition_sizes) for row in store.describe()) == [3, 3]
        assert len(set(store.directory_ids.values())) == 2
        ids = dict(store.directory_ids)
    async with store_in(first, second) as store:
        assert len(store.logs) == 6
        assert store.directory_ids == ids


async def test_creating_a_log_twice_gives_the_same(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True) is log


async def test_a_deleted_log_is_renamed_and_then_removed(tmp_path: Path) -> None:
    slow = replace(CONFIG, file_delete_delay_ms=3_600_000)
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, slow, is_new=True)
        append(log, b"v")
        await store.delete(FLIGHTS)
        assert store.get(FLIGHTS) is None
        (left,) = tmp_path.glob("flights-3*")
        assert left.name.endswith("-delete")
        again = await store.create(FLIGHTS, uuid4(), CONFIG, is_new=True)
        assert read_values(again) == []
        await store.delete(FLIGHTS)
        await until(lambda: len(list(tmp_path.glob("flights-3*"))) == 1)
    async with store_in(tmp_path):
        assert not list(tmp_path.glob("flights-3*")), "what was left is removed at the next start"


async def test_a_log_of_an_unknown_topic_is_kept_aside(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"precious")
        with capture_logs() as logs:
            await store.set_aside(FLIGHTS)
        assert [entry["log_level"] for entry in logs] == ["warning"]
    async with store_in(tmp_path) as store:
        assert store.get(FLIGHTS) is None
    (kept,) = tmp_path.glob("flights-3.*-stray")
    assert read_partition_metadata(kept) == TOPIC_ID
    assert (kept / f"{0:020d}.log").stat().st_size > 0


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    async with store_in(tmp_path):
        with pytest.raises(ConfigurationError, match="in use by another process"):
            async with store_in(tmp_path):
                pass
        script = (
            "import sys\nfrom pathlib import Path\nfrom ottla_broker.log.log_directory import LogDirectory\n"
            "LogDirectory(Path(sys.argv[1])).open(node_id=1, cluster_id='cluster')\n"
        )
        ended = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False
        )
        assert b"in use by another process" in ended.stderr
    async with store_in(tmp_path):
        pass


async def test_a_directory_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    async with store_in(tmp_path):
        pass
    with pytest.raises(ConfigurationError, match="belongs to cluster cluster, not other"):
        async with store_in(tmp_path, cluster_id="other"):
            pass
    properties = tmp_path / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(ConfigurationError, match="belongs to node 2, not 1"):
        async with store_in(tmp_path):
            pass


async def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for directory in (first, second):
        async with store_in(directory) as store:
            await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
    with pytest.raises(ConfigurationError, match="lies in two log directories"):
        async with store_in(first, second):
            pass


async def test_a_failed_directory_is_offline_and_the_others_serve(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("a file where a directory should be")
    async with store_in(good, bad) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
        rows = {row.path.name: row for row in store.describe()}
        assert rows["good"].error is None
        assert rows["good"].partition_sizes[FLIGHTS] > 0
        assert rows["good"].total_bytes >= rows["good"].usable_bytes > 0
        assert "bad" in str(rows["bad"].error)
    with pytest.raises(ConfigurationError, match="None of the log directories"):
        async with store_in(bad):
            pass


async def test_a_log_that_cannot_be_created_leaves_nothing_behind(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        (tmp_path / "flights-3").write_text("in the way")
        with pytest.raises(KafkaStorageError, match="Cannot create flights-3"):
            await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        (tmp_path / "flights-3").unlink()
        await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)


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
        await store.delete(FLIGHTS)
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
        await store.delete(FLIGHTS)
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
        for take_away in (store.delete, store.set_aside):
            with monkeypatch.context() as patch:
                patch.setattr(Path, "rename", refuse)
                with pytest.raises(KafkaStorageError, match="Cannot rename"):
                    await take_away(FLIGHTS)
            assert store.get(FLIGHTS) is log
            append(log, b"still in use")
        await store.delete(FLIGHTS)
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


async def test_a_log_of_another_topic_id_is_set_aside_for_the_new_one(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"old")
        new_id = uuid4()
        new = await store.create(FLIGHTS, new_id, CONFIG, is_new=True)
        assert (new.topic_id, read_values(new)) == (new_id, [])
        assert len(list(tmp_path.glob("flights-3.*-stray"))) == 1


async def test_a_creation_that_fails_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store_in(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(log_store, "write_partition_metadata", refuse)
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
    load, set_offline = PartitionLog.open, LogStore._set_offline
    is_offline = threading.Event()

    def fail_or_dawdle(request: LoadRequest, *others: Any) -> PartitionLog:
        if request.topic_partition == TopicPartition("bad", 0):
            raise OSError(errno.EIO, "Input/output error")
        if request.topic_partition.topic == "bad":
            is_offline.wait(0.2)  # as long as this log is being loaded, the directory must not be given up
        return load(request, *others)

    def note_offline(store: LogStore, directory: LogDirectory, error: OSError) -> None:
        set_offline(store, directory, error)
        is_offline.set()

    monkeypatch.setattr(PartitionLog, "open", fail_or_dawdle)
    monkeypatch.setattr(LogStore, "_set_offline", note_offline)
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
            patch.setattr(flush, "fsync", held_fsync)
            append(log, b"v", leader_epoch=7)
            producer = asyncio.create_task(log.flushed(1))
            await until(started.is_set)
            deletion = asyncio.create_task(store.delete(FLIGHTS))
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
        await store.delete(FLIGHTS)
        new = await store.create(FLIGHTS, uuid4(), config, is_new=True)
        append(new, b"new")
        uses = [
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
        with pytest.raises(NotLeaderOrFollower):
            old.update_config(replace(config, flush_messages=1))
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


async def test_duties_run_by_themselves(tmp_path: Path) -> None:
    config = replace(small_segments(retention_ms=1, flush_ms=1), file_delete_delay_ms=0)
    async with store_in(
        tmp_path,
        later_ms=1000,
        retention_check_interval_ms=20,
        flush_check_interval_ms=20,
        recovery_point_checkpoint_interval_ms=20,
        high_watermark_checkpoint_interval_ms=20,
        producer_expiration_ms=1,
        producer_expiration_check_interval_ms=20,
    ) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, config, is_new=True)
        for number in range(12):
            append(log, b"v" * 50, producer=(1, 0, number))
        await until(lambda: log.log_start_offset == 12)
        await until(lambda: log.recovery_point == 12)
        await until(lambda: not log.active_producers())
        for checkpoint in ("recovery-point", "replication"):
            path = tmp_path / f"{checkpoint}-offset-checkpoint"
            await until(lambda path=path: path.exists() and path.read_text().endswith("flights 3 12\n"))
        await until(lambda: not list(log.directory.glob("*.deleted")))


async def test_damaged_checkpoints_cost_no_data(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    for path in tmp_path.glob("*-checkpoint"):
        path.write_bytes(b"\xffgarbage")
    async with store_in(tmp_path) as store:
        assert read_values(store.logs[FLIGHTS]) == [(0, b"v")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flights-3", FLIGHTS),
        ("a-b-0", TopicPartition("a-b", 0)),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
        (f"flights-3.{'0a' * 16}-delete", None),
        (f"flights-3.{'0a' * 16}-stray", None),
        ("flights", None),
        ("flights-x", None),
        ("-3", None),
    ],
)
def test_directory_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_partition_directory(name) == expected


def test_the_name_of_a_deleted_log_fits_the_file_system() -> None:
    name = set_aside_name(TopicPartition("t" * 249, 12345), "-delete")
    assert len(name) == 255
    assert parse_partition_directory(name) is None
