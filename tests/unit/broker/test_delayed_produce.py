"""A produce is answered when all its records are safe, or cannot be, or take too long."""

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.delayed_produce import DelayedProduce, PendingAck
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import PartitionState
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.produce_response import PartitionProduced
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of, open_log
from tests.support.eventually_async import eventually_async

STATE = PartitionState(topic_id=UUID(int=1), index=0, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=5)
LONG_S = 60.0


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return open_partition(tmp_path / "log", TopicConfig())


def open_partition(directory: Path, config: TopicConfig) -> Partition:
    context = ReplicationContext(1, 30_000, int, live_brokers=frozenset({1, 2}))
    partition = Partition(PARTITION, open_log(directory, config=config), context, STATE)
    partition.apply(STATE, leads=True)
    return partition


class Produce:
    """Appends one batch to each partition and waits for all of them."""

    def __init__(self, *partitions: Partition, timeout_s: float = LONG_S, flushed: bool = False) -> None:
        self.outcomes = [PartitionProduced(index, ErrorCode.none) for index in range(len(partitions))]
        pending_acks = []
        for position, partition in enumerate(partitions):
            end_offset = partition.append(batch_of(b"v"), now_ms=NOW_MS, all_in_sync=True).last_offset + 1
            epoch = partition.state.leader_epoch
            pending_acks.append(
                PendingAck(self.outcomes, position, partition, end_offset, epoch, replicated=True, flushed=flushed)
            )
        self.delayed = DelayedProduce(pending_acks, timeout_s, lambda: [b"answer"])

    @property
    def is_answered(self) -> bool:
        return self.delayed.answered.done()

    @property
    def codes(self) -> list[ErrorCode]:
        assert self.delayed.answered.result() == [b"answer"]
        return [outcome.error_code for outcome in self.outcomes]


def follower_fetches(partition: Partition, offset: int) -> None:
    partition.record_follower_fetch(FollowerContact(2, 7, 0), offset=offset, log_start_offset=0)


async def test_it_is_answered_when_the_high_watermark_has_passed_its_records(partition: Partition) -> None:
    first, second = Produce(partition), Produce(partition)
    assert not first.is_answered

    follower_fetches(partition, 1)
    assert (first.is_answered, second.is_answered) == (True, False)
    follower_fetches(partition, 2)
    assert first.codes == second.codes == [ErrorCode.none]


async def test_it_waits_for_the_last_of_its_partitions(tmp_path: Path) -> None:
    one, other = (open_partition(tmp_path / name, TopicConfig()) for name in ("one", "other"))
    produce = Produce(one, other)

    follower_fetches(one, 1)
    assert not produce.is_answered
    follower_fetches(other, 1)
    assert produce.codes == [ErrorCode.none, ErrorCode.none]


async def test_only_the_partition_that_is_led_no_more_is_refused(tmp_path: Path) -> None:
    one, other = (open_partition(tmp_path / name, TopicConfig()) for name in ("one", "other"))
    produce = Produce(one, other)

    one.apply(replace(STATE, leader=2, leader_epoch=6, partition_epoch=1), leads=False)
    follower_fetches(other, 1)

    assert produce.codes == [ErrorCode.not_leader_or_follower, ErrorCode.none]


async def test_records_wait_while_the_in_sync_set_is_too_small(tmp_path: Path) -> None:
    partition = open_partition(tmp_path / "log", replace(TopicConfig(), min_insync_replicas=2))
    produce = Produce(partition)
    partition.apply(replace(STATE, isr=(1,), partition_epoch=1), leads=True)
    follower_fetches(partition, 1)
    assert not produce.is_answered

    partition.apply(replace(STATE, partition_epoch=2), leads=True)
    assert produce.codes == [ErrorCode.none]


async def test_replication_that_takes_longer_than_the_producer_waits_is_a_timeout(partition: Partition) -> None:
    produce = Produce(partition, timeout_s=0.01)

    await eventually_async(lambda: produce.is_answered, "it is answered")

    assert produce.codes == [ErrorCode.request_timed_out]
    follower_fetches(partition, 1)
    assert produce.codes == [ErrorCode.request_timed_out]


async def test_it_also_waits_for_the_disk_where_that_is_asked_for(tmp_path: Path) -> None:
    partition = open_partition(tmp_path / "log", replace(TopicConfig(), flush_messages=1))
    produce = Produce(partition, flushed=True)

    follower_fetches(partition, 1)
    assert not produce.is_answered
    await eventually_async(lambda: produce.is_answered, "it is answered")

    assert produce.codes == [ErrorCode.none]
    assert partition.log.recovery_point == 1


async def test_a_producer_that_has_gone_is_forgotten(partition: Partition) -> None:
    produce = Produce(partition)

    produce.delayed.answered.cancel()
    await asyncio.sleep(0)

    assert len(partition._unreplicated) == 0
    follower_fetches(partition, 1)
