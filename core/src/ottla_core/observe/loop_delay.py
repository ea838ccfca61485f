"""How late the event loop comes to what is due: what every request of the process waits for at least.

A timer is set again and again; the time between when it was due and when it ran is the delay. It is a sample, so a
loop that is blocked once is noticed when a timer is due meanwhile, and one that is busy all the time always is.
"""

import asyncio
from typing import Final

from ottla_core.observe.histogram import TimeHistogram

INTERVAL_S: Final = 0.25


class LoopDelay:
    """Measures the delay of the running event loop.

    Attributes:
        times: the delays so far.
    """

    def __init__(self) -> None:
        self.times = TimeHistogram()

    async def measure(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self.times.add_s(loop.time() - due_s)
