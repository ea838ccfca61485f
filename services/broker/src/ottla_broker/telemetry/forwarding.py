"""Passes on what clients have pushed to a receiver of OTLP, in a thread of its own, behind a bounded queue.

What waits together is sent together. What the receiver does not take is lost and counted, as is what finds the queue
full: clients push values of now, and a later push says more than a late one.
"""

import threading
from collections import Counter, deque
from typing import Final

import structlog

from ottla_core.background import start_thread
from ottla_core.config import MetricsSettings
from ottla_core.observe.otlp_post import OtlpEndpoint

QUEUED_BYTES_MAX: Final = 16 * 1024 * 1024
REQUEST_BYTES_MAX: Final = 1024 * 1024
"""How much is sent together; a larger push goes alone."""
OVERHEAD_BYTES: Final = 1024
"""What a waiting push counts beside its bytes."""
SENT: Final = "sent"
UNDELIVERED: Final = "undelivered"
DROPPED: Final = "dropped"

logger = structlog.get_logger("client metrics")


class ClientMetricsForwarding:
    """Passes pushes on until it is closed.

    Args:
        settings: with an endpoint.
        pushes: counts pushes by their outcome: `SENT`, `UNDELIVERED` or `DROPPED`.
        queued_bytes_max: of pushes that wait, each with its overhead.
    """

    def __init__(
        self, settings: MetricsSettings, pushes: Counter[str], *, queued_bytes_max: int = QUEUED_BYTES_MAX
    ) -> None:
        self._endpoint = OtlpEndpoint(settings)
        self._pushes = pushes
        self._queued_bytes_max = queued_bytes_max
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._reason = ""
        self._thread = start_thread("client metrics", self._send_until_closed)

    def offer(self, push: bytes) -> None:
        """Have a push sent, if there is room for it."""
        with self._changed:
            if self._queued_bytes + len(push) + OVERHEAD_BYTES > self._queued_bytes_max:
                self._pushes[DROPPED] += 1
                return
            self._queue.append(push)
            self._queued_bytes += len(push) + OVERHEAD_BYTES
            self._changed.notify()

    def close(self) -> None:
        """Send no more; what is under way is not waited for."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _send_until_closed(self) -> None:
        while pushes := self._next():
            reason = self._endpoint.post(b"".join(pushes))
            with self._changed:  # which guards the counts as well
                self._pushes[UNDELIVERED if reason else SENT] += len(pushes)
            if reason != self._reason:
                self._reason = reason
                if reason:
                    logger.warning("metrics of clients cannot be sent", endpoint=self._endpoint.url, reason=reason)
                else:
                    logger.info("metrics of clients are sent again", endpoint=self._endpoint.url)

    def _next(self) -> list[bytes]:
        """Return what is to be sent together, or nothing when it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            if self._is_closed:
                return []
            taken = [self._queue.popleft()]
            size_bytes = len(taken[0])
            while self._queue and size_bytes + len(self._queue[0]) <= REQUEST_BYTES_MAX:
                taken.append(self._queue.popleft())
                size_bytes += len(taken[-1])
            self._queued_bytes -= size_bytes + OVERHEAD_BYTES * len(taken)
            return taken
