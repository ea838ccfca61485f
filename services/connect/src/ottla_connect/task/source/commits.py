"""Commits a source task's offsets: hands those that are safe to the worker, one set at a time, and tells the task."""

import logging
import time
from collections.abc import Callable
from typing import Any

from ottla_connect.task.control import Control, PendingCommit
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.source.in_flight import CommittableOffset
from ottla_sdk import SourceTask

FIRST_INTERVAL_S = 1.0
"""The first commit comes soon after the first records, for users who look where a new connector is."""
COLLECT_INTERVAL_S = 1.0
"""How often what is acknowledged is taken out of its queues, so that they stay short."""

log = logging.getLogger(__name__)


class SourceCommits:
    """What is safe to commit, and the commit under way.

    Args:
        task: the plugin's task.
        control: to the worker.
        measures: readings.
        take: returns the offsets that have become safe since its last call.
        interval_s: seconds between commits.
        timeout_s: seconds after which one is given up.
    """

    def __init__(
        self,
        *,
        task: SourceTask[Any],
        control: Control,
        measures: TaskMeasures,
        take: Callable[[], dict[str, CommittableOffset]],
        interval_s: float,
        timeout_s: float,
    ) -> None:
        self._task = task
        self._control = control
        self._measures = measures
        self._take = take
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._due_s = time.monotonic() + min(FIRST_INTERVAL_S, interval_s)
        self._has_begun = False
        self._collect_due_s = 0.0
        self._waiting: dict[str, CommittableOffset] = {}
        self._pending: PendingCommit | None = None
        self._sent: dict[str, CommittableOffset] = {}
        self._sent_s = 0.0

    def start(self) -> None:
        """Nothing has to be done before the task begins."""

    def rest(self) -> None:
        """Commits go on while the task is paused."""

    def end_of_empty_batch(self) -> None:
        """Commits do not depend on batches."""

    def give_up(self) -> None:
        """The task has failed; what is acknowledged is committed all the same."""

    def advance(self) -> None:
        """Do what is due: collect, hear of the commit under way, begin the next."""
        now_s = time.monotonic()
        if now_s >= self._collect_due_s or now_s >= self._due_s:
            self._collect_due_s = now_s + COLLECT_INTERVAL_S
            self._waiting.update(self._take())
        if self._pending is not None:
            self._hear(now_s)
        if now_s >= self._due_s and self._pending is None:
            self._has_begun |= bool(self._waiting)
            self._due_s = now_s + (self._interval_s if self._has_begun else min(FIRST_INTERVAL_S, self._interval_s))
            self._begin(now_s)

    def finish(self, timeout_s: float) -> bool:
        """Commit everything that is safe, and wait for it; returns whether it is stored."""
        deadline_s = time.monotonic() + timeout_s
        if self._pending is not None:
            self._control.await_commit(self._pending, timeout_s)
            self._hear(float("inf"))
        self._waiting.update(self._take())
        self._begin(time.monotonic())
        if self._pending is None:
            return not self._waiting
        self._control.await_commit(self._pending, deadline_s - time.monotonic())
        self._hear(float("inf"))
        return not self._waiting

    def _begin(self, now_s: float) -> None:
        if not self._waiting or not self._control.leased:
            return
        self._sent, self._sent_s = dict(self._waiting), now_s
        self._pending = self._control.commit_offsets(list(self._sent.values()))

    def _hear(self, now_s: float) -> None:
        pending = self._pending
        assert pending is not None
        if not pending.done:
            if now_s < self._sent_s + self._timeout_s:
                return
            self._control.forget_commit(pending)
            self._failed(f"no answer within {self._timeout_s:g} s")
        elif pending.error is not None:
            self._failed(pending.error)
        else:
            self._succeeded()
        self._pending = None
        self._sent = {}

    def _failed(self, reason: str) -> None:
        self._measures.commit_failures += 1
        log.error("offsets are not committed, tries again at the next commit: %s", reason)

    def _succeeded(self) -> None:
        self._measures.commits.add((time.monotonic() - self._sent_s) * 1000)
        for key, offset in self._sent.items():
            if self._waiting.get(key) is offset:
                del self._waiting[key]
        try:
            self._task.committed(list(self._sent.values()))
        except Exception:
            log.exception("the task could not take note of committed offsets")
