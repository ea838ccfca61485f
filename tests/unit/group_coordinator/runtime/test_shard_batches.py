"""What a shard's owner writes: whole turns in batches of bounded size, numbered without gaps."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.appends.append_validation import AppendOrigin, check_batch
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, INT32_MAX, parse_header
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
from ottla_group_coordinator.runtime.turn import CoordinatorRecord

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
