"""New replicas and replicas that were away get their leaders' logs: whole, throttled, and from wherever these begin.

Real processes on loopback. A topic is made on the first broker alone, gets records, and then a second replica.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import create_topic_request, fetch_request, fetched, produce_request, produced
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow

LEADER, FOLLOWER = 1, 2
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
FETCHED_AT_ONCE_BYTES = 1024 * 1024


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path_factory.mktemp("catching-up"), brokers=2) as cluster:
        yield cluster


def create(cluster: ReplicatedCluster, topic: str, **configs: str) -> str:
    """Creates a topic with one partition, on the first broker alone."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    (created,) = cluster.ask(
        create_topic_request(topic, partitions=-1, replication_factor=-1, configs=named, assignments={0: (LEADER,)})
    ).topics
    assert created.error_code is ErrorCode.none, created.error_message
    cluster.wait_for_isr(topic, {LEADER})
    return topic


def produce(cluster: ReplicatedCluster, topic: str, *values: bytes) -> None:
    def is_taken() -> bool:
        answer = cluster.ask(produce_request(topic, batch_of(values).encode()), LEADER)
        return produced(answer).error_code is ErrorCode.none

    eventually(is_taken, f"{topic} takes records")


def place(cluster: ReplicatedCluster, topic: str, *replicas: int) -> None:
    """Begins a reassignment."""
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "replicas": list(replicas)}]}
    answer = cluster.ask(sparse_request("alter_partition_reassignments", 0, timeout=10_000, topics=[wanted]))
    (partition,) = answer.responses[0].partitions
    assert (answer.error_code, partition.error_code) == (ErrorCode.none, ErrorCode.none)


def configure(cluster: ReplicatedCluster, kind: int, name: str, configs: Mapping[str, str | None]) -> None:
    changes = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    (answer,) = cluster.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses
    assert answer.error_code is ErrorCode.none, answer.error_message


def delete_records_before(cluster: ReplicatedCluster, topic: str, offset: int) -> None:
    doomed = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}
    answer: Any = cluster.ask(sparse_request("delete_records", 2, timeout=10_000, topics=[doomed]), LEADER)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def wait_for_equal_logs(cluster: ReplicatedCluster, topic: str) -> None:
    cluster.wait_for_isr(topic, {LEADER, FOLLOWER})
    assert cluster.wait_for_equal_logs(topic)


def test_a_new_replica_gets_segments_of_every_size(cluster: ReplicatedCluster) -> None:
    topic = create(cluster, "segments", segment_bytes="100000")
    for number in range(50):
        produce(cluster, topic, *([b"%d" % number * 900] * (1 + number % 7)))
    place(cluster, topic, LEADER, FOLLOWER)
    wait_for_equal_logs(cluster, topic)
    names = [sorted(path.name for path in cluster.brokers[broker].data.glob(f"{topic}-0/*.log"))
             for broker in (LEADER, FOLLOWER)]  # fmt: skip
    assert names[0] == names[1]
    assert len(names[0]) > 3


def test_a_new_replica_of_a_log_that_begins_within_a_batch_begins_there_too(cluster: ReplicatedCluster) -> None:
    topic = create(cluster, "within")
    produce(cluster, topic, b"a", b"b")
    produce(cluster, topic, b"c", b"d", b"e")
    delete_records_before(cluster, topic, 3)
    place(cluster, topic, LEADER, FOLLOWER)
    cluster.wait_for_isr(topic, {LEADER, FOLLOWER})
    place(cluster, topic, FOLLOWER)
    cluster.wait_for_isr(topic, {FOLLOWER})
    with RawClient.to(cluster.brokers[FOLLOWER].bootstrap) as client:
        refused = fetched(client.ask(fetch_request(topic, 2)))
        data = fetched(client.ask(fetch_request(topic, 3)))
    assert refused.error_code is ErrorCode.offset_out_of_range
    assert data.log_start_offset == 3
    assert read_values(data.records) == [(2, b"c"), (3, b"d"), (4, b"e")]


def test_with_flush_messages_records_are_replicated_as_well(cluster: ReplicatedCluster) -> None:
    topic = create(cluster, "flushed", flush_messages="1")
    place(cluster, topic, LEADER, FOLLOWER)
    cluster.wait_for_isr(topic, {LEADER, FOLLOWER})
    for number in range(20):
        produce(cluster, topic, b"%d" % number)
    wait_for_equal_logs(cluster, topic)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_waits_while_others_are_copied(cluster: ReplicatedCluster, side: str) -> None:
    replica = {"leader": LEADER, "follower": FOLLOWER}[side]
    rate = f"{side}.replication.throttled.rate"
    throttled = create(cluster, f"throttled-by-{side}")
    free = create(cluster, f"free-of-{side}")
    for _ in range(6):
        produce(cluster, throttled, b"x" * (FETCHED_AT_ONCE_BYTES - 2000))
    configure(cluster, BROKER_RESOURCE, f"{replica}", {rate: "1"})
    configure(cluster, TOPIC_RESOURCE, throttled, {f"{side}.replication.throttled.replicas": f"0:{replica}"})

    place(cluster, throttled, LEADER, FOLLOWER)
    for number in range(5):  # each of these is fetched later than the throttled replica's first megabyte
        produce(cluster, free, b"%d" % number)
        place(cluster, free, LEADER, FOLLOWER)
        wait_for_equal_logs(cluster, free)
        place(cluster, free, LEADER)
        cluster.wait_for_isr(free, {LEADER})
    assert len(cluster.log_bytes(FOLLOWER, throttled)) < 3 * FETCHED_AT_ONCE_BYTES
    assert cluster.state_of(throttled).isr == {LEADER}

    configure(cluster, BROKER_RESOURCE, f"{replica}", {rate: None})
    wait_for_equal_logs(cluster, throttled)
