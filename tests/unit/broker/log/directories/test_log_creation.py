"""Logs that are new: creating one fsyncs nothing, and whatever counts as durable survives a power failure."""

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ottla_broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla_broker.log.directories.log_creation import create_log
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files import checkpoint_file
from ottla_broker.log.flushing import flush_plan
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_core.errors import KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.broker.partition_logs import NOW_MS, HeldBackground, append, read_values

NAME = str(FLIGHTS)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


@dataclass
class Disk:
    """Knows what a power failure leaves below a directory: what was fsynced, and nothing else.

    Attributes:
        root: the directory.
        synced: the paths that were fsynced.
        order: the same, in the order of the fsyncs.
    """

    root: Path
    order: list[Path] = field(default_factory=list)
    synced: set[Path] = field(default_factory=set)
    _names: dict[int, set[str]] = field(default_factory=dict)
    _bytes: dict[int, bytes] = field(default_factory=dict)

    def note_fsync(self, descriptor: int) -> None:
        """Note what is durable from now on, by inode, since files are renamed."""
        path, inode = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_ino
        self.synced.add(path)
        self.order.append(path)
        if path.is_dir():
            self._names[inode] = {entry.name for entry in path.iterdir()}
        else:
            self._bytes[inode] = path.read_bytes()

    def lose_power(self) -> None:
        """Leave what is durable. Of a file whose name alone is, nothing is left but the name."""
        self._cut(self.root)

    def _cut(self, directory: Path) -> None:
        names = self._names.get(directory.stat().st_ino, set())
        for entry in list(directory.iterdir()):
            if entry.name not in names:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            elif entry.is_dir():
                self._cut(entry)
            else:
                entry.write_bytes(self._bytes.get(entry.stat().st_ino, b""))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk below a directory of the test, from now on."""
    found = Disk(tmp_path / "data")
    found.root.mkdir()
    fsync = os.fsync

    def noticed(descriptor: int) -> None:
        fsync(descriptor)
        found.note_fsync(descriptor)

    monkeypatch.setattr(checkpoint_file.os, "fsync", noticed)
    return found


def create(root: Path, background: HeldBackground | None = None) -> PartitionLog:
    return create_log(
        LoadRequest(
            topic_partition=FLIGHTS,
            directory=root / NAME,
            config=replace(TopicConfig(), flush_messages=1),
            open_files=OpenFiles(),
            now_ms=NOW_MS,
            was_clean=False,
            recovery_point=0,
            log_start_offset=0,
            producer_expiration_ms=1000,
        ),
        TOPIC_ID,
        background or HeldBackground(),
    )


def test_a_creation_waits_for_no_fsync(disk: Disk) -> None:
    log = create(disk.root)
    assert disk.synced == set()
    assert sorted(path.name.lstrip("0") for path in log.directory.iterdir()) == [
        ".index",
        ".log",
        ".timeindex",
        "partition.metadata",
    ]
    assert (log.log_end_offset, log.recovery_point, log.topic_id) == (0, 0, TOPIC_ID)


async def test_what_was_flushed_survives_a_power_failure_right_after_the_creation(disk: Disk) -> None:
    async with store_in(disk.root) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        append(log, b"durable")
        log.flush()
        assert log.recovery_point == 1
        append(log, b"not yet")
        disk.lose_power()
    crash(disk.root)
    async with store_in(disk.root) as store:
        again = store.logs[FLIGHTS]
        assert (again.topic_id, read_values(again)) == (TOPIC_ID, [(0, b"durable")])
        assert store.directories.lost == set()


@pytest.mark.parametrize("leader_epoch", [None, 4])
def test_the_first_flush_fsyncs_each_directory_once(disk: Disk, leader_epoch: int | None) -> None:
    log = create(disk.root)
    if leader_epoch is not None:
        log.start_leader_epoch(leader_epoch)
    append(log, b"v", leader_epoch=leader_epoch or 0)
    log.leader_epochs.is_dirty = leader_epoch is not None
    log.flush()
    assert [disk.order.count(path) for path in (log.directory, disk.root)] == [1, 1]
    assert disk.order[-1] == disk.root, "the name of the directory comes when all in it is there"


def test_only_the_first_flush_makes_the_directory_durable(disk: Disk) -> None:
    log = create(disk.root)
    append(log, b"v")
    log.flush()
    assert disk.root in disk.synced
    disk.synced.clear()
    append(log, b"w")
    log.flush()
    assert disk.synced.isdisjoint({disk.root, log.directory / "partition.metadata"})


async def test_closing_logs_that_were_never_written_fsyncs_none_of_them(disk: Disk) -> None:
    async with store_in(disk.root) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        log.start_leader_epoch(4)
    assert not any(path.is_relative_to(log.directory) for path in disk.synced)
    disk.lose_power()
    async with store_in(disk.root) as store:
        assert store.directories.lost == set()
        assert FLIGHTS not in store.logs or store.logs[FLIGHTS].log_end_offset == 0


def test_a_flush_that_found_no_descriptor_leaves_the_directory_to_the_next_one(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = create(disk.root)
    append(log, b"v")

    def refuse(_path: Path) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(flush_plan, "sync_directory", refuse)
        with pytest.raises(KafkaStorageError, match="Too many open files"):
            log.flush()
    assert disk.root not in disk.synced
    log.flush()
    assert disk.root in disk.synced
    assert log.recovery_point == 1


async def test_whichever_of_two_flushes_ends_first_covers_the_directory(disk: Disk) -> None:
    background = HeldBackground()
    log = create(disk.root, background)
    append(log, b"v")
    waiter = asyncio.create_task(log.flushed(1))
    await asyncio.sleep(0)
    append(log, b"w")
    log.roll(NOW_MS)  # begins another one
    background.waiting.reverse()
    background.run_one()
    assert log.recovery_point == 2
    assert disk.root in disk.synced
    background.run_one()
    await waiter


async def test_a_directory_that_a_failed_attempt_left_is_taken_up_and_made_durable(disk: Disk) -> None:
    create(disk.root)
    log = create(disk.root)
    append(log, b"v")
    log.flush()
    disk.lose_power()
    assert "topic_id" in (log.directory / "partition.metadata").read_text()


def emptied(root: Path) -> None:
    """Leave of a log its names, as a power failure can where journals keep them before the files' bytes."""
    for path in (root / NAME).iterdir():
        path.write_bytes(b"")


def without_metadata(root: Path) -> None:
    (root / NAME / "partition.metadata").unlink()


async def test_a_log_that_was_never_flushed_is_begun_anew_where_a_power_failure_left_names_alone(disk: Disk) -> None:
    async with store_in(disk.root) as store:
        await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
    emptied(disk.root)
    async with store_in(disk.root) as store:
        assert (store.get(FLIGHTS), store.directories.lost) == (None, set())
        assert not list(disk.root.glob(f"{NAME}*")), "nothing that somebody would have to look into is left"
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=False)
        assert log.topic_id == TOPIC_ID


@pytest.mark.parametrize("damage", [emptied, without_metadata])
async def test_a_log_with_records_that_cannot_be_taken_up_is_known_to_be_lost(
    disk: Disk, damage: Callable[[Path], None]
) -> None:
    async with store_in(disk.root) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    damage(disk.root)
    for _ in range(2):  # whoever starts has to know until the cluster does
        crash(disk.root)
        async with store_in(disk.root) as store:
            assert store.directories.lost == {FLIGHTS}


async def test_logs_that_are_asked_for_together_share_turns_at_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    make_room_for = DirectoryCheckpoints.make_room_for

    async def counted(
        checkpoints: DirectoryCheckpoints, directory: LogDirectory, names: Collection[TopicPartition]
    ) -> None:
        turns.append(len(names))
        await make_room_for(checkpoints, directory, names)

    monkeypatch.setattr(DirectoryCheckpoints, "make_room_for", counted)
    names = [TopicPartition("flights", number) for number in range(150)]
    async with store_in(tmp_path) as store:
        logs = await asyncio.gather(*(store.create(name, TOPIC_ID, CONFIG, is_new=True) for name in names))
        assert [log.topic_partition for log in logs] == names
        assert store.logs.keys() == set(names)
    assert (sum(turns), len(turns)) == (150, 2)


async def test_a_log_that_cannot_be_created_keeps_no_other_from_being_created(tmp_path: Path) -> None:
    names = [TopicPartition("flights", number) for number in range(3)]
    async with store_in(tmp_path) as store:
        (tmp_path / "flights-1").write_text("in the way")
        outcomes = await asyncio.gather(
            *(store.create(name, TOPIC_ID, CONFIG, is_new=True) for name in names), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [PartitionLog, KafkaStorageError, PartitionLog]
        assert store.logs.keys() == {names[0], names[2]}
        (tmp_path / "flights-1").unlink()
        assert (await store.create(names[1], TOPIC_ID, CONFIG, is_new=True)).topic_partition == names[1]
