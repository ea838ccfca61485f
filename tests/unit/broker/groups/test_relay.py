"""Requests travel to the owners of shards and back, over real gRPC to a scripted coordinator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ottla_broker.groups import relay_session
from ottla_broker.groups.errors import NotCoordinator, VerificationNeeded
from ottla_broker.groups.relay import GroupRelay, answer_or_raise
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import MessageTooLarge
from ottla_core.rpc.frame_queue import FRAME_BYTES_MAX
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.broker.scripted_coordinator import ScriptedCoordinator, scripted_coordinator
from tests.support.eventually_async import eventually_async
from tests.support.groups.group_cluster import (
    BROKER,
    BROKER_EPOCH,
    StatedFeed,
    broker_member,
    group_shard,
    group_state,
    shards_of,
    with_transactions,
)

HOST = "/127.0.0.1"


class Cluster:
    """A relay and the coordinators that it knows."""

    def __init__(self, relay: GroupRelay, feed: StatedFeed, coordinators: list[ScriptedCoordinator]) -> None:
        self.relay = relay
        self.feed = feed
        self.coordinators = coordinators

    async def ask(self, shard: int, frame: bytes = b"request") -> bytes:
        async with asyncio.timeout(10):
            return await self.relay.ask(group_shard(shard), frame, HOST, answer_or_raise)

    async def until_open(self, count: int) -> None:
        await eventually_async(lambda: self.relay.open_count == count, f"{count} streams are open")

    async def until_waiting(self, count: int) -> None:
        await eventually_async(lambda: self.relay.waiting_count == count, f"{count} requests wait")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Two coordinators that own two shards each."""
    async with AsyncExitStack() as closing:
        coordinators = [await closing.enter_async_context(scripted_coordinator(number)) for number in (1, 2)]
        feed = StatedFeed(group_state(*(coordinator.member() for coordinator in coordinators)))
        relay = GroupRelay(feed, BROKER, ShardLogAccess(None, lambda: feed.state, SystemClock()))  # type: ignore[arg-type]
        relay.start()
        closing.push_async_callback(relay.close)
        made = Cluster(relay, feed, coordinators)
        await made.until_open(2)
        yield made


async def test_a_request_reaches_the_owner_of_its_shard_and_the_answer_comes_back_unchanged(cluster: Cluster) -> None:
    answers = [await cluster.ask(shard, b"request for %d" % shard) for shard in range(4)]

    assert answers == [b"answer to request for %d" % shard for shard in range(4)]
    first, second = cluster.coordinators
    assert [(r.shard, r.frame, r.client_host) for _, r in first.requests] == [
        (0, b"request for 0", HOST),
        (2, b"request for 2", HOST),
    ]
    assert [r.shard for _, r in second.requests] == [1, 3]
    assert cluster.relay.relayed_count == 4


async def test_a_request_says_which_topics_its_broker_has_seen(cluster: Cluster) -> None:
    feed, (first, _) = cluster.feed, cluster.coordinators
    await cluster.ask(0)
    topic = replace(next(iter(feed.state.topics.values())), name="flights", id=UUID(int=5))
    feed.publish(topics_by_id={**feed.state.topics_by_id, topic.id: topic})
    created_at = feed.state.revision
    feed.publish()
    await cluster.ask(0)

    assert [request.topics_revision for _, request in first.requests] == [1, created_at]


async def test_a_coordinator_is_told_which_broker_has_opened_the_stream(cluster: Cluster) -> None:
    (metadata,) = cluster.coordinators[0].metadata

    assert (metadata["broker-id"], metadata["broker-epoch"]) == (str(BROKER), str(BROKER_EPOCH))


async def test_answers_may_come_in_any_order(cluster: Cluster) -> None:
    coordinator = cluster.coordinators[0]
    coordinator.answer = lambda _: None
    asked = [asyncio.create_task(cluster.ask(0, b"%d" % number)) for number in range(3)]
    await eventually_async(lambda: len(coordinator.requests) == 3, "all have arrived")

    for request_id, request in reversed(coordinator.requests):
        coordinator.respond(request_id, b"re " + request.frame)

    assert await asyncio.gather(*asked) == [b"re 0", b"re 1", b"re 2"]
    assert cluster.relay.waiting_count == 0


async def test_requests_that_come_together_travel_together(cluster: Cluster) -> None:
    await asyncio.gather(*(cluster.ask(0, b"%d" % number) for number in range(1000)))

    assert sum(cluster.coordinators[0].message_sizes) == 1000
    assert len(cluster.coordinators[0].message_sizes) < 50


async def test_large_requests_do_not_gather_without_bound(cluster: Cluster) -> None:
    frame = bytes(400_000)
    await asyncio.gather(*(cluster.ask(0, frame) for _ in range(20)))

    assert max(cluster.coordinators[0].message_sizes) == 2


async def test_a_shard_of_groups_travels_without_its_topic_as_former_releases_want_it(cluster: Cluster) -> None:
    other = TopicPartition("__other", 0)
    shards = cluster.feed.state.shards
    cluster.feed.publish(shards={**shards, other: replace(shards[group_shard(0)], topic_partition=other)})
    await cluster.ask(0)
    async with asyncio.timeout(10):
        await cluster.relay.ask(other, b"request", HOST, answer_or_raise)
    (first, _) = cluster.coordinators
    assert [(r.topic, r.shard) for _, r in first.requests] == [("", 0), ("__other", 0)]


async def test_every_owner_is_asked_about_all_shards(cluster: Cluster) -> None:
    for coordinator in cluster.coordinators:
        coordinator.answer = lambda request, name=coordinator.id: b"%d has %d" % (name, request.shard)  # type: ignore[misc]

    assert sorted(await cluster.relay.ask_all(b"list", HOST)) == [b"1 has -1", b"2 has -1"]


async def test_all_shards_cannot_be_asked_while_one_has_no_owner(cluster: Cluster) -> None:
    state = cluster.feed.state
    cluster.feed.publish(shards={name: shard for name, shard in state.shards.items() if name != group_shard(3)})

    with pytest.raises(NotCoordinator, match="__consumer_offsets-3"):
        await cluster.relay.ask_all(b"list", HOST)


async def test_a_broken_stream_fails_what_waits_on_it_and_is_opened_again(cluster: Cluster) -> None:
    coordinator = cluster.coordinators[0]
    coordinator.answer = lambda _: None
    asked = asyncio.create_task(cluster.ask(0))
    await cluster.until_waiting(1)

    await coordinator.stop()

    with pytest.raises(NotCoordinator):
        await asked
    with pytest.raises(NotCoordinator):
        await cluster.ask(0)
    with pytest.raises(NotCoordinator):
        cluster.relay.check_reachable(group_shard(0))
    coordinator.answer = lambda request: b"again " + request.frame
    await coordinator.start()
    await cluster.until_open(2)
    assert await cluster.ask(0) == b"again request"
    cluster.relay.check_reachable(group_shard(0))
    assert len(coordinator.metadata) == 2


async def test_the_other_coordinators_stream_is_not_disturbed(cluster: Cluster) -> None:
    await cluster.coordinators[0].stop()
    await cluster.until_open(1)

    assert await cluster.ask(1) == b"answer to request"


async def test_what_waits_for_a_coordinator_fails_as_soon_as_its_registration_is_gone(cluster: Cluster) -> None:
    first, second = cluster.coordinators
    first.answer = lambda _: None
    asked = asyncio.create_task(cluster.ask(0))
    await cluster.until_waiting(1)

    cluster.feed.publish(coordinators={second.id: second.member()}, shards=shards_of([second.member()], 4))

    with pytest.raises(NotCoordinator):
        await asked
    assert await cluster.ask(0) == b"answer to request"
    assert set(cluster.relay.streams) == {second.id}
    assert cluster.relay.relayed_count == 2


async def test_a_coordinator_that_registers_anew_gets_a_new_stream(cluster: Cluster) -> None:
    first, second = cluster.coordinators
    renewed = first.member(epoch=2)

    cluster.feed.publish(
        coordinators={first.id: renewed, second.id: second.member()}, shards=shards_of([renewed, second.member()], 4)
    )

    await eventually_async(lambda: len(first.metadata) == 2, "a second stream is open")
    await cluster.until_open(2)
    assert await cluster.ask(0) == b"answer to request"


async def test_a_broker_that_registers_anew_opens_its_streams_anew(cluster: Cluster) -> None:
    cluster.feed.publish(brokers={BROKER: broker_member(BROKER, epoch=BROKER_EPOCH + 1)})

    for coordinator in cluster.coordinators:
        await eventually_async(lambda seen=coordinator.metadata: len(seen) == 2, "a second stream is open")  # type: ignore[misc]
        assert coordinator.metadata[-1]["broker-epoch"] == str(BROKER_EPOCH + 1)


async def test_streams_stay_while_the_brokers_own_registration_is_away(cluster: Cluster) -> None:
    cluster.feed.publish(brokers={})

    assert await cluster.ask(0) == b"answer to request"


async def test_an_owner_whose_stream_does_not_exist_yet_cannot_be_asked(cluster: Cluster) -> None:
    third = ScriptedCoordinator(3).member()
    state = cluster.feed.state
    cluster.feed.state = replace(
        state, coordinators={**state.coordinators, third.id: third}, shards=shards_of([third], 4)
    )

    with pytest.raises(NotCoordinator):
        await cluster.ask(0)


async def test_a_client_that_goes_away_leaves_nothing_behind(cluster: Cluster) -> None:
    coordinator = cluster.coordinators[0]
    coordinator.answer = lambda _: None
    asked = asyncio.create_task(cluster.ask(0))
    await eventually_async(lambda: coordinator.requests, "it has arrived")

    asked.cancel()
    await cluster.until_waiting(0)

    coordinator.respond(coordinator.requests[0][0], b"too late")
    coordinator.answer = lambda _: b"in time"
    assert await cluster.ask(0) == b"in time"


async def test_no_more_requests_wait_than_allowed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_session, "WAITING_REQUESTS_MAX", 3)
    cluster.coordinators[0].answer = lambda _: None
    asked = [asyncio.create_task(cluster.ask(0)) for _ in range(3)]
    await cluster.until_waiting(3)

    with pytest.raises(NotCoordinator, match="3 requests"):
        await cluster.ask(0)

    for task in asked:
        task.cancel()


async def test_a_coordinator_that_does_not_read_holds_back_a_bounded_amount(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_session, "UNSENT_BYTES_MAX", 4_000_000)
    coordinator = cluster.coordinators[0]
    coordinator.reads.clear()
    asked: list[asyncio.Task[bytes]] = []

    async def is_refused() -> bool:
        asked.append(asyncio.create_task(cluster.ask(0, bytes(500_000))))
        await asyncio.sleep(0)
        return asked[-1].done()

    for _ in range(100):
        if await is_refused():
            break
    assert 8 <= len(asked) < 100
    with pytest.raises(NotCoordinator, match="bytes wait"):
        await asked.pop()

    coordinator.reads.set()
    assert {len(answer) for answer in await asyncio.gather(*asked)} == {500_000 + len(b"answer to ")}


async def test_a_request_that_no_message_can_carry_is_refused_for_what_it_is(cluster: Cluster) -> None:
    with pytest.raises(MessageTooLarge, match=str(FRAME_BYTES_MAX)):
        await cluster.ask(0, bytes(FRAME_BYTES_MAX + 1))

    largest = bytes(FRAME_BYTES_MAX)
    cluster.coordinators[0].answer = lambda request: request.frame
    assert await cluster.ask(0, largest) == largest


async def test_closing_fails_what_waits(cluster: Cluster) -> None:
    cluster.coordinators[0].answer = lambda _: None
    asked = asyncio.create_task(cluster.ask(0))
    await cluster.until_waiting(1)

    await cluster.relay.close()

    with pytest.raises(NotCoordinator):
        await asked
    assert cluster.relay.streams == {}


async def test_what_requests_about_transactions_need_besides_goes_along(cluster: Cluster) -> None:
    shard = TopicPartition("__transaction_state", 0)
    cluster.feed.publish(**vars_of(with_transactions(cluster.feed.state)))

    async with asyncio.timeout(10):
        await cluster.relay.ask(shard, b"init", HOST, answer_or_raise, fresh_producer_id=0)
        await cluster.relay.ask(group_shard(0), b"commit", HOST, answer_or_raise, verification_guard=7)
        await cluster.relay.ask(group_shard(0), b"plain", HOST, answer_or_raise)

    init, commit, plain = (request for _, request in cluster.coordinators[0].requests)
    assert (init.topic, init.shard, init.HasField("fresh_producer_id"), init.fresh_producer_id) == (
        shard.topic,
        0,
        True,
        0,
    )
    assert (commit.topic, commit.verification_guard, commit.HasField("fresh_producer_id")) == ("", 7, False)
    assert not plain.HasField("verification_guard")


async def test_a_guard_in_place_of_an_answer_says_that_the_transaction_is_to_be_verified(cluster: Cluster) -> None:
    cluster.coordinators[0].answer = lambda _: None
    asked = asyncio.ensure_future(cluster.ask(0))
    await cluster.until_waiting(1)
    ((request_id, _),) = cluster.coordinators[0].requests

    cluster.coordinators[0].respond_with_guard(request_id, 0)
    with pytest.raises(VerificationNeeded) as needed:
        await asked
    assert needed.value.guard == 0


async def test_all_owners_of_shards_of_transactions_are_asked_for_lists_of_these(cluster: Cluster) -> None:
    cluster.feed.publish(**vars_of(with_transactions(cluster.feed.state)))

    answers = await cluster.relay.ask_all(b"list", HOST, "__transaction_state")

    assert answers == [b"answer to list"] * 2
    assert {(request.topic, request.shard) for each in cluster.coordinators for _, request in each.requests} == {
        ("__transaction_state", -1)
    }


def vars_of(state: ClusterState) -> dict[str, Any]:
    """What a feed publishes for a state with transactions."""
    return {name: getattr(state, name) for name in ("features", "topics", "topics_by_id", "shards")}


async def test_markers_are_written_beside_what_else_the_coordinator_asks() -> None:
    asked: list[pb.MarkersWrite] = []
    may_answer = asyncio.Event()

    class Writing:
        async def answer(self, request: pb.MarkersWrite, _ask: object) -> pb.MarkersWritten:
            asked.append(request)
            await may_answer.wait()
            return pb.MarkersWritten(results=[pb.MarkersWritten.Result(error_codes=[0])])

    async with AsyncExitStack() as closing:
        coordinator = await closing.enter_async_context(scripted_coordinator(1))
        feed = StatedFeed(group_state(coordinator.member()))
        shard_log = ShardLogAccess(None, lambda: feed.state, SystemClock())  # type: ignore[arg-type]
        relay = GroupRelay(feed, BROKER, shard_log, markers=Writing())  # type: ignore[arg-type]
        relay.start()
        closing.push_async_callback(relay.close)
        await eventually_async(lambda: relay.open_count == 1, "the stream is open")

        writing = asyncio.create_task(coordinator.write_markers(pb.MarkersWrite.Marker(producer_id=7)))
        await eventually_async(lambda: bool(asked), "the broker was asked")
        assert await relay.ask(group_shard(0), b"request", HOST, answer_or_raise) == b"answer to request"
        may_answer.set()
        assert [list(each.error_codes) for each in (await writing).results] == [[0]]
        assert asked[0].markers[0].producer_id == 7
