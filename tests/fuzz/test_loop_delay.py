"""No request of at most 1 MiB holds up an event loop for long, in broker, controller or coordinator.

Every API of the dispatch table, so new ones enter by themselves, is sent requests in which one list after the other
is as long as a mebibyte allows: of one thing again and again, or all different. Record batches are small on the wire
and large when unpacked. A delay is CPU time of the loop's thread (`tests/support/clusters/watched_service.py`).

OTTLA_FUZZ_SECONDS bounds how long versions other than the newest are tried, in an order that OTTLA_FUZZ_SEED repeats.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.dispatch import APIS
from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import Closed, RawClient, encode_request, request_type
from tests.support.clients.raw_requests import (
    create_topic_request,
    list_offsets_request,
    metadata_request,
    produce_request,
)
from tests.support.clients.raw_transactions import RawProducer
from tests.support.clusters.service_process import SingleBrokerServices, delays_file
from tests.support.clusters.watched_service import longest_delay_seconds
from tests.support.eventually import eventually
from tests.support.messages.large_requests import LargeRequest, large_requests
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow

DELAY_SECONDS_MAX = 0.2
ANSWER_SECONDS_MAX = 120.0
OTHER_VERSIONS_SECONDS = 5.0
METADATA_KEY, CREATING_VERSION = 3, 3
"""Metadata of a version whose requests create the topics they name."""
TOPIC = "large"
COMPACTED = "compacted"
PARTITIONS = 50
WIDE = "-wide"
"""The first in the order of names, hence on the first page of an answer, whatever other tests have created."""
WIDE_PARTITIONS = 4000
GROUPS = 25_000
GROUPS_AT_ONCE = 100
RECORDS_IN_BOMB = {Codec.ZSTD: 1_000_000, Codec.GZIP: 600_000}


class Watched:
    """A cluster whose event loops are watched."""

    def __init__(self, directory: Path):
        self.services = SingleBrokerServices(
            directory,
            coordinators=1,
            watch=True,
            broker_settings={
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "4",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.num.partitions": "4",
            },
        )
        self._files = {
            name: delays_file(directory / name) for name in ("broker", "controller", "group-coordinator-1")
        }

    def send(self, frame: bytes) -> dict[str, float]:
        """Send a frame, wait until everybody has worked it off, and return the longest delay of each loop."""
        for file in self._files.values():
            file.write_text("")
        with RawClient.to(self.services.broker.bootstrap) as client:
            try:
                client.send_frame(frame)
                client.read_frame(within_s=ANSWER_SECONDS_MAX)
            except Closed:
                pass
        with RawClient.to(self.services.broker.bootstrap) as other:
            other.ask(request_type(18, 0)(), within_s=ANSWER_SECONDS_MAX)
        time.sleep(0.02)  # the timers of the watches are due by then
        return {name: longest_delay_seconds(file) for name, file in self._files.items()}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    cluster = Watched(tmp_path_factory.mktemp("loop-delay"))
    with cluster.services, RawClient.to(cluster.services.broker.bootstrap) as client:
        for request in (
            create_topic_request(TOPIC, partitions=PARTITIONS),
            create_topic_request(COMPACTED, configs={"cleanup.policy": "compact"}),
        ):
            client.ask(request)
        RawProducer(client, "t").begin()  # coordinators of transactions take part from then on
        yield cluster


@pytest.fixture(scope="module")
def topic_id(watched: Watched) -> UUID:
    with RawClient.to(watched.services.broker.bootstrap) as client:
        (topic,) = client.ask(metadata_request([TOPIC])).topics
    assert topic.error_code is ErrorCode.none
    return UUID(str(topic.topic_id))


def requests_of(api_key: int, version: int, topic_id: UUID) -> Iterator[LargeRequest]:
    yield from large_requests(request_type(api_key, version), topic=TOPIC, topic_id=topic_id)


def check(watched: Watched, request: LargeRequest) -> str:
    """Return what is wrong, or nothing."""
    began = time.monotonic()
    delays = watched.send(request.frame)
    print(f"{request.name}: {time.monotonic() - began:.1f} s", {n: round(d, 3) for n, d in delays.items() if d})
    slow = [f"{name} for {delay:.2f} s" for name, delay in delays.items() if delay > DELAY_SECONDS_MAX]
    return f"{request.name} holds up {', '.join(slow)}" if slow else ""


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_no_large_request_of_the_newest_version_holds_up_a_loop(
    watched: Watched, topic_id: UUID, api_key: int
) -> None:
    problems = [check(watched, request) for request in requests_of(api_key, APIS[api_key].newest, topic_id)]
    assert not any(problems), "\n".join(filter(None, problems))


def test_no_large_request_of_another_version_holds_up_a_loop(watched: Watched, topic_id: UUID) -> None:
    seed = int(os.environ.get("OTTLA_FUZZ_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"OTTLA_FUZZ_SEED={seed}")
    versions = [(api.key, version) for api in APIS.values() for version in range(api.oldest, api.newest)]
    random.Random(seed).shuffle(versions)
    deadline = time.monotonic() + float(os.environ.get("OTTLA_FUZZ_SECONDS", OTHER_VERSIONS_SECONDS))
    for api_key, version in versions:
        for request in requests_of(api_key, version, topic_id):
            assert not (problem := check(watched, request)), problem
            if time.monotonic() > deadline:
                return


def test_a_large_request_that_creates_topics_is_answered_in_time(watched: Watched, topic_id: UUID) -> None:
    problems = [check(watched, request) for request in requests_of(METADATA_KEY, CREATING_VERSION, topic_id)]
    assert not any(problems), "\n".join(filter(None, problems))


@pytest.fixture(scope="module")
def wide_topic(watched: Watched) -> str:
    """A topic of very many partitions, which answers about a whole cluster hold."""
    with RawClient.to(watched.services.broker.bootstrap) as client:
        client.ask(create_topic_request(WIDE, partitions=WIDE_PARTITIONS), within_s=ANSWER_SECONDS_MAX)
    return WIDE


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        ("metadata", 1, {"topics": None}),
        ("metadata", 13, {"topics": None}),
        ("describe_topic_partitions", 0, {"topics": [], "response_partition_limit": 2**31 - 1, "cursor": None}),
        ("describe_log_dirs", 5, {"topics": None}),
        ("list_partition_reassignments", 0, {"topics": None}),
        ("list_config_resources", 1, {"resource_types": []}),
    ],
)
def test_no_answer_about_a_large_cluster_holds_up_a_loop(
    watched: Watched, wide_topic: str, api: str, version: int, values: dict[str, object]
) -> None:
    request = sparse_request(api, version, **values)
    with RawClient.to(watched.services.broker.bootstrap) as client:
        assert wide_topic in repr(client.ask(request, within_s=ANSWER_SECONDS_MAX)) or "Reassign" in repr(request)
    assert not (problem := check(watched, LargeRequest(f"{api} of everything", encode_request(request, 1)))), problem


def commit_request(group: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    return sparse_request("offset_commit", 7, group_id=group, generation_id_or_member_epoch=-1, topics=topics)


@pytest.fixture(scope="module")
def many_groups(watched: Watched) -> set[str]:
    """Groups without members, as tools that commit leave them."""
    groups = [f"group-{number}" for number in range(GROUPS)]
    with RawClient.to(watched.services.broker.bootstrap) as client:
        client.ask(sparse_request("find_coordinator", 1, key=groups[0]))  # makes the groups' topic
        eventually(
            lambda: client.ask(commit_request(groups[0])).topics[0].partitions[0].error_code is ErrorCode.none,
            "the coordinator serves",
        )
        for start in range(0, GROUPS, GROUPS_AT_ONCE):
            some = groups[start : start + GROUPS_AT_ONCE]
            for group in some:
                client.send_request(commit_request(group))
            for _ in some:
                client.read_frame(within_s=ANSWER_SECONDS_MAX)
    return set(groups)


def test_no_list_of_very_many_groups_holds_up_a_loop(watched: Watched, many_groups: set[str]) -> None:
    request = sparse_request("list_groups", 4, states_filter=[])
    with RawClient.to(watched.services.broker.bootstrap) as client:
        listed = client.ask(request, within_s=ANSWER_SECONDS_MAX).groups
    assert many_groups <= {group.group_id for group in listed}
    assert not (problem := check(watched, LargeRequest("a list of all groups", encode_request(request, 1)))), problem


def bomb(codec: Codec) -> bytes:
    """Return a batch of very many tiny records, which is small while it is compressed."""
    stamp = int(time.time() * 1000)
    return encode_batch([Record(number, stamp, b"k", b"") for number in range(RECORDS_IN_BOMB[codec])], codec=codec)


@pytest.mark.parametrize("codec", RECORDS_IN_BOMB)
def test_a_small_batch_of_very_many_records_holds_up_no_loop(watched: Watched, codec: Codec) -> None:
    batch = bomb(codec)
    assert len(batch) < 1024 * 1024
    produce = LargeRequest("Produce to a compacted topic", encode_request(produce_request(COMPACTED, batch), 1))
    look_up = LargeRequest(
        "ListOffsets by time", encode_request(list_offsets_request(COMPACTED, int(time.time() * 1000) - 60_000), 1)
    )
    problems = [check(watched, produce), check(watched, look_up)]
    assert not any(problems), "\n".join(filter(None, problems))
