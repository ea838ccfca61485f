"""Ends what cannot be held still as soon as its process's lease has lapsed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla_connect.task.control import Control
from ottla_core.background import start_thread

EXIT_UNLEASED = 5
LEASE_LOOK_INTERVAL_S = 0.2
LEASE_LOOK_INTERVAL_MIN_S = 0.005


@contextmanager
def ended_with_the_lease(control: Control, end: Callable[[], object]) -> Iterator[None]:
    """Have a thread call `end` when there is no lease any more, at that very time if the process runs then."""
    done = threading.Event()

    def look() -> None:
        while True:
            if not control.leased:
                end()
            # The lease's clock goes on while the machine is suspended, the one that is waited by does not.
            if done.wait(min(max(control.lease_left_s, LEASE_LOOK_INTERVAL_MIN_S), LEASE_LOOK_INTERVAL_S)):
                return

    watcher = start_thread("lease", look)
    try:
        yield
    finally:
        done.set()
        watcher.join()
