"""Only the worker that has claimed it last writes to the config topic, in a real cluster."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Producer

from ottla_connect.config import WorkerConfig
from ottla_connect.state.config_records import connector_write
from ottla_connect.state.kafka_clients import KafkaClients
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.stores import Stores, open_distributed
from tests.support.clusters.ottla_cluster import OttlaCluster

pytestmark = pytest.mark.slow

TIMEOUT_S = 30.0


@pytest.fixture
def config(cluster: OttlaCluster) -> WorkerConfig:
    prefix = f"t{time.time_ns():x}"
    stores = {f"{store}.storage.topic": f"{prefix}-{store}" for store in ("config", "offset", "status")}
    factors = {f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")}
    return WorkerConfig.parse(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": prefix,
            "exactly.once.source.support": "preparing",
            **stores,
            **factors,
        }
    )


@asynccontextmanager
async def opened(config: WorkerConfig) -> AsyncIterator[Stores]:
    stores = open_distributed(config)
    await stores.start(lambda _: None)
    try:
        yield stores
    finally:
        await stores.close()


async def test_a_former_leader_writes_nothing_any_more_until_it_leads_again(config: WorkerConfig) -> None:
    async with opened(config) as one, opened(config) as other:
        await one.config.claim(TIMEOUT_S)
        await one.config.put_connector("a", {"by": "one"}, None)
        await other.config.claim(TIMEOUT_S)
        with pytest.raises(LogError, match="cannot be written by the leader"):
            await one.config.put_connector("a", {"by": "a former leader"}, None)
        await other.config.refresh(TIMEOUT_S)
        assert other.config.state.connectors == {"a": {"by": "one"}}
        await other.config.put_connector("a", {"by": "other"}, None)
        other.config.relinquish()
        await one.config.claim(TIMEOUT_S)
        await one.config.put_connector("a", {"by": "one again"}, None)
        await other.config.refresh(TIMEOUT_S)
        assert one.config.state == other.config.state
        assert other.config.state.connectors == {"a": {"by": "one again"}}


async def test_what_a_leader_leaves_half_written_is_read_by_nobody(config: WorkerConfig) -> None:
    async with opened(config) as stores:
        await stores.config.put_connector("a", {"by": "stores"}, None)
        died = leave_open(config)
        await stores.config.claim(TIMEOUT_S)  # has a producer still: it is the one who died that has fenced it
        with pytest.raises(LogError):
            await stores.config.put_connector("b", {}, None)
        await stores.config.put_connector("c", {}, None)
        assert set(stores.config.state.connectors) == {"a", "c"}
        del died


async def test_any_worker_sets_levels_of_loggers_and_what_is_written_counts_at_once(config: WorkerConfig) -> None:
    async with opened(config) as leader, opened(config) as other:
        await leader.config.put_task_count("a", 3)
        assert leader.config.state.fenced_counts == {"a": 3}
        await other.config.put_logger_level("x", "DEBUG")
        assert other.config.state.logger_levels == {"x": "DEBUG"}
        await leader.config.put_task_count("a", 4)
        assert leader.config.state.fenced_counts == {"a": 4}, "the other worker has claimed nothing"


def leave_open(config: WorkerConfig) -> Producer:
    """Begin a transaction as a leader that dies in the middle of it."""
    producer = KafkaClients(config).leader_producer()
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    write = connector_write("half", {"written": "yes"})
    producer.produce(config.storage_topic("config").name, key=write.key, value=write.value)
    assert producer.flush(TIMEOUT_S) == 0
    return producer
