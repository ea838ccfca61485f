"""A batch that its producer sends again after more than five later ones: it is told to be there, when it is safe."""

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, PartitionState, Topic
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.partition_logs import NOW_MS, batch_of, open_log
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member

TOPIC = "t"
FOLLOWER = 2
STATE = PartitionState(
    topic_id=UUID(int=5), index=0, replicas=(BROKER, FOLLOWER), isr=(BROKER, FOLLOWER), leader=BROKER, leader_epoch=4
)
BATCHES = 8


class Registration:
    registered_epoch = NO_EPOCH

    def is_current(self) -> bool:
        return True


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Led here, with batches that nobody else has."""
    context = ReplicationContext(BROKER, 30_000, int, live_brokers=frozenset({BROKER, FOLLOWER}))
    made = Partition(TopicPartition(TOPIC, 0), open_log(tmp_path), context, STATE)
    made.apply(STATE, leads=True)
    for number in range(BATCHES):
        made.append(batch(number), now_ms=NOW_MS, all_in_sync=True)
    return made


@pytest.fixture
def broker(partition: Partition) -> Broker:
    topic = Topic(name=TOPIC, id=STATE.topic_id, partitions=(STATE,))
    members = {number: broker_member(number) for number in (BROKER, FOLLOWER)}
    feed = StatedFeed(ClusterState(brokers=members, topics={TOPIC: topic}, topics_by_id={topic.id: topic}))
    table = PartitionTable(broker_of(feed).config, feed, Registration())  # type: ignore[arg-type]
    table.add(partition)
    return broker_of(feed, partitions=table)


def batch(number: int) -> bytes:
    return batch_of(b"value", producer=(7, 0, number))


async def test_it_is_told_to_be_there_when_all_in_sync_replicas_have_it(broker: Broker, partition: Partition) -> None:
    answer = asyncio.ensure_future(ask(broker, produce_request(TOPIC, batch(0))))
    await asyncio.sleep(0)  # the request is taken
    assert not answer.done(), "the follower has nothing"
    partition.record_follower_fetch(FollowerContact(FOLLOWER, 7, 0), offset=3, log_start_offset=0)
    told = produced(await answer)
    assert (told.error_code, told.base_offset) == (ErrorCode.duplicate_sequence_number, -1)
    assert partition.log.log_end_offset == BATCHES


async def test_it_is_not_told_to_be_there_by_who_leads_no_more(broker: Broker, partition: Partition) -> None:
    answer = asyncio.ensure_future(ask(broker, produce_request(TOPIC, batch(0))))
    await asyncio.sleep(0)  # the request is taken
    partition.apply(replace(STATE, leader=FOLLOWER, leader_epoch=5, partition_epoch=1), leads=False)
    assert produced(await answer).error_code is ErrorCode.not_leader_or_follower


async def test_too_few_replicas_keep_it_out_no_more_than_a_recent_one(partition: Partition) -> None:
    assert partition.log.has_batch(batch(0))
    assert partition.log.has_batch(batch(BATCHES - 1))
    assert not partition.log.has_batch(batch(BATCHES + 1))
