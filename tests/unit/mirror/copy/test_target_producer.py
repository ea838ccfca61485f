"""Which outcome belongs to which batch of a request, and when requests are sent."""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Unreachable
from ottla_core.client.pipelined_connection import Receiver
from ottla_core.wire.raw_produce import ProduceOutcome, TopicKey
from ottla_core.wire.record_batch import Buffer
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.target_producer import REQUESTS_LOW, REQUESTS_MAX, Sent, TargetProducer, outcomes_in_order
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, StoredCopy

SOURCE_ID, IDS = UUID(int=1), (UUID(int=7), UUID(int=8))


def partition_of(
    topic: int, partition: int, batches: int = 1, sizes: Sequence[int] = ()
) -> tuple[PartitionWork, PartitionCopy]:
    """A partition with so many batches to send; the first of them have values of these sizes."""
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
    values = [bytes(size) for size in sizes] + [b"v"] * (batches - len(sizes))
    records = b"".join(encode_batch([Record(offset, 1, b"k", value)]) for offset, value in enumerate(values))
    copy.take(memoryview(bytearray(records)), (), high_watermark=batches, last_stable_offset=-1)
    work = PartitionWork(
        SourcePartition(topic=f"topic-{topic}", partition=partition, topic_id=SOURCE_ID), f"a.topic-{topic}", 0
    )
    work.target_topic_id = IDS[topic]
    work.target_leader = 1
    work.copy = copy
    return work, copy


def sent(topic: int, partition: int) -> Sent:
    """One batch that was sent."""
    work, copy = partition_of(topic, partition)
    assert len(copy.next_to_send(1)) == 1
    return [(work, copy)]


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


class Broker:
    """A broker with its connection, which answers when it is told to."""

    is_usable = True

    def close(self) -> None:
        pass

    def __init__(self) -> None:
        self.sent = 0
        self.sizes: list[int] = []
        self.under_way: deque[Receiver] = deque()
        self.after_answers: Callable[[], None] | None = None
        self._next_offset = 0

    @property
    def unanswered(self) -> int:
        return len(self.under_way)

    async def open_pipelined(self, broker_id: int) -> "Broker":
        return self

    def version_among(self, *_: int) -> int:
        return 13

    def send(self, key: int, version: int, body: Sequence[Buffer], receiver: Receiver, **_: object) -> None:
        self.sent += 1
        self.sizes.append(sum(map(len, body)))
        self.under_way.append(receiver)

    def answer(self, count: int = 1) -> None:
        """Take the batches of the oldest requests; the answers are read together."""
        for _ in range(count):
            self._answer_oldest()
        assert self.after_answers is not None
        self.after_answers()

    def _answer_oldest(self, partition: int = 0) -> None:
        answer = struct.pack(">ibb16sb", 0, 0, 2, IDS[0].bytes, 2)
        answer += struct.pack(">ihqqq3s", partition, 0, self._next_offset, -1, 0, b"\1\0\0") + struct.pack(
            ">bib", 0, 0, 0
        )
        self._next_offset += 1
        self.under_way.popleft()(memoryview(answer))

    def lose(self) -> None:
        """Answer nothing that is under way."""
        while self.under_way:
            self.under_way.popleft()(Unreachable("it is gone"))
        assert self.after_answers is not None
        self.after_answers()


class Owner:
    """What follows from answers."""

    def __init__(self) -> None:
        self.looked_at: list[PartitionWork] = []

    def on_room(self, work: PartitionWork) -> None:
        pass

    def on_produced(self, work: PartitionWork) -> None:
        self.looked_at.append(work)

    def on_target_failed(self, reason: str) -> None:
        pass

    def on_unreachable(self, works: Collection[PartitionWork], reason: str, for_s: float) -> None:
        pass


async def turn() -> None:
    """Let all run that is due."""
    for _ in range(5):
        await asyncio.sleep(0)


async def producer_with(broker: Broker, owner: Owner, work: PartitionWork) -> TargetProducer:
    """A producer of which all requests are under way that may be."""
    producer = TargetProducer(cast("AsyncCluster", broker), 1, CopySettings(), owner)
    producer.add(work)
    producer.kick()
    async with asyncio.timeout(10):
        while not broker.sent:
            await asyncio.sleep(0)
    assert broker.sent == 1, "the first batch goes alone"
    broker.answer()
    await turn()
    assert broker.unanswered == REQUESTS_MAX
    return producer


async def test_batches_behind_others_are_sent_together_once_few_requests_are_under_way():
    broker, owner = Broker(), Owner()
    work, copy = partition_of(0, 0, batches=14)
    await producer_with(broker, owner, work)
    while broker.unanswered > REQUESTS_LOW + 1:
        broker.answer()
        await turn()
    assert broker.sent == 1 + REQUESTS_MAX, "nothing is sent for a single answer"
    broker.answer()
    await turn()
    assert broker.unanswered == REQUESTS_MAX
    while broker.unanswered:
        broker.answer()
        await turn()
    assert (broker.sent, copy.records, copy.buffered_bytes) == (14, 14, 0)


async def test_no_request_is_larger_than_the_setting_by_more_than_a_batch_though_second_batches_are_the_larger_ones():
    broker, settings = Broker(), CopySettings(request_bytes_max=20_000)
    producer = TargetProducer(cast("AsyncCluster", broker), 1, settings, Owner())
    works = [partition_of(0, number, 4, sizes=(1, 1, 10_000)) for number in range(9)]
    for work, copy in works:
        copy.next_to_send(1)
        copy.on_acknowledged([0])  # so that several batches of it may be under way
        producer.add(work)
    producer.kick()
    await turn()
    assert broker.sent == REQUESTS_MAX
    assert max(broker.sizes) < settings.request_bytes_max + 11_000
    assert sum(broker.sizes) > 2 * settings.request_bytes_max, "large batches have gone into several requests"
    broker.lose()


async def test_what_was_just_fetched_is_sent_while_many_requests_are_under_way():
    broker, owner = Broker(), Owner()
    work, _ = partition_of(0, 0, batches=14)
    producer = await producer_with(broker, owner, work)
    broker.answer()
    await turn()
    fresh, _ = partition_of(0, 1)
    producer.add(fresh)
    producer.kick()
    assert broker.unanswered == REQUESTS_MAX
    broker.lose()


async def test_what_follows_from_answers_is_done_once_for_all_that_arrive_together():
    broker, owner = Broker(), Owner()
    work, copy = partition_of(0, 0, batches=6)
    await producer_with(broker, owner, work)
    owner.looked_at.clear()
    broker.answer(broker.unanswered)
    assert (owner.looked_at, copy.records) == ([work], 6)


async def test_a_lost_connection_leads_to_another_attempt():
    broker, owner = Broker(), Owner()
    work, copy = partition_of(0, 0, batches=6)
    producer = await producer_with(broker, owner, work)
    owner.looked_at.clear()
    broker.lose()
    await turn()
    assert owner.looked_at == [work]
    assert copy.may_repeat
    copy.repeat()
    producer.add(work)
    producer.kick()
    assert broker.unanswered == 1, "the first goes alone again"


async def test_a_connection_that_fails_unexpectedly_is_opened_again():
    class FailingOnce(Broker):
        attempts = 0

        async def open_pipelined(self, broker_id: int) -> Broker:
            self.attempts += 1
            if self.attempts == 1:
                raise RuntimeError("a bug")
            return self

    broker = FailingOnce()
    work, _ = partition_of(0, 0)
    producer = TargetProducer(cast("AsyncCluster", broker), 1, CopySettings(backoff_s_min=0.001), Owner())
    producer.add(work)
    producer.kick()
    async with asyncio.timeout(10):
        while not broker.sent:
            await asyncio.sleep(0)
    broker.lose()
    producer.close()
