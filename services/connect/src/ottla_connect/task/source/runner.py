"""Runs a source task: polls it, sends its records, commits the offsets of what the brokers have acknowledged."""

import logging
import time
from collections.abc import Callable
from typing import Any

from ottla_connect.task.control import Control, WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.error_handler import Interrupted
from ottla_connect.task.source.commits import SourceCommits
from ottla_connect.task.source.sender import Sender
from ottla_connect.task.source.transactions import Transactions
from ottla_sdk import RetriableError, SourceTask

LEASE_WAIT_S = 1.0
PAUSED_WAIT_S = 0.25
EMPTY_POLL_S = 0.05
"""A task that has nothing is asked again after this time, in case it did not wait itself."""
RETRY_FIRST_S = 0.3
RETRY_MAX_S = 30.0

log = logging.getLogger(__name__)


class SourceRunner:
    """Runs one source task, from start to stop.

    Args:
        task: the plugin's task, configured.
        control: says when to work.
        sender: sends records.
        commits: commits offsets; for a task that writes in transactions, the same object as `sender`.
        measures: readings.
        health: is told what is waited for.
        flush_timeout_s: how long the last flush and commit may take together.
        on_running: called when the task has started, and when it goes on after a pause.
        on_paused: called when it has paused.
    """

    def __init__(
        self,
        *,
        task: SourceTask[Any],
        control: Control,
        sender: Sender | Transactions,
        commits: SourceCommits | Transactions,
        measures: TaskMeasures,
        health: Health,
        flush_timeout_s: float,
        on_running: Callable[[], None],
        on_paused: Callable[[], None],
    ) -> None:
        self._task = task
        self._control = control
        self._sender = sender
        self._commits = commits
        self._measures = measures
        self._health = health
        self._flush_timeout_s = flush_timeout_s
        self._on_running = on_running
        self._on_paused = on_paused
        self._paused = False
        self._has_begun = False
        self._retry_s = RETRY_FIRST_S

    def run(self) -> None:
        """Work until the task is to stop; raises what it fails with."""
        try:
            self._commits.start()
            self._has_begun = True
            self._task.start()
            self._on_running()
            self._loop()
        except Interrupted:
            log.debug("asked to stop while the brokers were waited for")
        except BaseException:
            self._commits.give_up()
            raise
        finally:
            self._close()

    def _loop(self) -> None:
        while (wanted := self._control.wanted_state()) is not WantedState.STOPPING:
            if wanted is WantedState.UNLEASED:
                self._control.await_change(LEASE_WAIT_S)
                continue
            self._sender.serve()
            self._commits.advance()
            self._set_paused(wanted is WantedState.PAUSED)
            if self._paused:
                self._control.await_change(PAUSED_WAIT_S)
                continue
            self._poll_and_send()

    def _poll_and_send(self) -> None:
        began_s = time.monotonic()
        self._health.begins()
        try:
            records = self._task.poll()
        except RetriableError as error:
            self._measures.errors.retries += 1
            pause_s = max(self._retry_s, error.retry_in_ms / 1000)
            log.warning("cannot read now, tries again in %.1f s: %s", pause_s, error)
            self._end_empty_batch()
            self._health.waits(str(error), pause_s)
            self._wait(pause_s)
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
            return
        self._retry_s = RETRY_FIRST_S
        self._health.works()
        took_s = time.monotonic() - began_s
        if not records:
            self._end_empty_batch()
            if took_s < EMPTY_POLL_S:
                self._control.wait(EMPTY_POLL_S - took_s)
            return
        measures = self._measures
        measures.taken += len(records)
        measures.batches.add(len(records))
        measures.batch_time_ms.add(took_s * 1000)
        if self._control.leased or self._await_lease():
            self._sender.send(records)

    def _end_empty_batch(self) -> None:
        """Do what the task has said of its transaction in a `poll` that brought nothing, be it by an error."""
        if self._control.leased or self._await_lease():
            self._commits.end_of_empty_batch()

    def _wait(self, seconds: float) -> None:
        """Wait for the next try, and go on hearing of acknowledgements and committing meanwhile."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and self._control.wanted_state() is WantedState.WORKING:
            self._control.await_change(min(left_s, PAUSED_WAIT_S))
            self._sender.serve()
            self._commits.advance()

    def _await_lease(self) -> bool:
        """Wait until records that were polled may be sent; returns whether they may, or the task is to stop."""
        while not self._control.leased:
            if self._control.stopping:
                return False
            self._control.await_change(LEASE_WAIT_S)
        return True

    def _set_paused(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._commits.rest()
            self._on_paused()
        else:
            self._on_running()

    def _close(self) -> None:
        """Flush, commit what is safe, stop the task; what fails here is only logged: nothing is lost by it."""
        steps = (self._flush_and_commit, self._task.stop, self._sender.close)
        for step in steps if self._has_begun else steps[2:]:
            try:
                step()
            except Exception:
                log.exception("could not stop in order")

    def _flush_and_commit(self) -> None:
        if not self._control.leased:
            return
        until_s = time.monotonic() + self._flush_timeout_s
        if left := self._sender.flush(self._flush_timeout_s):
            log.warning("%d records are not acknowledged; they will be read again", left)
        if not self._commits.finish(max(until_s - time.monotonic(), 0.1)):
            log.warning("not all offsets are committed; some records will be read again")
