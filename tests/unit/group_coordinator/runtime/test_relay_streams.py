"""The brokers' streams: who may open one, which one counts, what ends one, and what travels on it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from grpc import StatusCode, aio
from kio.schema.errors import ErrorCode

from ottla_group_coordinator.runtime import relay_stream, waiting_request
from ottla_proto.gen.ottla.group_relay_pb2_grpc import GroupRelayStub
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import (
    CoordinatorUnderTest,
    assign,
    commit,
    commit_code,
    committed,
    fetch,
    fetch_of,
    shard_of,
)
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, broker_member

Start = Callable[..., Any]


@pytest.mark.parametrize("metadata", [(), (("broker-id", "1"),), (("broker-id", "one"), ("broker-epoch", "1"))])
async def test_a_caller_that_does_not_say_who_it_is_gets_no_stream(
    start: Start, metadata: tuple[tuple[str, str], ...]
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    async with aio.insecure_channel(coordinator.address) as channel:
        call = GroupRelayStub(channel).Relay(metadata=metadata)
        assert await call.code() is StatusCode.INVALID_ARGUMENT


async def test_a_brokers_newer_stream_replaces_the_older(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    first = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    second = await connect(FakeRelayBroker(1, BROKER_EPOCH, first.logs), coordinator)

    await eventually_async(first.ended.is_set, "the older stream has ended")
    assign(feed, shard_of(coordinator))
    await coordinator.serves()

    assert (first.append_count, second.append_count) == (0, 1)
    assert len(coordinator.coordinator.service) == 1


async def test_a_stream_of_an_earlier_life_of_a_broker_is_refused(start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    async with aio.insecure_channel(coordinator.address) as channel:
        metadata = (("broker-id", "1"), ("broker-epoch", str(BROKER_EPOCH - 1)))
        assert await GroupRelayStub(channel).Relay(metadata=metadata).code() is StatusCode.FAILED_PRECONDITION


async def test_the_stream_of_a_broker_that_is_gone_is_ended(feed: StatedFeed, start: Start, connect: Start) -> None:
    coordinator: CoordinatorUnderTest = await start()
    known = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    newer_than_our_state = await connect(FakeRelayBroker(3, feed.state.revision + 10), coordinator)

    feed.publish(brokers={2: broker_member(2)})

    await eventually_async(known.ended.is_set, "its stream has ended")
    assert not newer_than_our_state.ended.is_set()


async def test_an_unreadable_request_gets_an_empty_answer_and_harms_nobody(
    feed: StatedFeed, start: Start, connect: Start
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    whole = bytes.fromhex("000c 0004 00000001 0001 61 00") + b"\x06group" + bytes(4)
    for number, frame in enumerate((b"", b"\0", whole, bytes.fromhex("7fff 0000 00000001 ffff")), start=1):
        broker._last_id = number
        assert (await asyncio.wait_for(broker.send_frame(0, frame), 10)).frame == b""

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"


async def test_a_broker_that_does_not_read_loses_its_stream_and_others_go_on(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_stream, "UNSENT_BYTES_MAX", 1024 * 1024)
    coordinator: CoordinatorUnderTest = await start()
    deaf = await connect(FakeRelayBroker(2, BROKER_EPOCH), coordinator)
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    deaf.stop_reading()
    service = coordinator.coordinator.service

    async def ask_on() -> None:
        while service.stream_of(2) is not None:
            for _ in range(20):
                deaf.ask_later(0, 8, fetch("g" * 30_000))
            await committed(broker, "group")

    await asyncio.wait_for(ask_on(), 60)

    assert commit_code(await broker.ask(0, 8, commit("group", 1))) == "none"


async def test_large_frames_travel_and_larger_ones_are_refused(
    feed: StatedFeed, start: Start, connect: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator: CoordinatorUnderTest = await start()
    broker = await connect(FakeRelayBroker(1, BROKER_EPOCH), coordinator)
    assign(feed, shard_of(coordinator))
    await coordinator.serves()
    large = fetch_of([f"{number}-{'g' * 30_000}" for number in range(400)])

    response = await broker.ask(0, 8, large)
    assert len(response.groups) == 400
    assert {group.error_code for group in response.groups} == {ErrorCode.none}

    monkeypatch.setattr(waiting_request, "FRAME_BYTES_MAX", 1000)
    refused = (await broker.ask(0, 8, fetch_of(["g" * 2000]))).groups
    assert {group.error_code for group in refused} == {ErrorCode.message_too_large}
