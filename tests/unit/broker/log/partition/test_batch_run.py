"""Appending fetched batches many at a time, as a follower does."""

import errno
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment import LogSegment
from ottla_core.errors import CorruptMessage, InvalidRecord, KafkaStorageError
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.record_batch import INT32_MAX
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    batch_of,
    open_log,
    problems_in,
    read_values,
    small_segments,
)


def batches(seed: int, count: int) -> list[bytes]:
    """Batches as a leader's log has them: with gaps, several epochs, and timestamps that jump about."""
    source = random.Random(seed)
    made, offset, epoch, time_ms = [], 0, 0, NOW_MS
    for _ in range(count):
        values = [source.randbytes(source.randrange(60)) for _ in range(source.randrange(1, 4))]
        time_ms += source.choice([0, 1, 50, 2_000, -700])
        made.append(
            batch_of(*values, base_offset=offset, leader_epoch=epoch, timestamps=[time_ms] * len(values),
                     producer=(7, 0, offset))
        )  # fmt: skip
        offset += len(values) + source.choice([0, 0, 0, 5])
        epoch += source.choice([0, 0, 0, 1])
    return made


def files(log: PartitionLog) -> dict[str, bytes]:
    log.close()
    return {path.name: path.read_bytes() for path in log.directory.iterdir() if path.is_file()}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "settings",
    [{}, {"segment_ms": 5_000}, {"segment_index_bytes": 36}, {"segment_bytes": 1 << 20, "index_interval_bytes": 0}],
)
def test_many_batches_at_once_make_the_same_files_as_one_after_the_other(
    tmp_path: Path, seed: int, settings: dict[str, Any]
) -> None:
    config = small_segments(**settings)
    made = batches(seed, 40)
    one_by_one, at_once = (open_log(tmp_path / name, config=config) for name in ("one", "all"))
    for batch in made:
        one_by_one.append_as_follower(batch, now_ms=NOW_MS)
    source = random.Random(seed)
    start = 0
    while start < len(made):
        end = start + source.randrange(1, 20)
        at_once.append_as_follower(b"".join(made[start:end]), now_ms=NOW_MS)
        start = end
    assert at_once.log_end_offset == one_by_one.log_end_offset
    assert at_once.leader_epochs.entries == one_by_one.leader_epochs.entries
    assert at_once.active_producers() == one_by_one.active_producers()
    assert files(at_once) == files(one_by_one)


def test_what_comes_before_a_damaged_batch_is_appended(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log-0")
    good, damaged = batch_of(b"a"), bytearray(batch_of(b"b", base_offset=1))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        log.append_as_follower(good + damaged + batch_of(b"c", base_offset=2), now_ms=NOW_MS)
    assert read_values(log) == [(0, b"a")]
    log.append_as_follower(batch_of(b"b", base_offset=1), now_ms=NOW_MS)
    assert read_values(log) == [(0, b"a"), (1, b"b")]


def test_batches_out_of_order_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log-0")
    with pytest.raises(InvalidRecord):
        log.append_as_follower(batch_of(b"b", base_offset=5) + batch_of(b"a", base_offset=0), now_ms=NOW_MS)
    assert read_values(log) == [(5, b"b")]
    with pytest.raises(InvalidRecord):
        log.append_as_follower(batch_of(b"x", b"y", base_offset=5), now_ms=NOW_MS)
    assert log.log_end_offset == 6


def test_an_empty_log_within_a_batch_begins_at_that_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log-0")
    log.truncate_fully_and_start_at(12, NOW_MS)
    log.append_as_follower(batch_of(b"a", b"b", b"c", base_offset=10), now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (10, 13)
    assert [offset for offset, _ in read_values(log)] == [10, 11, 12]


def test_a_run_that_the_disk_refuses_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "log-0", config=replace(TopicConfig(), segment_bytes=1 << 20))
    log.append_as_follower(batch_of(b"a"), now_ms=NOW_MS)
    run = batch_of(b"b", base_offset=1) + batch_of(b"c", base_offset=2)

    def no_room(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.pwritev", no_room)
        with pytest.raises(KafkaStorageError):
            log.append_as_follower(run, now_ms=NOW_MS)
    assert read_values(log) == [(0, b"a")]
    log.append_as_follower(run, now_ms=NOW_MS)
    assert [value for _, value in read_values(log)] == [b"a", b"b", b"c"]


def test_a_disk_that_cannot_be_read_makes_the_log_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a segment has been filling for long enough may have to be read from it."""

    def refuse(_segment: LogSegment) -> int:
        raise OSError(errno.EIO, "Input/output error")

    log = open_log(tmp_path)
    log.append_as_follower(batch_of(b"a", base_offset=0), now_ms=NOW_MS)
    more = batch_of(b"b", base_offset=1) + batch_of(b"c", base_offset=2)
    monkeypatch.setattr(LogSegment, "first_timestamp", refuse)
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        log.append_as_follower(more, now_ms=NOW_MS)
    assert "a read failed" in str(log.failure)
    monkeypatch.undo()
    assert [value for _, value in read_values(log)] == [b"a"]


@pytest.mark.parametrize("gap", [4, INT32_MAX + 4])
@pytest.mark.parametrize("refused", ["os.pwritev", "ottla_broker.log.segments.segment.SegmentFile"])
def test_what_a_replica_takes_as_the_leader_after_a_refused_batch_behind_a_gap_survives_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, gap: int
) -> None:
    """The batch needs a new segment, which is there although the batch is not: no record may lie before it."""
    config = small_segments(cleanup_policy=frozenset({"compact"}))  # where gaps are no losses
    log = open_log(tmp_path / "log-0", config=config)
    log.append_as_follower(batch_of(b"v" * 200), now_ms=NOW_MS)
    behind_gap = batch_of(b"w" * 400, base_offset=1 + gap, leader_epoch=0)

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(refused, no_room)
        with pytest.raises(KafkaStorageError):
            log.append_as_follower(behind_gap, now_ms=NOW_MS)
    append(log, b"acknowledged", leader_epoch=1)
    kept = read_values(log)
    assert [value for _, value in kept] == [b"v" * 200, b"acknowledged"]
    log.abandon()
    reopened = open_log(log.directory, config=config, was_clean=False)
    assert (read_values(reopened), reopened.lost_from) == (kept, None)
    assert problems_in(log.directory) == []
    reopened.abandon()
