"""A replica that is moved away and back while its broker is busy keeps what it has acknowledged.

Two brokers. One is made to create many logs, so that it carries out the two reassignments late, when it is in sync
again. Then the other one, the leader, is killed.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    create_topic_request,
    end_offset,
    metadata_request,
    produce_request,
    produced,
    reassign_request,
)
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

BATCHES, RECORDS_PER_BATCH = 40, 1000
BUSY_PARTITIONS = 1500
WITHIN_S = 120


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path, brokers=2) as cluster:
        yield cluster


def created(cluster: ReplicatedCluster, topic: str, assignments: dict[int, tuple[int, ...]]) -> None:
    request = create_topic_request(topic, partitions=-1, replication_factor=-1, assignments=assignments)
    (answer,) = cluster.ask(request, 2).topics
    assert answer.error_code is ErrorCode.none, answer.error_message


def reassigned(cluster: ReplicatedCluster, topic: str, replicas: tuple[int, ...]) -> None:
    response: Any = cluster.ask(reassign_request(topic, replicas), 2)
    assert [each.error_code for answered in response.responses for each in answered.partitions] == [ErrorCode.none]


def begin_busy_topic(cluster: ReplicatedCluster, topic: str) -> threading.Thread:
    busy = dict.fromkeys(range(BUSY_PARTITIONS), (1,))
    thread = threading.Thread(target=created, args=(cluster, topic, busy), daemon=True)
    thread.start()
    return thread


def logs_of(cluster: ReplicatedCluster, topic: str) -> int:
    return sum(1 for _ in cluster.brokers[1].data.glob(f"{topic}-*"))


def test_a_replica_that_is_reassigned_away_and_back_survives_its_leader(cluster: ReplicatedCluster) -> None:
    created(cluster, "t", {0: (2, 1)})
    cluster.wait_for_isr("t", {1, 2})
    with RawClient.to(cluster.brokers[2].bootstrap) as client:
        for _ in range(BATCHES):
            batch = batch_of([b"v"] * RECORDS_PER_BATCH).encode()
            eventually(
                lambda batch=batch: produced(client.ask(produce_request("t", batch))).error_code is ErrorCode.none,
                "the batch is acknowledged",
            )

    creating = [begin_busy_topic(cluster, "busy-1")]
    eventually(lambda: logs_of(cluster, "busy-1") > 0, "broker 1 creates logs", within_s=WITHIN_S)
    creating.append(begin_busy_topic(cluster, "busy-2"))
    creating[0].join(WITHIN_S)
    reassigned(cluster, "t", (2,))
    cluster.wait_for_isr("t", {2})
    eventually(lambda: logs_of(cluster, "busy-2") > 0, "broker 1 creates the second topic", within_s=WITHIN_S)
    reassigned(cluster, "t", (2, 1))
    cluster.wait_for_isr("t", {1, 2}, within_s=WITHIN_S)
    for thread in creating:
        thread.join(WITHIN_S)
    eventually(lambda: logs_of(cluster, "busy-2") == BUSY_PARTITIONS, "all logs are there", within_s=WITHIN_S)
    created(cluster, "after", {0: (1,)})  # carried out after everything before
    eventually(lambda: logs_of(cluster, "after") == 1, "the last topic is there", within_s=WITHIN_S)

    cluster.brokers[2].kill()
    assert cluster.wait_for_other_leader("t", 2) == 1
    with RawClient.to(cluster.brokers[1].bootstrap) as client:
        assert eventually(lambda: end_offset(client, "t"), "broker 1 leads with its log") == (
            BATCHES * RECORDS_PER_BATCH
        )


def test_empty_partitions_with_one_replica_are_led_after_they_were_moved_away_and_back(
    cluster: ReplicatedCluster,
) -> None:
    moved = 12
    created(cluster, "empty", dict.fromkeys(range(moved), (1,)))
    for target in (2, 1, 2, 1):
        response: Any = cluster.ask(reassign_request("empty", *[(target,)] * moved), 2)
        assert {each.error_code for answered in response.responses for each in answered.partitions} == {
            ErrorCode.none
        }
        eventually(
            lambda target=target: leaders(cluster, "empty") == [target] * moved,
            f"broker {target} leads them all",
            within_s=WITHIN_S,
        )


def leaders(cluster: ReplicatedCluster, topic: str) -> list[int]:
    (found,) = cluster.ask(metadata_request([topic]), 2).topics
    return [each.leader_id for each in found.partitions]
