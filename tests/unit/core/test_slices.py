"""Long work in slices: others run in between, and what never waits needs no task."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from ottla_core import slices
from ottla_core.slices import in_slices, rest, started


def slow_items(count: int) -> Iterator[int]:
    for number in range(count):
        time.sleep(slices.SLICE_SECONDS * 1.1)  # stands for work: each item uses up a slice
        yield number


async def test_others_run_between_two_slices() -> None:
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    assert await in_slices(slow_items(5)) == (0, 1, 2, 3, 4)
    ticking.cancel()
    assert turns >= 5


async def test_of_several_works_one_goes_on_in_a_turn_of_the_loop() -> None:
    turn = 0
    gone_on: list[int] = []

    async def work() -> None:
        await rest()
        gone_on.append(turn)

    working = [asyncio.create_task(work()) for _ in range(3)]
    while not all(task.done() for task in working):
        await asyncio.sleep(0)
        turn += 1
    assert len(set(gone_on)) == len(gone_on) == 3


async def test_what_was_cancelled_while_it_rested_takes_no_turn() -> None:
    first, second = asyncio.create_task(rest()), asyncio.create_task(rest())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()


async def test_work_that_never_waits_is_done_at_once() -> None:
    async def work() -> int:
        return sum(await in_slices(iter((1, 2, 3))))

    assert started(work()) == 6


async def test_work_that_waits_goes_on_when_it_is_awaited() -> None:
    async def work() -> int:
        await rest()
        await asyncio.sleep(0)
        return 7

    outcome = started(work())
    assert not isinstance(outcome, int)
    assert await asyncio.ensure_future(outcome) == 7


async def test_work_that_waits_can_be_cancelled() -> None:
    cleaned_up = False

    async def work() -> None:
        nonlocal cleaned_up
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up = True

    outcome = started(work())
    assert outcome is not None
    task = asyncio.ensure_future(outcome)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned_up


async def test_what_fails_before_it_waits_fails_at_once() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        started(work())
