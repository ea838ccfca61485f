"""How far a log reaches by its files, for a recovery of the cluster's state; nothing is changed by looking."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from ottla_broker.log.directories.log_facts import read_log_facts
from ottla_broker.log.files.partition_metadata import write_partition_metadata
from ottla_core.cluster.state.recovery_facts import LogFacts
from tests.support.broker.partition_logs import PARTITION, append, open_log, segment_files, small_segments

TOPIC_ID = UUID(int=9)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def facts_of(directory: Path, log_start_offset: int = 0) -> LogFacts:
    before = content(directory)
    found = read_log_facts(directory, PARTITION, log_start_offset=log_start_offset, high_watermark=4)
    assert content(directory) == before
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of several segments, as kill -9 leaves it: ten records, the last of leader epoch 3, and a producer 77."""
    directory = tmp_path / "log"
    log = open_log(directory, config=small_segments(), topic_id=TOPIC_ID)
    write_partition_metadata(directory, TOPIC_ID)
    for number in range(10):
        append(log, b"x" * 100, leader_epoch=number // 3, producer=(77, 0, number))
    assert len(segment_files(directory)) > 2
    copy = tmp_path / "killed"
    shutil.copytree(directory, copy)
    log.close()
    return copy


def test_end_epoch_and_producers_are_found(directory: Path) -> None:
    found = facts_of(directory)
    assert (found.topic, found.index) == PARTITION
    assert (found.end_offset, found.last_epoch, found.highest_producer_id) == (10, 3, 77)
    assert found.topic_id == TOPIC_ID
    assert found.high_watermark == 4


@pytest.mark.parametrize("torn", [lambda data: data[:-5], lambda data: data[:-5] + b"\0" * 5])
def test_a_torn_tail_does_not_count(directory: Path, torn: Callable[[bytes], bytes]) -> None:
    last = segment_files(directory)[-1]
    last.write_bytes(torn(last.read_bytes()))
    found = facts_of(directory)
    assert found.end_offset == 9
    assert found.end_offset == open_log(directory, config=small_segments(), was_clean=False).log_end_offset


def test_of_an_empty_last_segment_the_one_before_tells_the_epoch(directory: Path) -> None:
    (directory / f"{10:020d}.log").write_bytes(b"")
    found = facts_of(directory)
    assert (found.end_offset, found.last_epoch) == (10, 3)


def test_without_snapshots_producers_are_read_from_all_batches(directory: Path) -> None:
    for path in directory.glob("*.snapshot"):
        path.unlink()
    assert facts_of(directory).highest_producer_id == 77


def test_a_log_that_retention_has_emptied_ends_where_it_begins(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    open_log(directory, log_start_offset=40, topic_id=TOPIC_ID).close()
    found = facts_of(directory, log_start_offset=40)
    assert (found.end_offset, found.last_epoch) == (40, -1)


def test_when_a_log_was_begun_is_told_by_the_file_that_names_its_topic(directory: Path) -> None:
    os.utime(directory / "partition.metadata", (5, 7))
    assert facts_of(directory).created_ms == 7_000
    (directory / "partition.metadata").unlink()
    assert facts_of(directory).created_ms == 0


def test_a_log_of_which_nobody_knows_the_topic_is_told(directory: Path) -> None:
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")
    assert facts_of(directory).topic_id is None
