"""After an unclean shutdown logs that may have gaps lack records until these are copied, whatever comes between."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla_broker.log.log_store import LogStore
from ottla_broker.log.shutdown_record import FSYNC_FAILED
from ottla_core.topic_partition import TopicPartition
from tests.support.log_stores import FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.partition_logs import append, small_segments

CHECKPOINT = "lost-records-checkpoint"
CONFIG = small_segments(file_delete_delay_ms=0)
ONE_SEGMENT = TopicPartition("flights", 4)


async def leave_logs(directory: Path, recovery_point: int) -> None:
    """A log of several segments and one of one, after a crash in which fsyncs had failed."""
    async with store_in(directory, config=CONFIG) as store:
        for topic_partition, count in ((FLIGHTS, 12), (ONE_SEGMENT, 2)):
            log = await store.create(topic_partition, TOPIC_ID, CONFIG, is_new=True)
            for number in range(count):
                append(log, b"%d" % number * 100)
        assert len(store.logs[FLIGHTS].segments) > 2
    crash(directory)
    (directory / FSYNC_FAILED).touch()
    points = f"0\n2\nflights 3 {recovery_point}\nflights 4 0\n"
    (directory / "recovery-point-offset-checkpoint").write_text(points)


def lose_first_segment(directory: Path) -> None:
    """A file whose name was made durable, and whose content was not."""
    (directory / "flights-3" / f"{0:020}.log").write_bytes(b"")


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
