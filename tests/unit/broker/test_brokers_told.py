"""Which brokers clients are told of: the live ones, and never none at all."""

from ottla_core.cluster.model import ClusterState
from tests.support.broker_parts import ask, broker_of
from tests.support.group_cluster import BROKER, StatedFeed, broker_member
from tests.support.sparse_request import sparse_request


async def told(*alive: int) -> list[int]:
    """The ids of the brokers that Metadata and DescribeCluster name."""
    state = ClusterState(revision=1, brokers={number: broker_member(number) for number in alive})
    broker = broker_of(StatedFeed(state))
    by_metadata = (await ask(broker, sparse_request("metadata", 12, topics=None))).brokers
    described = (await ask(broker, sparse_request("describe_cluster", 1, endpoint_type=1))).brokers
    found = [(each.node_id, each.host, each.port, each.rack) for each in by_metadata]
    assert found == [(each.broker_id, each.host, each.port, each.rack) for each in described]
    return [int(each.node_id) for each in by_metadata]


async def test_live_brokers_are_told() -> None:
    assert await told(3, 7) == [3, 7]


async def test_a_broker_names_itself_when_all_registrations_have_lapsed() -> None:
    # librdkafka forgets every broker that an answer leaves out; after one without any it never asks again.
    assert await told() == [BROKER]
