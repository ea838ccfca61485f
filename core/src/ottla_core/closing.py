"""Closing what may never close, such as a Kafka client whose own threads have locked each other out."""

from typing import Protocol


class Closable(Protocol):
    """Has a method that may wait for ever."""

    def close(self) -> object:
        """Close it."""


def close_within(closable: Closable, timeout_s: float) -> bool:
    """Close something; what hangs is left to a thread that waits for it. Return whether it is closed.

    What `close` raises is logged and counts as closed, as nothing can be done about it.
    """
    from ottla_core.background import start_thread  # noqa: PLC0415 - the supervisor has no use for what this needs

    closing = start_thread("closing", closable.close)
    closing.join(timeout_s)
    return not closing.is_alive()
