"""Runs a connector: starts it, tells the worker what its tasks shall do, and again whenever that changes."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla_connect.task.control import Control, WantedState
from ottla_connect.task.health import Health
from ottla_sdk import Connector, FatalError, RetriableError

CHECK_INTERVAL_S = 60.0
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0

log = logging.getLogger(__name__)


class TooManyTasks(FatalError):
    """A connector wants more tasks than `tasks.max` allows."""


class ConnectorRunner:
    """Runs one connector, from start to stop.

    Args:
        make: returns the connector, configured and with its context; called again after each pause.
        control: says what the worker wants.
        tasks_max: most tasks it may have.
        health: is told what is waited for.
        on_task_configs: called with what the tasks shall do.
        on_running: called when it has started.
        on_paused: called when it has stopped to pause.
    """

    def __init__(
        self,
        *,
        make: Callable[[], Connector[Any]],
        control: Control,
        tasks_max: int,
        health: Health,
        on_task_configs: Callable[[list[Mapping[str, str]]], None],
        on_running: Callable[[], None],
        on_paused: Callable[[], None],
    ) -> None:
        self._make = make
        self._control = control
        self._tasks_max = tasks_max
        self._health = health
        self._on_task_configs = on_task_configs
        self._on_running = on_running
        self._on_paused = on_paused
        self._reconfigure = False
        self._failure: Exception | None = None

    def request_reconfiguration(self) -> None:
        """Ask for the tasks' settings again; any thread may."""
        self._reconfigure = True
        self._control.notify()

    def fail(self, error: Exception) -> None:
        """End with this error; any thread may."""
        self._failure = error
        self._control.notify()

    def run(self) -> None:
        """Work until the connector is to stop; raises what it fails with."""
        while (wanted := self._control.wanted_state()) is not WantedState.STOPPING:
            if wanted is WantedState.PAUSED:
                self._on_paused()
                while self._control.wanted_state() is WantedState.PAUSED:
                    self._control.await_change(CHECK_INTERVAL_S)
            else:
                self._run_until_changed()

    def _run_until_changed(self) -> None:
        connector = self._make()
        try:
            connector.start()
            self._on_running()
            self._reconfigure = True
            while self._control.wanted_state() is WantedState.WORKING:
                if self._failure is not None:
                    raise self._failure
                if self._reconfigure:
                    self._reconfigure = False
                    self._configure_tasks(connector)
                else:
                    self._control.await_change(CHECK_INTERVAL_S)
        finally:
            try:
                connector.stop()
            except Exception:
                log.exception("the connector could not stop in order")

    def _configure_tasks(self, connector: Connector[Any]) -> None:
        pause_s = RETRY_FIRST_S
        while True:
            self._health.begins()
            try:
                configs = list(connector.task_configs(self._tasks_max))
                break
            except RetriableError as error:
                log.warning("cannot tell what tasks there are to be, tries again in %.0f s: %s", pause_s, error)
                self._health.waits(str(error), pause_s)
            if self._control.wait(pause_s):
                return
            pause_s = min(pause_s * 2, RETRY_MAX_S)
        self._health.works()
        if len(configs) > self._tasks_max:
            raise TooManyTasks(
                f"the connector wants {len(configs)} tasks, but its setting tasks.max is {self._tasks_max}"
            )
        self._on_task_configs(configs)
