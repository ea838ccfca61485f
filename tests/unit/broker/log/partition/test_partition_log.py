"""Appends, reads, rolls, retention and truncation of one partition's log."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry, write_leader_epochs
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment_file import OpenFiles
from ottla_core.errors import InvalidRecord, KafkaStorageError, MessageTooLarge, OffsetOutOfRange
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import TimestampType, crc_is_valid
from ottla_core.wire.records import iterate_records
from tests.support.broker.partition_logs import (
    NOW_MS,
    HeldBackground,
    append,
    batch_of,
    open_log,
    problems_in,
    read_batches,
    read_values,
    segment_files,
    small_segments,
)

HOUR_MS = 3_600_000


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# Appending


def test_batches_get_the_next_offsets_and_come_back_untouched(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = append(log, b"a", b"b", b"c", leader_epoch=5), append(log, b"d", codec=Codec.ZSTD, leader_epoch=5)
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 2, 3)
    assert (first.log_append_time_ms, first.duplicate, log.log_end_offset) == (-1, False, 4)
    assert read_values(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    (header, batch), _ = read_batches(log)
    assert batch[16:] == batch_of(b"a", b"b", b"c")[16:], "only the 16 bytes before are the broker's"
    assert header.leader_epoch == 5
    assert names(tmp_path) == [f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex"]


def test_log_append_time_is_stamped_and_reported(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), message_timestamp_type="LogAppendTime"))
    appended = append(log, b"a", b"b", timestamps=[1, 2], codec=Codec.LZ4, now_ms=NOW_MS + 9)
    assert appended.log_append_time_ms == NOW_MS + 9
    ((header, batch),) = read_batches(log)
    assert crc_is_valid(batch, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in iterate_records(batch, header)} == {NOW_MS + 9}


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("setting", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_in_the_topics_codec(tmp_path: Path, source: Codec, setting: str) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), compression_type=setting))
    append(log, b"a" * 50, None, codec=source, producer=(1, 0, 0))
    ((header, batch),) = read_batches(log)
    wanted = Codec.NONE if setting == "uncompressed" else Codec[setting.upper()]
    assert header.codec_id == wanted
    assert [record.value for record in iterate_records(batch, header)] == [b"a" * 50, None]
    assert (header.producer_id, header.base_sequence, header.record_count) == (1, 0, 2)
    if source == wanted:
        assert batch[16:] == batch_of(b"a" * 50, None, codec=source, producer=(1, 0, 0))[16:]


def test_a_batch_that_recompression_makes_too_large_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), compression_type="uncompressed", max_message_bytes=500))
    with pytest.raises(MessageTooLarge, match="uncompressed"):
        append(log, b"a" * 1000, codec=Codec.GZIP)
    assert log.log_end_offset == 0


def test_compacted_topics_refuse_records_without_key(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), cleanup_policy=frozenset({"compact"})))
    append(log, b"a")
    with pytest.raises(InvalidRecord, match="without key"):
        append(log, b"a", key=None)


def test_a_retried_batch_is_written_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(5):
        append(log, b"v", b"w", producer=(7, 0, number * 2))
    again = append(log, b"v", b"w", producer=(7, 0, 4))
    assert (again.base_offset, again.last_offset, again.duplicate) == (4, 5, True)
    assert log.log_end_offset == 10
    assert [entry.producer_id for entry in log.active_producers()] == [7]


# Failing disks


@contextmanager
def disk_that_takes(size: int) -> Iterator[None]:
    """From here on a write stores this many bytes more, and then the disk is full."""
    left = size
    real_pwritev, real_pwrite = os.pwritev, os.pwrite

    def store(descriptor: int, data: bytes, position: int) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(28, "No space left on device")
        taken = data[:left]
        left -= len(taken)
        return real_pwrite(descriptor, taken, position)

    def pwritev(descriptor: int, buffers: list[bytes], position: int) -> int:
        return store(descriptor, b"".join(buffers), position)

    with patch("os.pwritev", pwritev), patch("os.pwrite", store):
        yield
    assert os.pwritev is real_pwritev


@pytest.mark.parametrize("room", [0, 1, 30, 100])
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, room: int) -> None:
    log = open_log(tmp_path / "flights-0")
    append(log, b"before", producer=(1, 0, 0))
    size = segment_files(log.directory)[0].stat().st_size
    with disk_that_takes(room), pytest.raises(KafkaStorageError) as failure:
        append(log, b"during" * 50, producer=(1, 0, 1))
    assert "No space left on device" in str(failure.value)
    assert str(tmp_path) in str(failure.value)
    assert segment_files(log.directory)[0].stat().st_size == size
    assert read_values(log) == [(0, b"before")]
    assert append(log, b"after", producer=(1, 0, 1)).base_offset == 1
    assert read_values(log) == [(0, b"before"), (1, b"after")]


def test_a_short_write_is_completed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        return real(descriptor, [b"".join(buffers)[:20]], position)

    with patch("os.pwritev", short):
        append(log, b"whole")
    assert read_values(log) == [(0, b"whole")]


def test_a_tail_that_could_not_be_cut_is_cut_before_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"one")
    uncuttable = patch("os.ftruncate", side_effect=OSError(5, "Input/output error"))
    with disk_that_takes(80), uncuttable, pytest.raises(KafkaStorageError):
        append(log, b"lost" * 100)
    append(log, b"two")
    log.close()
    assert problems_in(tmp_path) == []
    assert read_values(open_log(tmp_path)) == [(0, b"one"), (1, b"two")]


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_tail_that_could_not_be_cut_is_cut_before_the_segment_is_full(tmp_path: Path, *, was_clean: bool) -> None:
    log = open_log(tmp_path, config=small_segments())
    append(log, b"one")
    uncuttable = patch("os.ftruncate", side_effect=OSError(5, "Input/output error"))
    with disk_that_takes(80), uncuttable, pytest.raises(KafkaStorageError):
        append(log, b"lost" * 20)
    with uncuttable, pytest.raises(KafkaStorageError):
        log.roll(NOW_MS)
    log.roll(NOW_MS)
    append(log, b"two")
    log.close() if was_clean else log.abandon()
    found = open_log(tmp_path, config=small_segments(), was_clean=was_clean, recovery_point=1)
    assert problems_in(tmp_path) == []
    assert read_values(found) == [(0, b"one"), (1, b"two")]


def test_a_roll_that_fails_changes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    while log.segments.active.size_bytes < 500:
        append(log, b"v" * 50)
    end = log.log_end_offset
    with patch("os.open", side_effect=OSError(28, "No space left on device")), pytest.raises(KafkaStorageError):
        append(log, b"v" * 300)
    assert (log.log_end_offset, len(log.segments)) == (end, 1)
    assert append(log, b"v" * 300).base_offset == end
    assert len(log.segments) == 2
    assert len(read_values(log)) == end + 1


@pytest.mark.parametrize("was_clean", [True, False])
def test_what_is_appended_after_a_roll_that_failed_survives_a_restart(tmp_path: Path, *, was_clean: bool) -> None:
    refused, successes = 0, 0
    while refused == successes:
        directory = tmp_path / str(successes)
        log = open_log(directory, config=small_segments())
        append(log, b"v" * 50)
        with descriptors_left(successes):
            try:
                append(log, b"v" * 500)  # needs a segment of its own
            except KafkaStorageError:
                refused += 1
        append(log, b"small")  # finds room in the former segment, if the roll has failed
        expected = read_values(log)
        log.close() if was_clean else log.abandon()
        found = open_log(directory, config=small_segments(), was_clean=was_clean)
        assert (read_values(found), found.lost_from) == (expected, None), f"after {successes} files were opened"
        successes += 1
    assert refused > 3, "a snapshot, two indexes and the segment"


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """The operating system opens so many files, and no more until the end of the block."""
    results = chain(repeat(os.open, count), repeat(None))

    def open_or_refuse(*arguments: Any, **options: Any) -> int:
        opener = next(results)
        if opener is None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opener(*arguments, **options)

    with patch("os.open", open_or_refuse):
        yield


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_segment_is_deleted_or_can_be_read_whichever_of_its_files_cannot_be_renamed(
    tmp_path: Path, suffix: str
) -> None:
    log = open_log(tmp_path, config=small_segments(retention_bytes=300))
    for _ in range(4):
        append(log, b"v" * 450)
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if path.suffix == suffix:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    with patch.object(Path, "rename", renamed), suppress(KafkaStorageError):
        log.enforce_retention(NOW_MS)
    assert len(read_values(log)) == (4 if suffix == ".log" else 1)
    log.enforce_retention(NOW_MS)
    log.close()
    assert read_values(open_log(tmp_path)) == [(3, b"v" * 450)]
    assert [path.name for path in segment_files(tmp_path, ".index")] == [f"{3:020d}.index"]


# Reading


VALUES = [b"value %d" % number for number in range(40)]


@pytest.fixture
def many(tmp_path: Path) -> PartitionLog:
    """A log of twenty batches of two records in several segments."""
    log = open_log(tmp_path, config=small_segments())
    for number in range(0, 40, 2):
        append(log, VALUES[number], VALUES[number + 1])
    assert len(log.segments) > 3
    return log


def reads_of(log: PartitionLog) -> list[Callable[[], object]]:
    """Ways to have a log read its files, each for an offset that no other has asked for."""
    return [
        lambda: log.read(0, max_bytes=10, end_offset=40, at_least_one_batch=True),
        lambda: log.offset_for_timestamp(NOW_MS),
        log.max_timestamp,
        lambda: log.contiguous_end(4),
    ]


@pytest.mark.parametrize("way", range(4))
def test_a_log_that_cannot_be_read_takes_no_more_records_and_its_owner_is_told(many: PartitionLog, way: int) -> None:
    told: list[str | None] = []
    many.when_failed(lambda: told.append(many.failure))
    refused = OSError(errno.EIO, os.strerror(errno.EIO))
    with patch.object(os, "pread", side_effect=refused), pytest.raises(KafkaStorageError, match="Input/output error"):
        reads_of(many)[way]()
    assert len(told) == 1
    assert "a read failed" in str(told[0])
    with pytest.raises(KafkaStorageError, match="takes no more records"):
        append(many, b"v")
    reads_of(many)[way]()  # those who have nobody else to ask go on


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_read_that_lacks_what_others_use_at_present_is_no_fault_of_the_disk(many: PartitionLog, code: int) -> None:
    for read in reads_of(many):
        with patch.object(os, "pread", side_effect=OSError(code, os.strerror(code))), suppress(KafkaStorageError):
            read()
    assert many.failure is None


def test_an_append_that_has_to_read_first_fails_the_log_as_well(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"v")
    log.close()
    log = open_log(tmp_path)
    with (
        patch.object(os, "pread", side_effect=OSError(errno.EIO, os.strerror(errno.EIO))),
        pytest.raises(KafkaStorageError, match="Cannot append"),
    ):
        append(log, b"v")
    assert log.failure is not None


@pytest.mark.parametrize("max_bytes", [0, 1, 200, 333, 1 << 20])
@pytest.mark.parametrize("start", [0, 1, 7, 38, 39])
def test_reading_on_from_any_offset_finds_everything(many: PartitionLog, max_bytes: int, start: int) -> None:
    found = read_values(many, start, max_bytes=max_bytes)
    first = start - start % 2  # an offset inside a batch gives the whole batch
    assert found == list(enumerate(VALUES))[first:]


def read_one(log: PartitionLog, max_bytes: int) -> FileSlice:
    found = log.read(0, max_bytes=max_bytes, end_offset=40, at_least_one_batch=True)
    assert found is not None
    return found


def test_a_slice_holds_whole_batches_within_the_limit(many: PartitionLog) -> None:
    size = read_batches(many)[0][0].size_bytes
    assert read_one(many, size * 2 + 5).size == size * 2
    assert many.read(0, max_bytes=size - 1, end_offset=40, at_least_one_batch=False) is None
    assert read_one(many, size - 1).size == size


def test_nothing_at_or_above_the_end_offset_is_read(many: PartitionLog) -> None:
    for end in range(0, 41, 2):
        assert len(read_values(many, 0, end_offset=end)) == end
        assert len(read_values(many, 0, end_offset=end, max_bytes=1)) == end
    assert len(read_values(many, 0, end_offset=13)) == 12, "a batch that reaches beyond stays back"


def test_offsets_outside_the_log_are_out_of_range(many: PartitionLog) -> None:
    assert many.read(40, max_bytes=100, end_offset=40, at_least_one_batch=True) is None
    for offset in (-1, 41):
        with pytest.raises(OffsetOutOfRange, match=r"\[0, 40\]"):
            many.read(offset, max_bytes=100, end_offset=40, at_least_one_batch=True)


def test_a_slice_outlives_its_segment(many: PartitionLog) -> None:
    found = read_one(many, 1 << 20)
    before = os.pread(found.file.fileno(), found.size, found.position)
    many.delete_records_before(40)
    assert many.enforce_retention(NOW_MS) > 0
    many.close()
    assert os.pread(found.file.fileno(), found.size, found.position) == before


def test_few_files_stay_open(tmp_path: Path) -> None:
    open_files = OpenFiles(2)
    log = open_log(tmp_path, config=small_segments(), open_files=open_files)
    for number in range(40):
        append(log, b"value %d" % number)
    assert len(log.segments) > 5
    assert len(read_values(log)) == 40
    assert len(open_files) <= 2
    descriptors = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert sum(tmp_path in target.parents for target in descriptors) <= 2


# Timestamps


def test_an_offset_is_found_by_time_to_the_very_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    times = [NOW_MS + 10 * number for number in range(30)]
    for number in range(0, 30, 3):
        append(log, b"a", b"b", b"c", timestamps=times[number : number + 3], codec=Codec(number % 5), leader_epoch=2)
    for offset, time in enumerate(times):
        assert log.offset_for_timestamp(time) == (offset, time, 2)
        assert log.offset_for_timestamp(time - 3) == (offset, time, 2)
    assert log.offset_for_timestamp(times[-1] + 1) is None
    assert log.max_timestamp() == (29, times[-1], 2)


def test_timestamps_out_of_order_give_the_first_that_is_late_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    for delta in (50, 10, 99, 20, 99, 5):
        append(log, b"v" * 60, timestamps=[NOW_MS + delta])
    assert log.offset_for_timestamp(NOW_MS) == (0, NOW_MS + 50, 0)
    assert log.offset_for_timestamp(NOW_MS + 51) == (2, NOW_MS + 99, 0)
    assert log.max_timestamp() == (2, NOW_MS + 99, 0)
    log.delete_records_before(3)
    assert log.offset_for_timestamp(NOW_MS) == (3, NOW_MS + 20, 0)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None


# Rolling


def test_segments_roll_by_size_and_indexes_match(many: PartitionLog) -> None:
    assert all(segment.size_bytes <= 600 for segment in many.segments)
    many.close()
    assert problems_in(many.directory) == []
    assert any(path.stat().st_size for path in segment_files(many.directory, ".index"))
    for path in segment_files(many.directory)[1:]:
        assert path.with_suffix(".snapshot").exists(), "a snapshot stands at every boundary"


def test_segments_roll_by_the_age_of_their_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), segment_ms=HOUR_MS))
    append(log, b"a", timestamps=[NOW_MS])
    append(log, b"b", timestamps=[NOW_MS + HOUR_MS])
    assert len(log.segments) == 1
    append(log, b"c", timestamps=[NOW_MS + HOUR_MS + 1], now_ms=NOW_MS + HOUR_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(
        tmp_path, config=small_segments(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=60)
    )
    for _ in range(20):
        append(log, b"v")
    assert len(log.segments) > 2
    assert max(path.stat().st_size for path in segment_files(tmp_path, ".index")) <= 60
    assert len(read_values(log)) == 20


@pytest.mark.parametrize(("offset", "segment_offset"), [(2**31, 1), (2**31 + 1, 2**31 + 1)])
def test_segments_roll_before_relative_offsets_overflow(tmp_path: Path, offset: int, segment_offset: int) -> None:
    """The next one begins where the log ends, unless the gap is too wide for that."""
    log = open_log(tmp_path)
    log.append_as_follower(batch_of(b"a", base_offset=0, leader_epoch=1), now_ms=NOW_MS)
    log.append_as_follower(batch_of(b"b", base_offset=offset, leader_epoch=1), now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, segment_offset]
    assert read_values(log) == [(0, b"a"), (offset, b"b")]


# Retention and deletion


def test_expired_segments_are_renamed_at_once_and_unlinked_later(tmp_path: Path) -> None:
    background = HeldBackground()
    log = open_log(tmp_path, config=small_segments(retention_ms=HOUR_MS), background=background)
    for number in range(20):
        append(log, b"v" * 40, timestamps=[NOW_MS + number])
    segments = len(log.segments)
    assert log.enforce_retention(NOW_MS + HOUR_MS) == 0
    assert log.enforce_retention(NOW_MS + 2 * HOUR_MS) == segments, "the active one too, once it has expired"
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (20, 20, 1)
    assert len([name for name in names(tmp_path) if name.endswith(".log.deleted")]) == segments
    for work in background.later:
        work()
    assert not [name for name in names(tmp_path) if name.endswith(".deleted")]
    assert append(log, b"next").base_offset == 20


@contextmanager
def room_for_names_only() -> Iterator[None]:
    """A disk that takes no byte more, while files can be created, renamed and removed."""

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with patch.multiple(os, write=no_room, pwrite=no_room, pwritev=no_room):
        yield


@pytest.mark.parametrize("has_producers", [True, False])
@pytest.mark.parametrize("count", [1, 20])
def test_retention_makes_room_on_a_full_disk(tmp_path: Path, count: int, has_producers: bool) -> None:
    """As the runbook says. The last segment with records stays where producers are known, who need a snapshot."""
    config = small_segments(retention_ms=HOUR_MS, index_interval_bytes=0)
    log = open_log(tmp_path / "flights-0", config=config)
    for number in range(count):
        append(log, b"v" * 40, producer=(7, 0, number) if has_producers else (-1, -1, -1))
    last_segment_bytes = log.segments.active.size_bytes
    with room_for_names_only():
        with pytest.raises(KafkaStorageError):
            append(log, b"v" * 40)
        with suppress(KafkaStorageError):
            log.enforce_retention(NOW_MS + 2 * HOUR_MS)
    assert (len(log.segments), log.size_bytes) == (1, last_segment_bytes * has_producers)
    log.enforce_retention(NOW_MS + 2 * HOUR_MS)
    assert (log.log_start_offset, log.log_end_offset) == (count, count)
    append(log, b"next", producer=(7, 0, count) if has_producers else (-1, -1, -1))
    log.abandon()
    reopened = open_log(log.directory, config=config, was_clean=False, recovery_point=log.recovery_point)
    assert read_values(reopened) == [(count, b"next")]
    assert [entry.last_sequence for entry in reopened.active_producers()] == [count] * has_producers
    assert problems_in(log.directory) == []


def test_deleted_records_are_out_of_range_and_stay_so(many: PartitionLog) -> None:
    assert many.delete_records_before(11) == 11
    assert many.delete_records_before(5) == 11, "the log start never goes back"
    with pytest.raises(OffsetOutOfRange, match="high watermark is 40"):
        many.delete_records_before(41)
    with pytest.raises(OffsetOutOfRange):
        many.read(10, max_bytes=100, end_offset=40, at_least_one_batch=True)
    many.enforce_retention(NOW_MS)
    assert many.first_segment_offset <= 11
    many.close()
    log = open_log(many.directory, config=small_segments(), log_start_offset=11)
    assert log.log_start_offset == 11
    assert next(offset for offset, _ in read_values(log)) == 10, "whole batches, of which clients drop the start"


# Following and truncating


def test_a_follower_takes_offsets_and_epochs_as_they_are(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=small_segments())
    fetched = b"".join(
        batch_of(b"a", b"b", base_offset=offset, leader_epoch=epoch, producer=(3, 0, offset))
        for offset, epoch in ((0, 1), (2, 1), (4, 4), (10, 4))
    )
    assert log.append_as_follower(fetched + fetched[:30], now_ms=NOW_MS) == 12
    assert log.append_as_follower(fetched, now_ms=NOW_MS) == 12, "what is there already is passed over"
    assert [offset for offset, _ in read_values(log)] == [0, 1, 2, 3, 4, 5, 10, 11]
    assert [offset for offset, _ in read_values(log, 7)] == [10, 11], "a gap is skipped"
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert log.end_offset_for_epoch(3) == (1, 4)
    assert log.end_offset_for_epoch(4) == (4, 12)
    assert log.active_producers()[0].last_sequence == 11


@pytest.mark.parametrize("offset", [0, 1, 2, 17, 20, 38, 39, 40])
def test_truncation_leaves_what_lies_before(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path, config=small_segments())
    for number in range(20):
        append(log, b"%d" % number, b"", producer=(7, 0, number * 2), leader_epoch=number // 5)
    log.truncate_to(offset, NOW_MS)
    assert log.log_end_offset == offset
    kept = offset // 2
    assert [value for _, value in read_values(log)][::2] == [b"%d" % number for number in range(kept)]
    assert log.high_watermark <= offset
    if kept:
        assert log.active_producers()[0].last_sequence == kept * 2 - 1
    assert log.leader_epochs.latest == (-1 if offset == 0 else (offset - 1) // 10)
    append(log, b"new", leader_epoch=9)
    log.close()
    assert problems_in(tmp_path) == []
    assert read_values(open_log(tmp_path, config=small_segments()))[-1] == (offset, b"new")


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_what_was_read_before_a_truncation_is_known_to_be_lost(tmp_path: Path, kept: int) -> None:
    log = open_log(tmp_path)
    for number in range(6):
        append(log, b"lost %d" % number, leader_epoch=1)
    before, whole = (
        log.read(0, max_bytes=1 << 20, end_offset=end_offset, at_least_one_batch=True) for end_offset in (kept, 6)
    )
    assert whole is not None
    log.segments.active.release_file()  # as when too many files are open

    log.truncate_to(kept, NOW_MS)
    taken_over = b"".join(batch_of(b"kept %d" % n, base_offset=n, leader_epoch=2) for n in range(kept, 6))
    log.append_as_follower(taken_over, now_ms=NOW_MS)

    assert os.pread(whole.file.fileno(), whole.size, whole.position).endswith(taken_over), "sent, it would be wrong"
    assert whole.is_lost
    assert before is None or not before.is_lost
    anew = log.read(0, max_bytes=1 << 20, end_offset=6, at_least_one_batch=True)
    assert anew is not None
    assert not anew.is_lost
    values = read_values(log)
    assert values[kept:] == [(n, b"kept %d" % n) for n in range(kept, 6)]
    log.close()
    assert problems_in(tmp_path) == []
    assert read_values(open_log(tmp_path)) == values


def test_every_truncation_reaches_what_was_read_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    slices = []
    for cut in (5, 2, 4):
        while log.log_end_offset < 6:
            append(log, b"%d" % log.log_end_offset, leader_epoch=cut)
        found = [log.read(offset, max_bytes=1, end_offset=6, at_least_one_batch=True) for offset in range(6)]
        slices.append([one for one in found if one is not None])
        log.truncate_to(cut, NOW_MS)
    lost = [[one.is_lost for one in found] for found in slices]
    assert lost == [[False] * 2 + [True] * 4, [False] * 2 + [True] * 4, [False] * 4 + [True] * 2]


def test_starting_anew_beyond_the_log(many: PartitionLog) -> None:
    many.truncate_fully_and_start_at(1000, NOW_MS)
    assert (many.log_start_offset, many.log_end_offset, many.size_bytes) == (1000, 1000, 0)
    assert many.leader_epochs.entries == (), "nothing is known of what was dropped"
    assert append(many, b"v").base_offset == 1000
    many.close()
    log = open_log(many.directory)
    assert (log.log_start_offset, read_values(log)) == (1000, [(1000, b"v")])


@pytest.mark.parametrize(("was_clean", "latest"), [(True, 5), (False, -1)])
def test_a_log_that_an_earlier_version_has_emptied_knows_its_last_epoch_after_a_clean_stop(
    tmp_path: Path, was_clean: bool, latest: int
) -> None:
    """After a crash it may be one whose records were cut off."""
    log = open_log(tmp_path, config=TopicConfig(retention_ms=1000))
    append(log, b"a", leader_epoch=5)
    assert log.enforce_retention(NOW_MS + 2000)
    log.close()
    write_leader_epochs(tmp_path, [EpochEntry(5, 1)])
    found = open_log(tmp_path, was_clean=was_clean)
    assert (found.log_start_offset, found.log_end_offset, found.leader_epochs.latest) == (1, 1, latest)


@pytest.mark.parametrize("was_clean", [True, False])
def test_an_emptied_log_knows_its_last_epoch(tmp_path: Path, was_clean: bool) -> None:
    """By it others tell where the histories part."""
    log = open_log(tmp_path, config=TopicConfig(retention_ms=1000))
    append(log, b"a", leader_epoch=4)
    append(log, b"b", leader_epoch=5)
    assert log.enforce_retention(NOW_MS + 2000)
    log.close()
    found = open_log(tmp_path, was_clean=was_clean)
    assert (found.log_start_offset, found.log_end_offset, found.leader_epochs.latest) == (2, 2, 5)
    assert found.leader_epochs.entries == ((5, 1),)


def test_an_emptied_log_knows_no_epoch_after_a_crash_whose_records_were_lost_with_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=TopicConfig(retention_ms=1000))
    append(log, b"a", leader_epoch=4)
    assert log.enforce_retention(NOW_MS + 2000)
    append(log, b"b", leader_epoch=5)
    log.close()
    segment = max(tmp_path.glob("*.log"))
    segment.write_bytes(b"")
    found = open_log(tmp_path, was_clean=False)
    assert (found.log_start_offset, found.log_end_offset, found.leader_epochs.entries) == (1, 1, ((4, 0),))
