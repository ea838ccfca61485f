"""What requests about a replicated partition are answered while the followers are behind."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_records.v2 import request as delete_records
from kio.schema.describe_producers.v0 import request as describe_producers
from kio.schema.describe_topic_partitions.v0 import request as describe_topic_partitions
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v4 import request as old_list_offsets
from kio.schema.list_offsets.v7 import request as list_offsets
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from ottla_broker.broker import Broker
from ottla_broker.log.partition.read_isolation import READ_COMMITTED
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, PartitionState, Topic
from ottla_core.errors import NotLeaderOrFollower
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.partition_logs import NOW_MS, batch_of, open_log
from tests.support.broker.transactional_logs import end, write
from tests.support.clients.raw_requests import DEBUGGER, LATEST, TIMEOUT, produce_request, produced
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member

TOPIC = "t"
FOLLOWER = 2
STATE = PartitionState(
    topic_id=UUID(int=5), index=0, replicas=(BROKER, FOLLOWER, 3), isr=(BROKER, FOLLOWER), leader=BROKER,
    leader_epoch=4,
)  # fmt: skip


class Registration:
    registered_epoch = NO_EPOCH

    def is_current(self) -> bool:
        return True


class Leader:
    """A broker that leads a partition of three replicas; broker 2 follows, broker 3 is gone."""

    def __init__(self, directory: Path, records_before: int = 0, state: PartitionState = STATE) -> None:
        topic = Topic(name=TOPIC, id=STATE.topic_id, partitions=(state,))
        members = {number: broker_member(number) for number in (BROKER, FOLLOWER)}
        feed = StatedFeed(ClusterState(brokers=members, topics={TOPIC: topic}, topics_by_id={topic.id: topic}))
        table = PartitionTable(broker_of(feed).config, feed, Registration())  # type: ignore[arg-type]
        context = ReplicationContext(BROKER, 30_000, int, live_brokers=frozenset(members))
        self.partition = Partition(TopicPartition(TOPIC, 0), open_log(directory), context, STATE)
        for _ in range(records_before):
            self.partition.log.append_as_leader(batch_of(b"v"), leader_epoch=3, now_ms=NOW_MS)
        self.partition.apply(STATE, leads=True)
        table.add(self.partition)
        self.broker: Broker = broker_of(feed, partitions=table)

    def follower_fetches(self, offset: int, log_start_offset: int = 0) -> None:
        contact = FollowerContact(FOLLOWER, 7, 0)
        self.partition.record_follower_fetch(contact, offset=offset, log_start_offset=log_start_offset)

    async def end_offset(
        self, *, replica_id: int = -1, messages: Any = list_offsets, isolation_level: int = 0, timestamp: int = LATEST
    ) -> tuple[ErrorCode, int]:
        wanted = messages.ListOffsetsPartition(partition_index=i32(0), timestamp=i64(timestamp))
        request = messages.ListOffsetsRequest(
            replica_id=BrokerId(replica_id),
            isolation_level=i8(isolation_level),
            topics=(messages.ListOffsetsTopic(name=TopicName(TOPIC), partitions=(wanted,)),),
        )
        (answer,) = (await ask(self.broker, request)).topics[0].partitions
        return answer.error_code, answer.offset

    async def delete_records(self, before_offset: int, timeout_ms: int = 10_000) -> tuple[ErrorCode, int]:
        wanted = delete_records.DeleteRecordsPartition(partition_index=i32(0), offset=i64(before_offset))
        request = delete_records.DeleteRecordsRequest(
            topics=(delete_records.DeleteRecordsTopic(name=TopicName(TOPIC), partitions=(wanted,)),),
            timeout=i32Timedelta.parse(TIMEOUT * timeout_ms / 10_000),
        )
        (answer,) = (await ask(self.broker, request)).topics[0].partitions
        return answer.error_code, answer.low_watermark


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path / "log")


async def test_to_consumers_a_partition_ends_at_the_high_watermark_and_to_replicas_at_the_log_end(
    leader: Leader,
) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a"), acks=1))
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"b"), acks=1))
    leader.follower_fetches(1)

    assert await leader.end_offset() == (ErrorCode.none, 1)
    assert await leader.end_offset(replica_id=FOLLOWER) == (ErrorCode.none, 2)
    assert await leader.end_offset(replica_id=DEBUGGER) == (ErrorCode.none, 2)


async def test_to_consumers_of_committed_records_a_partition_ends_at_the_last_stable_offset(leader: Leader) -> None:
    log = leader.partition.log
    write(log, b"a", producer=(7, 0, 0), leader_epoch=4, replicated=False)
    for value in (b"b", b"c"):
        await ask(leader.broker, produce_request(TOPIC, batch_of(value), acks=1))
    leader.follower_fetches(2)
    assert await leader.end_offset(isolation_level=READ_COMMITTED) == (ErrorCode.none, 0)
    assert await leader.end_offset() == (ErrorCode.none, 2)
    assert await leader.end_offset(isolation_level=READ_COMMITTED, replica_id=FOLLOWER) == (ErrorCode.none, 3)
    assert await leader.end_offset(isolation_level=READ_COMMITTED, timestamp=0) == (ErrorCode.none, -1)
    assert await leader.end_offset(timestamp=0) == (ErrorCode.none, 0)

    end(log, 7, 0, commit=True, leader_epoch=4, replicated=False)
    leader.follower_fetches(4)
    assert await leader.end_offset(isolation_level=READ_COMMITTED) == (ErrorCode.none, 4)
    assert await leader.end_offset(isolation_level=READ_COMMITTED, timestamp=0) == (ErrorCode.none, 0)


async def test_producers_are_described_with_their_open_transactions(leader: Leader) -> None:
    log = leader.partition.log
    write(log, b"a", producer=(7, 2, 0), leader_epoch=4)
    end(log, 7, 2, commit=True, coordinator_epoch=5, leader_epoch=4)
    write(log, b"b", producer=(7, 2, 1), leader_epoch=4)
    topics = (describe_producers.TopicRequest(name=TopicName(TOPIC), partition_indexes=(i32(0),)),)
    answer = await ask(leader.broker, describe_producers.DescribeProducersRequest(topics=topics))
    (producer,) = answer.topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (5, 2)

    linked = replace(STATE, link=UUID(int=9), leader_epoch=STATE.leader_epoch + 1)
    leader.partition.apply(linked, leads=True)
    answer = await ask(leader.broker, describe_producers.DescribeProducersRequest(topics=topics))
    (producer,) = answer.topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.current_txn_start_offset) == (7, -1), "it is the source's to end it"


async def test_a_follower_shows_its_log_only_to_who_debugs(leader: Leader) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a"), acks=1))
    leader.partition.apply(replace(STATE, leader=FOLLOWER, leader_epoch=STATE.leader_epoch + 1), leads=False)

    assert await leader.end_offset() == (ErrorCode.not_leader_or_follower, -1)
    assert await leader.end_offset(replica_id=FOLLOWER) == (ErrorCode.not_leader_or_follower, -1)
    assert await leader.end_offset(replica_id=DEBUGGER) == (ErrorCode.none, 1)


async def test_a_new_leader_shows_no_end_until_it_knows_that_offsets_do_not_go_back(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "log", records_before=2)

    assert await leader.end_offset() == (ErrorCode.offset_not_available, -1)
    assert await leader.end_offset(messages=old_list_offsets) == (ErrorCode.leader_not_available, -1)
    assert await leader.end_offset(replica_id=FOLLOWER) == (ErrorCode.none, 2)

    leader.follower_fetches(2)
    assert await leader.end_offset() == (ErrorCode.none, 2)


async def test_a_produce_with_acks_all_is_answered_when_the_follower_has_it(leader: Leader) -> None:
    producing = asyncio.create_task(ask(leader.broker, produce_request(TOPIC, batch_of(b"a"))))
    await asyncio.sleep(0)
    assert not producing.done()
    assert leader.partition.log.log_end_offset == 1

    leader.follower_fetches(1)

    answer = produced(await producing)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


async def test_records_are_deleted_when_every_live_replica_has_deleted_them(leader: Leader) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a", b"b"), acks=1))
    leader.follower_fetches(2)
    deleting = asyncio.create_task(leader.delete_records(1))
    await asyncio.sleep(0)
    assert not deleting.done()
    assert leader.partition.log.log_start_offset == 1

    leader.follower_fetches(2, log_start_offset=1)

    assert await deleting == (ErrorCode.none, 1)


async def test_records_are_not_deleted_before_a_replica_in_sync_has_deleted_them_whose_registration_has_ended(
    leader: Leader,
) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a", b"b"), acks=1))
    leader.follower_fetches(2)
    feed = leader.broker.feed
    feed.state = replace(feed.state, brokers={BROKER: broker_member(BROKER)})  # type: ignore[misc]
    assert await leader.delete_records(1, timeout_ms=20) == (ErrorCode.request_timed_out, 0)

    leader.partition.apply(replace(STATE, isr=(BROKER,)), leads=True)
    assert await leader.delete_records(1) == (ErrorCode.none, 1)


async def test_a_follower_that_does_not_delete_in_time_is_reported(leader: Leader) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a"), acks=1))
    leader.follower_fetches(1)

    assert await leader.delete_records(1, timeout_ms=20) == (ErrorCode.request_timed_out, 0)


async def test_records_of_a_compacted_partition_are_not_deleted_by_offset(tmp_path: Path) -> None:
    leader = Leader(tmp_path, records_before=2)
    log = leader.partition.log
    log.update_config(TopicConfig(cleanup_policy=frozenset({"compact"})))
    assert await leader.delete_records(1) == (ErrorCode.policy_violation, -1)
    assert log.log_start_offset == 0


async def test_replicas_that_may_be_elected_are_named(tmp_path: Path) -> None:
    leader = Leader(tmp_path / "log", state=replace(STATE, isr=(BROKER,), eligible_leaders=(3,)))
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name=TopicName(TOPIC)),),
        response_partition_limit=i32(10),
        cursor=None,
    )

    (partition,) = (await ask(leader.broker, request)).topics[0].partitions

    assert partition.eligible_leader_replicas == (3,)
    assert partition.offline_replicas == (3,)
    assert partition.isr_nodes == (BROKER,)


async def test_a_leader_deposed_while_records_are_deleted_says_so(leader: Leader) -> None:
    await ask(leader.broker, produce_request(TOPIC, batch_of(b"a"), acks=1))
    leader.follower_fetches(1)
    deleting = asyncio.create_task(leader.delete_records(1))
    await asyncio.sleep(0)

    leader.partition.apply(replace(STATE, leader=FOLLOWER, leader_epoch=5), leads=False)

    assert await deleting == (ErrorCode.not_leader_or_follower, -1)


def test_consumers_read_from_a_follower_only_while_it_is_in_sync(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    followed = replace(STATE, leader=FOLLOWER, leader_epoch=5)
    leader.partition.apply(followed, leads=False)
    assert leader.broker.partitions.readable_replica(TOPIC, 0) is leader.partition
    leader.partition.apply(replace(followed, isr=(FOLLOWER,)), leads=False)
    with pytest.raises(NotLeaderOrFollower, match="led by broker 2"):
        leader.broker.partitions.readable_replica(TOPIC, 0)
