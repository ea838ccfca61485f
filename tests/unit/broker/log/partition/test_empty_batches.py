"""Batches without records: coordinators write them to fence, compaction leaves them behind, and every part of the log
takes them for what they are: an offset, a sequence number and a producer's epoch.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.directories.dump import dump_file
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import InvalidProducerEpoch, InvalidRecord
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.record_batch import RecordBatchHeader
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    empty_batch,
    open_log,
    problems_in,
    read_batches,
    read_values,
    segment_files,
    small_segments,
)

PRODUCER = 7
CONFIG = small_segments(cleanup_policy=frozenset({"compact"}))


def append_empty(log: PartitionLog, epoch: int, sequence: int = 0, *, timestamp: int = NOW_MS) -> AppendResult:
    appended = log.append_as_leader(
        empty_batch((PRODUCER, epoch, sequence), timestamp=timestamp),
        leader_epoch=0,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR,
    )
    log.high_watermark = log.log_end_offset
    return appended


def written(directory: Path, config: TopicConfig = CONFIG) -> PartitionLog:
    """A log of several segments in which every third batch is empty, the first and the last among them."""
    log = open_log(directory, config=config)
    for epoch in range(12):
        append_empty(log, epoch)
        if epoch < 11:
            append(log, b"a", b"b", producer=(PRODUCER, epoch, 1))
            append(log, b"c", producer=(PRODUCER, epoch, 3))
    assert len(log.segments) > 2
    return log


def headers(log: PartitionLog) -> list[RecordBatchHeader]:
    return [header for header, _ in read_batches(log)]


def test_only_a_coordinator_may_append_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    with pytest.raises(InvalidRecord):
        log.append_as_leader(empty_batch((PRODUCER, 0, 0)), leader_epoch=0, now_ms=NOW_MS)

    assert append_empty(log, 0) == AppendResult(0, 0, -1, 0, False)


def test_a_coordinators_clock_may_differ_from_the_brokers(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    assert append_empty(log, 0, timestamp=NOW_MS + 10 * 86_400_000).base_offset == 0


def test_it_takes_one_offset_and_one_sequence_number(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_empty(log, 0)

    assert append(log, b"a", producer=(PRODUCER, 0, 1)).base_offset == 1
    assert append_empty(log, 0) == AppendResult(0, 0, -1, 0, True)


def test_it_fences_its_producers_former_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", producer=(PRODUCER, 0, 0))
    append_empty(log, 1)

    with pytest.raises(InvalidProducerEpoch):
        append(log, b"b", producer=(PRODUCER, 0, 1))


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_with_some_comes_back_whole_and_fences_as_before(tmp_path: Path, was_clean: bool) -> None:
    log = written(tmp_path)
    before, values = headers(log), read_values(log)
    log.close()

    log = open_log(tmp_path, config=CONFIG, was_clean=was_clean)

    assert headers(log) == before
    assert read_values(log) == values
    assert problems_in(tmp_path) == []
    with pytest.raises(InvalidProducerEpoch):
        append(log, b"late", producer=(PRODUCER, 10, 4))
    assert append(log, b"next", producer=(PRODUCER, 11, 1)).base_offset == log.log_end_offset - 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_what_stands_beside_the_segments_can_be_made_anew(tmp_path: Path, suffix: str) -> None:
    log = written(tmp_path)
    before = headers(log)
    log.close()
    for path in segment_files(tmp_path, suffix):
        path.unlink()

    log = open_log(tmp_path, config=CONFIG, was_clean=False)

    assert headers(log) == before
    assert problems_in(tmp_path) == []
    with pytest.raises(InvalidProducerEpoch):
        append(log, b"late", producer=(PRODUCER, 10, 4))


def test_a_read_from_any_offset_finds_its_batch(tmp_path: Path) -> None:
    log = written(tmp_path)
    for header in headers(log):
        for offset in range(header.base_offset, header.next_offset):
            assert read_batches(log, offset, max_bytes=1)[0][0] == header


def test_a_segment_may_begin_with_one_and_have_no_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=CONFIG)
    append_empty(log, 0)
    log.roll(NOW_MS)
    append_empty(log, 1)
    log.roll(NOW_MS)
    log.close()

    log = open_log(tmp_path, config=CONFIG, was_clean=False)

    assert [header.base_offset for header in headers(log)] == [0, 1]
    assert problems_in(tmp_path) == []


def test_a_search_by_time_passes_over_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), message_timestamp_type="CreateTime"))
    append(log, b"a", timestamps=[NOW_MS - 10])
    append_empty(log, 0, timestamp=NOW_MS - 5)
    append(log, b"b", timestamps=[NOW_MS])

    assert log.offset_for_timestamp(NOW_MS - 7) == (2, NOW_MS, 0)
    assert log.offset_for_timestamp(NOW_MS - 20) == (0, NOW_MS - 10, 0)


def test_retention_counts_it_by_its_timestamp(tmp_path: Path) -> None:
    config = small_segments(retention_ms=1000)
    log = open_log(tmp_path, config=config)
    append_empty(log, 0, timestamp=NOW_MS - 5000)
    log.roll(NOW_MS)
    append_empty(log, 1, timestamp=NOW_MS)

    assert log.enforce_retention(NOW_MS) == 1
    assert log.log_start_offset == 1


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
def test_a_topic_with_a_codec_of_its_own_leaves_it_as_it_is(tmp_path: Path, codec: str) -> None:
    log = open_log(tmp_path, config=replace(CONFIG, compression_type=codec))

    append_empty(log, 0)

    (header,) = headers(log)
    assert (header.record_count, header.codec_id, header.size_bytes) == (0, 0, 61)


def test_a_topic_that_stamps_its_batches_stamps_it_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(CONFIG, message_timestamp_type="LogAppendTime"))

    append_empty(log, 0, timestamp=NOW_MS - 5000)

    (header,) = headers(log)
    assert header.max_timestamp == NOW_MS


def test_the_dump_shows_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_empty(log, 3)
    log.close()

    rows = [row.as_line() for row in dump_file(segment_files(tmp_path)[0], records=True)]

    (line,) = [row for row in rows if "baseOffset" in row]
    assert "count: 0" in line
    assert f"producerId: {PRODUCER}" in line
    assert "producerEpoch: 3" in line


def test_expiry_forgets_a_producer_but_not_what_it_wrote(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_empty(log, 3)

    assert log.expire_producers(NOW_MS + 86_400_001) == 1

    assert append(log, b"a", producer=(PRODUCER, 3, 1)).base_offset == 1, "its owner may go on where it was"
