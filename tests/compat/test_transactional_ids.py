"""Clients that want transactions are told so at once and for good, where the cluster is not at their level yet."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla

GIVE_UP_S = 60.0
AT_ONCE_S = GIVE_UP_S / 2
"""A client that tries again and again ends with its own time-out, which is longer."""


@pytest.fixture(scope="module")
def former_level(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster at the level of the release before transactions."""
    with OttlaCluster(tmp_path_factory.mktemp("former") / "cluster") as cluster:
        Ottla(cluster.bootstrap).run("cluster", "features", "downgrade", "ottla.version=3", "transaction.version=0")
        yield cluster.bootstrap


def begin_with_confluent_kafka(bootstrap: str) -> None:
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"}).init_transactions(GIVE_UP_S)


def begin_with_kafka_python(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="t", max_block_ms=int(GIVE_UP_S * 1000))
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=5)


def begin_with_aiokafka(bootstrap: str) -> None:
    async def begin() -> None:
        async with asyncio.timeout(GIVE_UP_S):
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
            try:
                await producer.start()
                await producer.begin_transaction()
            finally:
                await producer.stop()

    asyncio.run(begin())


@pytest.mark.parametrize("begin", [begin_with_confluent_kafka, begin_with_kafka_python, begin_with_aiokafka])
def test_a_transaction_is_refused_at_once(former_level: str, begin: Callable[[str], None]) -> None:
    begun_s = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)transactional.?id.*authorization") as raised:
        begin(former_level)
    assert time.monotonic() - begun_s < AT_ONCE_S
    if isinstance(raised.value, KafkaException):
        assert raised.value.args[0].fatal()
