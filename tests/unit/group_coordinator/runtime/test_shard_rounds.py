"""Serving: answers wait for what is stored, batches are stored once whatever goes wrong, and queues are bounded."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v3.request import HeartbeatRequest
from kio.schema.join_group.v3 import request as kio_join_v3
from kio.schema.join_group.v5 import request as join_v5
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.sync_group.v3.request import SyncGroupRequest

from ottla_group_coordinator import shard as shard_module
from ottla_group_coordinator.runtime import requests_awaiting_state, shard_loading, shard_runtime
from ottla_group_coordinator.runtime.shard_batches import BatchPacker
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import (
    CoordinatorUnderTest,
    assign,
    be_stuck,
    commit,
    commit_code,
    committed,
    fetch,
    fetched,
    shard_of,
)
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, group_shard

Start = Callable[..., Any]
OFFSET_COMMIT = 8
SESSION_MS = 6_000
DAY_MS = 24 * 3_600_000
CHECK_MS = 600_000
"""`offsets.retention.check.interval.ms`, by default."""


COMMIT_TIMEOUT_MS = 30_000


@pytest.fixture
async def coordinator(start: Start) -> CoordinatorUnderTest:
    coordinator: CoordinatorUnderTest = await start(settings={"offsets.commit.timeout.ms": COMMIT_TIMEOUT_MS})
    return coordinator


@pytest.fixture
async def broker(feed: StatedFeed, coordinator: CoordinatorUnderTest, connect: Start) -> FakeRelayBroker:
    """A broker at which shard 0 is served."""
    broker: FakeRelayBroker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    return broker


def join(group: str, *, member_id: str = "", session_timeout_ms: int = 6000) -> join_v5.JoinGroupRequest:
    return join_v5.JoinGroupRequest(
        group_id=group,
        session_timeout=timedelta(milliseconds=session_timeout_ms),
        rebalance_timeout=timedelta(milliseconds=session_timeout_ms),
        member_id=member_id,
        group_instance_id=None,
        protocol_type="test",
        protocols=(join_v5.JoinGroupRequestProtocol(name="any", metadata=b""),),
    )


async def test_an_answer_leaves_only_when_its_records_are_stored(broker: FakeRelayBroker) -> None:
    broker.appends.clear()
    written = broker.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: broker.append_count == 2, "the commit is sent")
    read = broker.ask_later(0, 8, fetch("group"))
    elsewhere = await broker.ask(1, 8, fetch("group"))

    assert fetched(elsewhere)[0] == "coordinator_load_in_progress"
    assert not written.is_answered
    assert not read.is_answered, "nobody reads what is not stored"
    assert not broker.logs[0].records()

    broker.appends.set()
    assert commit_code(await written.response()) == "none"
    assert fetched(await read.response()) == ("none", {0: 1})
    assert len(broker.logs[0].records()) == 1


async def test_what_comes_together_is_stored_together_in_order(broker: FakeRelayBroker) -> None:
    asked = [broker.ask_later(0, 8, commit(f"group-{number % 7}", number)) for number in range(500)]

    assert {commit_code(await one.response()) for one in asked} == {"none"}

    records = broker.logs[0].records()
    assert [value.offset for _, value in records] == list(range(500))  # type: ignore[union-attr]
    assert broker.append_count < 100
    assert max(broker.message_sizes) > 20, "answers travel together too"


async def test_a_batch_whose_answer_was_lost_is_sent_again_and_stored_once(
    feed: StatedFeed, coordinator: CoordinatorUnderTest, start: Start
) -> None:
    broker = FakeRelayBroker(1, BROKER_EPOCH)
    assign(feed, shard_of(coordinator))
    async with broker.connected(coordinator.address):
        await coordinator.serves()
        broker.answers_appends = False
        asked = broker.ask_later(0, 8, commit("group", 1))
        await eventually_async(broker.logs[0].records, "the commit is stored")
        assert not asked.is_answered
    broker.answers_appends = True
    async with broker.connected(coordinator.address):
        assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "none"

        assert await committed(broker, "group") == {0: 2}
    assert [value.offset for _, value in broker.logs[0].records()] == [1, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.unknown_server_error,
    ],
)
async def test_an_error_that_may_pass_is_outwaited(broker: FakeRelayBroker, code: ErrorCode) -> None:
    broker.append_errors = [code, code]

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    assert [value.offset for _, value in broker.logs[0].records()] == [1]  # type: ignore[union-attr]


async def test_large_rounds_are_sent_in_several_batches_and_continued_where_one_failed(
    broker: FakeRelayBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shard_runtime,
        "BatchPacker",
        lambda producer, sequence, _bytes_max, form: BatchPacker(producer, sequence, 1000, form),
    )
    broker.appends.clear()
    asked = [broker.ask_later(0, 8, commit(f"group-{number}", number)) for number in range(300)]
    await eventually_async(lambda: broker.append_count > 1, "the first round is sent")
    broker.append_errors = [ErrorCode.kafka_storage_error]
    broker.appends.set()

    assert {commit_code(await one.response()) for one in asked} == {"none"}

    assert [value.offset for _, value in broker.logs[0].records()] == list(range(300))  # type: ignore[union-attr]
    batches = [batch for _, batch in broker.logs[0].batches]
    assert len(batches) > 20
    assert max(map(len, batches)) <= 1000


async def test_after_a_while_waiting_requests_are_refused_and_the_batch_is_still_stored(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    broker.refuses_with = ErrorCode.kafka_storage_error
    written = broker.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: broker.append_count > 2, "the commit is tried")
    read = broker.ask_later(0, 8, fetch("group"))
    runtime = runtime_of(coordinator)
    await eventually_async(lambda: runtime._queue, "the fetch waits for the next round")
    await be_stuck(runtime)

    assert commit_code(await written.response()) == "coordinator_not_available"
    assert fetched(await read.response())[0] == "coordinator_load_in_progress"
    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "coordinator_not_available"
    assert coordinator.status() == "stuck"

    broker.refuses_with = None
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 1}
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "none"


def heartbeat(group: str, member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id, group_instance_id=None)


async def member_of(broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, group: str) -> str:
    """The id of the only member of a stable group, with a session of six seconds."""
    joining = broker.ask_later(0, 3, join_v3(group))
    await eventually_async(lambda: groups(coordinator).get(group), "the member has come")
    await broker.ask(0, 8, fetch("anybody"))  # the round of the join is over then: while it is stored no time counts
    coordinator.pass_ms(3000)
    await broker.ask(0, 8, fetch("anybody"))  # wakes the shard: its own alarm was set by a clock that did not jump
    joined = await joining.response()
    assert joined.error_code is ErrorCode.none
    synced = await broker.ask(0, 3, sync(group, joined.member_id))
    assert synced.error_code is ErrorCode.none
    return str(joined.member_id)


def join_v3(group: str) -> Any:
    return kio_join_v3.JoinGroupRequest(
        group_id=group,
        session_timeout=timedelta(milliseconds=SESSION_MS),
        rebalance_timeout=timedelta(milliseconds=SESSION_MS),
        member_id="",
        protocol_type="test",
        protocols=(kio_join_v3.JoinGroupRequestProtocol(name="any", metadata=b""),),
    )


def sync(group: str, member_id: str) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group, generation_id=1, member_id=member_id, group_instance_id=None, assignments=()
    )


def runtime_of(coordinator: CoordinatorUnderTest) -> Any:
    runtime = coordinator.coordinator.shards.get(group_shard(0))
    assert runtime is not None
    return runtime


def groups(coordinator: CoordinatorUnderTest) -> dict[str, Any]:
    runtime = runtime_of(coordinator)
    return {} if runtime.shard is None else runtime.shard.groups


async def is_alive(broker: FakeRelayBroker, group: str, member_id: str) -> bool:
    response = await broker.ask(0, 3, heartbeat(group, member_id))
    return bool(response.error_code is ErrorCode.none)


async def test_who_has_spoken_in_time_is_heard_before_sessions_end(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    spoken, silent = [await member_of(broker, coordinator, group) for group in ("spoken", "silent")]
    broker.appends.clear()
    count = broker.append_count
    written = broker.ask_later(0, 8, commit("other", 1))
    await eventually_async(lambda: broker.append_count > count, "a round is being stored")
    runtime = runtime_of(coordinator)
    beats = [broker.ask_later(0, 3, heartbeat("spoken", spoken)) for _ in range(3)]
    await eventually_async(lambda: len(runtime._queue) == len(beats), "the heartbeats wait for their round")
    runtime._time.hold(-10 * SESSION_MS)  # all sessions are over by the time of the next round
    broker.appends.set()

    assert [(await beat.response()).error_code for beat in beats] == [ErrorCode.none] * 3
    assert commit_code(await written.response()) == "none"
    assert await is_alive(broker, "spoken", spoken)
    assert not await is_alive(broker, "silent", silent)


async def test_a_busy_queue_does_not_keep_timers_from_their_turn(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "ROUND_S_MAX", 0.0)  # one turn a round
    member_id = await member_of(broker, coordinator, "group")
    coordinator.pass_ms(2 * SESSION_MS)
    asked = [broker.ask_later(0, 8, fetch(f"group-{number}")) for number in range(50)]
    runtime = runtime_of(coordinator)
    handled: list[Any] = []
    with monkeypatch.context() as endless:
        rounds = runtime._take_turns

        def busy(shard: Any, taken: Any, now_ms: int) -> None:
            handled.append(len(shard.groups["group"].members))
            runtime._queue.append(runtime._queue[0]) if runtime._queue and len(handled) < 500 else None
            rounds(shard, taken, now_ms)

        endless.setattr(runtime, "_take_turns", busy)
        await eventually_async(lambda: handled and handled[-1] == 0, "the silent member is gone")
    assert len(handled) < 500, "the queue was never empty"
    for one in asked:
        await one.response()
    assert not await is_alive(broker, "group", member_id)


@pytest.mark.parametrize("duration_ms", [4_000, 65_000])
async def test_an_outage_of_the_log_ends_no_session(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, duration_ms: int
) -> None:
    member_id = await member_of(broker, coordinator, "group")
    broker.appends.clear()
    count = broker.append_count
    written = broker.ask_later(0, 8, commit("other", 1))
    await eventually_async(lambda: broker.append_count > count, "a round is being stored")
    if duration_ms > 5_000:
        await be_stuck(runtime_of(coordinator))
    coordinator.pass_ms(duration_ms)
    broker.appends.set()
    await written.response()
    await coordinator.serves()

    coordinator.pass_ms(SESSION_MS - 3_000)
    assert (
        commit_code(await broker.ask(0, 8, commit("other", 2))) == "none"
    )  # a round in which timers have their turn
    assert await is_alive(broker, "group", member_id)
    coordinator.pass_ms(2 * SESSION_MS)
    await broker.ask(0, 8, fetch("other"))
    await broker.ask(0, 8, fetch("other"))
    assert not await is_alive(broker, "group", member_id)


async def test_a_clock_that_is_set_ends_no_session_and_forgets_no_offset(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    assert commit_code(await broker.ask(0, 8, commit("idle", 1))) == "none"
    member_id = await member_of(broker, coordinator, "group")
    for step_ms in (30 * DAY_MS, -60 * DAY_MS, 90 * DAY_MS):
        coordinator.clock.wall_ms += step_ms
        for _ in range(5):
            coordinator.pass_ms(1000)
            assert await is_alive(broker, "group", member_id)
    coordinator.pass_ms(CHECK_MS)
    await broker.ask(0, 8, fetch("idle"))

    assert await committed(broker, "idle") == {0: 1}


async def test_a_clock_that_was_set_between_two_owners_forgets_no_offset(
    feed: StatedFeed, broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    assert commit_code(await broker.ask(0, 8, commit("idle", 1))) == "none"
    coordinator.clock.wall_ms += 30 * DAY_MS
    assert commit_code(await broker.ask(0, 8, commit("busy", 1))) == "none"
    assign(feed, shard_of(coordinator, producer_epoch=1))
    await coordinator.serves()
    coordinator.pass_ms(2 * CHECK_MS)
    await broker.ask(0, 8, fetch("idle"))
    await broker.ask(0, 8, fetch("idle"))

    assert await committed(broker, "idle") == {0: 1}


async def test_offsets_are_forgotten_after_their_retention(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start(settings={"offsets.retention.minutes": 1})
    broker: FakeRelayBroker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    assert commit_code(await broker.ask(0, 8, commit("idle", 1))) == "none"

    coordinator.pass_ms(60_000 + CHECK_MS)
    await broker.ask(0, 8, fetch("idle"))

    assert await committed(broker, "idle") == {}


async def test_timers_run_without_a_request(broker: FakeRelayBroker, coordinator: CoordinatorUnderTest) -> None:
    asked = broker.ask_later(0, 3, join("group"))
    await eventually_async(lambda: "group" in groups(coordinator), "the member has come")
    await broker.ask(0, 8, fetch("anybody"))  # the round of the join is over then: while it is stored no time counts
    assert not asked.is_answered

    coordinator.pass_ms(3000)
    # Something else wakes the shard: its own alarm was set by a clock that did not jump.
    await broker.ask(0, 8, fetch("group"))

    assert (await asked.response()).error_code is ErrorCode.none


async def test_a_bug_in_a_rule_costs_memory_but_nothing_stored(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "RELOAD_PAUSE_S", 0.01)
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"

    def fail(shard: Any, request: Any, turn: Any) -> None:
        shard.offsets.__init__()  # what a bug may do to the memory
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as bug:
        bug.setitem(shard_module.HANDLERS, OFFSET_COMMIT, fail)
        assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "unknown_server_error"
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 1}
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "none"
    assert coordinator.coordinator.counts.failures == 1


async def test_nothing_stored_is_overlooked_where_a_new_leader_does_not_show_it_while_the_shard_is_loaded_again(
    feed: StatedFeed, broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was just elected may know of the fence alone that it is replicated, until the others fetch."""
    monkeypatch.setattr(shard_runtime, "RELOAD_PAUSE_S", 0.01)
    monkeypatch.setattr(shard_loading, "STALL_TIMEOUT_S", 0.1)
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    log = broker.logs[0]
    broker.unshown_offsets = log.end_offset - 1
    append_count, append = len(log.batches), log.append

    def append_and_show(batch: bytes, *arguments: Any, **named: Any) -> int:
        base_offset = append(batch, *arguments, **named)
        if len(log.batches) > append_count:
            broker.unshown_offsets = 0  # all replicas have it, and so what is before it
        return base_offset

    monkeypatch.setattr(log, "append", append_and_show)
    await break_shard(broker, monkeypatch)
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 1}
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "none"
    assert coordinator.sequences_lost == 0
    assign(feed, shard_of(coordinator, producer_epoch=1))
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 3}


async def test_a_log_that_lost_what_was_stored_is_found_out_when_the_shard_is_loaded_again(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "RELOAD_PAUSE_S", 0.01)
    monkeypatch.setattr(shard_loading, "STALL_TIMEOUT_S", 0.1)
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    broker.logs[0].forget_last_batch()

    await break_shard(broker, monkeypatch)

    await eventually_async(lambda: coordinator.sequences_lost == 1, "the coordinator asks for another ownership")


async def break_shard(broker: FakeRelayBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a rule fail, upon which the shard is loaded again."""

    def fail(shard: Any, request: Any, turn: Any) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as bug:
        bug.setitem(shard_module.HANDLERS, OFFSET_COMMIT, fail)
        assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "unknown_server_error"


async def test_what_the_log_will_never_store_is_refused_and_forgotten(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "RELOAD_PAUSE_S", 0.01)
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    broker.append_errors = [ErrorCode.message_too_large]

    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "unknown_server_error"
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 1}
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "none"


async def test_too_many_requests_are_refused_at_once(
    broker: FakeRelayBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runtime, "QUEUED_MAX", 10)
    broker.appends.clear()
    first = broker.ask_later(0, 8, commit("group", 0))
    await eventually_async(lambda: broker.append_count == 2, "the commit is sent")

    asked = [broker.ask_later(0, 8, commit("group", number)) for number in range(1, 30)]
    refused = [one for one in asked[10:] if commit_code(await one.response()) == "coordinator_not_available"]
    broker.appends.set()

    assert len(refused) == 19
    assert commit_code(await first.response()) == "none"
    assert [commit_code(await one.response()) for one in asked[:10]] == ["none"] * 10


async def test_requests_of_an_api_that_the_shard_does_not_know_are_refused(
    broker: FakeRelayBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(shard_module.HANDLERS, 47)
    response = await broker.ask(0, 0, OffsetDeleteRequest(group_id="group", topics=()))
    assert response.error_code is ErrorCode.unsupported_version


async def test_new_topics_reach_the_shard(
    feed: StatedFeed, broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    topics = {name: topic for name, topic in feed.state.topics.items() if name != "flights"}
    feed.publish(topics=topics, topics_by_id={topic.id: topic for topic in topics.values()})
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "unknown_topic_or_partition"


def made_anew(feed: StatedFeed) -> dict[str, Any]:
    """What changes in the cluster state when the topic is deleted and created again."""
    former = feed.state.topics["flights"]
    partitions = tuple(replace(partition, topic_id=UUID(int=6)) for partition in former.partitions)
    topic = replace(former, id=UUID(int=6), partitions=partitions)
    topics = {**feed.state.topics, topic.name: topic}
    return {"topics": topics, "topics_by_id": {each.id: each for each in topics.values()}}


async def test_what_names_a_topic_waits_until_the_coordinator_has_seen_the_topics_that_the_broker_has_seen(
    feed: StatedFeed, broker: FakeRelayBroker
) -> None:
    assert commit_code(await broker.ask(0, 8, commit("group", 70))) == "none"
    broker.topics_revision = feed.state.revision + 2
    read = broker.ask_later(0, 8, fetch("group"))
    written = broker.ask_later(0, 8, commit("other", 1))
    assert (await broker.ask(0, 4, ListGroupsRequest(states_filter=()))).error_code is ErrorCode.none

    feed.publish(**made_anew(feed))
    assert (await broker.ask(0, 4, ListGroupsRequest(states_filter=()))).error_code is ErrorCode.none
    assert not read.is_answered
    assert not written.is_answered
    feed.publish()

    assert fetched(await read.response()) == ("none", {}), "the offsets are another topic's"
    assert commit_code(await written.response()) == "none"
    _, value = broker.logs[0].records()[-1]
    assert value.topic_id == UUID(int=6)  # type: ignore[union-attr]
    assert await committed(broker, "other") == {0: 1}


async def test_what_waits_for_a_cluster_state_that_does_not_come_is_told_to_come_again(
    feed: StatedFeed, broker: FakeRelayBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_awaiting_state, "WAIT_MAX_S", 0.05)
    broker.topics_revision = feed.state.revision + 1

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "coordinator_load_in_progress"
    assert fetched(await broker.ask(0, 8, fetch("group")))[0] == "coordinator_load_in_progress"
    monkeypatch.setattr(requests_awaiting_state, "WAITING_MAX", 0)
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "coordinator_load_in_progress"
    feed.publish()
    assert await committed(broker, "group") == {}


async def test_shards_do_not_wait_for_each_other(
    feed: StatedFeed, broker: FakeRelayBroker, coordinator: CoordinatorUnderTest, connect: Start
) -> None:
    assign(feed, shard_of(coordinator, 1))
    await coordinator.serves(1)
    broker.appends.clear()
    blocked = broker.ask_later(0, 8, commit("group", 1))
    await eventually_async(lambda: broker.append_count == 3, "the commit is sent")

    assert await asyncio.wait_for(committed(broker, "other", shard=1), 10) == {}
    assert not blocked.is_answered
    broker.appends.set()
    assert commit_code(await blocked.response()) == "none"
