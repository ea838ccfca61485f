"""The watch over a service's event loop sees who holds it up."""

import asyncio
import time
from pathlib import Path

from tests.support.clusters.watched_service import LoopWatch, longest_delay_seconds, longest_delay_story
from tests.support.eventually_async import eventually_async

BUSY_SECONDS = 0.4


def keep_busy() -> None:
    until = time.thread_time() + BUSY_SECONDS
    while time.thread_time() < until:
        pass


async def test_a_delay_is_noted_with_what_the_thread_did(tmp_path: Path) -> None:
    file = tmp_path / "loop-delay"
    loop = asyncio.get_running_loop()
    LoopWatch(loop, file).start()
    loop.call_soon(keep_busy)
    await eventually_async(lambda: longest_delay_seconds(file) >= BUSY_SECONDS, "the delay is noted")
    story = longest_delay_story(file)
    assert "s in the kernel; keep_busy (" in story
    file.write_text("")
    assert (longest_delay_seconds(file), longest_delay_story(file)) == (0.0, "")
