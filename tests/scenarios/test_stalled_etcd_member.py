"""One of three etcd members stalls while it serves a process's watch, and the lease is renewed through the others.

Its connection stays open, so gRPC takes many seconds to notice; nobody waits for the process, as its lease is valid.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.etcd.errors import EtcdError
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.view.feed import ClusterStateFeed
from tests.scenarios.conftest import CLUSTER, LONG_TTL_MS, broker_member, coordinator_member
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import free_ports

SPACE = KeySpace(CLUSTER)
NAMES = ("a", "b", "c")
AGE_MAX_MS = 4000
SOONER_THAN_GRPC_MS = 10_000
"""gRPC itself takes 13 s to see that a connection is dead."""
ELSEWHERE_DEADLINE_S = 60.0

AGE_SLACK_S = 1.0
"""A loaded machine may take this long between two looks of the test."""


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[EtcdProcess]]:
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    members = [EtcdProcess(tmp_path / name, name=name, peer_ports=ports) for name in NAMES]
    for member in members:
        member.start()
    yield members
    for member in members:
        member.stop()


@pytest.fixture
async def etcd(members: list[EtcdProcess]) -> AsyncIterator[EtcdClient]:
    client = EtcdClient([member.endpoint for member in members])
    await ensure_cluster_id(client, CLUSTER)
    yield client
    await client.close()


async def write_setting(etcd: EtcdClient, value: str) -> int:
    while True:
        try:
            write = op.put(SPACE.broker_config(1), codec.encode_config({"v": value}))
            return (await etcd.transaction([], [write])).revision
        except EtcdError:  # it went to the member that stalls
            await asyncio.sleep(0.05)  # between two attempts, while the other members take over


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def stall_what_serves(members: list[EtcdProcess]) -> EtcdProcess:
    """Stalls the member that serves the one watch there is."""
    serving: list[EtcdProcess] = []

    def is_known() -> bool:
        serving[:] = [member for member in members if member.watchers()]
        return len(serving) == 1

    await eventually_async(is_known, "one member serves the watch")
    serving[0].pause()
    return serving[0]


async def test_a_process_does_not_act_on_a_view_that_a_stalled_member_keeps_from_it(
    members: list[EtcdProcess], etcd: EtcdClient, closing: AsyncExitStack
) -> None:
    feed = ClusterStateFeed(etcd, CLUSTER, age_max_ms=AGE_MAX_MS)
    await feed.start()
    closing.push_async_callback(feed.close)
    stalled = await stall_what_serves(members)
    closing.callback(stalled.resume)
    membership = Membership(
        etcd, CLUSTER, broker_member(1), lease_ttl_ms=LONG_TTL_MS, resume=True, view_is_fresh=feed.is_fresh
    )
    await membership.start()
    closing.push_async_callback(membership.close)
    revision = await write_setting(etcd, "new")
    written_s = time.monotonic()
    while feed.state.revision < revision:
        age_s = time.monotonic() - written_s
        assert age_s < AGE_MAX_MS / 1000 + AGE_SLACK_S or not membership.is_current(), f"{age_s:.1f} s out of date"
        assert age_s < 60, "the watch never went on at another member"
        await asyncio.sleep(0.02)  # between two looks; the second assertion ends them
    await eventually_async(membership.is_current, "it acts again")
    assert membership.epoch == membership.registered_epoch


async def test_the_watch_goes_on_at_another_member(
    members: list[EtcdProcess], etcd: EtcdClient, closing: AsyncExitStack
) -> None:
    feed = ClusterStateFeed(etcd, CLUSTER, age_max_ms=SOONER_THAN_GRPC_MS)
    await feed.start()
    closing.push_async_callback(feed.close)
    stalled = await stall_what_serves(members)
    closing.callback(stalled.resume)
    with capture_logs() as logs:
        revision = await write_setting(etcd, "new")
        await feed.wait_for_revision(revision, ELSEWHERE_DEADLINE_S)
    interruptions = [entry["reason"] for entry in logs if entry["event"] == "watch interrupted"]
    assert interruptions[0] == "etcd delivers nothing", "broken off by us, before gRPC noticed anything"
    await eventually_async(feed.is_fresh, "the view is fresh again")


async def test_changes_of_keys_that_are_not_watched_do_not_make_a_view_old(
    members: list[EtcdProcess], etcd: EtcdClient, closing: AsyncExitStack
) -> None:
    feed = ClusterStateFeed(etcd, CLUSTER, age_max_ms=AGE_MAX_MS)
    await feed.start()
    closing.push_async_callback(feed.close)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 2 * AGE_MAX_MS / 1000:
        await etcd.transaction([], [op.put(f"/elsewhere/{uuid4()}", b"")])
        assert feed.is_fresh()
        await asyncio.sleep(0.1)  # between two looks, for as long as it has to stay fresh


async def test_a_coordinator_whose_view_is_out_of_date_registers_anew(
    members: list[EtcdProcess], etcd: EtcdClient, closing: AsyncExitStack
) -> None:
    """Who was told that it is not in its place may have given its shards up; a new registration brings others."""
    is_fresh = True
    membership = Membership(
        etcd, CLUSTER, coordinator_member(1), lease_ttl_ms=LONG_TTL_MS, view_is_fresh=lambda: is_fresh
    )
    await membership.start()
    closing.push_async_callback(membership.close)
    epoch = membership.epoch
    is_fresh = False
    assert not membership.is_current()
    is_fresh = True
    assert not membership.is_current(), "for good"
    await eventually_async(lambda: membership.epoch > epoch, "it has registered again")
