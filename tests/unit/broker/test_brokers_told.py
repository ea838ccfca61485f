"""Which brokers and leaders clients are told of: those that their listener reaches, and never none at all."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker
from ottla_core.cluster.state.model import ClusterState, Endpoint, Member, PartitionState, Topic
from tests.support.broker.broker_parts import Client, ask, broker_of
from tests.support.groups.group_cluster import BROKER, LISTENER, StatedFeed, broker_member
from tests.support.messages.sparse_request import sparse_request

INNER, OUTER = LISTENER, "OUTER"
TOPIC = "readings"


def member(broker_id: int, *listeners: str) -> Member:
    """A broker with an address of its own for each listener."""
    endpoints = tuple(
        Endpoint(listener=name, host=f"{name.lower()}-{broker_id}", port=9000 + broker_id) for name in listeners
    )
    return replace(broker_member(broker_id), endpoints=endpoints)


def broker_with(members: Mapping[int, Member]) -> Broker:
    """A broker that knows these members and a topic with a partition led by each of 3, 7 and 9."""
    topic_id = UUID(int=5)
    partitions = tuple(
        PartitionState(
            topic_id=topic_id, index=index, replicas=(3, 7, 9), isr=(3, 7, 9), leader=leader, leader_epoch=4
        )
        for index, leader in enumerate((3, 7, 9))
    )
    topic = Topic(id=topic_id, name=TOPIC, partitions=partitions)
    return broker_of(StatedFeed(ClusterState(revision=1, brokers=dict(members), topics={TOPIC: topic})))


async def told(members: Mapping[int, Member], listener: str = INNER) -> dict[int, str]:
    """The ids and hosts of the brokers that Metadata and DescribeCluster name."""
    broker, client = broker_with(members), Client(listener_name=listener)
    metadata = await ask(broker, sparse_request("metadata", 12, topics=None), client=client)
    cluster = await ask(broker, sparse_request("describe_cluster", 1, endpoint_type=1), client=client)
    found = [(each.node_id, each.host, each.port, each.rack) for each in metadata.brokers]
    assert found == [(each.broker_id, each.host, each.port, each.rack) for each in cluster.brokers]
    return {int(each.node_id): each.host for each in metadata.brokers}


async def test_live_brokers_are_told() -> None:
    assert [*await told({3: member(3, INNER), 7: member(7, INNER)})] == [3, 7]


async def test_a_broker_names_itself_when_all_registrations_have_lapsed() -> None:
    # librdkafka forgets every broker that an answer leaves out; after one without any it never asks again.
    assert [*await told({})] == [BROKER]


async def test_clients_hear_the_addresses_of_the_listener_that_they_came_by() -> None:
    members = {3: member(3, INNER, OUTER), 7: member(7, OUTER, INNER)}

    assert await told(members, INNER) == {3: "plaintext-3", 7: "plaintext-7"}
    assert await told(members, OUTER) == {3: "outer-3", 7: "outer-7"}


async def test_brokers_without_the_listener_are_left_out() -> None:
    assert await told({3: member(3, INNER), 7: member(7, INNER, OUTER)}, OUTER) == {7: "outer-7"}


@pytest.mark.parametrize(
    ("version", "without_listener"), [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)]
)
async def test_leaders_without_the_listener_are_not_told(version: int, without_listener: ErrorCode) -> None:
    broker = broker_with({3: member(3, INNER, OUTER), 7: member(7, INNER)})

    response = await ask(broker, sparse_request("metadata", version, topics=None), client=Client(listener_name=OUTER))

    assert [_seen(partition) for partition in response.topics[0].partitions] == [
        (ErrorCode.none, 3, (7, 9)),
        (without_listener, -1, (7, 9)),
        (ErrorCode.leader_not_available, -1, (7, 9)),  # broker 9 is gone altogether
    ]


async def test_descriptions_of_partitions_leave_them_out_as_well() -> None:
    broker = broker_with({3: member(3, INNER, OUTER), 7: member(7, INNER)})
    request = sparse_request("describe_topic_partitions", 0, topics=(), response_partition_limit=10, cursor=None)

    response = await ask(broker, request, client=Client(listener_name=OUTER))

    assert [_seen(partition) for partition in response.topics[0].partitions] == [
        (ErrorCode.none, 3, (7, 9)),
        (ErrorCode.listener_not_found, -1, (7, 9)),
        (ErrorCode.leader_not_available, -1, (7, 9)),
    ]


def test_new_leaders_are_named_with_the_address_of_the_listener() -> None:
    broker = broker_with({3: member(3, INNER, OUTER), 7: member(7, INNER)})

    named = broker.node_endpoints([3, 7, 9], OUTER)

    assert [(each.node_id, each.host) for each in named] == [(3, "outer-3")]


def _seen(partition: Any) -> tuple[ErrorCode, int, tuple[int, ...]]:
    return partition.error_code, int(partition.leader_id), tuple(map(int, partition.offline_replicas))
