"""A follower's link to one leader: connected anew after each loss, and given up where an answer is due and late."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from ottla_broker.replication.fetch_connection import LeaderConnection
from ottla_broker.replication.fetch_plan import FIRST_PAUSE_MS
from ottla_broker.replication.fetch_settings import FetchSettings, LeaderAddress

STALL_CHECKS_PER_TIMEOUT: Final = 10
ANSWER_MARGIN_MS: Final = 2000
"""How much later than `replica.fetch.wait.max.ms` an answer may begin to arrive before the connection is given up."""

logger = structlog.get_logger("replication")


class LeaderLink:
    """Keeps one connection to a leader until it is closed.

    Attributes:
        connection: the present one; None while there is none.
        is_closed: whether no other one is wanted.

    Args:
        leader: whom to connect to.
        settings: pauses and timeouts.
        open_connection: connects.
        on_connected: told when there is a connection.
        on_disconnected: told when one that there was is gone.
    """

    def __init__(
        self,
        leader: LeaderAddress,
        settings: FetchSettings,
        open_connection: Callable[[], Awaitable[LeaderConnection]],
        on_connected: Callable[[], None],
        on_disconnected: Callable[[], None],
    ) -> None:
        self.connection: LeaderConnection | None = None
        self.is_closed = False
        self._leader = leader
        self._settings = settings
        self._open_connection = open_connection
        self._on_connected = on_connected
        self._on_disconnected = on_disconnected
        self._loop = asyncio.get_running_loop()
        self._lost = asyncio.Event()
        self._is_reachable = True
        self._failures = 0

    async def keep(self) -> None:
        """Connect, and connect again whenever the connection is lost."""
        self.drop("a fetcher starts anew")
        while not self.is_closed:
            if self._failures:
                pause_ms = min(FIRST_PAUSE_MS << min(self._failures, 16), self._settings.backoff_ms)
                await asyncio.sleep(pause_ms / 1000)
            self._lost.clear()
            try:
                async with asyncio.timeout(self._patience_s()):
                    self.connection = await self._open_connection()
            except (OSError, TimeoutError, UnicodeError) as error:  # the last: a host name that cannot be one
                self._report_lost(str(error) or "it does not answer")
                continue
            self._on_connected()
            await self._watch()
            self._on_disconnected()

    def answered(self) -> None:
        """Note that the leader answers fetches."""
        self._failures = 0
        if not self._is_reachable:
            self._is_reachable = True
            logger.info("fetching from a leader again", leader=self._leader.broker_id)

    def drop(self, reason: str) -> None:
        """End the present connection, if there is one, and connect again, later."""
        if self.connection is not None and not self.connection.is_closed:
            self.connection.close(reason)
            self.lost(reason)

    def lost(self, reason: str) -> None:
        """Connect again, later."""
        self.connection = None
        self._report_lost(reason)
        self._lost.set()

    def close(self) -> None:
        """End the present connection, and want no other one."""
        self.is_closed = True
        if self.connection is not None:
            self.connection.close()

    def _patience_s(self) -> float:
        """Return how long to wait for a sign of life.

        Not long at first: after a network has failed and is back, an old connection may take as long again to notice,
        and a new one does not. Longer with each failure, since a leader may just be slow.
        """
        settings = self._settings
        first_ms = settings.limits.wait_ms_max + ANSWER_MARGIN_MS
        return min(settings.socket_timeout_ms, first_ms << min(self._failures, 16)) / 1000

    async def _watch(self) -> None:
        """Return when the connection is lost or its login expires; end one on which an answer is due in vain."""
        while not self._lost.is_set():
            timeout_s = self._patience_s()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s / STALL_CHECKS_PER_TIMEOUT):
                    await self._lost.wait()
            connection = self.connection
            if connection is not None and self._loop.time() > connection.usable_until:
                connection.close("its login is about to expire")
                self.connection = None
                return  # and connect anew at once, as nothing has failed
            if connection is not None and connection.awaits_answer:
                silent_s = self._loop.time() - connection.last_active
                if silent_s > timeout_s:
                    self.drop(f"no answer for {silent_s:.0f} s")

    def _report_lost(self, reason: str) -> None:
        self._failures += 1
        if self._is_reachable and not self.is_closed:
            self._is_reachable = False
            logger.warning("cannot fetch from a leader; trying again", leader=self._leader.broker_id, reason=reason)
