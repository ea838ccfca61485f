"""Tells a person who waits what for: a cluster whose controller or coordinator is being replaced takes its time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.output import note

TOLD_AFTER_S = 4.0


@contextmanager
def told_when_slow(bootstrap: str, within_s: float) -> Iterator[None]:
    """Tell once that the cluster has not answered what is waited for inside.

    Args:
        bootstrap: where the client connects.
        within_s: how long it waits in all, for the message.
    """
    message = (
        f"ottla: the cluster at {bootstrap} has not answered for {TOLD_AFTER_S:.0f} s: its controller, or the "
        f"coordinator of a group, may be away; waiting for up to {within_s:.0f} s, Ctrl-C gives up"
    )
    timer = threading.Timer(TOLD_AFTER_S, note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
