"""What is done about consumers that hang, as librdkafka's can since its version 2.10.

Two of a consumer's own threads lock each other out for good when a broker leaves the cluster's metadata while the
consumer asks it where a leader epoch ends (librdkafka's issue 5476); brokers that restart are enough. From then on
`poll` gives nothing and may not return, `close`, `commit`, `seek` and `list_topics` never return, and what changes
the subscription or the assignment, `pause` and `resume` too, does not even let other Python threads run. So a
consumer that has come no further is asked for nothing any more: a thread of its own waits for its end, perhaps for
ever, and another consumer takes its place. Calls that may freeze the whole process end it instead
(`ended_if_frozen`); whoever started it, Connect's worker or Spark, does the work again in another.
"""

import faulthandler
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

STATISTICS_INTERVAL_MS = 30_000
"""Not shorter, as statistics of many partitions are long, and pile up while a task does not poll."""
SILENT_TICKS_MAX = 18
FROZEN_MAX_S = 60.0
STANDARD_ERROR = 2

log = logging.getLogger(__name__)


class Closable(Protocol):
    """Has a method that may wait for ever."""

    def close(self) -> object:
        """Close it."""


def close_within(closable: Closable, timeout_s: float) -> bool:
    """Close something; what hangs is left to a thread that waits for it. Return whether it is closed.

    What `close` raises is logged and counts as closed, as nothing can be done about it.
    """

    def close() -> None:
        try:
            closable.close()
        except Exception:
            log.exception("a Kafka client could not be closed")

    closing = threading.Thread(target=close, name="closing a Kafka client", daemon=True)
    closing.start()
    closing.join(timeout_s)
    return not closing.is_alive()


@contextmanager
def ended_if_frozen(timeout_s: float = FROZEN_MAX_S) -> Iterator[None]:
    """End this process if what is done here does not end, even if no Python thread can run meanwhile.

    The traces of all threads are written to standard error then, and the exit code is 1. Not to be nested.
    """
    faulthandler.dump_traceback_later(timeout_s, file=STANDARD_ERROR, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class ConsumerWatch:
    """Finds out that a consumer hangs: its main thread should say something every 30 seconds, if only statistics.

    One thread uses the consumer, each time within `with watch:`; another calls `tick` every few seconds. Ticks are
    counted, not seconds, as a process that was paused has not been waiting. A tick before which the consumer was not
    used counts neither way.
    """

    def __init__(self) -> None:
        self._uses = 0
        self._uses_at_tick = 0
        self._in_use = False
        self._heard = False
        self._silent_ticks = 0

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the consumer must be made with."""
        return {"statistics.interval.ms": STATISTICS_INTERVAL_MS, "stats_cb": self._on_statistics}

    def __enter__(self) -> None:
        """Begin to use the consumer."""
        self._uses += 1
        self._in_use = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The consumer's method has returned."""
        self._in_use = False

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """While the consumer calls back: what is done meanwhile is not the consumer's silence."""
        in_use, self._in_use = self._in_use, False
        try:
            yield
        finally:
            self._in_use = in_use

    def heard(self) -> None:
        """Note that the consumer has given something."""
        self._heard = True

    def tick(self) -> bool:
        """Return whether the consumer hangs: it was used all the time lately, and has said nothing."""
        was_used = self._in_use or self._uses != self._uses_at_tick
        self._uses_at_tick = self._uses
        if self._heard:
            self._heard = False
            self._silent_ticks = 0
        elif was_used:
            self._silent_ticks += 1
        return self._silent_ticks >= SILENT_TICKS_MAX

    def _on_statistics(self, statistics: str) -> None:
        del statistics
        self._heard = True
