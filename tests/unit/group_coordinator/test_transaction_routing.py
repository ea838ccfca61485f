"""Requests about transactions, from a broker's stream to the shard: refusals, lists over all shards."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.types import TransactionalId

from ottla_core.rpc.group_relay import ALL_SHARDS
from ottla_core.shards import TRANSACTION_TOPIC
from ottla_core.topic_partition import TopicPartition
from tests.support.eventually_async import eventually_async
from tests.support.groups.coordinator_under_test import CoordinatorUnderTest, assign, shard_of
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, group_topic
from tests.support.transactions.marking_broker import MarkingBroker
from tests.support.transactions.transaction_scene import features

Start = Callable[..., Any]


@pytest.fixture
async def broker(feed: StatedFeed, start: Start, connect: Start) -> tuple[CoordinatorUnderTest, MarkingBroker]:
    topic = replace(group_topic(4), name=TRANSACTION_TOPIC)
    feed.publish(topics={**feed.state.topics, topic.name: topic}, features=features(2))
    coordinator: CoordinatorUnderTest = await start()
    return coordinator, await connect(MarkingBroker(1, BROKER_EPOCH), coordinator)


async def serve(feed: StatedFeed, coordinator: CoordinatorUnderTest, *shards: int) -> None:
    assign(feed, *(shard_of(coordinator, shard, topic=TRANSACTION_TOPIC) for shard in shards))
    table = coordinator.coordinator.transaction_shards
    for shard in shards:
        await eventually_async(
            lambda: table.get(TopicPartition(TRANSACTION_TOPIC, shard)).status.value == "serving",  # type: ignore[union-attr] # noqa: B023
            f"shard {shard} is served",
        )


async def listed(broker: MarkingBroker, **filters: Any) -> tuple[str, set[str], tuple[str, ...]]:
    response = await broker.ask(ALL_SHARDS, 2, ListTransactionsRequest(**filters), topic=TRANSACTION_TOPIC)
    ids = {each.transactional_id for each in response.transaction_states}
    return response.error_code.name, ids, response.unknown_state_filters


async def test_transactions_are_listed_over_all_shards(
    feed: StatedFeed, broker: tuple[CoordinatorUnderTest, MarkingBroker]
) -> None:
    coordinator, relay = broker
    assert await listed(relay) == ("none", set(), ())
    await serve(feed, coordinator, 0, 1)
    await relay.init("a", 7, shard=0)
    await relay.init("b", 8, shard=1)
    assert await listed(relay) == ("none", {"a", "b"}, ())
    assert await listed(relay, state_filters=("Ongoing", "Strange")) == ("none", set(), ("Strange",))
    assert await listed(relay, transactional_id_pattern="[") == ("invalid_regular_expression", set(), ())

    relay.reads.clear()
    assign(feed, shard_of(coordinator, 2, topic=TRANSACTION_TOPIC))
    assert (await listed(relay))[0] == "coordinator_load_in_progress"


async def test_who_does_not_own_a_shard_says_so_for_each_id(
    feed: StatedFeed, broker: tuple[CoordinatorUnderTest, MarkingBroker]
) -> None:
    coordinator, relay = broker
    await serve(feed, coordinator, 0)
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId("a"), TransactionalId("b")))
    response = await relay.ask(1, 0, request, topic=TRANSACTION_TOPIC)
    assert [(each.transactional_id, each.error_code) for each in response.transaction_states] == [
        ("a", ErrorCode.not_coordinator),
        ("b", ErrorCode.not_coordinator),
    ]


async def test_a_request_that_cannot_be_read_costs_its_connection_only(
    feed: StatedFeed, broker: tuple[CoordinatorUnderTest, MarkingBroker]
) -> None:
    coordinator, relay = broker
    await serve(feed, coordinator, 0)
    answer: Any = await relay.send_frame(0, b"\x00\x16\x00\x04", topic=TRANSACTION_TOPIC)
    assert not answer.frame
    assert (await relay.init("a", 7)).epoch == 0


async def test_another_owner_that_has_written_is_noticed_before_anything_is_told(
    feed: StatedFeed, broker: tuple[CoordinatorUnderTest, MarkingBroker]
) -> None:
    """A former owner that has heard of nothing would say that a partition is in a transaction which has ended."""
    coordinator, relay = broker
    await serve(feed, coordinator, 0)
    await relay.init("a", 7)
    log = relay.other_logs[TRANSACTION_TOPIC][0]
    log.put(log.batches[-1][1])
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId("a"),))
    response = await relay.ask(0, 0, request, topic=TRANSACTION_TOPIC)
    assert response.transaction_states[0].error_code is ErrorCode.not_coordinator
