"""A unit can be ended from several sides at once: a revocation, and the worker's own stop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import State
from ottla_connect.herder.reconciliation import Work
from ottla_connect.herder.unit import Unit
from ottla_connect.processes.host import ProcessHost
from ottla_connect.processes.messages import Failed, FromProcess, HealthTold, Message, Outlook, Running

DEADLINE_S = 10.0


class NoEvents:
    """A worker that has nothing to say and hears nothing."""

    def greetings(self, unit: Unit) -> Iterable[Message]:
        return ()

    def on_state(self, unit: Unit, state: State, trace: str, version: str) -> None:
        return None

    def on_message(self, unit: Unit, message: FromProcess) -> None:
        return None


class HeardEvents(NoEvents):
    """A worker that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_state(self, unit: Unit, state: State, trace: str, version: str) -> None:
        self.heard.append(state)

    def on_message(self, unit: Unit, message: FromProcess) -> None:
        self.heard.append(message)


class SpokenChild:
    """A process for which the test speaks."""

    pid = 1

    def send(self, message: Message) -> None:
        return None

    def kill(self) -> None:
        return None

    async def stop(self, within_s: float) -> None:
        return None


class SpokenHost(ProcessHost):
    """Starts `SpokenChild`; what it says to the unit goes through `says`, once there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.says: asyncio.Future[Callable[[FromProcess], None]] = asyncio.get_running_loop().create_future()

    async def spawn(self, purpose: Any, *, limits: Any, on_message: Any, on_exit: Any) -> Any:
        self.says.set_result(on_message)
        return SpokenChild()


async def test_what_has_failed_does_not_run_again_by_what_its_process_says_of_its_health() -> None:
    events, host = HeardEvents(), SpokenHost()
    unit = Unit("flights", worker=WorkerConfig.parse({}), host=host, events=events)
    unit.want(Work(settings={}, connector_settings={}))
    async with asyncio.timeout(DEADLINE_S):
        says = await host.says
        working = HealthTold(health={"state": "WORKING"})
        for message in (
            Running(version="1"),
            working,
            Failed(reason="no", trace="no", outlook=Outlook.OPEN),
            working,
        ):
            says(message)
        await unit.close()
    assert events.heard[:3] == [State.RUNNING, working, State.FAILED]
    assert working not in events.heard[3:]


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
