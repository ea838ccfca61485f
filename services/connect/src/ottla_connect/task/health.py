"""What a connector or task says of how its work goes: whether it works or waits, for what, how fast, how far behind.

The worker keeps it in the status, so any worker can tell. What it waits for is sent at once; the rest, which changes
all the time, every few seconds at most.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

REASON_CHARACTERS_MAX = 2000
RATE_INTERVAL_S = 10.0
"""A rate is that of so long, and is told as often."""


class Health:
    """Keeps it until it is sent; any thread may call its methods.

    Args:
        send: takes the document; raises nothing.
        redact: leaves secrets out of a text.
        given: returns how many records are done, None where records are not counted.
        now_s: returns the time since 1970.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        redact: Callable[[str], str],
        *,
        given: Callable[[], int | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._send = send
        self._redact = redact
        self._given = given
        self._now_s = now_s
        self._lock = threading.RLock()
        self._running = False
        self._reason = ""
        self._since_ms = 0
        self._next_try_ms: int | None = None
        self._said_by_plugin = False
        self._lag: int | None = None
        self._rate: float | None = None
        self._counted: tuple[float, int] | None = None
        self._sent: dict[str, Any] | None = None

    def runs(self, *, runs: bool) -> None:
        """Note that it runs, or pauses: then nothing is said, and nothing of before holds."""
        with self._lock:
            self._running = runs
            self._reason = ""
            self._rate = self._counted = self._sent = None

    def waits(self, reason: str, retry_in_s: float | None = None) -> None:
        """Say that the work cannot go on before something happens, and why.

        Args:
            reason: what is waited for.
            retry_in_s: when that is tried again; None if it is not known.
        """
        with self._lock:
            now_ms = round(self._now_s() * 1000)
            is_new = not self._reason
            if is_new:
                self._since_ms = now_ms
            reason = self._redact(reason)[:REASON_CHARACTERS_MAX] or "an error without a message"
            is_new |= reason != self._reason
            self._reason = reason
            self._next_try_ms = None if retry_in_s is None else now_ms + round(retry_in_s * 1000)
            if is_new:
                self._tell()

    def plugin_waits(self, reason: str | None) -> None:
        """Take what a plugin says through its context; it holds until a call that does not say so."""
        with self._lock:
            if reason is None:
                self._clear()
            else:
                self._said_by_plugin = True
                self.waits(reason)

    def begins(self) -> None:
        """Note that the plugin is called now."""
        with self._lock:
            self._said_by_plugin = False

    def works(self) -> None:
        """Note that a call of the plugin has succeeded, which it may have said to wait in."""
        with self._lock:
            if not self._said_by_plugin:
                self._clear()

    def lags(self, records: int | None) -> None:
        """Note how many records are still to be read; None if it is not known."""
        self._lag = records

    def waiting_ms(self) -> float:
        """Return how long it has been waiting, 0 if it does not."""
        with self._lock:
            return max(0.0, self._now_s() * 1000 - self._since_ms) if self._reason else 0.0

    def report(self) -> None:
        """Tell what has changed; called every few seconds."""
        with self._lock:
            given, now_s = self._given(), self._now_s()
            if given is not None:
                if self._counted is None:
                    self._counted = (now_s, given)
                elif (took_s := now_s - self._counted[0]) >= RATE_INTERVAL_S:
                    self._rate = float(f"{(given - self._counted[1]) / took_s:.2g}")
                    self._counted = (now_s, given)
            self._tell()

    def _clear(self) -> None:
        if self._reason:
            self._reason = ""
            self._tell()

    def _tell(self) -> None:
        if not self._running:
            return
        document = self._document()
        if document != self._sent:
            self._sent = document
            self._send(document)

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"state": "WAITING" if self._reason else "WORKING"}
        if self._reason:
            document |= {"reason": self._reason, "since_ms": self._since_ms, "next_try_ms": self._next_try_ms}
        if self._rate is not None:
            document["records_per_second"] = self._rate
        if self._lag is not None:
            document["lag"] = self._lag
        return document
