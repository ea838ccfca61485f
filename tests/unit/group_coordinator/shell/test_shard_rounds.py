"""Serving: answers wait for what is stored, batches are stored once whatever goes wrong, and queues are bounded."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v5 import request as join_v5
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

from ottla_group_coordinator import shard as shard_module
from ottla_group_coordinator import shard_runtime
from ottla_group_coordinator.shard_batches import BatchPacker
from tests.support.coordinator_under_test import (
    CoordinatorUnderTest,
    assign,
    commit,
    commit_code,
    committed,
    fetch,
    fetched,
    shard_of,
)
from tests.support.eventually_async import eventually_async
from tests.support.fake_relay_broker import FakeRelayBroker
from tests.support.group_cluster import BROKER_EPOCH, StatedFeed

Start = Callable[..., Any]
OFFSET_COMMIT = 8


@pytest.fixture
async def coordinator(feed: StatedFeed, start: Start) -> CoordinatorUnderTest:
    coordinator: CoordinatorUnderTest = await start(settings={"offsets.commit.timeout.ms": 300})
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
        shard_runtime, "BatchPacker", lambda producer, sequence, _bytes_max: BatchPacker(producer, sequence, 1000)
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

    assert commit_code(await written.response()) == "coordinator_not_available"
    assert fetched(await read.response())[0] == "coordinator_load_in_progress"
    assert commit_code(await broker.ask(0, 8, commit("group", 2))) == "coordinator_not_available"
    assert coordinator.status() == "stuck"

    broker.refuses_with = None
    await coordinator.serves()
    assert await committed(broker, "group") == {0: 1}
    assert commit_code(await broker.ask(0, 8, commit("group", 3))) == "none"


async def test_time_stands_still_while_the_log_is_stuck(
    broker: FakeRelayBroker, coordinator: CoordinatorUnderTest
) -> None:
    offset_retention_ms = 7 * 24 * 3600 * 1000
    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"
    broker.refuses_with = ErrorCode.kafka_storage_error
    await broker.ask(0, 8, commit("other", 1))
    assert coordinator.status() == "stuck"

    coordinator.clock.pass_ms(2 * offset_retention_ms)
    broker.refuses_with = None
    await coordinator.serves()

    assert await committed(broker, "group") == {0: 1}
    coordinator.clock.pass_ms(2 * offset_retention_ms)
    assert await committed(broker, "group") == {}


async def test_timers_run_without_a_request(broker: FakeRelayBroker, coordinator: CoordinatorUnderTest) -> None:
    asked = broker.ask_later(0, 3, join("group"))
    runtime = coordinator.coordinator.shards.get(0)
    assert runtime is not None
    await eventually_async(lambda: "group" in runtime.shard.groups, "the member has come")
    assert not asked.is_answered

    coordinator.clock.pass_ms(3000)
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
