"""What a shard's owner writes: whole turns in batches of bounded size, numbered without gaps."""

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.appends.append_validation import AppendOrigin, check_batch
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.control_records import TransactionMarker, read_marker
from ottla_core.wire.record_batch import (
    HEADER_SIZE_BYTES,
    INT32_MAX,
    NO_SEQUENCE,
    RecordBatchHeader,
    crc_is_valid,
    parse_header,
)
from ottla_core.wire.records import iterate_records
from ottla_group_coordinator.records import (
    GROUP_RECORDS,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.runtime.shard_batches import (
    RECORD_OVERHEAD_BYTES_MAX,
    BatchPacker,
    ShardProducer,
    fencing_batch,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer

NOW_MS = 1_700_000_000_000
PRODUCER = ShardProducer(77, 3)
PARTITION = TopicPartition("__consumer_offsets", 0)


def record(number: int, *, metadata: str = "", is_tombstone: bool = False) -> CoordinatorRecord:
    value = OffsetCommitValue(offset=number, metadata=metadata, commit_timestamp=NOW_MS)
    key = OffsetCommitKey(group="group", topic="flights", partition=number)
    return CoordinatorRecord(key, None if is_tombstone else value)


def size_max(records: list[CoordinatorRecord]) -> int:
    """The most that a batch of these records takes."""
    return HEADER_SIZE_BYTES + sum(
        len(encode_key(key)) + (0 if value is None else len(encode_value(value))) + RECORD_OVERHEAD_BYTES_MAX
        for key, value in records
    )


def unpacked(batch: bytes) -> list[CoordinatorRecord]:
    found = []
    for stored in iterate_records(batch, parse_header(batch)):
        key = decode_key(stored.key or b"")
        assert key is not None
        found.append(CoordinatorRecord(key, None if stored.value is None else decode_value(key, stored.value)))
    return found


turns = st.lists(
    st.tuples(
        st.lists(
            st.builds(
                record,
                st.integers(0, 2**31 - 1),
                metadata=st.text(max_size=60),
                is_tombstone=st.booleans(),
            ),
            min_size=1,
            max_size=8,
        ),
        st.integers(0, 200_000),
    ),
    max_size=20,
)


@given(turns, st.integers(400, 2000), st.integers(0, INT32_MAX))
def test_brokers_take_the_batches_and_every_turn_comes_back_in_one_piece(
    taken: list[tuple[list[CoordinatorRecord], int]], bytes_max: int, sequence: int
) -> None:
    packer = BatchPacker(PRODUCER, sequence, bytes_max, GROUP_RECORDS)
    now_ms = NOW_MS
    for records, pause_ms in taken:
        now_ms += pause_ms
        packer.add(records, now_ms)
    batches = [each.batch for each in packer.appends()]

    producers = ProducerStates(PARTITION)
    config = TopicConfig(max_message_bytes=bytes_max)
    stored = []
    for batch in batches:
        header = check_batch(memoryview(batch), config, now_ms, PARTITION, AppendOrigin.COORDINATOR)
        assert producers.check(header) is None
        producers.record(header, 0, NOW_MS)
        assert (header.producer_id, header.producer_epoch) == PRODUCER
        assert header.max_timestamp <= now_ms
        stored.append(unpacked(batch))

    assert [one for batch in stored for one in batch] == [one for records, _ in taken for one in records]
    batch_ends = set(accumulate(len(records) for records in stored))
    turn_end = 0
    for records, _ in taken:
        turn_start, turn_end = turn_end, turn_end + len(records)
        is_split = any(turn_start < end < turn_end for end in batch_ends)
        assert not is_split or size_max(records) > bytes_max, "only a turn too large for a batch is split"
    assert packer.next_sequence == (sequence + len([one for records, _ in taken for one in records])) & INT32_MAX


def test_turns_share_a_batch() -> None:
    packer = BatchPacker(PRODUCER, 1, 1 << 20, GROUP_RECORDS)
    for number in range(100):
        packer.add([record(number)], NOW_MS + number)

    ((batch, preceding),) = packer.appends()

    assert not preceding
    header = parse_header(batch)
    assert (header.base_sequence, header.record_count, header.last_offset_delta) == (1, 100, 99)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 99)
    assert [stored.timestamp for stored in iterate_records(batch, header)][::99] == [NOW_MS, NOW_MS + 99]


def test_a_turn_that_does_not_fit_into_the_rest_of_a_batch_begins_a_new_one() -> None:
    packer = BatchPacker(PRODUCER, 1, 1000, GROUP_RECORDS)
    packer.add([record(number) for number in range(8)], NOW_MS)
    packer.add([record(number) for number in range(8)], NOW_MS)
    packer.add([record(8)], NOW_MS)

    assert [len(unpacked(batch)) for batch, _ in packer.appends()] == [8, 9]


def test_a_turn_too_large_for_any_batch_is_spread() -> None:
    packer = BatchPacker(PRODUCER, 1, 1000, GROUP_RECORDS)
    packer.add([record(0)], NOW_MS)
    packer.add([record(number) for number in range(30)], NOW_MS)

    batches = [each.batch for each in packer.appends()]

    assert max(map(len, batches)) <= 1000
    stored = [one for batch in batches for one in unpacked(batch)]
    assert stored == [record(0), *(record(number) for number in range(30))]


def test_nothing_makes_no_batch() -> None:
    assert BatchPacker(PRODUCER, 1, 1000, GROUP_RECORDS).appends() == []


# Transactions


@dataclass(frozen=True)
class LogModel:
    """What a log and those who load it make of batches: epochs by producer, what is pending, and what counts."""

    epochs: dict[int, int] = field(default_factory=dict)
    pending: dict[int, frozenset[int]] = field(default_factory=dict)
    counted: frozenset[int] = frozenset()

    def after(self, batch: bytes) -> "LogModel":
        header = parse_header(batch)
        if not header.is_transactional:
            return replace(self, counted=self.counted | offsets_of(batch))
        id_, epoch = header.producer_id, header.producer_epoch
        assert epoch >= self.epochs.get(id_, 0), "the log refuses what is of an earlier epoch"
        epochs = {**self.epochs, id_: epoch}
        pending = self.pending.get(id_, frozenset()) if epoch == self.epochs.get(id_, epoch) else frozenset()
        marker = read_marker(batch, header)
        if marker is None:
            return LogModel(epochs, {**self.pending, id_: pending | offsets_of(batch)}, self.counted)
        ended = self.pending.get(id_, frozenset())
        counted = self.counted | ended if marker.is_commit else self.counted
        return LogModel(epochs, {**self.pending, id_: frozenset()}, counted)


def offsets_of(batch: bytes) -> frozenset[int]:
    return frozenset(value.offset for _, value in unpacked(batch) if value is not None)


happenings = st.lists(
    st.tuples(
        st.sampled_from(["own", "records", "records", "commit", "abort", "raising commit", "raise"]),
        st.sampled_from([70, 71]),
        st.integers(1, 4),
    ),
    max_size=25,
)


@given(happenings, st.integers(300, 1500))
def test_an_append_that_is_cut_off_anywhere_comes_to_the_same_when_it_is_repeated(
    happening: list[tuple[str, int, int]], bytes_max: int
) -> None:
    packer = BatchPacker(PRODUCER, 1, bytes_max, GROUP_RECORDS)
    epochs = {70: 0, 71: 0}
    decided: list[Any] = []
    numbers = count()
    for what, id_, size in happening:
        if what in {"raise", "raising commit"}:
            epochs[id_] += 1
        producer = TransactionProducer(id_, epochs[id_])
        if what in {"own", "records"}:
            records = [record(next(numbers)) for _ in range(size)]
            packer.add(records, NOW_MS, producer if what == "records" else None)
            decided += [(producer if what == "records" else PRODUCER, each) for each in records]
        elif what != "raise":
            marker = TransactionMarker(
                producer_id=id_, producer_epoch=producer.epoch, is_commit=what != "abort", coordinator_epoch=0
            )
            packer.add_marker(marker, NOW_MS)
            decided.append(marker)

    log, sequence = LogModel(), 1
    stored: list[Any] = []
    for batch, preceding in packer.appends():
        whole = (*preceding, batch)
        expected = reduce(LogModel.after, whole, log)
        for cut in range(len(preceding) + 1):
            assert reduce(LogModel.after, (*preceding[:cut], *whole), log) == expected
        log = expected
        header = parse_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (*PRODUCER, sequence)
        sequence += header.last_offset_delta + 1
        assert len(batch) <= bytes_max
        assert sum(map(len, preceding)) <= 2 * bytes_max
        for each in whole:
            header = check_batch_of_coordinator(each)
            marker_of_batch = read_marker(each, header)
            owner = (TransactionProducer if header.is_transactional else ShardProducer)(
                header.producer_id, header.producer_epoch
            )
            stored += [marker_of_batch] if marker_of_batch else [(owner, one) for one in unpacked(each)]
    assert stored == decided, "in the order in which it was decided"
    assert packer.next_sequence == sequence


def check_batch_of_coordinator(batch: bytes) -> RecordBatchHeader:
    """See that a batch is whole, and return its header."""
    header = parse_header(batch)
    assert header.size_bytes == len(batch)
    assert crc_is_valid(batch, header)
    return header


def test_records_of_a_transaction_share_a_batch_until_something_else_comes() -> None:
    packer = BatchPacker(PRODUCER, 1, 1 << 20, GROUP_RECORDS)
    first, second = TransactionProducer(70, 0), TransactionProducer(71, 0)
    for number, producer in enumerate((first, first, second, first)):
        packer.add([record(number)], NOW_MS + number, producer)
    packer.add([record(4)], NOW_MS + 4)
    packer.add([record(5)], NOW_MS + 5)

    ((batch, preceding),) = packer.appends()

    assert [len(unpacked(each)) for each in (*preceding, batch)] == [2, 1, 1, 2]
    headers = [parse_header(each) for each in preceding]
    assert all(header.is_transactional and header.base_sequence == NO_SEQUENCE for header in headers)
    assert [header.max_timestamp for header in headers] == [NOW_MS + 1, NOW_MS + 2, NOW_MS + 3]


def test_what_belongs_to_transactions_alone_goes_with_a_batch_without_records() -> None:
    packer = BatchPacker(PRODUCER, 7, 1 << 20, GROUP_RECORDS)
    packer.add([record(0)], NOW_MS, TransactionProducer(70, 0))

    ((batch, preceding),) = packer.appends()

    header = parse_header(batch)
    assert (header.record_count, header.last_offset_delta, header.base_sequence) == (0, 0, 7)
    assert header.max_timestamp == NOW_MS
    assert (len(preceding), packer.next_sequence) == (1, 8)
    assert packer.size_bytes == len(batch) + len(preceding[0])


@pytest.mark.parametrize("former_epoch", [0, 2, 3])
def test_the_fencing_batch_is_taken_from_an_owner_as_new_as_any(former_epoch: int) -> None:
    producers = ProducerStates(PARTITION)
    former = parse_header(fencing_batch(ShardProducer(77, former_epoch), NOW_MS))
    producers.record(former, 10, NOW_MS)

    fence = check_batch(
        memoryview(fencing_batch(PRODUCER, NOW_MS)), TopicConfig(), NOW_MS, PARTITION, AppendOrigin.COORDINATOR
    )

    duplicate = producers.check(fence)
    assert (duplicate is not None) == (former_epoch == PRODUCER.epoch)
    assert (fence.record_count, fence.last_offset_delta) == (0, 0)
