"""A unit can be ended from several sides at once: a revocation, and the worker's own stop."""

import asyncio
from collections.abc import Iterable

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.api import State
from ottla_connect.herder.unit import Unit
from ottla_connect.processes.host import ProcessHost
from ottla_connect.processes.messages import FromProcess, Message

DEADLINE_S = 10.0


class NoEvents:
    """A worker that has nothing to say and hears nothing."""

    def greetings(self, unit: Unit) -> Iterable[Message]:
        return ()

    def on_state(self, unit: Unit, state: State, trace: str, version: str) -> None:
        return None

    def on_message(self, unit: Unit, message: FromProcess) -> None:
        return None


async def test_closing_a_unit_twice_at_a_time_ends_both_calls() -> None:
    for steps in range(6):  # however far the one has come when the other begins
        unit = Unit("flights", worker=WorkerConfig.parse({}), host=ProcessHost(), events=NoEvents())
        unit.want(None)

        async def retire(unit: Unit = unit) -> None:
            await unit.settled()
            await unit.close()

        retiring = asyncio.create_task(retire())
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(unit.close(), retiring)
        await unit.close()
