"""Sequences of idempotent producers, and their snapshots on disk."""

from pathlib import Path

import pytest

from ottla_broker.log.producers.producer_snapshot import decode_snapshot, encode_snapshot, write_snapshot
from ottla_broker.log.producers.producer_state import ProducerBatch, ProducerEntry, ProducerStates
from ottla_core.errors import CorruptMessage, DuplicateSequenceNumber, InvalidProducerEpoch, OutOfOrderSequenceNumber
from ottla_core.wire.record_batch import RecordBatchHeader
from tests.support.broker.partition_logs import PARTITION

INT32_MAX = 2**31 - 1


def header(base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9) -> RecordBatchHeader:
    return RecordBatchHeader(0, 100, 0, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, base_sequence, count)


@pytest.fixture
def states() -> ProducerStates:
    return ProducerStates(PARTITION)


def write(states: ProducerStates, offset: int, batch: RecordBatchHeader, timestamp: int = 0) -> None:
    assert states.check(batch) is None
    states.record(batch, offset + batch.last_offset_delta, timestamp)


def test_an_unknown_producer_may_start_anywhere(states: ProducerStates) -> None:
    assert states.check(header(4711)) is None
    assert len(states) == 0, "a check changes nothing"


def test_the_next_sequence_is_taken_and_gaps_are_refused(states: ProducerStates) -> None:
    write(states, 0, header(0, 3))
    write(states, 3, header(3))
    for sequence in (5, 100):
        with pytest.raises(OutOfOrderSequenceNumber, match=rf"{sequence} \(incoming\), 3 \(current end"):
            states.check(header(sequence))


def test_each_of_the_last_five_batches_is_known_again(states: ProducerStates) -> None:
    for number in range(6):
        write(states, number * 2, header(number * 2, 2))
    for number in range(1, 6):
        duplicate = states.check(header(number * 2, 2))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (number * 2, number * 2 + 1)


def test_a_batch_before_the_last_five_is_known_to_be_in_the_log(states: ProducerStates) -> None:
    for number in range(8):
        write(states, 100 + number * 2, header(number * 2, 2))
    for number in range(3):
        with pytest.raises(
            DuplicateSequenceNumber, match=rf"sequence number {number * 2} is in flights-0 already"
        ) as known:
            states.check(header(number * 2, 2))
        assert known.value.end_offset == 106, "where the first of the five begins"
    for other in (header(4, 3), header(5, 2), header(0, 16), header(17), header(INT32_MAX - 5, 2)):
        with pytest.raises(OutOfOrderSequenceNumber):
            states.check(other)


def test_what_was_sent_before_the_first_known_batch_may_be_missing(states: ProducerStates) -> None:
    for number in range(8):
        write(states, number, header(50 + number))
    with pytest.raises(DuplicateSequenceNumber):
        states.check(header(50))
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(header(49))


def test_what_was_sent_before_a_gap_may_be_missing(states: ProducerStates) -> None:
    for number in (0, 1, *range(3, 11)):
        states.replay(header(number))
    with pytest.raises(DuplicateSequenceNumber):
        states.check(header(3))
    for number in (1, 2):
        with pytest.raises(OutOfOrderSequenceNumber):
            states.check(header(number))


def test_what_was_sent_before_a_snapshot_may_be_missing(states: ProducerStates) -> None:
    for number in range(10):
        write(states, number, header(number))
    loaded = ProducerStates(PARTITION, decode_snapshot(encode_snapshot(states)))
    for number in range(10, 20):
        loaded.replay(header(number))
    with pytest.raises(DuplicateSequenceNumber):
        loaded.check(header(10))
    with pytest.raises(OutOfOrderSequenceNumber):
        loaded.check(header(9))


def test_a_new_epoch_begins_anew(states: ProducerStates) -> None:
    for number in range(8):
        write(states, number, header(number))
    for number in range(7):
        write(states, 8 + number, header(number, epoch=1))
    with pytest.raises(DuplicateSequenceNumber):
        states.check(header(1, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        states.check(header(1))


def test_batches_from_before_sequence_numbers_wrap_are_known(states: ProducerStates) -> None:
    for number in range(10):
        write(states, number, header((INT32_MAX - 2 + number) & INT32_MAX))
    for sequence in (INT32_MAX - 2, INT32_MAX, 0, 1):
        with pytest.raises(DuplicateSequenceNumber):
            states.check(header(sequence))


def test_a_batch_that_repeats_a_part_only_is_out_of_order(states: ProducerStates) -> None:
    write(states, 0, header(0, 4))
    for partial in (header(0, 3), header(1, 3), header(2, 4)):
        with pytest.raises(OutOfOrderSequenceNumber):
            states.check(partial)


def test_sequences_wrap_within_and_between_batches(states: ProducerStates) -> None:
    write(states, 0, header(INT32_MAX - 1, 2))
    write(states, 2, header(0, 2))
    assert states.check(header(INT32_MAX - 1, 2)) is not None
    write(states, 4, header(2, 1))
    other = ProducerStates(PARTITION)
    write(other, 0, header(INT32_MAX, 3))
    write(other, 3, header(2))
    duplicate = other.check(header(INT32_MAX, 3))
    assert duplicate is not None
    assert duplicate.first_sequence == INT32_MAX


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one(states: ProducerStates) -> None:
    write(states, 0, header(0, 5))
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(header(5, epoch=1))
    write(states, 5, header(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch, match="is 0, which is smaller than the last seen epoch 1"):
        states.check(header(5))


def test_silent_producers_are_forgotten_unless_in_a_transaction() -> None:
    states = ProducerStates(
        PARTITION,
        [ProducerEntry(1, 0, 1000), ProducerEntry(2, 0, 1001), ProducerEntry(3, 0, 0, 0, 55)],
    )
    assert states.expire(2000, 1000) == 1
    assert [entry.producer_id for entry in states] == [2, 3]


def test_replayed_batches_are_believed_but_for_an_old_epoch(states: ProducerStates) -> None:
    states.replay(header(7, 2)._replace(base_offset=40))
    states.replay(header(99, epoch=2)._replace(base_offset=50))
    states.replay(header(9)._replace(base_offset=60))
    states.replay(header(-1, producer_id=-1))
    (entry,) = states
    assert (entry.producer_epoch, entry.last_sequence, entry.last_offset) == (2, 99, 50)


def test_a_snapshot_keeps_each_producers_last_batch(tmp_path: Path) -> None:
    states = ProducerStates(PARTITION)
    for number in range(3):
        write(states, number, header(number), timestamp=number * 10)
    write(states, 3, header(7, producer_id=2**40, epoch=3), timestamp=5)
    path = tmp_path / "00000000000000000004.snapshot"
    write_snapshot(path, states, sync=True)
    first, second = decode_snapshot(path.read_bytes())
    assert (first.producer_id, first.last_timestamp, list(first.batches)) == (9, 20, [ProducerBatch(2, 2, 0, 20)])
    assert (second.producer_id, second.producer_epoch, second.last_sequence) == (2**40, 3, 7)


def test_a_snapshot_is_kafkas_bytes() -> None:
    entry = ProducerEntry(1, 2, 3, 4, 5)
    entry.batches.append(ProducerBatch(6, 7, 8, 3))
    assert encode_snapshot([entry]).hex() == (
        "0001" "ca6491dd" "00000001"
        "0000000000000001" "0002" "00000006" "0000000000000007" "00000008"
        "0000000000000003" "00000004" "0000000000000005"
    )  # fmt: skip


def test_damaged_snapshots_are_refused() -> None:
    good = encode_snapshot([ProducerEntry(1, 0, 0)])
    for damaged in (b"", good[:-1], good + b"\0", b"\0\x02" + good[2:], good[:-1] + b"\x55"):
        with pytest.raises(CorruptMessage):
            decode_snapshot(damaged)
