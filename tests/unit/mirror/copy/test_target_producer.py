"""Which outcome belongs to which batch of a request."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.raw_produce import ProduceOutcome, TopicKey
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.target_producer import Sent, outcomes_in_order
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, StoredCopy

SOURCE_ID, IDS = UUID(int=1), (UUID(int=7), UUID(int=8))


def sent(topic: int, partition: int) -> Sent:
    """One batch that was sent."""
    session = Session(
        producer_id=9,
        producer_epoch=0,
        source_topic_id=SOURCE_ID,
        source_start_offset=0,
        target_topic_id=IDS[topic],
        target_start_offset=0,
        replaces=None,
    )
    copy = PartitionCopy(
        StoredCopy(session=session, next_sequence=0, map=OffsetMap(0, 0)), Pairing((), 0, 0), SOURCE_ID
    )
    batch = memoryview(bytearray(encode_batch([Record(0, 1, b"k", b"v")])))
    copy.take(batch, (), high_watermark=1, last_stable_offset=-1)
    entry = copy.next_to_send()
    assert entry is not None
    work = PartitionWork(
        SourcePartition(topic=f"topic-{topic}", partition=partition, topic_id=SOURCE_ID), f"a.topic-{topic}", 0
    )
    work.target_topic_id = IDS[topic]
    return [(work, copy, entry)]


def outcome(topic: TopicKey, partition: int) -> ProduceOutcome:
    return ProduceOutcome(topic, partition, ErrorCode.none, partition * 10, -1, None)


@pytest.mark.parametrize("by_id", [True, False])
def test_each_batch_gets_its_outcome_in_whatever_order_a_broker_answers(by_id: bool):
    batches = [*sent(0, 1), *sent(0, 2), *sent(1, 2), *sent(0, 3)]
    keys: tuple[TopicKey, TopicKey] = (UUID(int=7), UUID(int=8)) if by_id else ("a.topic-0", "a.topic-1")
    expected = [outcome(keys[0], 1), outcome(keys[0], 2), outcome(keys[1], 2), outcome(keys[0], 3)]
    for answered in (expected, expected[::-1], [expected[n] for n in (0, 2, 1, 3)]):
        assert list(outcomes_in_order(batches, answered, by_id=by_id)) == expected
    for answered in (expected[1:], [*expected[1:], outcome(keys[1], 9)]):
        assert list(outcomes_in_order(batches, answered, by_id=by_id)) == [None, *expected[1:]]
