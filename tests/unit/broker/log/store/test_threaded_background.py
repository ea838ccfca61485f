"""Whoever waits for work in a thread hears of its end, however it ends."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla_broker.log.store.threaded_background import ThreadedBackground
from ottla_core.background import failures


def succeed() -> None:
    pass


def refuse() -> None:
    raise OSError("no room")


def fail() -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize(
    ("work", "told", "counted"),
    [(succeed, "it is done", 0), (refuse, "no room", 0), (fail, "it failed unexpectedly: RuntimeError('a bug')", 1)],
)
async def test_the_end_of_work_is_told_whatever_it_raises(work: Callable[[], None], told: str, counted: int) -> None:
    loop = asyncio.get_running_loop()
    before = failures["background work of a log"]
    with ThreadPoolExecutor(1) as executor:
        background = ThreadedBackground(loop, executor)
        end: asyncio.Future[str] = loop.create_future()
        background.submit(
            work,
            then=lambda: end.set_result("it is done"),
            failed=lambda error: end.set_result(error.strerror or str(error)),
        )
        async with asyncio.timeout(10):
            assert await end == told
        await background.close()
    assert failures["background work of a log"] - before == counted
