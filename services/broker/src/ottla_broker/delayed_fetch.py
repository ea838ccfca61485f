"""A fetch that waits until enough has been appended (`fetch.min.bytes`) or its time is up (`fetch.max.wait.ms`).

While it waits it costs one timer and one entry per partition. Each append adds its bytes; only when they suffice,
or a partition's role changes, is the log read. Several appends in one turn of the event loop are answered together.

Responses leave in the order of requests, so a fetch that waits would hold back what its client asks after it on the
same connection. It is answered early instead (`hurry`). A client that looks for its group's coordinator that way
(librdkafka does) would otherwise lose half a second with each look, and in the end its place in the group.
"""

import asyncio
from collections.abc import Callable, Collection

from ottla_broker.connection import Delayed, Parts
from ottla_broker.partition import Partition


class DelayedFetch:
    """A waiting fetch; await `answered`.

    Args:
        partitions: the partitions it waits for.
        missing_bytes: how many bytes must be appended until it is answered.
        max_wait_s: after how many seconds it is answered with whatever there is.
        delayed: the connection's, which it belongs to while it waits.
        answer: reads the log and encodes the response.
    """

    __slots__ = ("_answer", "_delayed", "_loop", "_missing_bytes", "_partitions", "_timer", "_triggered", "answered")

    def __init__(
        self,
        partitions: Collection[Partition],
        missing_bytes: int,
        max_wait_s: float,
        delayed: set[Delayed],
        answer: Callable[[], Parts],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._answer = answer
        self._delayed = delayed
        delayed.add(self)
        self._triggered = False
        self.answered: asyncio.Future[Parts | None] = self._loop.create_future()
        self.answered.add_done_callback(self._forget)
        self._timer = self._loop.call_later(max_wait_s, self._complete)
        for partition in partitions:
            partition.call_on_append(self._on_append)

    def _on_append(self, size: int) -> None:
        self._missing_bytes -= size
        if not self._triggered and (self._missing_bytes <= 0 or size == 0):
            self._triggered = True
            self._loop.call_soon(self._complete)

    def hurry(self) -> None:
        """Answer with what there is."""
        self._complete()

    def _complete(self) -> None:
        if self.answered.done():
            return
        try:
            self.answered.set_result(self._answer())
        except Exception as error:  # noqa: BLE001  the connection reports it
            self.answered.set_exception(error)

    def _forget(self, _: object) -> None:
        """Stop waiting, also when the connection was closed and the future cancelled."""
        self._timer.cancel()
        self._delayed.discard(self)
        for partition in self._partitions:
            partition.no_longer_call(self._on_append)
