"""Markers that coordinators have written: when they count, and where those of groups' partitions go."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v1.request import WriteTxnMarkersRequest

from ottla_broker.groups import marker_writing
from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay_session import RelaySession
from ottla_broker.log.background import Background
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import NO_EPOCH, ClusterState, PartitionState, Topic
from ottla_core.shards import TRANSACTION_TOPIC
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.fake_relay import Asked, FakeRelay, refusing
from tests.support.broker.partition_logs import HeldBackground, open_log
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.broker.transactional_logs import committed_values, write
from tests.support.clients.right_probes import made
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member, group_state, with_transactions

PRODUCER, EPOCH, FOLLOWER = 7, 2, 2
NONE = int(ErrorCode.none)
ACCEPTING = refusing(ErrorCode.none)
STATE = PartitionState(
    topic_id=UUID(int=5), index=0, replicas=(BROKER, FOLLOWER), isr=(BROKER, FOLLOWER), leader=BROKER, leader_epoch=4
)


@dataclass
class Registration:
    registered_epoch: int = NO_EPOCH

    def is_current(self) -> bool:
        return True


class Leader:
    """A broker that leads two partitions, with a follower, in each of which a transaction is open."""

    def __init__(
        self,
        directory: Path,
        answering: Callable[[Asked], Any] = ACCEPTING,
        *,
        config: TopicConfig | None = None,
        background: Background | None = None,
    ) -> None:
        states = (STATE, replace(STATE, index=1))
        topic = Topic(name="flights", id=STATE.topic_id, partitions=states)
        members = {number: broker_member(number) for number in (BROKER, FOLLOWER)}
        feed = StatedFeed(ClusterState(brokers=members, topics={"flights": topic}, topics_by_id={topic.id: topic}))
        table = PartitionTable(broker_of(feed).config, feed, Registration())  # type: ignore[arg-type]
        context = ReplicationContext(BROKER, 30_000, int, live_brokers=frozenset(members))
        self.partitions: list[Partition] = []
        for state in states:
            log = open_log(directory / str(state.index), config=config, background=background)
            partition = Partition(TopicPartition("flights", state.index), log, context, state)
            partition.apply(state, leads=True)
            table.add(partition)
            write(log, b"v", producer=(PRODUCER, EPOCH, 0), leader_epoch=STATE.leader_epoch)
            self.partitions.append(partition)
        self.writing = MarkerWriting(table, SystemClock(), "broker-1")
        self.relay = FakeRelay(answering, self.writing)

    def write(self, *markers: pb.MarkersWrite.Marker) -> "asyncio.Task[list[list[int]]]":
        async def codes() -> list[list[int]]:
            written = await self.writing.answer(pb.MarkersWrite(markers=markers), self.relay.ask_shard)
            return [list(each.error_codes) for each in written.results]

        return asyncio.create_task(codes())

    def replicate(self, *indexes: int) -> None:
        for index in indexes:
            partition = self.partitions[index]
            contact = FollowerContact(FOLLOWER, 7, 0)
            partition.record_follower_fetch(contact, offset=partition.log.log_end_offset, log_start_offset=0)


def marker(
    *topics: tuple[str, tuple[int, ...]], commits: bool = True, coordinator_epoch: int = 3, epoch: int = EPOCH
) -> pb.MarkersWrite.Marker:
    return pb.MarkersWrite.Marker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        is_commit=commits,
        coordinator_epoch=coordinator_epoch,
        transaction_version=1,
        topics=[pb.MarkersWrite.Topic(name=name, partitions=indexes) for name, indexes in topics],
    )


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_marker_that_waits_for_nothing_is_written_before_the_answer_behind_it_is_passed_on(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path)
    alone = leader.partitions[0]
    alone.apply(replace(STATE, replicas=(BROKER,), isr=(BROKER,)), leads=True)
    session = RelaySession(
        None,  # type: ignore[arg-type]  # no shard is written to
        None,
        lambda request: leader.writing.answer(request, leader.relay.ask_shard),
    )
    seen: list[tuple[int, int]] = []
    session.ask(
        TopicPartition(TRANSACTION_TOPIC, 0),
        b"EndTxn",
        "/10.0.0.1",
        0,
        lambda _: seen.append((leader.writing.written_count, alone.log.high_watermark)),
    )
    await session.outgoing.take()
    markers = pb.MarkersWrite(markers=[marker(("flights", (0,)))])
    frames = [pb.Frame(id=9, markers_write=markers), pb.Frame(id=1, group_response=pb.GroupResponse(frame=b"ended"))]
    session.receive(pb.Frames(frames=frames))
    assert seen == [(1, alone.log.log_end_offset)]
    (answer,) = (await session.outgoing.take()).frames
    assert [list(each.error_codes) for each in answer.markers_written.results] == [[NONE]]


async def test_a_marker_counts_when_every_in_sync_replica_has_it(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    written = leader.write(marker(("flights", (0, 1))))
    await settled()
    leader.replicate(0)
    await settled()
    assert not written.done()

    leader.replicate(1)
    assert await written == [[NONE, NONE]]
    assert [committed_values(each.log) for each in leader.partitions] == [[b"v"], [b"v"]]
    assert leader.writing.written_count == 2


async def test_a_marker_whose_leader_is_another_one_by_now_does_not_count(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    written = leader.write(marker(("flights", (0, 1))))
    await settled()
    former = leader.partitions[0]
    former.apply(replace(former.state, leader=FOLLOWER, leader_epoch=5), leads=False)
    leader.replicate(1)
    assert await written == [[ErrorCode.not_leader_or_follower, NONE]]


async def test_a_marker_that_is_not_replicated_in_time_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_writing, "REPLICATION_TIMEOUT_SECONDS", 0.01)
    leader = Leader(tmp_path)
    assert await leader.write(marker(("flights", (0,)))) == [[ErrorCode.request_timed_out]]
    assert len(leader.partitions[0]._unreplicated) == 0


async def test_a_disk_that_takes_too_long_holds_up_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_writing, "REPLICATION_TIMEOUT_SECONDS", 0.01)
    disk = HeldBackground()
    leader = Leader(tmp_path, config=replace(TopicConfig(), flush_messages=1), background=disk)
    written = leader.write(marker(("flights", (0,))))
    await settled()
    leader.replicate(0)
    async with asyncio.timeout(10):
        assert await written == [[ErrorCode.request_timed_out]]


async def test_shards_that_wait_for_their_turn_are_given_up_in_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_writing, "SHARD_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(marker_writing, "SHARDS_AT_ONCE_MAX", 1)
    leader = Leader(tmp_path, lambda _: None)
    codes = await leader.write(marker(("__consumer_offsets", tuple(range(4)))))
    assert codes == [[ErrorCode.request_timed_out] * 4]
    assert len(leader.relay.asked) == 1


async def test_every_partition_is_answered_on_its_own(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    fenced = marker(("flights", (1,)), epoch=EPOCH - 1)
    written = leader.write(marker(("flights", (0, 9)), ("trains", (0,))), fenced)
    await settled()
    leader.replicate(0)
    unknown = ErrorCode.unknown_topic_or_partition
    assert await written == [[NONE, unknown, unknown], [ErrorCode.invalid_producer_epoch]]


async def test_a_former_coordinators_marker_is_refused(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    written = leader.write(marker(("flights", (0,)), commits=False))
    await settled()
    leader.replicate(0)
    assert await written == [[NONE]]
    late = leader.write(marker(("flights", (0,)), coordinator_epoch=2))
    assert await late == [[ErrorCode.transaction_coordinator_fenced]]
    assert committed_values(leader.partitions[0].log) == []


async def test_a_marker_ends_nothing_in_a_topic_that_was_created_after_it_was_sent(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    late = marker(("flights", (0,)))
    late.topics[0].topic_id = UUID(int=4).bytes
    assert await leader.write(late) == [[ErrorCode.inconsistent_topic_id]]
    assert committed_values(leader.partitions[0].log) == []

    own = marker(("flights", (0,)))
    own.topics[0].topic_id = STATE.topic_id.bytes
    written = leader.write(own)
    await settled()
    leader.replicate(0)
    assert await written == [[NONE]]


async def test_the_marker_of_a_groups_partition_goes_on_to_the_owner_of_its_shard(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    written = leader.write(marker(("__consumer_offsets", (3, 1)), commits=False))
    assert await written == [[NONE, NONE]]
    assert [each.shard for each in leader.relay.asked] == [
        TopicPartition("__consumer_offsets", 3),
        TopicPartition("__consumer_offsets", 1),
    ]
    (passed_on,) = leader.relay.asked[0].message.markers
    assert (passed_on.producer_id, passed_on.producer_epoch, passed_on.coordinator_epoch) == (PRODUCER, EPOCH, 3)
    assert (passed_on.transaction_result, passed_on.transaction_version) == (False, 1)
    assert [(each.name, each.partition_indexes) for each in passed_on.topics] == [("__consumer_offsets", (3,))]


@pytest.mark.parametrize(
    ("answering", "code"),
    [
        (lambda _: NotCoordinator("nobody owns it"), ErrorCode.not_leader_or_follower),
        (refusing(ErrorCode.coordinator_load_in_progress), ErrorCode.not_leader_or_follower),
        (refusing(ErrorCode.invalid_producer_epoch), ErrorCode.invalid_producer_epoch),
    ],
)
async def test_a_shard_without_an_owner_is_told_as_a_partition_without_a_leader(
    tmp_path: Path, answering: Callable[[Asked], Any], code: ErrorCode
) -> None:
    leader = Leader(tmp_path, answering)
    assert await leader.write(marker(("__consumer_offsets", (3,)))) == [[code]]


async def test_a_shard_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_writing, "SHARD_TIMEOUT_SECONDS", 0.01)
    leader = Leader(tmp_path, lambda _: None)
    assert await leader.write(marker(("__consumer_offsets", (3,)))) == [[ErrorCode.request_timed_out]]


async def test_nobody_writes_markers_to_the_topic_of_transactions(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    assert await leader.write(marker((TRANSACTION_TOPIC, (0,)))) == [[ErrorCode.policy_violation]]
    assert leader.relay.asked == []


def administers(leader: Leader, topic: str, *partitions: int, coordinator_epoch: int = 0) -> "asyncio.Task[Any]":
    """Abort what is open in partitions."""
    feed = StatedFeed(with_transactions(group_state(ScriptedCoordinator(1).member())))
    broker = broker_of(feed, groups=leader.relay)
    values = {
        "producer_id": PRODUCER,
        "producer_epoch": EPOCH,
        "transaction_result": False,
        "coordinator_epoch": coordinator_epoch,
        "topics": ({"name": topic, "partition_indexes": partitions},),
    }
    return asyncio.create_task(ask(broker, made(WriteTxnMarkersRequest, {"markers": (values,)})))


async def test_an_administrator_ends_a_transaction_by_the_same_way(tmp_path: Path) -> None:
    leader = Leader(tmp_path)
    asked = administers(leader, "flights", 0, 9)
    await settled()
    leader.replicate(0)
    (told,) = (await asked).markers
    assert told.producer_id == PRODUCER
    assert [(each.partition_index, each.error_code) for each in told.topics[0].partitions] == [
        (0, ErrorCode.none),
        (9, ErrorCode.unknown_topic_or_partition),
    ]
    assert committed_values(leader.partitions[0].log) == []


async def test_clients_raise_no_ownership_number(tmp_path: Path) -> None:
    """Coordinators would have to go above it, until there are no higher ones."""
    leader = Leader(tmp_path)
    written = leader.write(marker(("flights", (0,)), coordinator_epoch=3))
    await settled()
    leader.replicate(0)
    assert await written == [[NONE]]
    for index, coordinator_epoch in ((0, 4), (1, 1), (1, 2**31 - 1)):
        (told,) = (await administers(leader, "flights", index, coordinator_epoch=coordinator_epoch)).markers
        assert told.topics[0].partitions[0].error_code is ErrorCode.invalid_request
    asked = administers(leader, "flights", 0, coordinator_epoch=3)
    await settled()
    leader.replicate(0)
    assert (await asked).markers[0].topics[0].partitions[0].error_code is ErrorCode.none

    (told,) = (await administers(leader, "__consumer_offsets", 3, coordinator_epoch=2**31 - 1)).markers
    assert told.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
    assert leader.relay.asked == []
