"""A link to a real Kafka, through TLS with a certificate of the broker's own and a login."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from tests.support.clusters.linked_clusters import Target, fetched_bytes
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.reference.secured_kafka import PASSWORD, SecuredKafka, secured_kafka

pytestmark = pytest.mark.slow

COUNT = 1000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


def create(kafka: SecuredKafka, topic: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.open})  # kept: without it nobody waits for the answer
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(30)


def write(kafka: SecuredKafka, topic: str, codec: str, **settings: object) -> None:
    """Keyed records, some without a value, with headers."""
    producer = Producer({"bootstrap.servers": kafka.open, "compression.type": codec, **settings})
    transactional = "transactional.id" in settings
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number in range(COUNT):
        value = None if number % 7 == 0 else b"%d" % number * 20
        producer.produce(topic, key=b"%d" % (number % 50), value=value, headers=[("codec", codec.encode())])
    assert producer.flush(60) == 0
    if transactional:
        producer.commit_transaction(30)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, kafka: SecuredKafka) -> Iterator[Target]:
    secret: Path = tmp_path_factory.mktemp("secrets") / "kafka.properties"
    secret.write_text(f"password={PASSWORD}\n")
    settings = kafka.login("SCRAM-SHA-512")
    bootstrap = settings.pop("bootstrap.servers")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(secret.parent),
    }
    with ReplicatedCluster(tmp_path_factory.mktemp("target"), brokers=3, broker_settings=providers) as cluster:
        target = Target(cluster, bootstrap, seen_at=kafka.open)
        target.create_link(settings={**settings, "sasl.password": f"${{file:{secret}:password}}"})
        yield target


@pytest.mark.parametrize("configs", [{}, {"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}])
def test_a_linked_topic_has_the_bytes_of_kafkas(kafka: SecuredKafka, target: Target, configs: dict[str, str]) -> None:
    topic = "-".join(["copied", *configs.values()])
    create(kafka, topic, **configs)
    for codec in CODECS:
        write(kafka, topic, codec)
    end = len(CODECS) * COUNT
    target.follow(topic, replication_factor=3, configs=configs)
    status = target.wait_for_end(topic, end)
    assert (status.state, status.lag) == (LinkedPartitionState.RUNNING, 0)
    leader = target.cluster.brokers[target.cluster.state_of(topic).leader].bootstrap
    assert fetched_bytes(leader, topic, end) == fetched_bytes(kafka.open, topic, end)


def test_transactions_of_kafkas_come_along_and_a_promotion_ends_what_is_open(
    kafka: SecuredKafka, target: Target
) -> None:
    create(kafka, "transactional")
    write(kafka, "transactional", "lz4")
    write(kafka, "transactional", "lz4", **{"transactional.id": "t"})
    aborted, left = (Producer({"bootstrap.servers": kafka.open, "transactional.id": each}) for each in ("a", "left"))
    for producer in (aborted, left):
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("transactional", b"undecided")
        assert producer.flush(30) == 0
    aborted.abort_transaction(30)
    end = 2 * COUNT + 1 + 3  # with the markers of the first transaction and of the aborted one
    target.follow("transactional", replication_factor=3)
    status = target.wait_for_end("transactional", end)
    assert (status.state, status.lag) == (LinkedPartitionState.RUNNING, 0)
    leader = target.cluster.brokers[target.cluster.state_of("transactional").leader].bootstrap
    assert fetched_bytes(leader, "transactional", end) == fetched_bytes(kafka.open, "transactional", end)
    assert committed_end(leader) == (2 * COUNT + 2, 2 * COUNT)
    target.promote("transactional")
    target.cluster.wait_for_equal_logs("transactional")
    eventually(lambda: committed_end(leader) == (end + 1, 2 * COUNT), "what was open is aborted", within_s=30)


def committed_end(bootstrap: str) -> tuple[int, int]:
    """Up to where a reader of committed records may read, and how many it gets there."""
    settings = {"enable.auto.commit": False, "enable.partition.eof": True}  # this cluster has no group coordinators
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "committed", **settings})
    count = 0
    try:
        consumer.assign([TopicPartition("transactional", 0, 0)])
        while (message := consumer.poll(10)) is not None and message.error() is None:
            count += 1
        assert message is not None, "the consumer comes to the end"
        return message.offset() or 0, count
    finally:
        consumer.close()


def test_wrong_credentials_make_all_partitions_wait_with_the_reason(kafka: SecuredKafka, target: Target) -> None:
    create(kafka, "locked")
    write(kafka, "locked", "none")
    target.follow("locked", replication_factor=3)
    target.wait_for_end("locked", COUNT)
    link = target.alter(settings={"sasl.password": "wrong"})
    assert link.settings["sasl.password"] == "[hidden]"
    status = target.wait_for_state("locked", LinkedPartitionState.WAITING)
    assert "does not accept worker" in status.reason
    assert PASSWORD not in status.reason
    target.alter(settings={"sasl.password": PASSWORD})
    target.wait_for_state("locked", LinkedPartitionState.RUNNING)
