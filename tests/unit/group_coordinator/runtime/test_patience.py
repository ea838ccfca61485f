"""Waits that take too long are noticed once, each counted from its own beginning."""

import asyncio

from ottla_group_coordinator.runtime.patience import Patience

DEADLINE_S = 30.0


class Noticed:
    """What was noticed."""

    def __init__(self, limit_s: float) -> None:
        self.times_s: list[float] = []
        self.is_over = asyncio.Event()
        self.patience = Patience(limit_s, self._on_over)

    def _on_over(self) -> None:
        self.times_s.append(asyncio.get_running_loop().time())
        self.is_over.set()

    async def wait(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.is_over.wait()


async def test_a_wait_that_takes_too_long_is_noticed_once() -> None:
    noticed, later = Noticed(0.01), Noticed(0.05)
    noticed.patience.begin()
    await noticed.wait()
    later.patience.begin()
    await later.wait()
    assert len(noticed.times_s) == 1


async def test_a_wait_that_has_ended_is_not_noticed() -> None:
    noticed, closed, later = Noticed(0.01), Noticed(0.01), Noticed(0.05)
    for each in (noticed, closed, later):
        each.patience.begin()
    noticed.patience.end()
    closed.patience.close()
    await later.wait()
    assert not noticed.times_s
    assert not closed.times_s


async def test_each_wait_is_counted_from_its_own_beginning() -> None:
    noticed, between = Noticed(0.05), Noticed(0.02)
    noticed.patience.begin()
    between.patience.begin()
    await between.wait()
    noticed.patience.end()
    began_s = asyncio.get_running_loop().time()
    noticed.patience.begin()
    await noticed.wait()
    assert [time_s - began_s >= 0.05 for time_s in noticed.times_s] == [True]
