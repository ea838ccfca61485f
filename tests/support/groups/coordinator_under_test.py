"""A whole coordinator without etcd: its registration, the cluster state and the clock are what the test says."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.offset_commit.v8 import request as commit_v8
from kio.schema.offset_fetch.v8 import request as fetch_v8
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from ottla_core.cluster.state.model import NO_EPOCH, PartitionState, Shard, Topic
from ottla_core.rpc.server import RpcServer
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.coordinator import GroupCoordinator
from ottla_group_coordinator.runtime.awake_clock import UNATTENDED_MS_MAX
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime, ShardStatus
from ottla_proto.gen.ottla.group_relay_pb2_grpc import add_GroupRelayServicer_to_server
from tests.support.eventually_async import eventually_async
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import StatedFeed, group_shard

COORDINATOR_EPOCH = 100
PRODUCER_ID = 1000
FLIGHTS = Topic(
    name="flights",
    id=UUID(int=5),
    partitions=tuple(
        PartitionState(topic_id=UUID(int=5), index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
        for index in range(3)
    ),
)


class StatedPlace:
    """A registration that lasts until the test ends it."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def lose(self) -> None:
        """The lease has run out by our own clock; nobody has been told yet."""
        self.epoch = NO_EPOCH


class SteppedClock:
    """Time passes when the test says so; the wall clock may be set."""

    def __init__(self) -> None:
        self.wall_ms = 1_700_000_000_000
        self.passed_ms = 100_000_000

    def time_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.passed_ms / 1000

    def pass_ms(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.passed_ms += duration_ms


class CoordinatorUnderTest:
    """One coordinator that listens."""

    def __init__(self, coordinator_id: int, epoch: int, feed: StatedFeed, settings: Mapping[str, Any]) -> None:
        self.id = coordinator_id
        self.feed = feed
        self.place = StatedPlace(epoch)
        self.clock = SteppedClock()
        self.sequences_lost = 0
        self.epoch_floor: int | None = None
        config = GroupCoordinatorConfig.model_validate({"node.id": coordinator_id, **settings})
        self.coordinator = GroupCoordinator(
            config=config,
            feed=feed,
            place=self.place,
            register_anew=self._register_anew,
            clock=self.clock,
        )
        self.address = ""

    def _register_anew(self, epoch_floor: int | None) -> None:
        self.sequences_lost += epoch_floor is None
        self.epoch_floor = epoch_floor

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["CoordinatorUnderTest"]:
        server = RpcServer()
        self.address = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
        add_GroupRelayServicer_to_server(self.coordinator.service, server.server)
        await server.start()
        self.coordinator.on_place_changed()
        try:
            yield self
        finally:
            await self.coordinator.close_shards()
            await self.coordinator.close_streams()
            await server.stop()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass while the process is awake."""
        while duration_ms > 0:
            self.clock.pass_ms(min(duration_ms, UNATTENDED_MS_MAX))
            duration_ms -= UNATTENDED_MS_MAX
            self.coordinator.awake_clock.tick()

    def status(self, shard: int = 0) -> str | None:
        runtime = self.coordinator.shards.get(group_shard(shard))
        return None if runtime is None else runtime.status.value

    async def serves(self, *shards: int) -> None:
        for shard in shards or (0,):
            await eventually_async(lambda: self.status(shard) == "serving", f"shard {shard} is served")  # noqa: B023


async def be_stuck(runtime: ShardRuntime[Any]) -> None:
    """Have the round that is being stored take too long, whose append the test holds back; no other round does.

    A short `offsets.commit.timeout.ms` would say the same of any round during which the machine stands still.
    """
    assert runtime._storing is not None, "a round is being stored"
    patience = runtime._patience
    patience.close()
    limit_s, patience._limit_s = patience._limit_s, 0.0
    patience.begin()
    patience._limit_s = limit_s
    await eventually_async(lambda: runtime.status is ShardStatus.STUCK, "the round takes too long")


def shard_of(
    coordinator: CoordinatorUnderTest, index: int = 0, *, producer_epoch: int = 0, topic: str = GROUP_TOPIC
) -> Shard:
    return Shard(
        topic_partition=TopicPartition(topic, index),
        coordinator=coordinator.id,
        coordinator_epoch=coordinator.place.epoch,
        producer_id=PRODUCER_ID + index,
        producer_epoch=producer_epoch,
    )


def assign(feed: StatedFeed, *shards: Shard) -> None:
    """What the controller decides."""
    feed.publish(shards={**feed.state.shards, **{shard.topic_partition: shard for shard in shards}})


def set_leader(feed: StatedFeed, broker_id: int, *, shard: int | None = None) -> None:
    """Let a broker lead one shard's partition, or all."""
    topic = feed.state.topics[GROUP_TOPIC]
    partitions = tuple(
        replace(each, leader=broker_id) if shard in {None, each.index} else each for each in topic.partitions
    )
    moved = replace(topic, partitions=partitions)
    feed.publish(topics={**feed.state.topics, GROUP_TOPIC: moved})


def commit(group: str, offset: int, *, partition: int = 0, leader_epoch: int = -1) -> commit_v8.OffsetCommitRequest:
    """A commit for version 8, by nobody's member."""
    return commit_v8.OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(-1),
        member_id="",
        group_instance_id=None,
        topics=(
            commit_v8.OffsetCommitRequestTopic(
                name=TopicName(FLIGHTS.name),
                partitions=(
                    commit_v8.OffsetCommitRequestPartition(
                        partition_index=i32(partition),
                        committed_offset=i64(offset),
                        committed_leader_epoch=i32(leader_epoch),
                        committed_metadata="",
                    ),
                ),
            ),
        ),
    )


def commit_code(response: Any) -> str:
    """The error of a commit's only partition."""
    name: str = response.topics[0].partitions[0].error_code.name
    return name


def fetch(group: str) -> fetch_v8.OffsetFetchRequest:
    """A fetch of all offsets, for version 8."""
    return fetch_of([group])


def fetch_of(groups: Sequence[str]) -> fetch_v8.OffsetFetchRequest:
    """A fetch of all offsets of several groups, for version 8."""
    return fetch_v8.OffsetFetchRequest(
        groups=tuple(fetch_v8.OffsetFetchRequestGroup(group_id=GroupId(group), topics=None) for group in groups),
        require_stable=False,
    )


def fetched(response: Any) -> tuple[str, dict[int, int]]:
    """The error of a fetch's only group, and its offsets by partition."""
    (group,) = response.groups
    return group.error_code.name, {
        partition.partition_index: partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }


async def committed(broker: FakeRelayBroker, group: str, shard: int = 0) -> dict[int, int]:
    """What the coordinator says a group has committed."""
    error, offsets = fetched(await broker.ask(shard, 8, fetch(group)))
    assert error == "none"
    return offsets
