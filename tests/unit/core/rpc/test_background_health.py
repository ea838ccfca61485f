"""The health service tells of background tasks that keep failing and of failed logs; `ottla status` asks for it."""

import asyncio

import pytest

from ottla.local.health import GrpcHealth
from ottla_core import background, health_names
from ottla_core.background import start_recurring
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc_identity import BROKER, RpcIdentity
from tests.support.eventually_async import eventually_async


async def fail() -> None:
    raise RuntimeError("a defect")


async def test_a_task_that_fails_again_and_again_shows_in_the_health(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "PAUSE_S_MIN", 30.0)
    server = RpcServer()
    port = server.bind("127.0.0.1", 0)
    await server.start()
    try:
        await server.set_serving(serving=True)
        health = GrpcHealth("127.0.0.1", port, RpcIdentity(BROKER, 1))
        assert await health.problem() is None
        task = start_recurring("duty", fail)
        await eventually_async(lambda: background.background().failing == {"duty": 1}, "it pauses")
        await asyncio.sleep(0)
        assert "background" in str(await health.problem())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert await health.problem() is None
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (health_names.LOGS, "the disk has failed some of its logs"),
        (health_names.STORAGE, "its disk refuses what is to"),
    ],
)
async def test_what_is_wrong_with_a_disk_shows_in_the_health(part: str, says: str) -> None:
    server = RpcServer()
    port = server.bind("127.0.0.1", 0)
    await server.start()
    try:
        await server.set_serving(serving=True)
        assert await GrpcHealth("127.0.0.1", port, RpcIdentity(BROKER, 1)).problem() is None
        await server.set_healthy(part, healthy=False)
        assert says in str(await GrpcHealth("127.0.0.1", port, RpcIdentity(BROKER, 1)).problem())
    finally:
        await server.stop()
