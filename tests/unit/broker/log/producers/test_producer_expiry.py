"""Idempotent producers are forgotten when they have been silent for long, whatever the times of their records."""

import os
from pathlib import Path

from ottla_broker.log.partition.partition_log import PartitionLog
from tests.support.broker.partition_logs import (
    NOW_MS,
    PRODUCER_EXPIRATION_MS,
    append,
    batch_of,
    open_log,
    read_batches,
    read_values,
    segment_files,
    small_segments,
)

OLD_MS = NOW_MS - 30 * PRODUCER_EXPIRATION_MS
"""The time of records that are copied, or come out of an archive."""
SOON_MS = NOW_MS + 1000
LATE_MS = NOW_MS + PRODUCER_EXPIRATION_MS


def append_old(log: PartitionLog, sequence: int, *, epoch: int = 0, producer_id: int = 7) -> bool:
    """Append a batch of one old record; return whether it was in the log already."""
    producer = producer_id, epoch, sequence
    return append(log, b"%d" % sequence, timestamps=[OLD_MS], producer=producer).duplicate


def written_at(directory: Path, time_ms: int) -> None:
    """Let the files of segments be as old as if they had been written at a time."""
    for path in segment_files(directory):
        os.utime(path, (time_ms / 1000, time_ms / 1000))


def test_a_producer_of_old_records_is_known_while_it_writes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_old(log, 0)
    assert log.expire_producers(SOON_MS) == 0
    assert append_old(log, 0), "the answer to the first one was lost"
    assert read_values(log) == [(0, b"0")]


def test_a_producer_of_old_records_is_forgotten_when_it_has_been_silent_for_long(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_old(log, 0)
    assert log.expire_producers(LATE_MS - 1) == 0
    assert log.expire_producers(LATE_MS) == 1


def test_a_broker_that_was_killed_knows_a_producer_of_old_records_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for sequence in range(5):
        append_old(log, sequence)
    written_at(tmp_path, NOW_MS)
    log.abandon()
    reopened = open_log(tmp_path, was_clean=False, now_ms=SOON_MS)
    assert all(append_old(reopened, sequence) for sequence in range(5)), "all answers were lost"
    assert [value for _, value in read_values(reopened)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_broker_that_was_stopped_knows_a_producer_of_old_records_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_old(log, 0)
    log.close()
    written_at(tmp_path, NOW_MS)
    assert append_old(open_log(tmp_path, now_ms=SOON_MS), 0)


def test_a_start_forgets_producers_of_segments_that_were_full_long_ago(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    append_old(log, 0, producer_id=1)
    log.roll(NOW_MS)
    append_old(log, 0, producer_id=2)
    log.close()
    written_at(tmp_path, SOON_MS)
    os.utime(segment_files(tmp_path)[0], (NOW_MS / 1000, NOW_MS / 1000))
    reopened = open_log(tmp_path, now_ms=LATE_MS)
    assert [entry.producer_id for entry in reopened.active_producers()] == [2]


def test_a_start_goes_by_records_where_these_are_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments(retention_ms=1))
    append_old(log, 0, producer_id=1)
    append(log, b"new", producer=(2, 0, 0))
    assert log.enforce_retention(SOON_MS) > 0
    log.close()
    written_at(tmp_path, NOW_MS)
    reopened = open_log(tmp_path, now_ms=SOON_MS)
    assert [entry.producer_id for entry in reopened.active_producers()] == [2]


def test_a_follower_knows_a_producer_of_old_records_when_it_is_elected(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "leader"), open_log(tmp_path / "follower")
    append_old(leader, 0, epoch=3)
    follower.append_as_follower(b"".join(batch for _, batch in read_batches(leader)), now_ms=NOW_MS)
    assert follower.expire_producers(SOON_MS) == 0
    assert append_old(follower, 0, epoch=3)


def test_a_truncation_forgets_no_producer_of_old_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_old(log, 0)
    append_old(log, 1)
    written_at(tmp_path, NOW_MS)
    log.truncate_to(1, NOW_MS)
    written_at(tmp_path, NOW_MS)
    assert log.expire_producers(SOON_MS) == 0
    assert append_old(log, 0)
    assert not append_old(log, 1)


def test_a_clock_that_was_set_back_does_not_keep_producers_for_ever(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ahead_ms = NOW_MS + 1000 * PRODUCER_EXPIRATION_MS
    log.append_as_leader(batch_of(b"v", timestamps=[OLD_MS], producer=(7, 0, 0)), leader_epoch=0, now_ms=ahead_ms)
    assert log.expire_producers(NOW_MS) == 0, "it may still wait for an answer"
    assert log.expire_producers(LATE_MS) == 1
