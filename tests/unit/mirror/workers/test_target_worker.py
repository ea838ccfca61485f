"""What goes on at a target whatever fails there."""

import asyncio
from typing import Any

import pytest

from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.state.flow_records import FlowState
from ottla_mirror.workers import target_worker
from ottla_mirror.workers.memory_shares import MemoryShares
from ottla_mirror.workers.target_worker import TargetWorker
from tests.support.eventually_async import eventually_async


class Store:
    """Fails unexpectedly when it is read for the first time."""

    def __init__(self) -> None:
        self.state = FlowState()
        self.reads = 0

    async def refresh(self) -> None:
        self.reads += 1
        if self.reads == 1:
            raise RuntimeError("a bug")


async def test_a_worker_has_one_membership_though_what_follows_the_flows_was_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_worker, "READ_INTERVAL_S", 0.001)
    config = MirrorConfig.parse({"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"})
    worker = TargetWorker(config, "B", "http://w:1", MemoryShares(1 << 24), public_key="")
    store: Any = Store()
    memberships = 0

    async def opened() -> Any:
        return store

    async def be_a_member() -> None:
        nonlocal memberships
        memberships += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(worker, "_opened", opened)
    monkeypatch.setattr(worker.membership, "run", be_a_member)
    worker.start()
    await eventually_async(lambda: store.reads > 2, "the flows are followed again")
    assert memberships == 1
    await worker.close()
