"""A blocked event loop shows in its delay."""

import asyncio
import time

from ottla_core.observe.loop_delay import INTERVAL_S, LoopDelay
from tests.support.eventually_async import eventually_async

BLOCKED_S = 2 * INTERVAL_S


async def test_a_loop_that_was_blocked_when_a_timer_was_due_shows_its_delay() -> None:
    delay = LoopDelay()
    measuring = asyncio.create_task(delay.measure())
    await asyncio.sleep(0)  # the timer is set
    time.sleep(BLOCKED_S)  # what blocks the loop
    await eventually_async(lambda: delay.times.reading().count > 0, "a delay is measured")
    measuring.cancel()
    assert delay.times.reading().total >= BLOCKED_S - INTERVAL_S - 0.01
