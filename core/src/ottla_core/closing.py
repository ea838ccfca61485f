"""Closing what may never close, such as a Kafka client whose own threads have locked each other out."""

import threading
from typing import Protocol


class Closable(Protocol):
    """Has a method that may wait for ever."""

    def close(self) -> object:
        """Close it."""


def close_within(closable: Closable, timeout_s: float) -> bool:
    """Close something; what hangs is left to a thread that waits for it. Return whether it is closed.

    What `close` raises is printed and counts as closed, as nothing can be done about it.
    """
    closing = threading.Thread(target=closable.close, name="closing", daemon=True)
    closing.start()
    closing.join(timeout_s)
    return not closing.is_alive()
