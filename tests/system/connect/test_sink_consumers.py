"""The consumer of a sink task, as librdkafka has it, in a group of a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla_connect.task.sink.group import ConsumerFailed, Group, raise_if_final
from ottla_sdk import TopicPartition
from ottla_sdk.kafka.hung_consumers import ConsumerWatch
from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

TOPIC = "orders"
READ_S = 0.5
PROTOCOLS = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("consumers") / "cluster"
    with OttlaCluster(directory, arguments=group_arguments()) as cluster:
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([NewTopic(TOPIC, num_partitions=2)])[TOPIC].result()
        yield cluster.bootstrap


class Listener:
    """Says where to begin, at most."""

    def __init__(self) -> None:
        self.beginnings: dict[TopicPartition, int] = {}

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self.beginnings

    def on_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        pass

    def must_pause(self, partition: TopicPartition) -> bool:
        return False


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_that_were_given_away_while_they_were_paused_are_read_when_they_are_back(
    bootstrap: str, protocol: str
):
    producer = Producer({"bootstrap.servers": bootstrap})
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **PROTOCOLS[protocol],
    }

    def write() -> None:
        for partition in (0, 1):
            producer.produce(TOPIC, b"value", partition=partition)
        assert producer.flush(30) == 0

    with ExitStack() as stack:
        group = Group(
            Consumer(settings), Listener(), incremental=protocol != "range", from_start=True, watch=ConsumerWatch()
        )
        stack.callback(group.close)
        read: set[TopicPartition] = set()

        def both_are_read() -> bool:
            for each in group.read(100, READ_S):
                assert each.error() is None
                read.add(TopicPartition(each.topic(), each.partition()))
            return len(read) == 2

        write()
        group.subscribe([TOPIC])
        eventually(both_are_read, "records of both partitions are read")
        group.pause(read)
        group.subscribe([])
        group.read(1, READ_S)
        read.clear()
        write()
        group.subscribe([TOPIC])
        eventually(both_are_read, "records of both partitions are read again")


@pytest.mark.parametrize("moment", ["paused", "given away"])
def test_a_topic_that_is_created_anew_while_it_is_not_read_is_read_from_its_start(bootstrap: str, moment: str):
    client = AdminClient({"bootstrap.servers": bootstrap})
    topic = f"created-anew-while-{moment.replace(' ', '-')}"
    place = TopicPartition(topic, 0)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **PROTOCOLS["cooperative"],
    }

    def create_with(records: int) -> None:
        def is_created() -> bool:
            try:
                client.create_topics([NewTopic(topic, num_partitions=1)])[topic].result()
            except KafkaException:
                return False  # the former one is still there
            return True

        eventually(is_created, "the topic is created")
        producer = Producer({"bootstrap.servers": bootstrap})
        for _ in range(records):
            producer.produce(topic, b"value", partition=0)
        assert producer.flush(30) == 0

    create_with(10)
    client.delete_records([KafkaTopicPartition(topic, 0, 5)])[KafkaTopicPartition(topic, 0)].result()
    with ExitStack() as stack:
        listener = Listener()
        group = Group(Consumer(settings), listener, incremental=True, from_start=True, watch=ConsumerWatch())
        stack.callback(group.close)
        read: list[int | None] = []

        def is_read(offsets: list[int]) -> bool:
            read.extend(each.offset() for each in group.read(100, READ_S) if each.error() is None)
            return read == offsets

        group.subscribe([topic])
        eventually(lambda: is_read([5, 6, 7, 8, 9]), "the topic is read")
        read.clear()
        if moment == "paused":
            group.pause([place])
        else:
            group.subscribe([])
        group.read(1, READ_S)
        client.delete_topics([topic])[topic].result()
        create_with(8)
        if moment == "paused":
            group.seek({place: 0})
            group.resume([place])
        else:
            listener.beginnings = {place: 0}
            group.subscribe([topic])
        eventually(lambda: is_read([*range(8)]), "the new topic is read from its start")


def test_a_consumer_that_its_group_will_never_take_fails(bootstrap: str):
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "refuses",
        "session.timeout.ms": 1000,  # less than group.min.session.timeout.ms
        **PROTOCOLS["cooperative"],
    }
    group = Group(Consumer(settings), Listener(), incremental=True, from_start=True, watch=ConsumerWatch())
    with ExitStack() as stack:
        stack.callback(group.close)
        group.subscribe([TOPIC])

        def refusal() -> KafkaError | None:
            return next(filter(None, (each.error() for each in group.read(1, READ_S))), None)

        error = eventually(refusal, "the consumer says why it has no partitions")
        with pytest.raises(ConsumerFailed, match="INVALID_SESSION_TIMEOUT"):
            raise_if_final(error)
