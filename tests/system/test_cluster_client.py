"""`AsyncCluster` with real brokers: two of them, one of which dies."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.errors import Unreachable
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import message_of
from tests.support.clusters.ottla_cluster import OttlaCluster

pytestmark = pytest.mark.slow


def opened(*addresses: str) -> AsyncCluster:
    pairs = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in addresses)]
    return AsyncCluster(pairs, security=ClientSecurity(), client_id="test")


def test_a_cluster_is_asked_whole_and_goes_on_while_a_broker_is_away(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", brokers=2) as running:
        asyncio.run(use(running))


async def use(running: OttlaCluster) -> None:
    bootstrap = running.bootstrap.split(",")
    cluster = opened("127.0.0.1:1", *bootstrap)
    try:
        topic = message_of(CreatableTopic, name="t", num_partitions=4, replication_factor=2)
        created = await cluster.ask_controller(message_of(CreateTopicsRequest, topics=(topic,)))
        assert [each.error_code for each in created.topics] == [ErrorCode.none]
        found = await cluster.metadata(["t", "missing"])
        assert set(found.brokers) == {1, 2}
        assert sorted(found.topics["t"].partitions) == [0, 1, 2, 3]
        assert found.topics["t"].id.int != 0
        assert found.topics["missing"].error is ErrorCode.unknown_topic_or_partition
        assert found.cluster_id
        group = message_of(OffsetFetchRequestGroup, group_id="g", topics=None)
        request = message_of(OffsetFetchRequest, groups=(group,))
        answer = await cluster.ask_coordinator("g", request)
        assert answer.groups[0].error_code is ErrorCode.none

        producer = message_of(InitProducerIdRequest, transactional_id="t-1", transaction_timeout=timedelta(minutes=1))
        first = await cluster.ask_transaction_coordinator("t-1", producer)
        cluster.forget_transaction_coordinator("t-1")
        second = await cluster.ask_transaction_coordinator("t-1", producer)
        assert (first.error_code, second.error_code) == (ErrorCode.none, ErrorCode.none)
        assert (second.producer_id, second.producer_epoch > first.producer_epoch) == (first.producer_id, True)

        os.kill(next(each.pid for each in running.services if (each.role, each.id) == ("broker", 2)), signal.SIGKILL)
        assert (await cluster.metadata(["t"])).topics["t"].error is ErrorCode.none
        answer = await cluster.ask_coordinator("g", request)
        assert answer.groups[0].error_code is ErrorCode.none
        await restarted(cluster, 2)
        with pytest.raises(Unreachable):
            await cluster.ask_broker(77, message_of(ListGroupsRequest))
    finally:
        await cluster.close()


async def restarted(cluster: AsyncCluster, broker_id: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await cluster.ask_broker(broker_id, message_of(ListGroupsRequest))
            except Unreachable:
                await asyncio.sleep(0.1)  # between two attempts; the deadline ends them
            else:
                return
