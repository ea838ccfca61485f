"""A compacted log: what stays, in which form, and what the log around it does."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.compaction.segment_cleaning import CleaningImpossible, CleaningJob, NoPace, clean
from ottla_broker.log.partition import local_log
from ottla_broker.log.partition.log_compaction import RoundGivenUp
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.producer_snapshot import snapshot_offsets
from ottla_broker.log.segments.segment_swap import SwapInterrupted
from ottla_core.errors import CorruptMessage, InvalidRecord, KafkaStorageError
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import (
    DELETE_HORIZON_FLAG,
    RecordBatchHeader,
    TimestampType,
    pack_header,
    parse_header,
)
from ottla_core.wire.records import Record, encode_batch, iterate_records
from tests.support.broker.compactions import (
    DELETE_RETENTION_MS,
    LIMITS,
    SCARCE,
    compact,
    compacted,
    last_values,
    pairs_of,
    put,
    records_of,
)
from tests.support.broker.partition_logs import (
    NOW_MS,
    HeldBackground,
    open_log,
    problems_in,
    read_batches,
    segment_files,
)

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "flights-0", config=compacted())


def reopened(log: PartitionLog, *, without_snapshots: bool = False) -> PartitionLog:
    """The log after a crash."""
    recovery_point = log.recovery_point
    log.abandon()
    if without_snapshots:
        for path in segment_files(log.directory, ".snapshot"):
            path.unlink()
    return open_log(log.directory, config=log.config, was_clean=False, recovery_point=recovery_point)


def roll_and_compact(log: PartitionLog, now_ms: int = NOW_MS, **how):
    log.roll(now_ms)
    return compact(log, now_ms=now_ms, **how)


# What stays


def test_the_last_record_of_each_key_stays_at_its_offset(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), (A, b"2"))
    put(log, (C, b"1"), (A, b"3"))
    roll_and_compact(log)
    assert pairs_of(log) == [(1, B, b"1"), (3, C, b"1"), (4, A, b"3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert problems_in(log.directory) == []


def test_later_records_supersede_what_was_compacted_before(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"))
    roll_and_compact(log)
    put(log, (A, b"2"))
    roll_and_compact(log)
    assert pairs_of(log) == [(1, B, b"1"), (2, A, b"2")]
    assert log.compaction.first_dirty_offset == 3


def test_the_active_segment_is_left_alone(log: PartitionLog) -> None:
    put(log, (A, b"1"))
    log.roll(NOW_MS)
    put(log, (A, b"2"), (A, b"3"))
    compact(log)
    assert pairs_of(log) == [(0, A, b"1"), (1, A, b"2"), (2, A, b"3")]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_nothing_is_copied_byte_by_byte(log: PartitionLog, codec: Codec) -> None:
    put(log, (A, b"1"), codec=codec)
    put(log, (B, b"1"), (C, b"1" * 50), codec=codec)
    put(log, (A, b"2"), codec=codec)
    before = [batch for _, batch in read_batches(log)]
    roll_and_compact(log)
    assert [batch for _, batch in read_batches(log)] == before[1:]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_loses_records_keeps_its_codec_and_identity(log: PartitionLog, codec: Codec) -> None:
    put(log, (A, b"1" * 90), (B, b"1"), (A, b"2"), (C, b"1"), (C, b"2"), codec=codec, producer=(7, 1, 0))
    ((before, _),) = read_batches(log)
    records = records_of(log)
    roll_and_compact(log)
    ((after, batch),) = read_batches(log)
    changed = {"batch_length", "crc", "record_count"}
    assert {name for name, old, new in zip(before._fields, before, after, strict=True) if old != new} == changed
    assert list(iterate_records(batch, after)) == [records[1], records[2], records[4]]


def test_the_largest_timestamp_of_what_is_left_is_in_the_header(log: PartitionLog) -> None:
    batch = encode_batch([Record(0, NOW_MS, A, b"1"), Record(1, NOW_MS + 9, B, b"1"), Record(2, NOW_MS + 5, A, b"2")])
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    put(log, (B, b"2"))
    roll_and_compact(log)
    assert [header.max_timestamp for header, _ in read_batches(log)] == [NOW_MS + 5, NOW_MS]
    assert log.offset_for_timestamp(NOW_MS + 1) == (2, NOW_MS + 5, 0)
    assert log.offset_for_timestamp(NOW_MS + 6) is None


def test_records_without_a_key_from_before_the_policy_changed_go(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", config=compacted(cleanup_policy=frozenset({"delete"})))
    log.append_as_leader(
        encode_batch([Record(0, NOW_MS, None, b"x"), Record(1, NOW_MS, A, b"1")]), leader_epoch=0, now_ms=NOW_MS
    )
    log.high_watermark = 2
    log.update_config(compacted())
    roll_and_compact(log)
    assert pairs_of(log) == [(1, A, b"1")]
    with pytest.raises(InvalidRecord, match="Compacted topic cannot accept message without key"):
        log.append_as_leader(encode_batch([Record(0, NOW_MS, None, b"x")]), leader_epoch=0, now_ms=NOW_MS)


# Tombstones


def test_a_tombstone_stays_for_its_time_after_the_round_that_applied_it(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"))
    put(log, (A, None), (C, b"1"), now_ms=NOW_MS + 3)
    written = records_of(log)
    roll_and_compact(log)
    assert records_of(log) == written[1:], "timestamps are what they were"
    _, (header, _) = read_batches(log)
    assert header.delete_horizon_ms == NOW_MS + DELETE_RETENTION_MS

    put(log, (B, b"2"))
    roll_and_compact(log, NOW_MS + DELETE_RETENTION_MS - 1)
    assert [(record.key, record.value) for record in records_of(log)] == [(A, None), (C, b"1"), (B, b"2")]
    put(log, (B, b"3"))
    roll_and_compact(log, NOW_MS + DELETE_RETENTION_MS)
    assert [(record.key, record.value) for record in records_of(log)] == [(C, b"1"), (B, b"3")]
    assert records_of(log)[0] == written[3]
    assert problems_in(log.directory) == []


@pytest.mark.parametrize("codec", Codec)
def test_a_delete_horizon_keeps_timestamps_and_codec(log: PartitionLog, codec: Codec) -> None:
    records = [
        Record(0, NOW_MS, A, None, (("h", b"v"),)),
        Record(1, NOW_MS - 50, B, b"1"),
        Record(2, NOW_MS + 7, C, b""),
    ]
    log.append_as_leader(encode_batch(records, codec=codec), leader_epoch=3, now_ms=NOW_MS)
    log.high_watermark = 3
    roll_and_compact(log)
    ((header, batch),) = read_batches(log)
    assert list(iterate_records(batch, header)) == records
    assert (header.codec_id, header.max_timestamp, header.leader_epoch) == (codec, NOW_MS + 7, 3)
    assert header.attributes & DELETE_HORIZON_FLAG


def test_append_times_survive_a_delete_horizon(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", config=compacted(message_timestamp_type="LogAppendTime"))
    put(log, (A, None), (B, b"1"), now_ms=NOW_MS)
    roll_and_compact(log, NOW_MS + 100)
    ((header, batch),) = read_batches(log)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in iterate_records(batch, header)} == {NOW_MS}


def test_a_tombstone_whose_round_did_not_reach_it_gets_no_horizon(log: PartitionLog) -> None:
    put(log, *((b"%d" % number, b"1") for number in range(4)))
    put(log, (A, None))
    roll_and_compact(log, limits=SCARCE)
    assert log.compaction.first_dirty_offset == 4
    assert [header.delete_horizon_ms for header, _ in read_batches(log)] == [None, None]
    compact(log, now_ms=NOW_MS + 5)
    assert [header.delete_horizon_ms for header, _ in read_batches(log)] == [None, NOW_MS + 5 + DELETE_RETENTION_MS]


# Producers


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), producer=(7, 2, 10), codec=Codec.ZSTD)
    put(log, (A, None), (B, b"2"))
    ((before, _), _) = read_batches(log)
    roll_and_compact(log)
    ((after, batch), _) = read_batches(log)
    assert len(batch) == 61
    kept = (
        "base_offset",
        "leader_epoch",
        "last_offset_delta",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
    )
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert (after.record_count, after.codec_id, after.base_timestamp) == (0, 0, -1)


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_sequences_go_on_after_a_compaction_and_a_crash(log: PartitionLog, without_snapshots: bool) -> None:
    put(log, (A, b"1"), (B, b"1"), producer=(7, 2, 10))
    put(log, (A, b"2"), (B, b"2"), producer=(8, 0, 0))
    put(log, (A, b"3"), (B, b"3"))
    roll_and_compact(log)
    again = reopened(log, without_snapshots=without_snapshots)
    assert put(again, (A, b"1"), (B, b"1"), producer=(7, 2, 10)) == 0, "a retry gets its old offset"
    assert again.log_end_offset == 6
    assert put(again, (A, b"4"), producer=(7, 2, 12)) == 6
    assert put(again, (A, b"5"), producer=(8, 0, 2)) == 7


def test_an_empty_batch_goes_when_its_producer_has_written_again(log: PartitionLog) -> None:
    put(log, (A, b"1"), producer=(7, 0, 0))
    put(log, (A, b"2"))
    roll_and_compact(log)
    put(log, (B, b"1"), producer=(7, 0, 1))
    roll_and_compact(log)
    assert [header.base_offset for header, _ in read_batches(log)] == [1, 2]


def test_batches_that_never_had_records_stay_for_their_producers_only(log: PartitionLog) -> None:
    for epoch in (4, 5):
        log.append_as_leader(
            fence(producer_id=9, epoch=epoch), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
    put(log, (A, b"1"))
    roll_and_compact(log)
    assert [(header.base_offset, header.producer_epoch) for header, _ in read_batches(log)] == [(1, 5), (2, -1)]
    entry = reopened(log, without_snapshots=True).producers.get(9)
    assert entry is not None
    assert entry.producer_epoch == 5


def fence(*, producer_id: int, epoch: int) -> bytes:
    header = parse_header(encode_batch([Record(0, NOW_MS, A, b"1")], producer_id=producer_id, producer_epoch=epoch))
    return pack_header(header._replace(batch_length=49, base_sequence=0, record_count=0), b"")


def test_the_last_batch_of_a_round_stays_so_that_readers_can_reach_the_end(log: PartitionLog) -> None:
    put(log, (A, b"1"))
    put(log, (A, None))
    roll_and_compact(log)
    put(log, (A, b"2"))
    compact(log, now_ms=NOW_MS + DELETE_RETENTION_MS)  # not due: nothing is dirty but the active segment
    log.roll(NOW_MS)
    put(log, (A, None))
    roll_and_compact(log)
    roll_and_compact(log, NOW_MS + 2 * DELETE_RETENTION_MS)
    put(log, (B, b"1"))
    log.roll(NOW_MS)
    compact(log, now_ms=NOW_MS + 2 * DELETE_RETENTION_MS)
    assert pairs_of(log) == [(4, B, b"1")]


# The log around it


def test_small_segments_become_one_and_old_files_go_later(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path / "flights-0", config=compacted(), background=background)
    for number in range(5):
        put(log, (A, b"%d" % number), (b"%d" % number, b"1"), producer=(3, 0, 2 * number))
        log.roll(NOW_MS)
        while background.waiting:
            background.run_one()
    modified_s = 1_600_000_000
    os.utime(log.segments[4].path(), (modified_s, modified_s))
    slice_before = log.read(0, max_bytes=1, end_offset=10, at_least_one_batch=True)
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert log.segments[0].path().stat().st_mtime == modified_s
    assert slice_before is not None
    old = os.pread(slice_before.file.fileno(), slice_before.size, slice_before.position)
    assert parse_header(old).record_count == 2, "who has the old file open reads on in it"
    deleted = list(log.directory.glob("*.deleted"))
    assert len(deleted) == 15
    for work in background.later:
        work()
    assert not list(log.directory.glob("*.deleted"))
    assert snapshot_offsets(log.directory) == [10]
    assert pairs_of(log)[-1] == (9, b"4", b"1")


def test_readers_go_on_across_what_is_gone(log: PartitionLog) -> None:
    for number in range(30):
        put(log, (A, b"%d" % number * 20), (b"k%d" % (number % 3), b"%d" % number))
    log.roll(NOW_MS)
    half_read = [offset for offset, _, _ in pairs_of(log)][:30]
    compact(log)
    put(log, (A, b"last"))
    kept = [offset for offset, _, _ in pairs_of(log)]
    assert kept == [55, 57, 58, 59, 60]
    for start in (half_read[-1] + 1, 0, 54, 55, 56, 59, 60):
        batches = read_batches(log, start, max_bytes=1)
        offsets = [record.offset for header, batch in batches for record in iterate_records(batch, header)]
        assert [offset for offset in offsets if offset >= start] == [offset for offset in kept if offset >= start]


def test_a_swap_whose_segment_cannot_be_opened_is_taken_back(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (b"1", b"2"):
        put(log, (A, value))
        log.roll(NOW_MS)
    before = pairs_of(log)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr(local_log, "LogSegment", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            compact(log)
    assert pairs_of(log) == before
    assert pairs_of(reopened(log)) == before

    again = reopened(log)
    compact(again)
    assert pairs_of(again) == [(1, A, b"2")]
    assert problems_in(again.directory) == []


def test_a_swap_that_is_interrupted_ends_the_log_until_the_next_start(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (b"1", b"2"):
        put(log, (A, value))
        log.roll(NOW_MS)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    told: list[bool] = []
    log.when_failed(lambda: told.append(True))
    with monkeypatch.context() as refusing:
        refusing.setattr(local_log, "LogSegment", refuse)
        refusing.setattr(Path, "rename", refuse)  # the swap is carried out, but cannot be taken back
        with pytest.raises(SwapInterrupted):
            compact(log)
    assert told, "another replica takes over"
    with pytest.raises(KafkaStorageError, match="a swap of compaction was interrupted"):
        put(log, (A, b"3"))
    again = reopened(log)
    assert pairs_of(again) == [(1, A, b"2")]
    assert problems_in(again.directory) == []


def test_compacted_segments_are_also_deleted_by_age_where_the_policy_says_so(tmp_path: Path) -> None:
    config = compacted(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    log = open_log(tmp_path / "flights-0", config=config)
    put(log, (A, b"1"), (B, b"1"), now_ms=NOW_MS)
    put(log, (A, b"2"), now_ms=NOW_MS)
    roll_and_compact(log)
    assert log.enforce_retention(NOW_MS + 1000) == 0
    assert log.enforce_retention(NOW_MS + 1001) == 1
    put(log, (C, b"1"))
    roll_and_compact(log)
    assert pairs_of(log) == [(3, C, b"1")]


def test_the_greatest_lag_closes_the_active_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", config=compacted(max_compaction_lag_ms=1000))
    put(log, (A, b"1"), now_ms=NOW_MS)
    put(log, (A, b"2"), now_ms=NOW_MS + 1000)
    put(log, (A, b"3"), now_ms=NOW_MS + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.update_config(replace(log.config, cleanup_policy=frozenset({"delete"})))
    put(log, (A, b"4"), now_ms=NOW_MS + 9000)
    assert len(log.segments) == 2


def test_a_round_is_void_once_a_segment_of_it_has_been_deleted(log: PartitionLog) -> None:
    for number in range(3):
        put(log, (A, b"%d" % number))
        log.roll(NOW_MS)
    log.compaction.make_durable()
    cleaning = log.compaction.begin(log.compaction.assess(NOW_MS), LIMITS, NOW_MS)
    _, segment = clean(cleaning.job, NoPace())
    log.delete_records_before(1)
    log.enforce_retention(NOW_MS)
    assert not cleaning.is_current
    with pytest.raises(RoundGivenUp):
        cleaning.swap(segment, NOW_MS)
    assert compact(log) is not None
    assert last_values(records_of(log)) == {A: b"2"}


@pytest.mark.parametrize("change", ["truncate", "policy", "close"])
def test_a_round_is_void_once_the_log_is_not_what_it_was(log: PartitionLog, change: str) -> None:
    put(log, (A, b"1"), (A, b"2"))
    log.roll(NOW_MS)
    put(log, (A, b"3"))
    cleaning = log.compaction.begin(log.compaction.assess(NOW_MS), LIMITS, NOW_MS)
    _, segment = clean(cleaning.job, NoPace())
    if change == "truncate":
        log.truncate_to(2, NOW_MS)
    elif change == "policy":
        log.update_config(replace(log.config, cleanup_policy=frozenset({"delete"})))
    else:
        log.close()
    with pytest.raises(RoundGivenUp):
        cleaning.swap(segment, NOW_MS)
    if change == "truncate":
        with pytest.raises(RoundGivenUp):
            cleaning.finish(2)


def test_a_truncation_moves_the_first_dirty_offset_back(log: PartitionLog) -> None:
    put(log, (A, b"1"))
    put(log, (A, b"2"))
    roll_and_compact(log)
    assert log.compaction.first_dirty_offset == 2
    log.truncate_to(1, NOW_MS)
    assert log.compaction.first_dirty_offset == 1


def test_a_first_dirty_offset_beyond_the_log_is_taken_back(log: PartitionLog) -> None:
    put(log, (A, b"1"), (A, b"2"))
    log.compaction.first_dirty_offset = 99
    roll_and_compact(log)
    assert pairs_of(log) == [(1, A, b"2")]
    assert log.compaction.first_dirty_offset == 2


def test_keys_that_do_not_fit_wait_for_the_next_round(log: PartitionLog) -> None:
    for number in range(12):
        put(log, *((b"%d" % (number + more), b"%d" % number) for more in range(3)))
    expected = last_values(records_of(log))
    log.roll(NOW_MS)
    ends = []
    while compact(log, limits=SCARCE) is not None:
        ends.append(log.compaction.first_dirty_offset)
        assert last_values(records_of(log)) == expected
    assert len(ends) > 3
    assert (ends[-1], len(pairs_of(log))) == (36, 14)


def test_a_batch_with_more_keys_than_the_map_has_room_for_is_named(log: PartitionLog) -> None:
    put(log, *((b"%d" % number, b"1") for number in range(5)))
    log.roll(NOW_MS)
    with pytest.raises(CleaningImpossible, match=r"batch at offset 0 .* more keys than the 4"):
        compact(log, limits=SCARCE)


@pytest.mark.parametrize("position", [16, 70])
def test_a_damaged_segment_is_not_compacted(log: PartitionLog, position: int) -> None:
    put(log, (A, b"1"), (B, b"1"), (A, b"2"))
    log.roll(NOW_MS)
    path = log.segments[0].path()
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptMessage, match=path.name):
        compact(log)


def test_batches_larger_than_the_buffer_are_read_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", config=compacted(segment_bytes=1 << 20))
    put(log, (A, os.urandom(200_000)), (B, b"1"))
    put(log, (A, b"2"))
    roll_and_compact(log)
    assert pairs_of(log) == [(1, B, b"1"), (2, A, b"2")]


def test_a_job_is_the_same_after_a_journey_as_a_line(log: PartitionLog) -> None:
    put(log, (A, b"1"), producer=(7, 0, 0))
    log.roll(NOW_MS)
    job = log.compaction.begin(log.compaction.assess(NOW_MS), LIMITS, NOW_MS).job
    assert job.last_offsets == {7: 0}
    assert CleaningJob.from_json(job.to_json()) == job
    assert "\n" not in job.to_json()


def test_headers_of_rewritten_batches_are_intact(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), (A, None), producer=(1, 0, 0))
    put(log, (B, b"2"))
    roll_and_compact(log)
    headers: list[RecordBatchHeader] = [header for header, _ in read_batches(log)]
    assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
        (0, 2, 1),
        (3, 3, 1),
    ]
    assert [header.last_sequence for header in headers] == [2, -1]
