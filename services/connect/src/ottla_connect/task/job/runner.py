"""Runs a job task: starts it, watches it, and stops it.

A job cannot be held still when the task's lease lapses, as another worker may have the task by then: its process ends
at once, and takes with it what the job has started. The worker, if it still has the task, starts it again.
"""

import logging
from collections.abc import Callable
from typing import Any, NoReturn

from ottla_connect.task.control import Control, WantedState
from ottla_connect.task.lease_watch import ended_with_the_lease
from ottla_sdk import JobTask

RESTING_WAIT_S = 60.0

log = logging.getLogger(__name__)


class JobRunner:
    """Runs one job task.

    Args:
        make: returns the task, configured and with its context; called again after each pause.
        control: says when to work.
        on_running: called when the task has started, and when it goes on after a pause.
        on_paused: called when it has stopped to pause.
        end: ends the process at once, with all that belongs to it; does not return.
    """

    def __init__(
        self,
        *,
        make: Callable[[], JobTask[Any]],
        control: Control,
        on_running: Callable[[], None],
        on_paused: Callable[[], None],
        end: Callable[[], NoReturn],
    ) -> None:
        self._make = make
        self._control = control
        self._on_running = on_running
        self._on_paused = on_paused
        self._end = end

    def run(self) -> None:
        """Work until the task is to stop; raises what it fails with."""
        while (wanted := self._control.wanted_state()) is not WantedState.STOPPING:
            if wanted is WantedState.WORKING:
                self._run_until_changed()
            else:
                self._rest(wanted)

    def _rest(self, wanted: WantedState) -> None:
        if wanted is WantedState.PAUSED:
            self._on_paused()
        while self._control.wanted_state() is wanted:
            self._control.await_change(RESTING_WAIT_S)

    def _run_until_changed(self) -> None:
        with ended_with_the_lease(self._control, self._lapse):
            task = self._make()
            try:
                task.start()
                if self._control.wanted_state() is WantedState.WORKING:
                    self._on_running()
                while (wanted := self._control.wanted_state()) is WantedState.WORKING:
                    task.watch()
                if wanted is WantedState.UNLEASED:
                    self._lapse()
            finally:
                try:
                    task.stop()
                except Exception:
                    log.exception("the job could not stop in order")

    def _lapse(self) -> None:
        log.warning("the task's lease has lapsed, so its job ends at once")
        self._end()
