"""Logs of which the disk has lost committed records: every start knows it until they can be copied again."""

from pathlib import Path

import pytest

from ottla_broker.log.files.shutdown_record import SHUTDOWN_RECORD
from ottla_broker.log.loading.lost_records import LOST_FROM, note_lost_from, read_lost_from
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.broker.partition_logs import NOW_MS, append, open_log, small_segments

RECORDS = 9
DAMAGED = 4
LOST_RECORDS = "lost-records-checkpoint"
UNCERTAIN_ENDS = "uncertain-ends-checkpoint"


async def write(root: Path) -> Path:
    """Write a log of `RECORDS` batches, all committed, and return its segment."""
    async with store_in(root) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        for _ in range(RECORDS):
            append(log, b"value")
        log.high_watermark = RECORDS
    return root / str(FLIGHTS) / f"{0:020}.log"


async def damage(root: Path) -> None:
    """Change a byte of a batch in the middle, and have the next start check the log."""
    segment = await write(root)
    data = bytearray(segment.read_bytes())
    data[len(data) // RECORDS * DAMAGED + 70] ^= 1
    segment.write_bytes(data)
    crash(root)
    (root / "recovery-point-offset-checkpoint").unlink()


async def lost_from(root: Path) -> int | None:
    async with store_in(root) as store:
        return store.logs[FLIGHTS].lost_from


async def test_a_sound_log_lacks_nothing(tmp_path: Path) -> None:
    await write(tmp_path)
    assert await lost_from(tmp_path) is None
    assert not (tmp_path / LOST_RECORDS).exists()


async def test_damage_in_the_middle_is_known_at_every_later_start(tmp_path: Path) -> None:
    await damage(tmp_path)
    assert await lost_from(tmp_path) == DAMAGED
    assert not (tmp_path / str(FLIGHTS) / LOST_FROM).exists(), "the checkpoint has it"
    assert await lost_from(tmp_path) == DAMAGED, "after a clean stop"
    crash(tmp_path)
    assert await lost_from(tmp_path) == DAMAGED, "after a kill, where recovery finds no damage any more"


@pytest.mark.parametrize("kept", [0, 1], ids=["all of its batches", "its last batches"])
def test_a_segment_that_lacks_batches_before_the_next_one_is_a_loss(tmp_path: Path, kept: int) -> None:
    """So a power failure leaves a segment whose fsync it overtook: shorter, and with nothing that is damaged."""
    shorten_a_segment(tmp_path, kept, config := small_segments())
    log = open_log(tmp_path, config=config, was_clean=False)
    second = log.segments[1].base_offset
    assert log.lost_from == second + kept
    log.abandon()


def test_a_gap_between_the_segments_of_a_compacted_log_is_no_loss(tmp_path: Path) -> None:
    shorten_a_segment(tmp_path, 0, config := small_segments(cleanup_policy=("compact",)))
    log = open_log(tmp_path, config=config, was_clean=False)
    assert log.lost_from is None
    log.abandon()


def shorten_a_segment(directory: Path, kept: int, config: TopicConfig) -> None:
    """Write a log of several segments, and leave so many batches of the second one."""
    log = open_log(directory, config=config)
    for _ in range(4 * RECORDS):
        append(log, b"value", key=b"key")
    assert len(log.segments) > 3
    second = log.segments[1]
    size = next(header.size_bytes for _, header in second.walk(0)) * kept
    path = second.path()
    log.abandon()
    with path.open("r+b") as file:
        file.truncate(size)


async def test_damage_is_known_after_a_kill_in_the_middle_of_the_start_that_finds_it(tmp_path: Path) -> None:
    await damage(tmp_path)
    open_log(tmp_path / str(FLIGHTS), config=CONFIG, was_clean=False).abandon()
    assert read_lost_from(tmp_path / str(FLIGHTS)) == DAMAGED
    assert await lost_from(tmp_path) == DAMAGED


@pytest.mark.parametrize(("offset", "left"), [(DAMAGED + 1, DAMAGED), (DAMAGED, None), (0, None)])
async def test_a_log_that_was_cut_at_its_loss_lacks_nothing(tmp_path: Path, offset: int, left: int | None) -> None:
    await damage(tmp_path)
    async with store_in(tmp_path) as store:
        log = store.logs[FLIGHTS]
        async with log.truncation.prepared(offset):
            log.truncate_to(offset, NOW_MS)
        assert log.lost_from == left
    assert await lost_from(tmp_path) == left


RECOVERY_POINTS, HIGH_WATERMARKS = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"


async def cut_the_end(root: Path, unknown: str = RECOVERY_POINTS) -> None:
    """Leave part of a log's last segment, and one of the two checkpoints that tell how far it had come."""
    segment = await write(root)
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // RECORDS * DAMAGED)
    crash(root)
    (root / unknown).unlink()


@pytest.mark.parametrize("unknown", [RECOVERY_POINTS, HIGH_WATERMARKS])
async def test_an_end_that_had_been_committed_or_fsynced_is_lost(tmp_path: Path, unknown: str) -> None:
    await cut_the_end(tmp_path, unknown)
    async with store_in(tmp_path) as store:
        log = store.logs[FLIGHTS]
        assert (log.log_end_offset, log.lost_from) == (DAMAGED, DAMAGED)
        log.truncate_to(DAMAGED, NOW_MS)
        assert log.lost_from is None


async def test_after_a_power_failure_the_cluster_knows_that_an_end_may_be_missing(tmp_path: Path) -> None:
    await cut_the_end(tmp_path)
    (tmp_path / SHUTDOWN_RECORD).write_text("boot.id=another\nintact.since=7\n")
    assert await lost_from(tmp_path) is None


async def may_lack_end(root: Path) -> bool:
    async with store_in(root) as store:
        return store.logs[FLIGHTS].may_lack_end


async def test_after_a_power_failure_a_log_may_lack_its_end_until_somebody_knows_better(tmp_path: Path) -> None:
    await write(tmp_path)
    crash(tmp_path)
    assert not await may_lack_end(tmp_path), "the end of a process loses nothing"
    assert not (tmp_path / UNCERTAIN_ENDS).exists()
    crash(tmp_path)
    (tmp_path / SHUTDOWN_RECORD).write_text("boot.id=another\nintact.since=7\n")
    async with store_in(tmp_path) as store:
        assert store.logs[FLIGHTS].may_lack_end
        new = await store.create(TopicPartition("new", 0), TOPIC_ID, CONFIG, is_new=True)
        assert not new.may_lack_end
        await store.directories.registered(20)
    crash(tmp_path)
    assert await may_lack_end(tmp_path), "the controller takes it for intact by now"
    async with store_in(tmp_path) as store:
        store.logs[FLIGHTS].may_lack_end = False
    assert not await may_lack_end(tmp_path)


async def test_a_log_whose_end_is_lost_may_lack_more_of_it(tmp_path: Path) -> None:
    await cut_the_end(tmp_path)
    assert await may_lack_end(tmp_path)


def test_the_first_loss_counts(tmp_path: Path) -> None:
    for offset in (7, 3, 5):
        note_lost_from(tmp_path, offset)
    assert read_lost_from(tmp_path) == 3


def test_a_note_that_is_unreadable_counts_as_a_loss_of_everything(tmp_path: Path) -> None:
    (tmp_path / LOST_FROM).write_bytes(b"\xff\x00")
    assert read_lost_from(tmp_path) == 0


def test_a_new_log_lacks_nothing(tmp_path: Path) -> None:
    log: PartitionLog = open_log(tmp_path, config=CONFIG)
    assert log.lost_from is None
