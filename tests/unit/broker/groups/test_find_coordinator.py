"""FindCoordinator names a broker while the group has a coordinator, and has the topic of groups created."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v0.request import FindCoordinatorRequest as FindCoordinatorRequestV0
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindCoordinatorRequestV3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.static.primitive import i8

from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.routing import broker_for, owner_of
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.groups.group_cluster import StatedFeed, broker_member, group_state, with_transactions

COORDINATOR = ScriptedCoordinator(1).member()
GROUP, TRANSACTION, SHARE = i8(0), i8(1), i8(2)
NOBODY = (-1, "", -1)


class Creation:
    """Notes that the topic was wanted."""

    def __init__(self) -> None:
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1


class Relay:
    """Has an open stream to every owner, unless told otherwise."""

    def __init__(self, feed: StatedFeed, *, is_open: bool) -> None:
        self.feed = feed
        self.is_open = is_open

    def check_reachable(self, shard: TopicPartition) -> None:
        owner_of(self.feed.state, shard)
        if not self.is_open:
            raise NotCoordinator("not connected")


async def find(feed: StatedFeed, request: Any, *, is_open: bool = True) -> tuple[Any, int]:
    """The response, and how often the topic was wanted."""
    creation = Creation()
    topics = {"group_topic": creation, "transaction_topic": creation}
    broker = broker_of(feed, groups=Relay(feed, is_open=is_open), **topics)
    return await ask(broker, request), creation.begun


def place(found: Any) -> tuple[int, str, int]:
    return found.node_id, found.host, found.port


async def test_each_group_is_sent_to_the_broker_that_its_hash_chooses() -> None:
    feed = StatedFeed(group_state(COORDINATOR, brokers=(1, 2, 3)))
    groups = tuple(f"group-{number}" for number in range(30))

    response, wanted = await find(feed, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups))

    chosen = {group: broker_for(group, [1, 2, 3]) or 0 for group in groups}
    assert {found.key: place(found) for found in response.coordinators} == {
        group: (broker, f"host-{broker}", 9000 + broker) for group, broker in chosen.items()
    }
    assert {found.error_code for found in response.coordinators} == {ErrorCode.none}
    assert set(chosen.values()) == {1, 2, 3}
    assert wanted == 0


async def test_others_have_their_turns_while_thousands_of_groups_are_looked_for() -> None:
    feed = StatedFeed(group_state(COORDINATOR, brokers=(1, 2, 3)))
    groups = tuple(f"{number:x}" for number in range(6500))
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    response, _ = await find(feed, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups))
    others.cancel()
    assert [found.key for found in response.coordinators] == [*groups]
    assert turns > 3


async def test_a_broker_names_itself_when_all_registrations_have_lapsed() -> None:
    feed = StatedFeed(group_state(COORDINATOR, brokers=()))

    response, _ = await find(feed, FindCoordinatorRequestV3(key="g", key_type=GROUP))

    assert (response.error_code, place(response)) == (ErrorCode.none, (1, "host-1", 9001))


@pytest.mark.parametrize(
    "request_of_one", [FindCoordinatorRequestV0(key="g"), FindCoordinatorRequestV3(key="g", key_type=GROUP)]
)
async def test_older_versions_ask_for_one_group(request_of_one: Any) -> None:
    response, _ = await find(StatedFeed(group_state(COORDINATOR)), request_of_one)

    assert (response.error_code, place(response)) == (ErrorCode.none, (1, "host-1", 9001))


async def test_a_broker_without_the_clients_listener_is_not_named() -> None:
    feed = StatedFeed(group_state(COORDINATOR, brokers=(1, 2)))
    feed.publish(brokers={1: broker_member(1), 2: broker_member(2, listener="OTHER")})
    groups = tuple(f"group-{number}" for number in range(10))

    response, _ = await find(feed, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups))

    assert {found.node_id for found in response.coordinators} == {1}


async def test_before_the_topic_exists_it_is_created_and_the_client_waits() -> None:
    feed = StatedFeed(group_state(COORDINATOR))
    feed.publish(topics={}, shards={})

    response, wanted = await find(feed, FindCoordinatorRequestV3(key="g", key_type=GROUP))

    assert (response.error_code, place(response)) == (ErrorCode.coordinator_not_available, NOBODY)
    assert "__consumer_offsets" in response.error_message
    assert wanted == 1


async def test_a_group_without_a_live_coordinator_has_to_wait() -> None:
    feed = StatedFeed(group_state(COORDINATOR))
    feed.publish(coordinators={})

    response, _ = await find(feed, FindCoordinatorRequest(key_type=GROUP, coordinator_keys=("g",)))

    assert [(found.key, found.error_code) for found in response.coordinators] == [
        ("g", ErrorCode.coordinator_not_available)
    ]


async def test_a_group_whose_coordinator_cannot_be_reached_has_to_wait() -> None:
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=("g",))

    response, _ = await find(StatedFeed(group_state(COORDINATOR)), request, is_open=False)

    assert [found.error_code for found in response.coordinators] == [ErrorCode.coordinator_not_available]


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (TRANSACTION, ErrorCode.transactional_id_authorization_failed),
        (SHARE, ErrorCode.invalid_request),
        (i8(9), ErrorCode.invalid_request),
    ],
)
async def test_nobody_coordinates_what_the_cluster_does_not_have(key_type: i8, code: ErrorCode) -> None:
    feed = StatedFeed(group_state(COORDINATOR))

    response, wanted = await find(feed, FindCoordinatorRequest(key_type=key_type, coordinator_keys=("t",)))

    (found,) = response.coordinators
    assert (found.error_code, place(found)) == (code, NOBODY)
    assert wanted == 0


async def test_a_transactional_id_has_a_broker_of_its_own_once_its_shard_can_be_reached() -> None:
    feed = StatedFeed(with_transactions(group_state(COORDINATOR, brokers=(1, 2, 3))))
    names = tuple(f"transfer-{number}" for number in range(10))
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=names)

    response, wanted = await find(feed, request)
    assert {found.key: found.node_id for found in response.coordinators} == {
        name: broker_for(name, [1, 2, 3]) for name in names
    }
    assert wanted == 0
    response, _ = await find(feed, request, is_open=False)
    assert {found.error_code for found in response.coordinators} == {ErrorCode.coordinator_not_available}


async def test_the_topic_of_transactions_is_created_when_the_first_producer_looks_for_its_coordinator() -> None:
    state = group_state(COORDINATOR)
    feed = StatedFeed(replace(state, features=with_transactions(state).features))

    response, wanted = await find(feed, FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=("transfer",)))
    assert [found.error_code for found in response.coordinators] == [ErrorCode.coordinator_not_available]
    assert wanted == 1
