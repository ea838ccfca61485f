"""Carries out the `ErrorPolicy`: repeats what failed, reports it, counts it, says whether the record is dropped."""

import enum
import logging
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.errors import ErrorPolicy, Stage, is_passing
from ottla_sdk import DataError, FatalError, class_name

T = TypeVar("T")
OriginalT = TypeVar("OriginalT")

log = logging.getLogger(__name__)


class _Dropped(enum.Enum):
    DROPPED = "dropped"


DROPPED = _Dropped.DROPPED
"""Stands for the result of an operation whose record is skipped."""


class ToleranceExceeded(DataError):
    """A record cannot be handled, and the connector tolerates no errors."""


class ToleranceExceededForGood(ToleranceExceeded, FatalError):
    """The same, and trying again is of no use."""


class Unavailable(ToleranceExceeded):
    """A record cannot be handled for now, because something else is away for longer than it is waited for.

    No `RetriableError`, as a sink's `put` would be repeated for it, whatever has become of the record meanwhile.
    """


class Interrupted(Exception):
    """The task is to stop while an operation waits for its next try; its record is neither done nor dropped."""


@dataclass(frozen=True, slots=True)
class Failure(Generic[OriginalT]):
    """An operation on a record that has failed for good.

    Attributes:
        original: what came from the topic or from the source task.
        stage: the operation.
        operator: the class of the converter, transform or task that failed.
        error: what it raised.
    """

    original: OriginalT
    stage: Stage
    operator: type[Any]
    error: Exception

    @property
    def trace(self) -> str:
        """The error's stack trace."""
        return "".join(traceback.format_exception(self.error))


class Reporter(Protocol[OriginalT]):
    """Takes failures, for example into a dead letter topic."""

    def report(self, failure: Failure[OriginalT]) -> None:
        """Take a failure."""


class ErrorHandler(Generic[OriginalT]):
    """Handles what goes wrong with single records.

    Args:
        task: the task, as logs name it.
        policy: the rules.
        measures: counts.
        wait: waits some seconds; returns whether the task is to stop.
        described: says in words which record it was.
        reporters: what else hears of failures.
        on_wait: hears what an operation fails with that is tried again, and after how many seconds.
    """

    def __init__(
        self,
        *,
        task: str,
        policy: ErrorPolicy,
        measures: ErrorMeasures,
        wait: Callable[[float], bool],
        described: Callable[[OriginalT], str],
        reporters: tuple[Reporter[OriginalT], ...] = (),
        on_wait: Callable[[str, float], None] = lambda reason, pause_s: None,
    ) -> None:
        self.policy = policy
        self._task = task
        self._measures = measures
        self._wait = wait
        self._described = described
        self._reporters = reporters
        self._on_wait = on_wait

    def attempt(
        self,
        operation: Callable[[], T],
        original: OriginalT,
        stage: Stage,
        operator: type[Any],
        failed_with: Exception | None = None,
    ) -> T | _Dropped:
        """Run an operation on a record, again if need be; return its result, or `DROPPED` to go on without it.

        Args:
            operation: what to run.
            original: the record.
            stage: what it is.
            operator: whose code runs.
            failed_with: what the first try has raised, if there was one already.

        Raises:
            ToleranceExceeded: it fails, and errors are not tolerated.
            Interrupted: the task is to stop.
        """
        started_s = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            if failed_with is None:
                try:
                    return operation()
                except Exception as error:  # noqa: BLE001 - the policy decides about whatever a plugin raises
                    failed_with = error
            self._measures.failures += 1
            delay_ms = self.policy.retry_delay_ms(
                failed_with,
                attempt=attempt,
                elapsed_ms=(time.monotonic() - started_s) * 1000,
                chance=random.random(),  # noqa: S311 - no secret
            )
            if delay_ms is None:
                self.drop(Failure(original, stage, operator, failed_with))
                return DROPPED
            self._on_wait(f"{operator.__name__}: {failed_with}", delay_ms / 1000)
            if self._wait(delay_ms / 1000):
                raise Interrupted
            self._measures.retries += 1
            failed_with = None

    def drop(self, failure: Failure[OriginalT]) -> None:
        """Report a record that has failed; return if it is to be skipped.

        Raises:
            Unavailable: it may be handled later, so it must come again.
            ToleranceExceeded: errors are not tolerated.
        """
        self._measures.errors += 1
        self._measures.last_error_timestamp_ms = time.time() * 1000
        if is_passing(failure.error):
            raise Unavailable(_said(failure)) from failure.error  # no dead letter: the record is still to be handled
        for reporter in self._reporters:
            reporter.report(failure)
        if self.policy.logs:
            self._measures.logged += 1
            log.error(
                "Error encountered in task %s. Executing stage '%s' with class '%s'%s.",
                self._task,
                failure.stage,
                class_name(failure.operator),
                f", where the record is {self._described(failure.original)}" if self.policy.logs_records else "",
                exc_info=failure.error,
            )
        if not self.policy.tolerates(failure.error):
            final = isinstance(failure.error, FatalError)
            raise (ToleranceExceededForGood if final else ToleranceExceeded)(_said(failure)) from failure.error
        self._measures.skipped += 1


def _said(failure: Failure[Any]) -> str:
    return f"{failure.stage} failed in {class_name(failure.operator)}: {failure.error}"
