"""Retries of idempotent producers after a restart or a truncation: what a snapshot leaves out is found in the log."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers import producer_history
from ottla_broker.log.producers.producer_history import refill_batches
from ottla_broker.log.producers.producer_snapshot import decode_snapshot, encode_snapshot, snapshot_offsets
from ottla_broker.log.producers.producer_state import ProducerBatch
from ottla_core.errors import OutOfOrderSequenceNumber
from ottla_core.topic_config import TopicConfig
from tests.support.broker.partition_logs import NOW_MS, append, batch_of, open_log, segment_files, small_segments

PRODUCER = 7
OTHERS = (8, 9)
WRAP = 2**31


def write(
    log: PartitionLog,
    count: int,
    *,
    producer: int = PRODUCER,
    epoch: int = 0,
    first_sequence: int = 0,
    value: bytes = b"v",
) -> None:
    """Append batches of two records each."""
    for number in range(count):
        sequence = (first_sequence + 2 * number) % WRAP
        appended = append(log, value, value, producer=(producer, epoch, sequence), leader_epoch=1)
        assert not appended.duplicate


def reopened(log: PartitionLog, config: TopicConfig | None = None) -> PartitionLog:
    log.close()
    return open_log(log.directory, config=config)


def known(log: PartitionLog, producer: int = PRODUCER) -> list[int]:
    """The first sequences of the batches that are remembered."""
    entry = log.producers.get(producer)
    return [batch.first_sequence for batch in entry.batches] if entry else []


def check_retries(log: PartitionLog, batches: Sequence[tuple[int, int]]) -> None:
    """Send batches again, given as first sequence and base offset."""
    for sequence, offset in batches:
        again = append(log, b"v", b"v", producer=(PRODUCER, 0, sequence), leader_epoch=1)
        assert (again.duplicate, again.base_offset, again.last_offset) == (True, offset, offset + 1)


def test_each_of_the_last_five_batches_is_known_again_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 7)
    log = reopened(log)
    check_retries(log, [(sequence, sequence) for sequence in (4, 6, 8, 10, 12)])
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, b"v", b"v", producer=(PRODUCER, 0, 2), leader_epoch=1)
    write(log, 1, first_sequence=14)
    assert log.log_end_offset == 16


def test_each_of_the_last_five_batches_is_known_again_after_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 7)
    log.roll(NOW_MS)
    write(log, 3, first_sequence=14)
    log.truncate_to(16, NOW_MS)
    check_retries(log, [(sequence, sequence) for sequence in (6, 8, 10, 12, 14)])
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, b"v", b"v", producer=(PRODUCER, 0, 4), leader_epoch=1)


def test_a_snapshot_in_the_middle_of_a_segment_is_refilled_from_before_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 7)
    log = reopened(log)
    write(log, 3, first_sequence=14)
    log.truncate_to(18, NOW_MS)
    assert snapshot_offsets(tmp_path) == [14]
    check_retries(log, [(sequence, sequence) for sequence in (8, 10, 12, 14, 16)])


@pytest.mark.parametrize("after_roll", [0, 1, 4])
def test_batches_are_found_in_the_segment_before_a_short_one(tmp_path: Path, after_roll: int) -> None:
    log = open_log(tmp_path)
    write(log, 6)
    log.roll(NOW_MS)
    write(log, after_roll, first_sequence=12)
    log = reopened(log)
    assert len(segment_files(tmp_path)) == 2
    last = 2 * (5 + after_roll)
    check_retries(log, [(sequence, sequence) for sequence in range(last - 8, last + 1, 2)])
    assert len(known(log)) == 5


def test_batches_are_found_across_many_index_entries(tmp_path: Path) -> None:
    config = small_segments(segment_bytes=1 << 20)
    log = open_log(tmp_path, config=config)
    write(log, 300)
    write(log, 300, producer=OTHERS[0])
    log = reopened(log, config)
    check_retries(log, [(sequence, sequence) for sequence in range(590, 599, 2)])


def test_other_producers_and_former_epochs_do_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 3, epoch=0)
    append(log, b"of nobody", leader_epoch=1)
    for number in range(3):
        write(log, 1, epoch=1, first_sequence=2 * number)
        write(log, 2, producer=OTHERS[0], first_sequence=4 * number)
    write(log, 1, producer=OTHERS[1], first_sequence=100)
    before = {entry.producer_id: list(entry.batches) for entry in log.producers}
    log = reopened(log)
    assert {entry.producer_id: list(entry.batches) for entry in log.producers} == before
    assert known(log) == [0, 2, 4]


def test_sequences_may_wrap_in_between(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 6, first_sequence=WRAP - 5)
    assert known(reopened(log)) == [WRAP - 3, WRAP - 1, 1, 3, 5]


def test_batches_from_around_a_compaction_gap_are_known_with_their_offsets(tmp_path: Path) -> None:
    config = small_segments()
    log = open_log(tmp_path, config=config)
    batches = [
        batch_of(b"v", b"v", producer=(PRODUCER, 0, offset), base_offset=offset, leader_epoch=1)
        for offset in (0, 2, 8, 10)
    ]
    log.append_as_follower(b"".join(batches), now_ms=NOW_MS)
    log = reopened(log, config)
    check_retries(log, [(0, 0), (2, 2), (8, 8), (10, 10)])
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, b"v", b"v", producer=(PRODUCER, 0, 4), leader_epoch=1)


def test_large_batches_are_found_further_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 7, value=b"v" * 400_000)
    assert known(reopened(log)) == [4, 6, 8, 10, 12]


def test_a_producer_that_has_long_been_silent_is_not_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_history, "_NEAR_BYTES", 1000)
    monkeypatch.setattr(producer_history, "_FIRST_STEP_BYTES", 500)
    config = small_segments(segment_bytes=1 << 20)
    log = open_log(tmp_path, config=config)
    write(log, 6)
    write(log, 40, producer=OTHERS[0])
    log = reopened(log, config)
    assert known(log) == [10]
    assert known(log, OTHERS[0]) == [70, 72, 74, 76, 78]


@pytest.mark.parametrize("bound", ["_FAR_BYTES", "_HEADERS_MAX"])
def test_the_walk_ends_at_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(producer_history, "_FIRST_STEP_BYTES", 200)
    monkeypatch.setattr(producer_history, bound, {"_FAR_BYTES": 1000, "_HEADERS_MAX": 8}[bound])
    config = small_segments(segment_bytes=1 << 20)
    log = open_log(tmp_path, config=config)
    write(log, 40, first_sequence=2)
    write(log, 40, producer=OTHERS[0])
    write(log, 1, first_sequence=82)
    log = reopened(log, config)
    assert known(log) == [82]
    assert len(known(log, OTHERS[0])) == 5


@pytest.mark.parametrize("damage", ["changed", "short"])
def test_damage_costs_the_memory_of_what_is_before_it_and_nothing_else(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    write(log, 4)
    log.roll(NOW_MS)
    write(log, 2, first_sequence=8)
    log.flush()
    path = segment_files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    last_batch = len(data) * 3 // 4
    if damage == "short":
        path.write_bytes(data[: last_batch + 20])
    else:
        data[last_batch + 16] = 9  # its magic
        path.write_bytes(data)
    (entry,) = decode_snapshot(encode_snapshot(log.producers))
    with capture_logs() as logs:
        refill_batches([entry], log.segments, log.log_end_offset, log.log_end_offset)
    assert [batch.first_sequence for batch in entry.batches] == [8, 10]
    assert [line["event"] for line in logs] == ["retries of idempotent producers may not be known again"]


def test_a_log_whose_producers_have_nothing_before_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_history, "_WalkBack", None)
    log = open_log(tmp_path)
    append(log, b"of nobody", leader_epoch=1)
    write(log, 1)
    log = reopened(log)
    entry = log.producers.get(PRODUCER)
    assert entry is not None
    assert list(entry.batches) == [ProducerBatch(1, 2, 1, NOW_MS)]


@pytest.mark.parametrize("is_killed", [False, True])
def test_producers_are_kept_whose_snapshot_and_segments_are_gone(is_killed: bool, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 3)
    log.roll(NOW_MS)
    for snapshot in segment_files(tmp_path, ".snapshot"):
        snapshot.unlink()
    log.high_watermark = log.log_end_offset
    log.delete_records_before(log.log_end_offset)
    log.enforce_retention(NOW_MS)
    assert log.first_segment_offset == log.log_end_offset
    if is_killed:
        log.abandon()
        check_retries(open_log(tmp_path, was_clean=False), [(4, 4)])
    else:
        check_retries(reopened(log), [(4, 4)])
