"""What is tried again, skipped, logged or fails the task."""

import logging

import pytest

from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.error_handler import (
    DROPPED,
    ErrorHandler,
    Failure,
    Interrupted,
    ToleranceExceeded,
    ToleranceExceededForGood,
    Unavailable,
)
from ottla_connect.task.pipeline.errors import ErrorPolicy, Stage
from ottla_sdk import DataError, FatalError, RetriableError


class Operator:
    """Whose code fails."""


class Reports:
    def __init__(self) -> None:
        self.failures: list[Failure[str]] = []

    def report(self, failure: Failure[str]) -> None:
        self.failures.append(failure)


class Handling:
    def __init__(self, policy: ErrorPolicy, *, stop_after: int = 1000) -> None:
        self.waits: list[float] = []
        self.reports = Reports()
        self.measures = ErrorMeasures()
        self.stop_after = stop_after
        self.handler = ErrorHandler[str](
            task="flights-0",
            policy=policy,
            measures=self.measures,
            wait=self.wait,
            described=lambda original: f"<{original}>",
            reporters=(self.reports,),
        )

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return len(self.waits) > self.stop_after

    def attempt(self, *results):
        left = list(results)

        def operation():
            result = left.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        return self.handler.attempt(operation, "record", Stage.TRANSFORMATION, Operator)


def test_what_works_is_returned():
    assert Handling(ErrorPolicy()).attempt(5) == 5


def test_what_works_later_is_returned_then():
    handling = Handling(ErrorPolicy(retry_timeout_ms=-1, retry_delay_max_ms=10_000))
    assert handling.attempt(RetriableError("a"), RetriableError("b"), None) is None
    assert handling.waits == [0.3, 0.6]
    assert handling.measures.readings()["total-retries"] == 2
    assert handling.reports.failures == []


def test_what_never_works_is_dropped_where_errors_are_tolerated():
    handling = Handling(ErrorPolicy(tolerant=True))
    error = DataError("no such field")
    assert handling.attempt(error) is DROPPED
    assert handling.reports.failures == [Failure("record", Stage.TRANSFORMATION, Operator, error)]
    assert handling.measures.skipped == handling.measures.errors == handling.measures.failures == 1


def test_what_never_works_fails_the_task_otherwise_and_is_reported_all_the_same():
    handling = Handling(ErrorPolicy())
    with pytest.raises(ToleranceExceeded, match=r"TRANSFORMATION failed in .*Operator: no such field") as raised:
        handling.attempt(DataError("no such field"))
    assert not isinstance(raised.value, FatalError)
    assert len(handling.reports.failures) == 1


def test_a_fatal_error_fails_the_task_for_good():
    with pytest.raises(ToleranceExceededForGood):
        Handling(ErrorPolicy(tolerant=True)).attempt(FatalError("revoked"))


@pytest.mark.parametrize("tolerant", [True, False])
def test_a_record_is_neither_skipped_nor_reported_while_something_is_away(tolerant):
    handling = Handling(ErrorPolicy(tolerant=tolerant, retry_timeout_ms=0))
    with pytest.raises(Unavailable, match=r"TRANSFORMATION failed in .*Operator: the registry is away"):
        handling.attempt(RetriableError("the registry is away"))
    assert handling.reports.failures == []
    assert handling.measures.skipped == 0


def test_a_task_that_is_to_stop_does_not_wait():
    handling = Handling(ErrorPolicy(tolerant=True, retry_timeout_ms=-1), stop_after=0)
    with pytest.raises(Interrupted):
        handling.attempt(RetriableError("a"))
    assert handling.reports.failures == []


def test_the_first_try_may_have_been_made_already():
    handling = Handling(ErrorPolicy(retry_timeout_ms=-1))
    result = handling.handler.attempt(lambda: 7, "r", Stage.TASK_PUT, Operator, RetriableError("a"))
    assert (result, handling.waits) == (7, [0.3])


@pytest.mark.parametrize(("with_records", "shown"), [(False, False), (True, True)])
def test_errors_are_logged_if_asked_for_and_records_only_if_asked_for(caplog, with_records, shown):
    handling = Handling(ErrorPolicy(tolerant=True, logs=True, logs_records=with_records))
    with caplog.at_level(logging.ERROR):
        handling.attempt(DataError("no such field"))
    assert "Error encountered in task flights-0" in caplog.text
    assert "no such field" in caplog.text
    assert ("<record>" in caplog.text) is shown


def test_errors_are_not_logged_by_default(caplog):
    Handling(ErrorPolicy(tolerant=True)).attempt(DataError("x"))
    assert caplog.text == ""
