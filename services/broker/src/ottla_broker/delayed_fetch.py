"""A fetch that waits until there is enough to read (`fetch.min.bytes`) or its time is up (`fetch.max.wait.ms`).

While it waits it costs one timer, and it is told what happens to the partitions of its session. Each append adds its
bytes; when they suffice and may be read, or a partition's role changes, the logs are looked at. If that is not enough
after all, it goes on waiting. Several events in one turn of the event loop are looked at together.

A follower does not only wait for records: it has to learn of the high watermark too. That alone is worth an answer
only after a moment, in which the next records mostly come and take it along.

Responses leave in the order of requests, so a fetch that waits would hold back what its client asks after it on the
same connection. It is answered early instead (`hurry`). A client that looks for its group's coordinator that way
(librdkafka does) would otherwise lose half a second with each look, and in the end its place in the group.
"""

import asyncio
from typing import Protocol

from ottla_broker.fetch_reading import Reading
from ottla_broker.fetch_sessions import NO_SESSION, FetchSession
from ottla_broker.outcome import Delayed, Parts
from ottla_broker.partition import Partition
from ottla_core.errors import KafkaError

HIGH_WATERMARK_DELAY_S = 0.01
"""After what time a follower is told a high watermark for which no records have come along."""


class Fetch(Protocol):
    """What is to be done for a fetch."""

    def look(self) -> Reading:
        """Look at what the logs have now."""

    def answer(self, reading: Reading) -> Parts:
        """Return the response."""

    def refuse(self, error: KafkaError) -> Parts:
        """Return the response that tells of an error of the whole request."""


class DelayedFetch:
    """A waiting fetch; await `answered`.

    Args:
        fetch: what is to be done in the end.
        session: whose partitions it waits for.
        reading: what the first look has found.
        min_bytes: how many bytes there must be.
        max_wait_s: after how many seconds it is answered with whatever there is.
        delayed: the connection's, which it belongs to while it waits.
    """

    __slots__ = (
        "_connection_delayed", "_fetch", "_has_hidden_records", "_is_follower", "_isolation", "_loop", "_min_bytes",
        "_missing_bytes", "_news_timer", "_session", "_timer", "_triggered", "answered",
    )  # fmt: skip

    def __init__(
        self,
        fetch: Fetch,
        session: FetchSession,
        reading: Reading,
        *,
        min_bytes: int,
        max_wait_s: float,
        delayed: set[Delayed],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fetch = fetch
        self._session = session
        self._is_follower = session.follower is not None
        self._isolation = reading.isolation
        self._min_bytes = min_bytes
        self._connection_delayed = delayed
        self._triggered = False
        self._news_timer: asyncio.TimerHandle | None = None
        self.answered: asyncio.Future[Parts | None] = self._loop.create_future()
        self.answered.add_done_callback(self._on_done)
        self._timer = self._loop.call_later(max_wait_s, self.hurry)
        delayed.add(self)
        session.waiting = self
        self._wait_on(reading)

    def _wait_on(self, reading: Reading) -> None:
        """Wait for what a look has not found."""
        self._missing_bytes = self._min_bytes - reading.size_bytes
        self._has_hidden_records = reading.has_hidden_records
        for found in reading.found:
            if found.partition is not None:
                found.wanted.watch(found.partition, self._session)
        if self._is_follower and reading.found:
            self._answer_soon()

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        """Count what was appended; a consumer may see it when the high watermark has passed it."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and partition.end_for(self._isolation) == partition.log.log_end_offset:
            self._trigger()

    def on_high_watermark(self, partition: Partition) -> None:
        """Look at what a reader may see now; on a follower nobody counts what is appended."""
        if self._is_follower:
            self._answer_soon()
        elif self._missing_bytes <= 0 or self._has_hidden_records or not partition.leads:
            self._trigger()

    def on_change(self) -> None:
        """Look what it means for the reader."""
        self._trigger()

    def hurry(self) -> None:
        """Answer with what there is."""
        if not self.answered.done():
            self._complete(at_once=True)

    def refuse(self, error: KafkaError) -> None:
        """Answer with an error."""
        if not self.answered.done():
            self._stop()
            self.answered.set_result(self._fetch.refuse(error))

    def _trigger(self) -> None:
        if not self._triggered:
            self._triggered = True
            self._loop.call_soon(self._look_again)

    def _answer_soon(self) -> None:
        if self._news_timer is None:
            self._news_timer = self._loop.call_later(HIGH_WATERMARK_DELAY_S, self.hurry)

    def _look_again(self) -> None:
        self._triggered = False
        if not self.answered.done():
            self._complete(at_once=False)

    def _complete(self, *, at_once: bool) -> None:
        """Answer if there is enough now, or with whatever there is."""
        try:
            reading = self._fetch.look()
            if not (at_once or reading.is_urgent or reading.size_bytes >= self._min_bytes):
                self._wait_on(reading)
                return
            self.answered.set_result(self._fetch.answer(reading))
        except Exception as error:  # noqa: BLE001  the connection reports it
            self.answered.set_exception(error)
        self._stop()

    def _on_done(self, _: object) -> None:
        """Stop waiting when the connection was closed and the future cancelled."""
        self._stop()

    def _stop(self) -> None:
        session = self._session
        if session.waiting is not self:
            return
        session.waiting = None
        self._timer.cancel()
        if self._news_timer is not None:
            self._news_timer.cancel()
        self._connection_delayed.discard(self)
        if session.id == NO_SESSION:
            session.unwatch_all()
