"""A produce request that rests between its batches, and what may happen to the first ones meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9 import request as produce_messages
from kio.static.primitive import i32

from ottla_broker.broker import Broker, Request
from ottla_broker.handlers import produce
from ottla_broker.handlers.produce import LEADER_ONLY
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.following import append_from_leader, truncate_to
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, PartitionState, Topic
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.partition_logs import NOW_MS, batch_of, open_log, read_values
from tests.support.clients.raw_requests import ALL_IN_SYNC, produce_request
from tests.support.eventually_async import eventually_async
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member

TOPIC = "t"
FOLLOWER = 2
STATE = PartitionState(
    topic_id=UUID(int=5), index=0, replicas=(BROKER, FOLLOWER), isr=(BROKER, FOLLOWER), leader=BROKER, leader_epoch=4
)
COMPACTED = replace(TopicConfig(), cleanup_policy=frozenset({"compact"}))


class Registration:
    """This broker's."""

    registered_epoch = NO_EPOCH

    def is_current(self) -> bool:
        return True


class Leader:
    """A broker that leads two partitions of a compacted topic."""

    def __init__(self, directory: Path, config: TopicConfig = COMPACTED) -> None:
        states = (STATE, replace(STATE, index=1))
        topic = Topic(name=TOPIC, id=STATE.topic_id, partitions=states)
        members = {number: broker_member(number) for number in (BROKER, FOLLOWER)}
        feed = StatedFeed(ClusterState(brokers=members, topics={TOPIC: topic}, topics_by_id={topic.id: topic}))
        self.registration = Registration()
        table = PartitionTable(broker_of(feed).config, feed, self.registration)  # type: ignore[arg-type]
        context = ReplicationContext(BROKER, 30_000, int, live_brokers=frozenset(members))
        self.partitions = []
        for state in states:
            log = open_log(directory / str(state.index), config=config)
            partition = Partition(TopicPartition(TOPIC, state.index), log, context, state)
            partition.apply(state, leads=True)
            table.add(partition)
            self.partitions.append(partition)
        self.broker: Broker = broker_of(feed, partitions=table)


def follower_has_everything(partition: Partition) -> None:
    contact = FollowerContact(FOLLOWER, 7, 0)
    partition.record_follower_fetch(contact, offset=partition.log.log_end_offset, log_start_offset=0)


def request_for_two(*records: bytes, acks: int = ALL_IN_SYNC) -> Any:
    one = produce_request(TOPIC, records[0], acks=acks)
    (topic,) = one.topic_data
    data = tuple(
        produce_messages.PartitionProduceData(index=i32(index), records=batch)  # type: ignore[arg-type]
        for index, batch in enumerate(records)
    )
    return replace(one, topic_data=(replace(topic, partition_data=data),))


def hold_second_batch(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Have the second batch wait until this is set, as while it is unpacked."""
    opened = asyncio.Event()
    look_into = produce._look_into

    async def held(broker: Broker, request: Request, named: str | UUID, data: Any) -> Any:
        if data.partition == 1:
            await opened.wait()
        return await look_into(broker, request, named, data)

    monkeypatch.setattr(produce, "_look_into", held)
    return opened


async def test_a_batch_is_not_acknowledged_for_what_another_leader_has_put_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path)
    first, second = leader.partitions
    opened = hold_second_batch(monkeypatch)
    answer = asyncio.ensure_future(ask(leader.broker, request_for_two(batch_of(b"mine"), batch_of(b"other"))))
    await eventually_async(lambda: first.log.log_end_offset == 1, "the first batch is appended")

    first.apply(replace(STATE, leader=FOLLOWER, leader_epoch=5, partition_epoch=1), leads=False)
    truncate_to(first, 0, leader_epoch=5, now_ms=NOW_MS)
    records = batch_of(b"theirs", leader_epoch=5)
    append_from_leader(first, records, leader_epoch=5, high_watermark=1, log_start_offset=0, now_ms=NOW_MS)
    first.apply(replace(STATE, leader_epoch=6, partition_epoch=2), leads=True)
    follower_has_everything(first)
    opened.set()
    await eventually_async(lambda: second.log.log_end_offset == 1, "the second batch is appended")
    follower_has_everything(second)

    (topic,) = (await answer).responses
    assert [outcome.error_code for outcome in topic.partition_responses] == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.none,
    ]
    assert read_values(first.log) == [(0, b"theirs")]


def elect_the_follower(partition: Partition) -> None:
    partition.apply(replace(STATE, leader=FOLLOWER, leader_epoch=5, partition_epoch=1), leads=False)


def elect_again(partition: Partition) -> None:
    """This broker leads again, after a leader whose log may not have had what this one appended before."""
    elect_the_follower(partition)
    partition.apply(replace(STATE, leader_epoch=6, partition_epoch=2), leads=True)


@pytest.mark.parametrize("change", [elect_the_follower, elect_again])
async def test_who_asks_its_leader_alone_is_told_when_that_leads_no_longer_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Partition], None]
) -> None:
    leader = Leader(tmp_path)
    first, second = leader.partitions
    opened = hold_second_batch(monkeypatch)
    request = request_for_two(batch_of(b"mine"), batch_of(b"other"), acks=LEADER_ONLY)
    answer = asyncio.ensure_future(ask(leader.broker, request))
    await eventually_async(lambda: first.log.log_end_offset == 1, "the first batch is appended")
    change(first)
    opened.set()

    (topic,) = (await answer).responses
    assert second.log.log_end_offset == 1
    assert [outcome.error_code for outcome in topic.partition_responses] == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.none,
    ]


@pytest.mark.parametrize("change", [elect_the_follower, elect_again])
async def test_who_asks_its_leader_alone_is_told_when_that_leads_no_longer_after_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Partition], None]
) -> None:
    leader = Leader(tmp_path, replace(TopicConfig(), flush_messages=1))
    first, second = leader.partitions
    flushed = asyncio.Event()

    async def held(self: PartitionLog, _offset: int) -> None:
        await flushed.wait()

    monkeypatch.setattr(PartitionLog, "flushed", held)
    request = request_for_two(batch_of(b"mine"), batch_of(b"other"), acks=LEADER_ONLY)
    answer = asyncio.ensure_future(ask(leader.broker, request))
    await eventually_async(lambda: second.log.log_end_offset == 1, "both batches are appended")
    change(first)
    flushed.set()

    (topic,) = (await answer).responses
    assert [outcome.error_code for outcome in topic.partition_responses] == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.none,
    ]


async def test_a_leader_that_has_registered_anew_takes_nothing_before_it_is_elected_again(tmp_path: Path) -> None:
    """The controller may know of the registration already, and have elected another broker."""
    leader = Leader(tmp_path, TopicConfig())
    leader.registration.registered_epoch += 1
    answer = await ask(leader.broker, produce_request(TOPIC, batch_of(b"x"), acks=LEADER_ONLY))
    (topic,) = answer.responses
    assert topic.partition_responses[0].error_code is ErrorCode.not_leader_or_follower
    assert leader.partitions[0].log.log_end_offset == 0
