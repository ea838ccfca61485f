"""What the leading controller looks after: whatever fails once is tried again, and holds up nothing else."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla_controller import leadership_loop
from ottla_core.errors import KafkaError, NotController
from tests.support.eventually_async import eventually_async


class Duties:
    """Stands for an `ActiveController` and its `ReplicaController`; each duty fails as often as it is told."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail
        self.elections = self.assignments = 0
        self.replicas = self

    async def elect_leaders(self) -> None:
        self.elections += 1
        self.fail()

    async def assign_shards(self) -> None:
        self.assignments += 1


@asynccontextmanager
async def attending(duties: Any) -> AsyncIterator[asyncio.Task[None]]:
    changed = asyncio.Event()
    changed.set()
    task = asyncio.create_task(leadership_loop._attend_to_changes(duties, changed))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("error", [KafkaError("etcd says no"), RuntimeError("a bug")])
async def test_a_duty_that_fails_is_tried_again_and_does_not_hold_up_the_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(leadership_loop, "RETRY_DELAY_S", 0.01)

    def fail() -> None:
        raise error

    duties = Duties(fail)
    async with attending(duties) as task:
        await eventually_async(lambda: duties.elections > 2, "elections are tried again")
        assert duties.assignments >= duties.elections - 1
        assert not task.done()


async def test_the_end_of_the_term_ends_it() -> None:
    def fail() -> None:
        raise NotController("another controller leads")

    duties = Duties(fail)
    async with attending(duties) as task:
        await eventually_async(task.done, "it ends")
    assert (duties.elections, duties.assignments) == (1, 0)
