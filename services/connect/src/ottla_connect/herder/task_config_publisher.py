"""Brings what connectors want their tasks to do into the cluster's configuration.

Only the leading worker writes configurations, so others send theirs to it. A connector's latest wish counts; it is
repeated, with pauses, until it is stored or overtaken, or the connector runs no more as it did when it said so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import structlog

from ottla_core.background import start_recurring
from ottla_core.rest.errors import Elsewhere, RequestError

PAUSE_FIRST_S = 0.25
PAUSE_MAX_S = 10.0

TaskSettings = Sequence[Mapping[str, str]]

log = structlog.get_logger("task configs")


class TaskConfigPublisher:
    """Publishes the task settings of the connectors that this worker runs.

    Args:
        store: stores them here, if they are still wanted then; raises `Elsewhere` where another worker leads.
        send: sends them to the leader at this URL.
    """

    def __init__(
        self,
        *,
        store: Callable[[str, TaskSettings, Callable[[], bool]], Awaitable[None]],
        send: Callable[[str, str, TaskSettings], Awaitable[None]],
    ) -> None:
        self._store = store
        self._send = send
        self._publishing: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, TaskSettings] = {}
        self._is_wanted: dict[str, Callable[[], bool]] = {}

    def publish(self, connector: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
        """Publish these settings, instead of others that are under way.

        Args:
            connector: whose tasks.
            configs: their settings.
            is_wanted: whether they are still what the connector wants; asked before each try.
        """
        if self._under_way.get(connector) == configs and not self._publishing[connector].done():
            # Who said so before may run no more: the pause before its next try would end in giving up.
            self._is_wanted[connector] = is_wanted
            return
        self.forget(connector)
        task = start_recurring(
            "publishing of task settings", partial(self._publish, connector, configs), connector=connector
        )
        self._publishing[connector] = task
        self._under_way[connector] = configs
        self._is_wanted[connector] = is_wanted

    def forget(self, connector: str) -> None:
        """Give up what is under way for a connector."""
        self._under_way.pop(connector, None)
        self._is_wanted.pop(connector, None)
        if (task := self._publishing.pop(connector, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Give up all that is under way."""
        tasks = list(self._publishing.values())
        self._publishing.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _publish(self, connector: str, configs: TaskSettings) -> None:
        def is_wanted() -> bool:
            return self._is_wanted[connector]()  # as who wants it now says

        pause_s = PAUSE_FIRST_S
        while is_wanted():
            try:
                await self._once(connector, configs, is_wanted)
            except (RequestError, OSError) as error:
                log.info("task settings are not stored yet", connector=connector, reason=str(error))
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _once(self, connector: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
        try:
            await self._store(connector, configs, is_wanted)
        except Elsewhere as elsewhere:
            await self._send(elsewhere.url, connector, configs)
