"""Transactions in a log: what is taken, up to where committed records are read, and what was aborted."""

import errno
from pathlib import Path
from unittest.mock import patch

import pytest

from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.flushing import flush_plan
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.producer_state import NO_TRANSACTION
from ottla_core.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    KafkaStorageError,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla_core.wire.control_records import TransactionMarker, marker_batch
from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch
from tests.support.broker.partition_logs import (
    NOW_MS,
    PRODUCER_EXPIRATION_MS,
    append,
    batch_of,
    open_log,
    problems_in,
    read_batches,
    segment_files,
    small_segments,
)
from tests.support.broker.transactional_logs import (
    aborts,
    aborts_in,
    committed,
    committed_values,
    end,
    followed,
    transactional_batch,
    write,
)

P, Q = 7, 8
CONFIG = small_segments()


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "flights-0", config=CONFIG)


def reopened(log: PartitionLog, *, was_clean: bool, high_watermark: int | None = None) -> PartitionLog:
    recovery_point = log.recovery_point
    log.close() if was_clean else log.abandon()
    again = open_log(log.directory, config=log.config, was_clean=was_clean, recovery_point=recovery_point)
    if high_watermark is not None:
        again.high_watermark = high_watermark
    return again


# Up to where committed records are read


def test_readers_of_committed_records_stop_at_the_first_open_transaction(log: PartitionLog) -> None:
    append(log, b"plain")
    write(log, b"p1", producer=(P, 0, 0))
    append(log, b"plain too")
    write(log, b"q1", producer=(Q, 0, 0))
    assert log.last_stable_offset == 1
    end(log, P, 0, commit=True)
    assert log.last_stable_offset == 3, "the other one is still open"
    assert committed_values(log) == [b"plain", b"p1", b"plain too"]
    end(log, Q, 0, commit=False)
    assert log.last_stable_offset == 6
    assert committed_values(log) == [b"plain", b"p1", b"plain too"]


def test_an_end_counts_only_when_its_marker_is_replicated(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    write(log, b"b", producer=(P, 0, 1))
    end(log, P, 0, commit=True, replicated=False)
    assert log.last_stable_offset == 0
    log.high_watermark = 2
    assert log.last_stable_offset == 0, "the marker has offset 2"
    log.high_watermark = 3
    assert log.last_stable_offset == 3


def test_of_ended_transactions_the_one_that_began_first_counts_until_its_marker_is_replicated(
    log: PartitionLog,
) -> None:
    write(log, b"p", producer=(P, 0, 0))
    write(log, b"q", producer=(Q, 0, 0))
    end(log, Q, 0, commit=True, replicated=False)
    end(log, P, 0, commit=True, replicated=False)
    log.high_watermark = 3
    assert log.last_stable_offset == 0
    log.high_watermark = 4
    assert log.last_stable_offset == 4


def test_an_open_transaction_before_the_log_start_holds_readers_at_the_start(log: PartitionLog) -> None:
    write(log, b"a", b"b", producer=(P, 0, 0))
    append(log, b"c")
    log.delete_records_before(1)
    assert log.last_stable_offset == 1
    assert committed(log) == []
    end(log, P, 0, commit=True)
    assert committed_values(log) == [b"b", b"c"]


# What is taken


def test_a_batch_of_no_open_or_verified_transaction_is_refused(log: PartitionLog) -> None:
    batch = transactional_batch(b"a", producer=(P, 0, 0))
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 0
    write(log, b"a", producer=(P, 0, 0))
    assert not log.transactions.needs_verification(transactional_batch(b"b", producer=(P, 0, 1)))
    log.append_as_leader(transactional_batch(b"b", producer=(P, 0, 1)), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 2


def test_an_answer_that_comes_after_a_marker_begins_no_transaction(log: PartitionLog) -> None:
    guard = log.transactions.begin_verification(P, 0, 0, supports_epoch_bump=False)
    end(log, P, 0, commit=False)
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(
            transactional_batch(b"late", producer=(P, 0, 0)), leader_epoch=0, now_ms=NOW_MS, verification=guard
        )
    newer = log.transactions.begin_verification(P, 0, 0, supports_epoch_bump=False)
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(
            transactional_batch(b"late", producer=(P, 0, 0)), leader_epoch=0, now_ms=NOW_MS, verification=guard
        )
    log.append_as_leader(
        transactional_batch(b"new", producer=(P, 0, 0)), leader_epoch=0, now_ms=NOW_MS, verification=newer
    )


def test_a_guard_is_used_up_by_the_first_batch_and_made_void_by_a_new_leader_epoch(log: PartitionLog) -> None:
    guard = log.transactions.begin_verification(P, 0, 0, supports_epoch_bump=False)
    batch = transactional_batch(b"a", producer=(P, 0, 0))
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, verification=guard)
    end(log, P, 0, commit=True)
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(
            transactional_batch(b"b", producer=(P, 0, 1)), leader_epoch=0, now_ms=NOW_MS, verification=guard
        )
    guard = log.transactions.begin_verification(P, 0, 1, supports_epoch_bump=False)
    log.void_verifications()
    with pytest.raises(InvalidTransactionState):
        log.append_as_leader(
            transactional_batch(b"b", producer=(P, 0, 1)), leader_epoch=0, now_ms=NOW_MS, verification=guard
        )


def test_a_repeated_batch_of_an_ended_transaction_gets_its_offsets_and_begins_none(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 0, commit=True)
    batch = transactional_batch(b"a", producer=(P, 0, 0))
    again = log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    assert (again.base_offset, again.duplicate) == (0, True)
    assert log.last_stable_offset == 2


def test_a_plain_batch_is_refused_while_its_producer_has_an_open_transaction(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    with pytest.raises(InvalidTransactionState):
        append(log, b"b", producer=(P, 0, 1))
    end(log, P, 0, commit=True)
    append(log, b"b", producer=(P, 0, 1))


def test_of_version_2_a_transaction_begins_with_sequence_0_where_nothing_of_the_producer_is_known(
    log: PartitionLog,
) -> None:
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, b"b", producer=(P, 0, 5), supports_epoch_bump=True)
    write(log, b"a", producer=(Q, 0, 5), supports_epoch_bump=False)


def test_a_later_sequence_waits_for_the_lowest_one_that_was_verified(log: PartitionLog) -> None:
    guard = log.transactions.begin_verification(P, 0, 3, supports_epoch_bump=False)
    assert log.transactions.begin_verification(P, 0, 4, supports_epoch_bump=False) is guard
    later = transactional_batch(b"later", producer=(P, 0, 4))
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(later, leader_epoch=0, now_ms=NOW_MS, verification=guard)
    earlier = transactional_batch(b"earlier", producer=(P, 0, 3))
    log.append_as_leader(earlier, leader_epoch=0, now_ms=NOW_MS, verification=guard)
    log.append_as_leader(later, leader_epoch=0, now_ms=NOW_MS, verification=guard)


def test_what_is_repeated_late_does_not_keep_out_the_next_transaction(log: PartitionLog) -> None:
    """The guard that the repetition takes stays, as it is not used; the next transaction goes by the same one."""
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 0, commit=True)
    guard = log.transactions.begin_verification(P, 0, 0, supports_epoch_bump=False)
    repeated = transactional_batch(b"a", producer=(P, 0, 0))
    assert log.append_as_leader(repeated, leader_epoch=0, now_ms=NOW_MS, verification=guard).duplicate
    following = transactional_batch(b"b", producer=(P, 0, 1))
    guard = log.transactions.begin_verification(P, 0, 1, supports_epoch_bump=False)
    log.append_as_leader(following, leader_epoch=0, now_ms=NOW_MS, verification=guard)


def test_a_client_writes_no_marker_and_a_coordinator_no_other_control_batch(log: PartitionLog) -> None:
    marker = TransactionMarker(producer_id=P, producer_epoch=0, is_commit=True, coordinator_epoch=0)
    with pytest.raises(InvalidRecord):
        log.append_as_leader(marker_batch(marker, NOW_MS), leader_epoch=0, now_ms=NOW_MS, transaction_version=1)
    other = encode_batch(
        [Record(0, NOW_MS, b"\0\0\0\2", b"")], producer_id=P, producer_epoch=0, is_transactional=True, is_control=True
    )
    with pytest.raises(InvalidRecord):
        log.append_as_leader(
            other, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=1
        )


def test_a_coordinators_batch_of_a_transaction_needs_no_sequence_and_no_guard(log: PartitionLog) -> None:
    for value in (b"offset 1", b"offset 2"):
        log.append_as_leader(
            transactional_batch(value, producer=(P, 3, -1)), leader_epoch=0, now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
        )  # fmt: skip
    log.high_watermark = 2
    assert log.last_stable_offset == 0
    with pytest.raises(InvalidProducerEpoch):
        log.append_as_leader(
            transactional_batch(b"stale", producer=(P, 2, -1)), leader_epoch=0, now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
        )  # fmt: skip
    end(log, P, 3, commit=True)
    assert committed_values(log) == [b"offset 1", b"offset 2"]


# Markers


def test_a_marker_of_version_1_may_have_the_epoch_of_the_records_and_none_before(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 5, 0))
    with pytest.raises(InvalidProducerEpoch):
        end(log, P, 4, commit=True, transaction_version=1)
    assert log.last_stable_offset == 0
    end(log, P, 5, commit=True, transaction_version=1)
    assert log.last_stable_offset == 2


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 5, 0), supports_epoch_bump=True)
    end(log, P, 6, commit=True, transaction_version=2)
    end(log, P, 6, commit=True, transaction_version=2)  # its answer was lost
    write(log, b"b", producer=(P, 6, 0), supports_epoch_bump=True)
    with pytest.raises(InvalidProducerEpoch):
        end(log, P, 6, commit=True, transaction_version=2)
    assert log.last_stable_offset == 3
    end(log, P, 7, commit=False, transaction_version=2)
    assert committed_values(log) == [b"a"]


def test_a_marker_of_a_former_coordinator_is_refused(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 0, commit=True, coordinator_epoch=4)
    write(log, b"b", producer=(P, 0, 1))
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, P, 0, commit=True, coordinator_epoch=3)
    end(log, P, 0, commit=False, coordinator_epoch=4)
    assert committed_values(log) == [b"a"]


def test_after_a_marker_with_a_later_epoch_the_former_instance_is_fenced(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 1, commit=False)
    with pytest.raises(InvalidProducerEpoch):
        write(log, b"zombie", producer=(P, 0, 1))


def test_markers_are_not_compressed_as_their_topic_asks(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", config=small_segments(compression_type="lz4"))
    write(log, b"a" * 100, producer=(P, 0, 0))
    end(log, P, 0, commit=False)
    assert [header.codec_id for header, _ in read_batches(log)] == [3, 0]
    assert aborts(log)[0].last_offset == 1


# What was aborted


def test_an_abort_is_told_to_readers_of_any_part_of_the_transaction(log: PartitionLog) -> None:
    write(log, b"a1", producer=(P, 0, 0))
    append(log, b"plain")
    write(log, b"a2", producer=(P, 0, 1))
    end(log, P, 0, commit=False)
    write(log, b"b1", producer=(P, 0, 2))
    end(log, P, 0, commit=True)
    assert [tuple(entry) for entry in aborts(log)] == [(0, P, 0, 3, 4)]
    assert log.aborted_transactions(0, 1) == [(P, 0)]
    assert log.aborted_transactions(2, 6) == [(P, 0)]
    assert log.aborted_transactions(4, 6) == []
    for offset in range(6):
        assert committed_values(log, offset) == [b"plain", b"b1"][(offset > 1) + (offset > 4) :]


def test_an_abort_is_found_in_a_later_segment(log: PartitionLog) -> None:
    write(log, b"a1", producer=(P, 0, 0))
    log.roll(NOW_MS)
    append(log, b"plain")
    log.roll(NOW_MS)
    end(log, P, 0, commit=False)
    assert [len(aborts_in(segment)) for segment in log.segments] == [0, 0, 1]
    assert committed_values(log) == [b"plain"]
    assert committed_values(log, max_bytes=1) == [b"plain"]


def test_a_search_for_aborts_ends_where_all_that_began_before_was_decided(log: PartitionLog) -> None:
    write(log, b"q", producer=(Q, 0, 0))
    for number in range(5):
        write(log, b"p", producer=(P, 0, number))
        end(log, P, 0, commit=False)
    end(log, Q, 0, commit=False)
    for number in range(5, 10):
        write(log, b"p", producer=(P, 0, number))
        end(log, P, 0, commit=False)
    assert log.aborted_transactions(0, 1) == [(Q, 0)]
    assert log.aborted_transactions(0, 2) == [(Q, 0), (P, 1)]
    assert len(log.aborted_transactions(0, 22)) == 11
    assert committed_values(log) == []


def test_a_transaction_without_records_here_leaves_no_trace_among_the_aborts(log: PartitionLog) -> None:
    end(log, P, 0, commit=False)
    assert aborts(log) == []
    assert not segment_files(log.directory, ".txnindex")
    assert log.last_stable_offset == 1


def test_a_full_disk_does_not_fail_the_append_of_a_marker(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    full = OSError(errno.ENOSPC, "full")
    with patch("ottla_broker.log.segments.index_file.os.open", side_effect=full):
        end(log, P, 0, commit=False)
        assert committed_values(log) == []
        with pytest.raises(KafkaStorageError):
            log.close()
    log = reopened(log, was_clean=False)
    assert committed_values(log) == []


def test_a_marker_that_the_disk_refuses_ends_nothing(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    with patch("os.pwritev", side_effect=OSError(errno.ENOSPC, "full")), pytest.raises(KafkaStorageError):
        end(log, P, 0, commit=False)
    assert (log.last_stable_offset, aborts(log)) == (0, [])
    end(log, P, 0, commit=True)
    assert committed_values(log) == [b"a"]


def test_an_abort_is_on_the_disk_before_the_recovery_point_passes_its_marker(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(flush_plan, "sync_file", synced.append)
    monkeypatch.setattr(flush_plan, "sync_directory", synced.append)
    write(log, b"a", producer=(P, 0, 0))
    log.flush()
    synced.clear()
    end(log, P, 0, commit=False)
    log.flush()
    index = log.segments.active.path(".txnindex")
    assert index.stat().st_size == 34
    assert synced.count(index) == 1
    assert log.directory in synced, "the file has just come into being"

    synced.clear()
    append(log, b"b")
    log.flush()
    assert log.directory not in synced, "its name is on the disk"

    synced.clear()
    log.truncate_to(1, NOW_MS)
    log.flush()
    assert index in synced, "what was cut must not come back"


# Followers, restarts, truncations


def history(log: PartitionLog) -> None:
    """Transactions of two producers across several segments, the last of which is open."""
    for number in range(12):
        producer, commit = (P, Q)[number % 2], number % 3 == 0
        write(log, b"%d" % number * 20, producer=(producer, number, 0))
        append(log, b"plain %d" % number)
        write(log, b"%d too" % number, producer=(producer, number, 1))
        end(log, producer, number + 1, commit=commit, transaction_version=2)
    write(log, b"open", producer=(P, 20, 0))


def state_of(log: PartitionLog):
    producers = sorted(
        (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.current_transaction_first_offset,
         entry.last_sequence, entry.last_offset)
        for entry in log.active_producers()
    )  # fmt: skip
    return log.last_stable_offset, producers, aborts(log), committed(log)


def test_a_follower_knows_what_its_leader_knows(log: PartitionLog, tmp_path: Path) -> None:
    history(log)
    follower = open_log(tmp_path / "copy-0", config=CONFIG)
    followed(log, follower)
    assert state_of(follower) == state_of(log)
    assert len(aborts(log)) == 8
    one_by_one = open_log(tmp_path / "copy-1", config=CONFIG)
    for _, batch in read_batches(log):
        one_by_one.append_as_follower(batch, now_ms=NOW_MS)
        one_by_one.high_watermark = one_by_one.log_end_offset
    assert state_of(one_by_one) == state_of(log)


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize(
    ("was_clean", "lost"),
    [
        *[(was_clean, lost) for was_clean in (True, False) for lost in ((), (".snapshot",), (".index", ".snapshot"))],
        (False, (".txnindex",)),  # after a clean stop nothing would tell that it is missing
    ],
)
def test_a_start_finds_the_same(log: PartitionLog, was_clean: bool, flushed: bool, lost: tuple[str, ...]) -> None:
    history(log)
    before = state_of(log)
    if flushed:
        log.flush()
    recovery_point = log.recovery_point if ".txnindex" not in lost else 0
    log.close() if was_clean else log.abandon()
    for suffix in lost:
        for path in segment_files(log.directory, suffix):
            path.unlink()
    log = open_log(log.directory, config=CONFIG, was_clean=was_clean, recovery_point=recovery_point)
    assert state_of(log) == before
    assert problems_in(log.directory) == []


def test_a_damaged_transaction_index_is_made_anew(log: PartitionLog) -> None:
    history(log)
    before = state_of(log)
    log.close()
    damaged = segment_files(log.directory, ".txnindex")
    damaged[0].write_bytes(damaged[0].read_bytes() + b"more")
    damaged[1].write_bytes(b"\xff" * 34)
    log = open_log(log.directory, config=CONFIG)
    assert state_of(log) == before


def test_an_index_that_a_crash_left_without_its_markers_is_removed(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    log.abandon()
    log.segments[0].path(".txnindex").write_bytes(b"\0" * 34)
    log = open_log(log.directory, config=CONFIG, was_clean=False)
    assert aborts(log) == []
    assert not segment_files(log.directory, ".txnindex")


def test_a_new_segment_takes_over_no_aborts_of_one_that_had_its_name(log: PartitionLog) -> None:
    append(log, b"plain")
    (log.directory / f"{1:020d}.txnindex").write_bytes(b"\0" * 34)
    log.roll(NOW_MS)
    assert log.segments.active.transaction_index.entry_count == 0


def test_a_truncation_opens_again_what_was_ended_behind_it(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 0, commit=False)
    write(log, b"b", producer=(P, 0, 1))
    end(log, P, 0, commit=False)
    log.truncate_to(3, NOW_MS)
    assert log.last_stable_offset == 2
    assert [entry.last_offset for entry in aborts(log)] == [1]
    end(log, P, 0, commit=True)
    assert committed_values(log) == [b"b"]
    log = reopened(log, was_clean=True)
    assert committed_values(log) == [b"b"]


def test_a_cut_away_abort_does_not_come_back_after_a_start(log: PartitionLog) -> None:
    for number in range(8):
        write(log, b"a" * 50, producer=(P, 0, number))
        end(log, P, 0, commit=False)
    log.flush()
    log.truncate_to(15, NOW_MS)
    end(log, P, 0, commit=True)
    assert committed_values(log) == [b"a" * 50]
    assert [entry.last_offset for entry in aborts(log)] == [1, 3, 5, 7, 9, 11, 13]
    for was_clean in (True, False):
        log = reopened(log, was_clean=was_clean)
        assert committed_values(log) == [b"a" * 50]


def test_beginning_anew_forgets_what_was_open(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    log.truncate_fully_and_start_at(50, NOW_MS)
    log.high_watermark = 50
    assert log.last_stable_offset == 50


def test_retention_takes_the_aborts_of_its_segments_and_keeps_what_is_open(log: PartitionLog) -> None:
    history(log)
    start = log.segments[3].base_offset
    before = committed(log)
    open_at = log.last_stable_offset
    log.delete_records_before(start)
    assert log.enforce_retention(NOW_MS) == 3
    kept = {path.stem for path in segment_files(log.directory)}
    assert {path.stem for path in segment_files(log.directory, ".txnindex")} <= kept
    assert committed(log) == [seen for seen in before if seen.offset >= start]
    log = reopened(log, was_clean=True)
    assert log.last_stable_offset == open_at


def test_after_a_start_ended_transactions_wait_for_the_high_watermark_again(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    end(log, P, 0, commit=True)
    log = reopened(log, was_clean=False, high_watermark=1)
    assert log.last_stable_offset == 0


def test_a_producer_with_an_open_transaction_is_never_forgotten(log: PartitionLog) -> None:
    write(log, b"a", producer=(P, 0, 0))
    write(log, b"b", producer=(Q, 0, 0))
    end(log, Q, 0, commit=True)
    later = NOW_MS + PRODUCER_EXPIRATION_MS + 1
    assert log.expire_producers(later) == 1
    assert [entry.producer_id for entry in log.active_producers()] == [P]
    assert log.last_stable_offset == 0
    log.close()
    log = open_log(log.directory, config=CONFIG, now_ms=later)
    assert [entry.current_transaction_first_offset for entry in log.active_producers()] == [0]
    end(log, P, 0, commit=True)
    assert [entry.current_transaction_first_offset for entry in log.active_producers()] == [NO_TRANSACTION]


def test_it_is_known_how_long_the_transaction_is_silent_that_is_open_longest(log: PartitionLog) -> None:
    assert log.transactions.silent_ms(NOW_MS) == 0
    write(log, b"a", producer=(P, 0, 0))
    write(log, b"b", producer=(Q, 0, 0), now_ms=NOW_MS + 500)
    assert log.transactions.silent_ms(NOW_MS + 900_000) == 900_000
    write(log, b"a", producer=(P, 0, 1), now_ms=NOW_MS + 1000)
    assert log.transactions.silent_ms(NOW_MS + 900_000) == 899_000
    end(log, P, 0, commit=True)
    assert log.transactions.silent_ms(NOW_MS + 900_000) == 899_500
    end(log, Q, 0, commit=True)
    assert log.transactions.silent_ms(NOW_MS + 10**9) == 0


def test_only_batches_of_transactions_that_are_not_open_need_verification(log: PartitionLog) -> None:
    needs = log.transactions.needs_verification
    assert not needs(b"")
    assert not needs(batch_of(b"plain"))
    assert not needs(batch_of(b"idempotent", producer=(P, 0, 0)))
    assert needs(transactional_batch(b"a", producer=(P, 0, 0)))
    assert parse_header(transactional_batch(b"a", producer=(P, 0, 0))).producer_id == P
    write(log, b"a", producer=(P, 0, 0))
    assert not needs(memoryview(transactional_batch(b"b", producer=(P, 0, 1))))
    assert needs(transactional_batch(b"b", producer=(P, 1, 0)))
