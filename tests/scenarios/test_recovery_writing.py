"""Writing a recovered state into a real etcd: what it may replace, and that nobody goes by a part of it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ottla.recover.merging import RecoveryPlan
from ottla.recover.writing import EtcdInUse, write_state
from ottla_broker import joining
from ottla_broker.config import BrokerConfig
from ottla_broker.log.directories.log_directories import take_directories
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.recovery_check import RecoveryUnfinished, read_finished_recovery
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import Recovery, Role
from tests.scenarios.conftest import CLUSTER
from tests.support.clusters.controller_process import ControllerProcess
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually_async import eventually_async

KEYS = KeySpace(CLUSTER)
SETTINGS = 250
"""So many keys that several transactions are needed."""


def plan_of(number: int = 7, cluster_id: str = "ours", settings: int = SETTINGS) -> RecoveryPlan:
    recovery = Recovery(number=number)
    entries = {
        "id": codec.encode_cluster_id(cluster_id),
        "recovery": codec.encode_recovery(recovery),
        **{f"configs/groups/g{each}": codec.encode_config({"number": str(number)}) for each in range(settings)},
    }
    return RecoveryPlan(
        cluster_name=CLUSTER, cluster_id=cluster_id, newest=None, entries=entries, recovery=recovery, partitions=()
    )


async def stored(etcd: EtcdClient) -> dict[str, bytes]:
    listing = await etcd.list_prefix(KEYS.prefix)
    return {entry.key.removeprefix(KEYS.prefix): entry.value for entry in listing.entries}


async def test_a_broker_that_starts_while_a_recovery_begins_does_not_go_by_half_a_state(
    etcd: EtcdClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery begins between the two looks that the broker takes before it uses its directories."""
    (await take_directories([tmp_path], node_id=1, cluster_id="ours")).release()
    unfinished = codec.encode_recovery(Recovery(number=7, is_unfinished=True))
    begin = [op.put(KEYS.recovery, unfinished), op.put(KEYS.cluster_id, codec.encode_cluster_id("ours"))]

    def then_begin(look: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def looked(*arguments: object) -> object:
            found = await look(*arguments)
            if await etcd.read(KEYS.recovery) is None:
                await etcd.transaction([], begin)
            return found

        return looked

    for name in ("read_finished_recovery", "ensure_cluster_id"):
        monkeypatch.setattr(joining, name, then_begin(getattr(joining, name)))
    config = BrokerConfig.model_validate({"node.id": 1, "log.dirs": str(tmp_path), "cluster.name": CLUSTER})
    with pytest.raises(RecoveryUnfinished):
        async with AsyncExitStack() as closing:
            await joining._take_directories(config, etcd, closing)


async def cut_short(etcd: EtcdClient, plan: RecoveryPlan) -> None:
    class CutShort(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done >= SETTINGS // 2:
            raise CutShort

    with contextlib.suppress(CutShort):
        await write_state(etcd, plan, stop)


async def test_the_state_is_in_an_empty_etcd_and_nothing_else(etcd: EtcdClient) -> None:
    plan = plan_of()
    await write_state(etcd, plan)
    assert await stored(etcd) == plan.entries
    assert await read_finished_recovery(etcd, CLUSTER) == plan.recovery


async def test_what_processes_write_on_an_empty_etcd_is_replaced(etcd: EtcdClient) -> None:
    assert await ensure_cluster_id(etcd, CLUSTER) != "ours"
    await write_state(etcd, plan_of())
    found = await stored(etcd)
    assert codec.decode_cluster_id(found["id"]) == "ours"
    assert "features" not in found, "the levels of the lost cluster were never raised"


@pytest.mark.parametrize("key", [KEYS.topic("flights"), KEYS.link("west"), KEYS.registration(1)])
async def test_a_state_that_is_there_is_not_replaced(etcd: EtcdClient, key: str) -> None:
    await etcd.transaction([], [op.put(key, b"{}")])
    with pytest.raises(EtcdInUse, match="already"):
        await write_state(etcd, plan_of())
    assert await stored(etcd) == {key.removeprefix(KEYS.prefix): b"{}"}


async def test_nothing_is_written_while_brokers_are_registered(etcd: EtcdClient) -> None:
    await etcd.transaction([], [op.put(KEYS.member(Role.BROKER, 3), b"{}")])
    with pytest.raises(EtcdInUse, match="brokers are registered in this etcd: 3"):
        await write_state(etcd, plan_of())


async def test_a_finished_recovery_is_not_written_over(etcd: EtcdClient) -> None:
    await write_state(etcd, plan_of())
    with pytest.raises(EtcdInUse, match="already"):
        await write_state(etcd, plan_of(8))


async def test_of_a_recovery_that_was_cut_short_the_next_one_leaves_nothing(etcd: EtcdClient) -> None:
    await cut_short(etcd, plan_of())
    with pytest.raises(RecoveryUnfinished, match="cut short"):
        await read_finished_recovery(etcd, CLUSTER)
    later = plan_of(8, settings=20)
    await write_state(etcd, later)
    assert await stored(etcd) == later.entries


async def test_controllers_lead_neither_the_replaced_cluster_nor_half_a_state(
    etcd: EtcdClient, etcd_process: EtcdProcess, tmp_path: Path
) -> None:
    def controller(number: int) -> ControllerProcess:
        settings = (f"etcd.endpoints={etcd_process.endpoint}", f"cluster.name={CLUSTER}", "member.lease.ttl.ms=1000")
        return ControllerProcess(tmp_path, number, settings=settings)

    async def leader() -> int | None:
        found = await etcd.read(KEYS.controller)
        return None if found is None else codec.decode_controller(found.value, found.create_revision).id

    async def leads(number: int) -> None:
        async with asyncio.timeout(60):
            while await leader() != number:
                await asyncio.sleep(0.05)  # between two looks

    first, second = controller(1), controller(2)
    try:
        await asyncio.to_thread(first.start)  # on an empty etcd
        await leads(1)
        await cut_short(etcd, plan_of())
        await eventually_async(lambda: not first.child.is_running(), "it ends, as its cluster is replaced")

        await asyncio.to_thread(second.start)
        log = tmp_path / "controller-2.log"
        await eventually_async(lambda: "not campaigning" in log.read_text(), "it says what it waits for")
        assert await leader() is None

        await write_state(etcd, plan_of(8))
        await leads(2)
    finally:
        first.child.kill()
        second.child.kill()
