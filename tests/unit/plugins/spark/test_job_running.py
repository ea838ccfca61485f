"""What a running job makes of queries that have ended, with stand-ins for Spark's."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_spark.job.running_job import QueryStopped, RunningJob


class Query:
    """A streaming query as Spark shows it."""

    def __init__(self, *, is_active: bool = True, error: Exception | None = None) -> None:
        self.isActive = is_active
        self.status = {"isTriggerActive": False}
        self._error = error

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.isActive = False


def running(*, available_now: bool = False, **queries: Query) -> RunningJob:
    plan: Any = SimpleNamespace(available_now=available_now)
    clients: Any = None
    session: Any = None
    job = RunningJob(session, plan, clients, logging.getLogger("job"))
    job._queries.update(queries)  # type: ignore[arg-type]
    return job


def test_a_query_that_somebody_else_has_stopped_fails_the_job_and_ends_the_others() -> None:
    late, stopped = Query(), Query(is_active=False)
    job = running(late=late, stopped=stopped)
    assert job.is_active(), "the other goes on, so nothing seems to have ended"
    with pytest.raises(QueryStopped, match="somebody else has stopped the query of output stopped;"):
        job.check()
    assert not late.isActive


def test_a_query_that_does_what_there_is_may_end() -> None:
    running(available_now=True, done=Query(is_active=False), late=Query()).check()


@pytest.mark.parametrize("available_now", [True, False])
def test_a_query_that_fails_tells_its_own_reason(available_now: bool) -> None:
    failed = Query(is_active=False, error=ValueError("the table is gone"))
    with pytest.raises(ValueError, match="the table is gone"):
        running(available_now=available_now, failed=failed).check()


def test_queries_that_run_are_left_alone() -> None:
    job = running(one=Query(), other=Query())
    job.check()
    assert job.is_active()
