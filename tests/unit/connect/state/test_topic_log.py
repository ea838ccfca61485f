"""The stores in topics of a real cluster: workers that see each other's writes, topics that will not do, faults."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka.partitioner.default import murmur2

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state import topic_creation, topic_log, topic_reader
from ottla_connect.state.config_store import ConfigChange, ConfigStore, ConnectorChanged
from ottla_connect.state.kafka_clients import KafkaClients
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.offset_records import key_of, source_partition
from ottla_connect.state.stores import Stores, open_distributed
from ottla_connect.state.topic_producer import TopicProducer
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import free_port_block

pytestmark = pytest.mark.slow

OFFSET_PARTITIONS = 25


@pytest.fixture
def admin(cluster: OttlaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def settings(bootstrap: str, prefix: str) -> WorkerConfig:
    stores = {f"{store}.storage.topic": f"{prefix}-{store}" for store in ("config", "offset", "status")}
    factors = {f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")}
    return WorkerConfig.parse({"bootstrap.servers": bootstrap, **stores, **factors})


@asynccontextmanager
async def opened(config: WorkerConfig, changes: list[ConfigChange] | None = None) -> AsyncIterator[Stores]:
    stores = open_distributed(config)
    await stores.start((changes if changes is not None else []).append)
    try:
        yield stores
    finally:
        await stores.close()


def create(admin: AdminClient, topic: str, partitions: int, **configs: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=dotted)])[topic].result()


async def test_what_one_worker_stores_all_see_now_and_later(cluster: OttlaCluster, admin: AdminClient) -> None:
    config = settings(cluster.bootstrap, "seen")
    changes: list[ConfigChange] = []
    async with opened(config) as one, opened(config, changes) as other:
        await one.config.put_connector("a", {"name": "a"}, None)
        await one.config.put_task_configs("a", [{"n": str(number)} for number in range(20)])
        await one.offsets.write("a", [({"file": str(number)}, {"position": number}) for number in range(1000)])
        one.status.put_task_status(TaskId("a", 0), Status(state=State.RUNNING, worker_id="w:1", generation=1))
        await other.config.refresh(30)
        assert other.config.state == one.config.state
        assert changes[0] == ConnectorChanged("a")
        found = await other.offsets.read("a", [{"file": "999"}, {"file": "1000"}])
        assert found == [{"position": 999}, None]
        await eventually_async(lambda: other.status.task_status(TaskId("a", 0)), "the status is seen")
    async with opened(config) as later:
        assert later.config.state.task_counts == {"a": 20}
        assert later.status.task_status(TaskId("a", 0)) is not None
        assert len(await later.offsets.all("a")) == 1000
    for store, partitions in (("config", 1), ("offset", OFFSET_PARTITIONS), ("status", 5)):
        topic = f"seen-{store}"
        assert len(admin.list_topics(topic, 10).topics[topic].partitions) == partitions
        resource = ConfigResource(ResourceType.TOPIC, topic)
        assert admin.describe_configs([resource])[resource].result()["cleanup.policy"].value == "compact"


async def test_a_key_lies_where_kafkas_producer_would_put_it(cluster: OttlaCluster) -> None:
    config = settings(cluster.bootstrap, "placed")
    async with opened(config) as stores:
        await stores.offsets.write("a", [({"file": str(number)}, {"position": number}) for number in range(50)])
    expected = {}
    for number in range(50):
        key = key_of(source_partition("a", {"file": str(number)}))
        expected[key] = (murmur2(key) & 0x7FFFFFFF) % OFFSET_PARTITIONS
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("placed-offset", partition, 0) for partition in range(OFFSET_PARTITIONS)])
    found: dict[bytes, int] = {}

    def all_are_found() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found[message.key()] = message.partition()
        return len(found) == len(expected)

    eventually(all_are_found, "all records are read")
    consumer.close()
    assert found == expected


@pytest.mark.parametrize(
    ("store", "partitions", "policy", "reason"),
    [
        ("status", 5, "delete", "has cleanup.policy=delete"),
        ("offset", 5, "compact,delete", "has cleanup.policy=compact,delete"),
        ("config", 2, "compact", "has 2 partitions"),
    ],
)
async def test_a_topic_that_would_lose_what_it_is_given_is_refused(
    cluster: OttlaCluster, admin: AdminClient, store: str, partitions: int, policy: str, reason: str
) -> None:
    prefix = f"refused-{store}"
    create(admin, f"{prefix}-{store}", partitions, cleanup_policy=policy)
    with pytest.raises(LogError, match=f"{store}.storage.topic.* {reason}"):
        async with opened(settings(cluster.bootstrap, prefix)):
            pass


async def test_garbage_in_the_topics_hinders_nothing(cluster: OttlaCluster, admin: AdminClient) -> None:
    config = settings(cluster.bootstrap, "garbage")
    async with opened(config) as stores:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for store in ("config", "offset", "status"):
            for key, value in (
                (b"\xff", b"\xff"),
                (b"connector-a", b"[]"),
                (b"status-task-a-0", b"{}"),
                (b"[]", b""),
            ):
                producer.produce(f"garbage-{store}", key=key, value=value)
        assert producer.flush(30) == 0
        await stores.config.put_connector("a", {"name": "a"}, None)
        await stores.offsets.write("a", [({"file": "x"}, {"position": 1})])
        assert await stores.offsets.all("a") == [({"file": "x"}, {"position": 1})]
        assert list(stores.config.state.connectors) == ["a"]


async def test_stores_outlast_a_broker_that_is_killed_under_them(cluster: OttlaCluster) -> None:
    config = settings(cluster.bootstrap, "outlast")
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(opened(config))
        other = await stack.enter_async_context(opened(config))
        await one.config.put_connector("a", {"name": "a"}, None)
        await one.offsets.write("a", [({"file": "x"}, {"position": 0})])
        killed = cluster.refresh()
        os.kill(next(each.pid for each in killed if each.role == "broker"), signal.SIGKILL)
        one.status.put_task_status(TaskId("a", 0), Status(state=State.FAILED, worker_id="w:1", generation=1))
        await asyncio.gather(
            one.config.put_task_configs("a", [{"n": "0"}]),
            *(one.offsets.write("a", [({"file": "x"}, {"position": number})]) for number in range(1, 20)),
        )
        assert one.config.state.task_counts == {"a": 1}
        await other.config.refresh(30)
        assert other.config.state.task_configs("a") == {TaskId("a", 0): {"n": "0"}}
        assert await other.offsets.read("a", [{"file": "x"}]) == [{"position": 19}]
        await eventually_async(lambda: other.status.task_status(TaskId("a", 0)), "the status is seen")
        assert not one.failed.done()
        assert not other.failed.done()


class HangingConsumer:
    """A consumer that gives nothing and cannot be closed, like one whose threads have locked each other out."""

    def __init__(self, *, polls_end: bool) -> None:
        self.polls_end = polls_end
        self.calls: list[str] = []
        self.allowed = threading.Event()

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert not self.calls, "this would hang with Python's lock held"
        self.calls.append("assign")

    def poll(self, timeout: float) -> None:
        self.allowed.wait(timeout if self.polls_end else None)

    def close(self) -> None:
        self.calls.append("close")
        self.allowed.wait()


@pytest.fixture(params=[True, False], ids=["polls return", "polls hang"])
def hanging(request: pytest.FixtureRequest) -> Iterator[HangingConsumer]:
    consumer = HangingConsumer(polls_end=request.param)
    yield consumer
    consumer.allowed.set()


def hangs_at_first(monkeypatch: pytest.MonkeyPatch, hanging: HangingConsumer) -> None:
    """The next consumer that is made hangs, those after it do not."""
    made = iter([hanging])
    make = KafkaClients.consumer
    monkeypatch.setattr(KafkaClients, "consumer", lambda self, on_error: next(made, None) or make(self, on_error))


async def is_closed_if_possible(hanging: HangingConsumer) -> None:
    expected = ["assign", "close"] if hanging.polls_end else ["assign"]
    await eventually_async(lambda: hanging.calls == expected, "the reader's thread has ended")


async def test_a_consumer_that_hangs_is_replaced_though_nobody_waits_for_what_it_reads(
    cluster: OttlaCluster, monkeypatch: pytest.MonkeyPatch, hanging: HangingConsumer
) -> None:
    monkeypatch.setattr(topic_log, "LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(topic_log, "LOOK_TIMEOUT_S", 2.0)
    monkeypatch.setattr(topic_reader, "CLOSED_WITHIN_S", 0.1)
    config = settings(cluster.bootstrap, "hanging")
    async with opened(config) as other:
        await other.config.put_connector("a", {"name": "a"}, None)
        hangs_at_first(monkeypatch, hanging)
        changes: list[ConfigChange] = []
        log = topic_log.TopicLog(
            KafkaClients(config),
            TopicProducer(KafkaClients(config).producer),
            config.storage_topic("config"),
            setting="config.storage.topic",
            single_partition=True,
            on_failure=lambda failure: pytest.fail(str(failure)),
        )
        store = ConfigStore(log)
        await store.start(changes.append)
        assert store.state == other.config.state
        await other.config.put_connector("b", {"name": "b"}, None)
        await eventually_async(lambda: ConnectorChanged("b") in changes, "the change is seen")
        await store.close()
    await is_closed_if_possible(hanging)


async def test_a_consumer_that_hangs_does_not_keep_a_store_from_closing(
    cluster: OttlaCluster, monkeypatch: pytest.MonkeyPatch, hanging: HangingConsumer
) -> None:
    monkeypatch.setattr(topic_reader, "CLOSED_WITHIN_S", 0.1)
    hangs_at_first(monkeypatch, hanging)
    async with opened(settings(cluster.bootstrap, "closing")):
        await eventually_async(lambda: hanging.calls == ["assign"], "it reads")
    await is_closed_if_possible(hanging)


async def test_a_topic_that_is_deleted_under_the_stores_is_reported(
    cluster: OttlaCluster, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "GONE_AFTER_S", 1.0)
    async with opened(settings(cluster.bootstrap, "deleted")) as stores:
        await stores.offsets.write("a", [({"file": "x"}, {"position": 1})])
        admin.delete_topics(["deleted-offset"])["deleted-offset"].result()
        failure = await asyncio.wait_for(stores.failed, 60)
        assert "topic deleted-offset (offset.storage.topic) is gone" in str(failure)
        with pytest.raises(LogError, match="is gone"):
            await stores.offsets.read("a", [{"file": "x"}])
        with pytest.raises(LogError, match="is gone"):
            await stores.offsets.write("a", [({"file": "x"}, {"position": 2})])
        await stores.config.put_connector("a", {"name": "a"}, None)


async def test_a_topic_that_is_made_anew_under_the_stores_is_reported(
    cluster: OttlaCluster, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "GONE_AFTER_S", 1.0)
    async with opened(settings(cluster.bootstrap, "renewed")) as stores:
        for number in range(3):
            await stores.config.put_connector("a", {"n": str(number)}, None)
        admin.delete_topics(["renewed-config"])["renewed-config"].result()
        await asyncio.to_thread(
            eventually,
            lambda: "renewed-config" not in admin.list_topics(timeout=10).topics,
            "the topic is gone",
        )
        create(admin, "renewed-config", 1, cleanup_policy="compact")
        failure = await asyncio.wait_for(stores.failed, 60)
        assert "topic renewed-config (config.storage.topic) was deleted and made anew" in str(failure)


async def test_a_cluster_that_is_not_there_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(topic_creation, "REQUEST_TIMEOUT_S", 1.0)
    began = time.monotonic()
    with pytest.raises(LogError, match=r"\.storage\.topic"):
        async with opened(settings(f"127.0.0.1:{free_port_block(1)}", "nowhere")):
            pass
    assert time.monotonic() - began < 20
