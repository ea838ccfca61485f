"""The group APIs as a client of the broker sees them, with scripted coordinators behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.offset_fetch.v9 import request as offset_fetch
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from ottla_broker.broker import Broker
from ottla_broker.dispatch import APIS
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.groups.routing import broker_for
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_core.clock import SystemClock
from ottla_core.errors import CodedError, InvalidRequest
from ottla_core.shards import shard_of
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.broker.broker_parts import ask, ask_frame, broker_of
from tests.support.broker.scripted_coordinator import ScriptedCoordinator, scripted_coordinator
from tests.support.clients.raw_client import encode_request
from tests.support.eventually_async import eventually_async
from tests.support.groups.group_cluster import BROKER, StatedFeed, broker_member, group_state
from tests.support.messages.filled_request import filled_request

pytestmark = pytest.mark.slow  # many real processes or connections

SHARDS = 4
GROUP_APIS = (8, 9, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69)
VERSIONS = [(key, version) for key in GROUP_APIS for version in sorted(schema_name_map[api_key_map[key]])]

Decide = Callable[[Any], Any]


def responding(decide: Decide) -> Callable[[pb.GroupRequest], bytes]:
    """Let a coordinator decide on decoded requests."""

    def answer(request: pb.GroupRequest) -> bytes:
        frame = memoryview(request.frame)
        header = read_request_header(frame)
        codec = message_codec(header.api_key, header.api_version)
        return codec.encode_response(header.correlation_id, decide(codec.read_request(frame, header)))

    return answer


def refusing(code: ErrorCode) -> Decide:
    return lambda request: error_response(
        request.__api_key__, request.__version__, request, CodedError(code, "the test says so")
    )


def noting(seen: list[Any], decide: Decide) -> Decide:
    def note(request: Any) -> Any:
        seen.append(request)
        return decide(request)

    return note


class Cluster:
    """A broker with two coordinators behind it."""

    def __init__(self, broker: Broker, feed: StatedFeed, coordinators: list[ScriptedCoordinator]) -> None:
        self.broker = broker
        self.feed = feed
        self.coordinators = coordinators

    def answer(self, *decisions: Decide) -> None:
        for coordinator, decide in zip(self.coordinators, decisions, strict=True):
            coordinator.answer = responding(decide)

    @property
    def requests(self) -> list[pb.GroupRequest]:
        return [request for coordinator in self.coordinators for _, request in coordinator.requests]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """The first coordinator owns the even shards, the second the odd ones; both refuse everything."""
    async with AsyncExitStack() as closing:
        refuse = responding(refusing(ErrorCode.group_id_not_found))
        coordinators = [await closing.enter_async_context(scripted_coordinator(number, refuse)) for number in (1, 2)]
        feed = StatedFeed(group_state(*(coordinator.member() for coordinator in coordinators), shard_count=SHARDS))
        relay = GroupRelay(feed, BROKER, ShardLogAccess(None, lambda: feed.state, SystemClock()))  # type: ignore[arg-type]
        relay.start()
        closing.push_async_callback(relay.close)
        await eventually_async(lambda: relay.open_count == 2, "both streams are open")
        yield Cluster(broker_of(feed, groups=relay), feed, coordinators)


def group_in(shard: int, number: int = 0) -> GroupId:
    """A group that a shard keeps; another one for every number."""
    names = (f"group-{index}" for index in range(10_000))
    found = [name for name in names if shard_of(name, SHARDS).partition == shard]
    return GroupId(found[number])


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
async def test_every_version_of_every_group_api_goes_on_as_it_was_sent(
    cluster: Cluster, api_key: int, version: int
) -> None:
    request = filled_request(load_request_schema(api_key, version), topic="flights", topic_id=UUID(int=5))
    frame = encode_request(request, 7)

    await ask_frame(cluster.broker, frame)

    assert {relayed.frame for relayed in cluster.requests} == {frame}
    assert {relayed.client_host for relayed in cluster.requests} == {"/10.0.0.7"}
    if api_key != 16:
        (relayed,) = cluster.requests
        named = getattr(request, fields(request)[0].name)
        group = named if isinstance(named, str) else getattr(named[0], "group_id", named[0])
        assert (relayed.topic, relayed.shard) == ("", shard_of(group, SHARDS).partition)


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
async def test_without_an_owner_every_group_api_is_refused_so_that_clients_come_again(
    cluster: Cluster, api_key: int, version: int
) -> None:
    cluster.feed.publish(shards={})
    request = filled_request(load_request_schema(api_key, version), topic="flights", topic_id=UUID(int=5))

    response = await ask(cluster.broker, request)

    expected = {16: ErrorCode.coordinator_not_available, 9: ErrorCode.coordinator_load_in_progress}.get(
        api_key, ErrorCode.not_coordinator
    )
    assert expected.name in str(response)
    assert cluster.requests == []


@pytest.mark.parametrize("api_key", [key for key in GROUP_APIS if APIS[key].reads_group_id])
async def test_garbage_of_which_only_the_group_is_read_is_refused_by_whoever_reads_it_all(
    cluster: Cluster, api_key: int
) -> None:
    version = max(schema_name_map[api_key_map[api_key]])
    request = filled_request(load_request_schema(api_key, version), topic="flights", topic_id=UUID(int=5))
    frame = encode_request(request, 7)
    cluster.feed.publish(shards={})

    with pytest.raises(InvalidRequest):
        await ask_frame(cluster.broker, frame[:-2])
    with pytest.raises(InvalidRequest):
        await ask_frame(cluster.broker, frame[:20])


@pytest.mark.parametrize("api_key", [key for key in GROUP_APIS if not APIS[key].reads_group_id])
async def test_garbage_does_not_reach_a_coordinator(cluster: Cluster, api_key: int) -> None:
    version = max(schema_name_map[api_key_map[api_key]])
    request = filled_request(load_request_schema(api_key, version), topic="flights", topic_id=UUID(int=5))
    frame = encode_request(request, 7)

    with pytest.raises(InvalidRequest):
        await ask_frame(cluster.broker, frame[:-2])

    assert cluster.requests == []


async def test_a_request_that_the_coordinator_cannot_read_closes_the_connection(cluster: Cluster) -> None:
    for coordinator in cluster.coordinators:
        coordinator.answer = lambda _: b""

    with pytest.raises(InvalidRequest):
        await ask(cluster.broker, heartbeat(group_in(0)))


async def test_a_request_that_waits_is_refused_when_its_coordinator_goes(cluster: Cluster) -> None:
    cluster.coordinators[0].answer = lambda _: None
    asked = asyncio.create_task(ask(cluster.broker, heartbeat(group_in(0))))
    await eventually_async(lambda: cluster.requests, "the request has arrived")

    cluster.feed.publish(coordinators={})

    assert (await asked).error_code is ErrorCode.not_coordinator


async def test_an_api_of_several_groups_reaches_every_shard_and_is_answered_in_order(cluster: Cluster) -> None:
    cluster.answer(refusing(ErrorCode.none), refusing(ErrorCode.non_empty_group))
    groups = (group_in(1), group_in(0), group_in(3), group_in(0, 1), group_in(2))

    response = await ask(cluster.broker, DeleteGroupsRequest(groups_names=groups))

    assert [(result.group_id, result.error_code.name) for result in response.results] == [
        (groups[0], "non_empty_group"),
        (groups[1], "none"),
        (groups[2], "non_empty_group"),
        (groups[3], "none"),
        (groups[4], "none"),
    ]
    assert sorted(request.shard for request in cluster.requests) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "message",
    [
        DescribeGroupsRequest(groups=(group_in(1), group_in(0)), include_authorized_operations=True),
        ConsumerGroupDescribeRequest(group_ids=(group_in(1), group_in(0)), include_authorized_operations=True),
    ],
)
async def test_groups_of_two_shards_are_described_together(cluster: Cluster, message: Any) -> None:
    seen: list[Any] = []
    cluster.answer(
        noting(seen, refusing(ErrorCode.none)),
        noting(seen, refusing(ErrorCode.group_id_not_found)),
    )

    response = await ask(cluster.broker, message)

    assert [(group.group_id, group.error_code.name) for group in response.groups] == [
        (group_in(1), "group_id_not_found"),
        (group_in(0), "none"),
    ]
    assert all(part.include_authorized_operations for part in seen)
    assert len(seen) == 2


async def test_offsets_of_groups_of_two_shards_are_fetched_together(cluster: Cluster) -> None:
    message = offset_fetch.OffsetFetchRequest(
        groups=(
            offset_fetch.OffsetFetchRequestGroup(group_id=group_in(1), topics=None),
            offset_fetch.OffsetFetchRequestGroup(group_id=group_in(0), member_id="m", member_epoch=i32(3), topics=()),
        ),
        require_stable=True,
    )
    seen: list[Any] = []
    cluster.answer(
        noting(seen, refusing(ErrorCode.none)),
        noting(seen, refusing(ErrorCode.unknown_member_id)),
    )

    response = await ask(cluster.broker, message)

    assert [(group.group_id, group.error_code.name) for group in response.groups] == [
        (group_in(1), "unknown_member_id"),
        (group_in(0), "none"),
    ]
    assert sorted(seen, key=str) == sorted((replace(message, groups=(group,)) for group in message.groups), key=str)


async def test_only_the_groups_of_a_lost_coordinator_are_refused(cluster: Cluster) -> None:
    cluster.answer(refusing(ErrorCode.none), refusing(ErrorCode.none))
    await cluster.coordinators[1].stop()
    await eventually_async(lambda: cluster.broker.groups.open_count == 1, "one stream is gone")

    response = await ask(cluster.broker, DeleteGroupsRequest(groups_names=(group_in(0), group_in(1))))

    assert [result.error_code.name for result in response.results] == ["none", "not_coordinator"]


async def test_a_request_for_no_group_is_answered_here(cluster: Cluster) -> None:
    response = await ask(cluster.broker, DeleteGroupsRequest(groups_names=()))

    assert response.results == ()
    assert cluster.requests == []


async def test_the_lists_of_all_coordinators_become_one(cluster: Cluster) -> None:
    cluster.answer(lambda _: listing("a", "b"), lambda _: listing("c"))

    response = await ask(cluster.broker, list_groups())

    assert [(group.group_id, group.group_state) for group in response.groups] == [
        ("a", "Stable"),
        ("b", "Stable"),
        ("c", "Stable"),
    ]
    assert {request.shard for request in cluster.requests} == {-1}


async def test_every_broker_lists_the_groups_that_clients_come_to_it_for(cluster: Cluster) -> None:
    names = [f"g{number}" for number in range(50)]
    cluster.answer(lambda _: listing(*names), lambda _: listing())
    cluster.feed.publish(brokers={broker: broker_member(broker) for broker in (BROKER, 2, 3)})

    response = await ask(cluster.broker, list_groups())

    assert [group.group_id for group in response.groups] == [
        name for name in names if broker_for(name, [BROKER, 2, 3]) == BROKER
    ]
    assert 0 < len(response.groups) < 50


@pytest.mark.parametrize("code", [ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available])
async def test_a_list_that_one_coordinator_cannot_give_is_refused_as_a_whole(
    cluster: Cluster, code: ErrorCode
) -> None:
    cluster.answer(lambda _: listing("a"), refusing(code))

    response = await ask(cluster.broker, list_groups())

    assert (response.error_code, response.groups) == (code, ())


async def test_without_the_topic_of_groups_there_are_no_groups(cluster: Cluster) -> None:
    cluster.feed.publish(topics={}, topics_by_id={}, shards={})

    response = await ask(cluster.broker, list_groups())

    assert (response.error_code, response.groups) == (ErrorCode.none, ())


def heartbeat(group: GroupId) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=i32(1), member_id="m")


def list_groups() -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=(), types_filter=())


def listing(*groups: str) -> ListGroupsResponse:
    return ListGroupsResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=ErrorCode.none,
        groups=tuple(
            ListedGroup(group_id=GroupId(group), protocol_type="consumer", group_state="Stable", group_type="classic")
            for group in groups
        ),
    )
