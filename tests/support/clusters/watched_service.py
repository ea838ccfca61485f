"""Runs a service with a watch over its event loop.

    python -m tests.support.clusters.watched_service FILE MODULE ARGUMENT…

A timer is due every few milliseconds. How much CPU time the loop's thread has used since the timer's last turn is how
long others had to wait; time in which the machine ran something else does not count.
The longest such time is written to the file whenever it has grown; a reader that empties the file begins anew. Below
it stands how much of it the kernel took, and where the thread was meanwhile, as another thread has seen it.
"""

import asyncio
import resource
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from ottla_core import lifecycle
from tests.faults.program import main_of

PROGRAM: Final = "tests.support.clusters.watched_service"
PERIOD_SECONDS: Final = 0.005
COLLECTING_SECONDS: Final = 0.02
"""Shorter delays are not worth writing down."""
SIGHTING_SECONDS: Final = 0.1
"""How often it is looked where a thread is that has been busy for so long."""
SIGHTINGS_MAX: Final = 5
FRAMES: Final = 6


class LoopWatch:
    """Notes the delays of the loop of the thread that makes this."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._file = file
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._former = time.thread_time()
        self._former_in_kernel = _seconds_in_kernel()
        self._sightings: list[str] = []

    def start(self) -> None:
        """Have every delay noted from now on."""
        threading.Thread(target=self._keep_looking, name="loop watch", daemon=True).start()
        self._turn()

    def _turn(self) -> None:
        now, in_kernel = time.thread_time(), _seconds_in_kernel()
        delay = now - self._former
        if delay > max(COLLECTING_SECONDS, longest_delay_seconds(self._file)):
            story = "\n".join(dict.fromkeys(self._sightings))
            self._file.write_text(f"{delay}\n{in_kernel - self._former_in_kernel:.2f} s in the kernel\n{story}")
        self._sightings.clear()
        self._former, self._former_in_kernel = time.thread_time(), in_kernel
        self._loop.call_later(PERIOD_SECONDS, self._turn)

    def _keep_looking(self) -> None:
        while True:
            try:
                time.sleep(SIGHTING_SECONDS)  # a sampling interval
            except OSError:  # a trial has set the clock, and libfaketime asks for a time that is over
                return
            if time.clock_gettime(self._clock) - self._former < SIGHTING_SECONDS:
                continue
            frame = sys._current_frames().get(self._thread)
            if frame is not None and len(self._sightings) < SIGHTINGS_MAX:
                walk = traceback.walk_stack(frame)  # the innermost first
                frames = traceback.StackSummary.extract(walk, limit=FRAMES, lookup_lines=False)
                self._sightings.append(" < ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in frames))


def _seconds_in_kernel() -> float:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_stime


def longest_delay_seconds(file: Path) -> float:
    """Return what a watch has noted since the file was emptied."""
    text = file.read_text() if file.exists() else ""
    return float(text.splitlines()[0]) if text else 0.0


def longest_delay_story(file: Path) -> str:
    """Return what was seen during that delay."""
    return "; ".join(file.read_text().splitlines()[1:]) if file.exists() else ""


def main() -> int:
    """Run the service; everything but the watch is the real program."""
    file, module = Path(sys.argv[1]), sys.argv[2]
    service_main = main_of(module)
    service = lifecycle._run

    async def run(name: str, serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        LoopWatch(asyncio.get_running_loop(), file).start()
        await service(name, serve)

    lifecycle._run = run  # type: ignore[assignment]
    sys.argv = [module, *sys.argv[3:]]
    return service_main()


if __name__ == "__main__":
    sys.exit(main())
