"""Which broker the suites of real clients run against.

By default a fresh `ottla up`. `OTTLA_TEST_BOOTSTRAP=host:port` names a broker that already runs (and
`OTTLA_TEST_DATA` its data directory, for the suites that look at files), and `OTTLA_TEST_REFERENCE=1` starts a real
Apache Kafka: whatever passes there is a fact about Kafka's protocol and not about our idea of it.
`OTTLA_TEST_BROKERS=3` starts three brokers. Wherever there are several, every topic that `make_topic` creates has a
replica on each. The first broker leads, because tests that speak the protocol themselves talk to that one.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import LATEST, create_topic_request, list_offsets_request, metadata_request
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.reference.reference_kafka import ReferenceKafka

BOOTSTRAP_VARIABLE = "OTTLA_TEST_BOOTSTRAP"
DATA_VARIABLE = "OTTLA_TEST_DATA"
REFERENCE_VARIABLE = "OTTLA_TEST_REFERENCE"
BROKERS_VARIABLE = "OTTLA_TEST_BROKERS"

# Short enough that a test can wait for a member to be missed; Kafka's defaults are ten times that.
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}

# The tests' timestamps lie years back, so that nothing depends on the clock; by default such records expire.
KEEP_FOR_EVER = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnderTest:
    """A running broker, the first one where there are several.

    Attributes:
        bootstrap: its address; those of the others may follow.
        data: a directory that contains its log directories; None where that is unknown.
        pid: of the broker's process; None where that is unknown.
        is_reference: whether it is a real Apache Kafka.
    """

    bootstrap: str
    data: Path | None = None
    pid: int | None = None
    is_reference: bool = False

    def partition_directory(self, topic: str, partition: int) -> Path:
        """Where the broker keeps this partition."""
        assert self.data is not None, f"set {DATA_VARIABLE}"
        (directory,) = self.data.rglob(f"{topic}-{partition}")
        return directory


@contextmanager
def running_broker(directory: Path) -> Iterator[BrokerUnderTest]:
    """Yields the broker under test."""
    if bootstrap := os.environ.get(BOOTSTRAP_VARIABLE):
        data = os.environ.get(DATA_VARIABLE)
        yield BrokerUnderTest(bootstrap=bootstrap, data=Path(data) if data else None)
    elif os.environ.get(REFERENCE_VARIABLE):
        with ReferenceKafka(directory / "reference-kafka", settings=GROUP_SETTINGS) as kafka:
            yield BrokerUnderTest(
                bootstrap=kafka.bootstrap, data=kafka.data, pid=kafka.process.pid, is_reference=True
            )
    else:
        with OttlaCluster(directory / "cluster", brokers=broker_count(), arguments=group_arguments()) as cluster:
            broker = cluster.broker
            directory_of_first = cluster.directory / f"broker-{broker.id}"
            yield BrokerUnderTest(bootstrap=cluster.bootstrap, data=directory_of_first, pid=broker.pid)


def group_arguments() -> list[str]:
    """What `ottla up` is told about groups."""
    return [word for key, value in GROUP_SETTINGS.items() for word in ("--set", f"group-coordinator:{key}={value}")]


def broker_count() -> int:
    """How many brokers are under test, if they are Ottla's."""
    return int(os.environ.get(BROKERS_VARIABLE, "1"))


def make_topic(
    bootstrap: str, *, prefix: str = "topic", partitions: int = 1, configs: Mapping[str, str | None] | None = None
) -> str:
    """Creates a topic with a name of its own, waits until every partition can be used, and returns the name.

    Every broker gets a replica of each partition; the one that `bootstrap` names first leads them all.
    """
    topic = f"{prefix}-{uuid.uuid4().hex[:12]}"
    _create(bootstrap, topic, partitions, configs)
    return topic


def make_anew(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    """Deletes a topic and creates another of the same name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, f"{topic} is deleted")
    _create(bootstrap, topic, partitions, None)


def _create(bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str | None] | None) -> None:
    kept = {**KEEP_FOR_EVER, **(configs or {})}
    with RawClient.to(bootstrap) as client:
        everywhere = dict.fromkeys(range(partitions), _brokers(client, bootstrap))
        request = create_topic_request(
            topic, partitions=-1, replication_factor=-1, assignments=everywhere, configs=kept
        )

        def created() -> bool:
            answer = client.ask(request).topics[0]
            if answer.error_code is ErrorCode.invalid_replica_assignment:
                return False  # a broker that was paused until now has yet to register again
            assert answer.error_code is ErrorCode.none, f"{topic}: {answer.error_code!r} {answer.error_message}"
            return True

        eventually(created, f"{topic} is created")
        eventually(lambda: _has_leaders(client, topic, partitions), f"{topic} has leaders")
        eventually(lambda: _is_led(client, topic, partitions), f"the leaders of {topic} lead")


def _brokers(client: RawClient, bootstrap: str) -> tuple[int, ...]:
    """The ids of all brokers, that of the first address first, once as many are there as there are addresses."""
    addresses = bootstrap.split(",")

    def registered() -> dict[str, int]:
        brokers = client.ask(metadata_request([])).brokers
        found = {f"{broker.host}:{broker.port}": int(broker.node_id) for broker in brokers}
        return found if len(found) >= len(addresses) else {}

    ids = eventually(registered, f"the brokers at {bootstrap} are registered")
    first = ids.get(addresses[0])
    return tuple(sorted(ids.values(), key=lambda broker: (broker != first, broker)))


def _has_leaders(client: RawClient, topic: str, partitions: int) -> bool:
    described = client.ask(metadata_request([topic])).topics[0]
    led = [partition for partition in described.partitions if partition.leader_id >= 0]
    return described.error_code is ErrorCode.none and len(led) == partitions


def _is_led(client: RawClient, topic: str, partitions: int) -> bool:
    answers = [client.ask(list_offsets_request(topic, LATEST, partition=index)) for index in range(partitions)]
    return all(answer.topics[0].partitions[0].error_code is ErrorCode.none for answer in answers)
