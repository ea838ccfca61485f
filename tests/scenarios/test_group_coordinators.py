"""Real group coordinators with a real controller and etcd; the broker that keeps their logs is the test's own."""

import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition
from tests.scenarios.conftest import CLUSTER, SHORT_TTL_MS, Join, MakeController, broker_member
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.clusters.group_coordinator_process import GroupCoordinatorProcess
from tests.support.controller.new_topics import new_topic
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import free_port
from tests.support.groups.coordinator_under_test import commit, commit_code, committed, fetch, fetched
from tests.support.groups.fake_relay_broker import FakeRelayBroker

pytestmark = pytest.mark.slow

SHARD = 0
SHARD_NAME = TopicPartition(GROUP_TOPIC, SHARD)
TIMEOUT_S = 30.0
MakeCoordinator = Callable[..., GroupCoordinatorProcess]
Connect = Callable[[GroupCoordinatorProcess], Any]


@pytest.fixture
def coordinator(tmp_path: Path, etcd_process: EtcdProcess) -> Iterator[MakeCoordinator]:
    """Starts a group coordinator that is ended in the end: `coordinator(1)`."""
    started: list[GroupCoordinatorProcess] = []

    def start(coordinator_id: int, *settings: str) -> GroupCoordinatorProcess:
        common = (
            f"etcd.endpoints={etcd_process.endpoint}",
            f"cluster.name={CLUSTER}",
            f"member.lease.ttl.ms={SHORT_TTL_MS}",
        )
        process = GroupCoordinatorProcess(tmp_path, coordinator_id, settings=[*common, *settings])
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.child.kill()


@pytest.fixture
async def connect(
    controller: MakeController, client: ControllerClient, membership_of: Join
) -> AsyncIterator[Connect]:
    """A cluster with a broker and one shard; `await connect(coordinator)` opens the broker's stream to a coordinator.

    All streams lead to the same logs.
    """
    controller(1)
    membership = membership_of(broker_member(1))
    await membership.start()
    for name in (GROUP_TOPIC, "flights"):
        (created,) = await client.create_topics([new_topic(name=name, partition_count=1)])
        assert created.error_code == 0, created.error_message
    logs = FakeRelayBroker(1, membership.epoch).logs
    async with AsyncExitStack() as closing:

        async def to(process: GroupCoordinatorProcess) -> FakeRelayBroker:
            broker = FakeRelayBroker(1, membership.epoch, logs)
            return await closing.enter_async_context(broker.connected(process.rpc_address))

        yield to


def owned_by(coordinator_id: int) -> Callable[[ClusterState], bool]:
    return lambda state: SHARD_NAME in state.shards and state.shards[SHARD_NAME].coordinator == coordinator_id


async def serves(broker: FakeRelayBroker, group: str) -> dict[int, int]:
    """Asks until the shard is loaded."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        error, offsets = fetched(await broker.ask(SHARD, 8, fetch(group)))
        if error == "none":
            return offsets
        assert error in {"not_coordinator", "coordinator_load_in_progress"}
        assert time.monotonic() < deadline, f"the shard is not served: {error}"


async def test_a_coordinator_that_is_stopped_hands_over_at_once(
    coordinator: MakeCoordinator, connect: Connect, feed: ClusterStateFeed
) -> None:
    first = coordinator(1, "member.lease.ttl.ms=60000")
    to_first = await connect(first)
    await feed.wait_for(owned_by(1), TIMEOUT_S)
    assert await serves(to_first, "group") == {}
    assert commit_code(await to_first.ask(SHARD, 8, commit("group", 41))) == "none"
    second = coordinator(2)
    to_second = await connect(second)

    assert first.child.stop() == 0

    await feed.wait_for(owned_by(2), TIMEOUT_S)  # far less than the first one's lease
    assert await serves(to_second, "group") == {0: 41}
    assert to_first.ended.is_set()


async def test_a_coordinator_that_wakes_up_after_its_lease_neither_answers_nor_writes(
    coordinator: MakeCoordinator, connect: Connect, feed: ClusterStateFeed
) -> None:
    first = coordinator(1)
    to_first = await connect(first)
    await feed.wait_for(owned_by(1), TIMEOUT_S)
    await serves(to_first, "group")
    assert commit_code(await to_first.ask(SHARD, 8, commit("group", 1))) == "none"
    second = coordinator(2)
    to_second = await connect(second)

    first.pause()
    await feed.wait_for(owned_by(2), TIMEOUT_S)
    assert await serves(to_second, "group") == {0: 1}
    assert commit_code(await to_second.ask(SHARD, 8, commit("group", 2))) == "none"
    stored = len(to_second.logs[SHARD].batches)
    late = [to_first.ask_later(SHARD, 8, commit("group", 99)), to_first.ask_later(SHARD, 8, fetch("group"))]
    first.resume()

    assert commit_code(await late[0].response()) == "not_coordinator"
    assert fetched(await late[1].response())[0] == "coordinator_load_in_progress"
    assert len(to_second.logs[SHARD].batches) == stored
    assert await committed(to_second, "group") == {0: 2}


async def test_a_log_that_lost_what_was_stored_is_taken_over_under_a_new_registration(
    coordinator: MakeCoordinator, connect: Connect, feed: ClusterStateFeed
) -> None:
    broker = await connect(coordinator(1))
    await feed.wait_for(owned_by(1), TIMEOUT_S)
    await serves(broker, "group")
    former = feed.state.shards[SHARD_NAME]
    for offset in (1, 2):
        assert commit_code(await broker.ask(SHARD, 8, commit("group", offset))) == "none"

    broker.logs[SHARD].forget_last_batch()
    assert commit_code(await broker.ask(SHARD, 8, commit("group", 3))) == "not_coordinator"

    await feed.wait_for(
        lambda state: owned_by(1)(state) and state.shards[SHARD_NAME].coordinator_epoch > former.coordinator_epoch,
        TIMEOUT_S,
    )
    assert await serves(broker, "group") == {0: 1}
    assert feed.state.shards[SHARD_NAME].producer_epoch > former.producer_epoch


async def test_metrics_tell_what_a_coordinator_holds_and_does(
    coordinator: MakeCoordinator, connect: Connect, feed: ClusterStateFeed
) -> None:
    port = free_port()
    broker = await connect(coordinator(1, f"metrics.listener=127.0.0.1:{port}"))
    await feed.wait_for(owned_by(1), TIMEOUT_S)
    await serves(broker, "group")
    await broker.ask(SHARD, 8, commit("group", 7))

    def shown() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            lines = [line for line in page.read().decode().splitlines() if line.startswith("ottla_coordinator")]
        values = {}
        for line in lines:
            name, _, value = line.rpartition(" ")
            labels = name.partition("{")[2].removesuffix("}").split(",")
            told = [label for label in labels if label and not label.startswith("otel_")]
            values[name.partition("{")[0] + "".join(f"[{label}]" for label in sorted(told))] = float(value)
        return values

    found = await eventually_async(
        lambda: values if (values := shown()).get("ottla_coordinator_offsets") else None, "the offset is counted"
    )
    assert found['ottla_coordinator_shards[status="serving"]'] == 1
    assert found['ottla_coordinator_groups[protocol="classic"][state="Empty"]'] == 1
    assert found['ottla_coordinator_requests_total[api="OffsetCommit"]'] == 1
    assert found["ottla_coordinator_appends_total"] == 1
    assert found["ottla_coordinator_append_time_seconds_total"] > 0
    assert found["ottla_coordinator_loads_total"] == 1
    assert found["ottla_coordinator_rebalance_time_seconds_total"] == 0
    assert found["ottla_coordinator_members"] == 0
    assert found["ottla_coordinator_brokers"] == 1
