"""Fixtures: a cluster state, coordinators that are ended in the end, and brokers connected to them."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ottla_core.cluster.state.model import ClusterState
from tests.support.groups.coordinator_under_test import COORDINATOR_EPOCH, FLIGHTS, CoordinatorUnderTest
from tests.support.groups.fake_relay_broker import FakeRelayBroker
from tests.support.groups.group_cluster import BROKER_EPOCH, StatedFeed, broker_member, group_topic


@pytest.fixture
def feed() -> StatedFeed:
    """A cluster with two brokers, of which the first leads, and no shards assigned."""
    groups = group_topic(4)
    return StatedFeed(
        ClusterState(
            revision=500,
            brokers={broker_id: broker_member(broker_id, epoch=BROKER_EPOCH) for broker_id in (1, 2)},
            topics={topic.name: topic for topic in (groups, FLIGHTS)},
            topics_by_id={topic.id: topic for topic in (groups, FLIGHTS)},
        )
    )


Start = Callable[..., Any]


@pytest.fixture
async def start(feed: StatedFeed) -> AsyncIterator[Start]:
    """Starts a coordinator: `await start(1, {"offsets.commit.timeout.ms": 100})`."""
    async with AsyncExitStack() as closing:

        async def begin(
            coordinator_id: int = 1, settings: Mapping[str, Any] | None = None, *, epoch: int = COORDINATOR_EPOCH
        ) -> CoordinatorUnderTest:
            coordinator = CoordinatorUnderTest(coordinator_id, epoch, feed, settings or {})
            return await closing.enter_async_context(coordinator.listening())

        yield begin


@pytest.fixture
async def connect() -> AsyncIterator[Start]:
    """Connects a broker to a coordinator: `await connect(broker, coordinator)`."""
    async with AsyncExitStack() as closing:

        async def to(broker: FakeRelayBroker, coordinator: CoordinatorUnderTest) -> FakeRelayBroker:
            return await closing.enter_async_context(broker.connected(coordinator.address))

        yield to
