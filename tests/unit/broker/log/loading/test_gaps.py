"""After an unclean shutdown logs that may have gaps lack records until these are copied, whatever comes between.

A power failure leaves traces that recovery finds, but for what looks like compaction or retention. A failed fsync
does not, as the kernel may go on showing what it could not write.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla_broker.log.files.shutdown_record import FSYNC_FAILED, SHUTDOWN_RECORD
from ottla_broker.log.store.log_store import LogStore
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.broker.partition_logs import append, small_segments

CHECKPOINT = "lost-records-checkpoint"
CONFIG = small_segments(file_delete_delay_ms=0)
COMPACTED = small_segments(file_delete_delay_ms=0, cleanup_policy=("compact",))
COMPACTED_AND_DELETED = small_segments(file_delete_delay_ms=0, cleanup_policy=("delete", "compact"))
ONE_SEGMENT = TopicPartition("flights", 4)


def fail_fsync(directory: Path) -> None:
    """What a broker leaves behind of which an fsync had failed."""
    (directory / FSYNC_FAILED).touch()


def lose_power(directory: Path) -> None:
    """The machine went down."""
    (directory / SHUTDOWN_RECORD).write_text("boot.id=another\nintact.since=7\nfsync.failed=false\n")


async def leave_logs(
    directory: Path,
    recovery_point: int,
    because: Callable[[Path], None] = fail_fsync,
    config: TopicConfig = CONFIG,
) -> None:
    """A log of several segments and one of one, after a crash."""
    async with store_in(directory, config=config) as store:
        for topic_partition, count in ((FLIGHTS, 12), (ONE_SEGMENT, 2)):
            log = await store.create(topic_partition, TOPIC_ID, config, is_new=True)
            for number in range(count):
                append(log, b"%d" % number * 100, key=b"%d" % number)
        assert len(store.logs[FLIGHTS].segments) > 2
    crash(directory)
    because(directory)
    points = f"0\n2\nflights 3 {recovery_point}\nflights 4 0\n"
    (directory / "recovery-point-offset-checkpoint").write_text(points)


def lose_first_segment(directory: Path) -> None:
    """A file whose name was made durable, and whose content was not."""
    (directory / "flights-3" / f"{0:020}.log").write_bytes(b"")


def lose_second_segment(directory: Path) -> None:
    """Nor its name."""
    (directory / "flights-3" / f"{second_segment(directory):020}.log").unlink()


def second_segment(directory: Path) -> int:
    return sorted(int(path.stem) for path in (directory / "flights-3").glob("*.log"))[1]


def lost(store: LogStore) -> dict[TopicPartition, int | None]:
    return {name: log.lost_from for name, log in store.logs.items()}


@pytest.mark.parametrize(("damage", "lost_from"), [(lambda _: None, 3), (lose_first_segment, 0)])
async def test_a_log_whose_recovery_point_lies_before_its_last_segment_may_lack_records(
    tmp_path: Path, damage: Callable[[Path], None], lost_from: int
) -> None:
    await leave_logs(tmp_path, recovery_point=3)
    damage(tmp_path)
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store) == {FLIGHTS: lost_from, ONE_SEGMENT: None}
        assert store.logs[FLIGHTS].log_end_offset == 12, "by its end alone it would pass for complete"
    assert (tmp_path / CHECKPOINT).read_text() == f"0\n1\nflights 3 {lost_from}\n"


@pytest.mark.parametrize(
    ("config", "config_then", "lost_from"),
    [
        (CONFIG, CONFIG, None),
        (COMPACTED, COMPACTED, 3),
        (COMPACTED_AND_DELETED, COMPACTED_AND_DELETED, 3),
        (CONFIG, COMPACTED, 3),
        (COMPACTED, CONFIG, None),
    ],
    ids=["plain", "compacted", "compacted and deleted", "compacted by now", "no longer compacted"],
)
async def test_after_a_power_failure_that_is_so_where_a_gap_would_not_show(
    tmp_path: Path, config: TopicConfig, config_then: TopicConfig, lost_from: int | None
) -> None:
    await leave_logs(tmp_path, 3, lose_power, config)
    async with store_in(tmp_path, config=config_then) as store:
        assert lost(store) == {FLIGHTS: lost_from, ONE_SEGMENT: None}
        assert store.logs[FLIGHTS].may_lack_end, "which nobody can tell"
        assert store.logs[ONE_SEGMENT].may_lack_end


@pytest.mark.parametrize("damage", [lose_first_segment, lose_second_segment])
@pytest.mark.parametrize("config", [CONFIG, COMPACTED])
async def test_a_gap_that_shows_after_a_power_failure_is_cut_where_it_begins(
    tmp_path: Path, damage: Callable[[Path], None], config: TopicConfig
) -> None:
    """A log that was compacted once has gaps that count as well: it copies what it need not."""
    await leave_logs(tmp_path, 0, lose_power, config)
    begins = 0 if damage is lose_first_segment else second_segment(tmp_path)
    damage(tmp_path)
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store)[FLIGHTS] == begins


async def test_a_beginning_that_is_gone_looks_like_one_that_was_deleted(tmp_path: Path) -> None:
    await leave_logs(tmp_path, 0, lose_power)
    second = second_segment(tmp_path)
    (tmp_path / "flights-3" / f"{0:020}.log").unlink()
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store)[FLIGHTS] == second


async def test_a_failed_fsync_counts_until_the_cluster_knows_of_it(tmp_path: Path) -> None:
    """The second start finds no mark any more, and the notes of the first one may be lost with the first one."""
    await leave_logs(tmp_path, 3)
    for _ in range(2):
        async with store_in(tmp_path, config=CONFIG) as store:
            assert lost(store)[FLIGHTS] == 3
        crash(tmp_path)
        (tmp_path / CHECKPOINT).unlink()
        (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nflights 3 3\n")
    async with store_in(tmp_path, config=CONFIG) as store:
        await store.directories.registered(77)
    crash(tmp_path)
    (tmp_path / CHECKPOINT).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nflights 3 3\n")
    lose_power(tmp_path)
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store)[FLIGHTS] is None


@pytest.mark.parametrize("comes_between", [lambda _: None, crash])
async def test_the_loss_outlives_stops_until_it_is_made_good(
    tmp_path: Path, comes_between: Callable[[Path], None]
) -> None:
    await leave_logs(tmp_path, recovery_point=0)
    for _ in range(2):
        async with store_in(tmp_path, config=CONFIG) as store:
            await store.directories.registered(77)
            assert lost(store)[FLIGHTS] == 0
        comes_between(tmp_path)
    async with store_in(tmp_path, config=CONFIG) as store:
        store.logs[FLIGHTS].lost_from = None
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store) == {FLIGHTS: None, ONE_SEGMENT: None}


async def test_the_end_of_a_process_loses_nothing(tmp_path: Path) -> None:
    await leave_logs(tmp_path, recovery_point=0)
    (tmp_path / FSYNC_FAILED).unlink()
    async with store_in(tmp_path, config=CONFIG) as store:
        assert lost(store) == {FLIGHTS: None, ONE_SEGMENT: None}
    assert not (tmp_path / CHECKPOINT).exists()
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text())
