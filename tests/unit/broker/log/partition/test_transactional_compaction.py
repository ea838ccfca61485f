"""Compaction of logs with transactions: aborted records go, open ones stay, and markers stay as long as they say
something."""

from pathlib import Path

import pytest

from ottla_broker.log.compaction.segment_cleaning import CleaningJob
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.wire.record_batch import RecordBatchHeader
from tests.support.broker.compactions import DELETE_RETENTION_MS, LIMITS, compact, compacted, put
from tests.support.broker.partition_logs import NOW_MS, open_log, problems_in, read_batches, segment_files
from tests.support.broker.transactional_logs import aborts, aborts_in, committed, end, write

A, B, C = b"a", b"b", b"c"
P, Q = 7, 8


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "flights-0", config=compacted())


def roll_and_compact(log: PartitionLog, now_ms: int = NOW_MS, **how):
    log.roll(now_ms)
    return compact(log, now_ms=now_ms, **how)


def seen(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in committed(log)]


def headers(log: PartitionLog) -> list[RecordBatchHeader]:
    return [header for header, _ in read_batches(log)]


def markers(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers(log) if header.is_control]


def recovered(log: PartitionLog) -> PartitionLog:
    """The log after a crash, with everything made anew from its batches."""
    log.abandon()
    for path in segment_files(log.directory, ".snapshot"):
        path.unlink()
    return open_log(log.directory, config=log.config, was_clean=False)


def test_aborted_records_go_and_supersede_nothing(log: PartitionLog) -> None:
    put(log, (A, b"kept"), (B, b"1"))
    write(log, b"aborted", key=A, producer=(P, 0, 0))
    write(log, b"2", key=B, producer=(Q, 0, 0))
    end(log, P, 0, commit=False)
    end(log, Q, 0, commit=True)
    write(log, b"last of its producer", key=C, producer=(P, 0, 1))
    end(log, P, 0, commit=True)
    roll_and_compact(log)
    assert seen(log) == [(0, A, b"kept"), (3, B, b"2"), (6, C, b"last of its producer")]
    assert [header.base_offset for header in headers(log)] == [0, 3, 4, 5, 6, 7]
    assert markers(log) == [4, 5, 7], "whoever reads the log anew must not take a transaction for an open one"
    assert problems_in(log.directory) == []


def test_nothing_is_compacted_from_the_first_open_transaction_on(log: PartitionLog) -> None:
    put(log, (A, b"1"))
    put(log, (A, b"2"))
    log.roll(NOW_MS)
    write(log, b"open", key=B, producer=(P, 0, 0))
    put(log, (A, b"3"))
    log.roll(NOW_MS)
    put(log, (A, b"4"))
    roll_and_compact(log)
    assert seen(log) == [(1, A, b"2")], "what is behind the open transaction supersedes nothing yet"
    end(log, P, 0, commit=True)
    roll_and_compact(log)
    assert seen(log) == [(2, B, b"open"), (4, A, b"4")]


def test_a_marker_goes_after_the_delete_horizon_of_the_first_round_that_met_nothing_else(log: PartitionLog) -> None:
    write(log, b"old", key=A, producer=(P, 0, 0))
    end(log, P, 1, commit=False, transaction_version=2)
    write(log, b"new", key=B, producer=(P, 1, 0))
    end(log, P, 2, commit=True, transaction_version=2)
    log.roll(NOW_MS)
    put(log, (C, b"1"))
    roll_and_compact(log)
    assert markers(log) == [1, 3]
    assert len(aborts(log)) == 1

    put(log, (C, b"2"))
    roll_and_compact(log, NOW_MS + 1)
    assert [header.delete_horizon_ms for header in headers(log) if header.is_control] == [
        NOW_MS + 1 + DELETE_RETENTION_MS,
        None,
    ]
    assert aborts(log) == []
    assert not segment_files(log.directory, ".txnindex")

    put(log, (C, b"3"))
    roll_and_compact(log, NOW_MS + DELETE_RETENTION_MS)
    assert markers(log) == [1, 3], "its time is not over"
    put(log, (C, b"4"))
    roll_and_compact(log, NOW_MS + 1 + DELETE_RETENTION_MS)
    assert markers(log) == [3]
    log = recovered(log)
    assert [record[1:] for record in seen(log)] == [(B, b"new"), (C, b"4")]
    assert log.last_stable_offset == log.log_end_offset


def test_a_transaction_whose_producer_is_remembered_by_an_empty_batch_keeps_its_marker(log: PartitionLog) -> None:
    for commit, key in ((True, A), (False, B)):
        producer = P if commit else Q
        write(log, b"1", key=key, producer=(producer, 0, 0))
        end(log, producer, 0, commit=commit)
    put(log, (A, b"2"))
    for day in range(4):
        put(log, (C, b"%d" % day))
        roll_and_compact(log, NOW_MS + day * DELETE_RETENTION_MS)
    kept = [(header.base_offset, header.record_count, header.is_control) for header in headers(log)][:4]
    assert kept == [(0, 0, False), (1, 1, True), (2, 0, False), (3, 1, True)]
    assert [tuple(entry)[:4] for entry in aborts(log)] == [(0, Q, 2, 3)]
    log = recovered(log)
    assert log.last_stable_offset == log.log_end_offset, "no transaction is taken for an open one"
    assert [tuple(entry)[:4] for entry in aborts(log)] == [(0, Q, 2, 3)]
    write(log, b"3", key=A, producer=(P, 0, 1))
    end(log, P, 0, commit=True)


def test_the_marker_that_alone_tells_a_producers_epoch_stays(log: PartitionLog) -> None:
    write(log, b"1", key=A, producer=(P, 0, 0))
    end(log, P, 1, commit=False, transaction_version=2, coordinator_epoch=6)
    for day in range(4):
        put(log, (C, b"%d" % day))
        roll_and_compact(log, NOW_MS + day * DELETE_RETENTION_MS)
    assert [header.base_offset for header in headers(log)][:1] == [1]
    log = recovered(log)
    (entry,) = [entry for entry in log.active_producers() if entry.producer_id == P]
    assert (entry.producer_epoch, entry.coordinator_epoch) == (1, 6)


def test_an_abort_behind_the_rounds_end_counts(log: PartitionLog) -> None:
    put(log, (A, b"kept"))
    write(log, b"aborted", key=A, producer=(P, 0, 0))
    log.roll(NOW_MS)
    put(log, (B, b"1"))
    log.roll(NOW_MS)
    end(log, P, 0, commit=False)
    write(log, b"2", key=C, producer=(P, 0, 1))
    end(log, P, 0, commit=True)
    compact(log)
    assert log.compaction.first_dirty_offset == 3
    assert seen(log) == [(0, A, b"kept"), (2, B, b"1"), (4, C, b"2")]
    assert [header.base_offset for header in headers(log)] == [0, 2, 3, 4, 5]


def test_the_aborts_of_the_segments_that_become_one_are_in_its_index(log: PartitionLog) -> None:
    for number in range(3):
        write(log, b"1", key=A, producer=(P, 0, number))
        end(log, P, 0, commit=False)
        log.roll(NOW_MS)
    put(log, (B, b"1"))
    compact(log)
    assert len(log.segments) == 2
    assert [entry.last_offset for entry in aborts_in(log.segments[0])] == [1, 3, 5]
    log.close()
    log = open_log(log.directory, config=log.config)
    assert [entry.last_offset for entry in aborts(log)] == [1, 3, 5]
    assert seen(log) == [(6, B, b"1")]


def test_a_job_is_the_same_after_it_went_to_another_process(log: PartitionLog) -> None:
    write(log, b"1", key=A, producer=(P, 0, 0))
    log.roll(NOW_MS)
    end(log, P, 1, commit=False)
    log.compaction.make_durable()
    job = log.compaction.begin(log.compaction.assess(NOW_MS), LIMITS, NOW_MS).job
    assert job.last_markers == {P: 1}
    assert len(job.aborted_beyond) == 1
    assert CleaningJob.from_json(job.to_json()) == job
