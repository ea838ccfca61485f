"""How long requests take, in the parts in which one is worked on.

==============  =====================================================================================================
queue           read from the socket, until its handling begins: others of its connection, or of the same turn of
                the event loop, come first
local           the work of this broker until there is an answer, or nothing left to do but wait
remote          waiting for others: replicas, an fsync, a group coordinator, the controller, records to fetch
response queue  answered, and waiting for the responses to what the client asked before
send            until the socket has taken the last byte
==============  =====================================================================================================

Kafka's RequestMetrics have the same parts, and one for throttling, which `quotas/` counts here.

A produce costs twelve microseconds, and to measure one costs more than one. So while an API is asked for rarely,
every request of it is measured, and otherwise one in `MEASURED_ONE_IN`, chosen by lot so that no rhythm of clients
falls in with the choice. It is counted as often as requests have come since the one that was measured before, so that
counts and sums are those of all requests, but for chance.
"""

import time
from random import random
from typing import Final

from ottla_core.observe.histogram import TimeHistogram

MEASURED_ONE_IN: Final = 64
RARE_NS: Final = 10_000_000
"""A request that comes this long after the one that was measured before does not choose by lot which one is next."""
LOOP_CLOCK_NS: Final = 1_000_000
"""The event loop's clock counts whole milliseconds."""
NEVER: Final = 2**63
PARTS: Final = ("queue", "local", "remote", "response_queue", "send")

now_ns = time.monotonic_ns


class ApiTimes:
    """How often an API was asked for, and how long that took.

    Attributes:
        count: requests so far.
        due: at which count the next one is measured.
        whole: the time from reading a request to sending its response.
        parts: what of it went where, in the order of `PARTS`.
    """

    __slots__ = ("_counted", "_measured_ns", "count", "due", "parts", "whole")

    def __init__(self, *, are_shown: bool) -> None:
        self.count = 0
        self.due = 1 if are_shown else NEVER
        self.whole = TimeHistogram()
        self.parts = tuple(TimeHistogram() for _ in PARTS)
        self._counted = 0
        self._measured_ns = 0

    def measure(self) -> "MeasuredRequest":
        """Return what measures the request that is being counted, and choose the one to be measured next."""
        began_ns = now_ns()
        weight, self._counted = self.count - self._counted, self.count
        is_rare, self._measured_ns = began_ns - self._measured_ns > RARE_NS, began_ns
        # By lot from 1 to twice as many, less one: the mean is `MEASURED_ONE_IN`.
        self.due = self.count + (1 if is_rare else 1 + int(random() * (2 * MEASURED_ONE_IN - 1)))  # noqa: S311
        return MeasuredRequest(self, weight, began_ns)


class MeasuredRequest:
    """One request that is measured; its moments are noted one after the other, in nanoseconds."""

    __slots__ = ("_answered_ns", "_api", "_began_ns", "_handled_ns", "_queued_ns", "_read_ns", "_weight")

    def __init__(self, api: ApiTimes, weight: int, began_ns: int) -> None:
        self._api = api
        self._weight = weight
        self._read_ns = self._began_ns = began_ns
        self._handled_ns = self._answered_ns = self._queued_ns = 0

    def note_read(self, read_ns: int, turn_s: float) -> None:
        """Note when the request was read, and when the turn of the event loop began in which it was.

        A wait in that turn is known to a millisecond, so one below two is none: requests that wait for nobody would
        otherwise show a millisecond every now and then.
        """
        turn_ns = round(turn_s * 1000) * LOOP_CLOCK_NS
        waited_ns = read_ns - turn_ns
        self._read_ns = min(self._began_ns, turn_ns if waited_ns >= 2 * LOOP_CLOCK_NS else read_ns)

    def note_handled(self) -> None:
        """Note that the rest is to wait for others."""
        self._handled_ns = now_ns()

    def note_answered(self) -> None:
        """Note that there is an answer."""
        self._answered_ns = now_ns()
        if not self._handled_ns:
            self._handled_ns = self._answered_ns

    def note_queued(self) -> None:
        """Note that the response goes next into the socket."""
        self._queued_ns = now_ns()

    def note_sent(self) -> None:
        """Note that the socket has taken it, or that there is nothing to send, and count the request."""
        queued_ns, sent_ns = self._queued_ns, now_ns()
        weight = self._weight
        began, handled, answered = self._began_ns, self._handled_ns, self._answered_ns
        queue, local, remote, response_queue, send = self._api.parts
        queue.add_several(began - self._read_ns, weight)
        local.add_several(handled - began, weight)
        remote.add_several(answered - handled, weight)
        response_queue.add_several(queued_ns - answered, weight)
        send.add_several(sent_ns - queued_ns, weight)
        self._api.whole.add_several(sent_ns - self._read_ns, weight)
