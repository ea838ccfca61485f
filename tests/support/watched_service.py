"""Runs a service with a watch over its event loop: `python -m tests.support.watched_service FILE MODULE ARGUMENT…`.

A timer is due every few milliseconds. How much CPU time the loop's thread has used since the timer's last turn is how
long others had to wait; time in which the machine ran something else does not count.
The longest such time is written to the file whenever it has grown; a reader that empties the file begins anew.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from ottla_core import lifecycle
from tests.faults.program import main_of

PROGRAM: Final = "tests.support.watched_service"
PERIOD_SECONDS: Final = 0.005
COLLECTING_SECONDS: Final = 0.02
"""Shorter delays are not worth writing down."""


def watch(loop: asyncio.AbstractEventLoop, file: Path) -> None:
    """Have every delay of the loop noted from now on."""
    former = time.thread_time()

    def look() -> None:
        nonlocal former
        now = time.thread_time()
        delay = now - former
        if delay > max(COLLECTING_SECONDS, longest_delay_seconds(file)):
            file.write_text(str(delay))
        former = time.thread_time()
        loop.call_later(PERIOD_SECONDS, look)

    look()


def longest_delay_seconds(file: Path) -> float:
    """Return what a watch has noted since the file was emptied."""
    text = file.read_text() if file.exists() else ""
    return float(text) if text else 0.0


def main() -> int:
    """Run the service; everything but the watch is the real program."""
    file, module = Path(sys.argv[1]), sys.argv[2]
    service_main = main_of(module)
    service = lifecycle._run

    async def run(name: str, serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        watch(asyncio.get_running_loop(), file)
        await service(name, serve)

    lifecycle._run = run  # type: ignore[assignment]
    sys.argv = [module, *sys.argv[3:]]
    return service_main()


if __name__ == "__main__":
    sys.exit(main())
