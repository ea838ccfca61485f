"""A plan that runs in a Spark session: its streaming queries, its batches, and what they report.

A job begins as a whole or not at all: the checkpoint is looked at and every output analysed before the first is
written. One output's failure ends the others, too.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ottla_sdk import ConnectError
from ottla_spark.job.batch import BatchRun, KeptRecord
from ottla_spark.job.checkpoint import continued_record, folder_at, next_batch
from ottla_spark.job.clients import TopicClients
from ottla_spark.job.plan import JobPlan
from ottla_spark.job.progress import QueryProgress
from ottla_spark.job.python_function import Function
from ottla_spark.job.queries import prepare, start_query
from ottla_spark.job.tables import Schemas, with_schemas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH_GRACE_S = 1.0
"""How long a batch under way may take to finish when a job is to stop; then it is given up, and done again later."""
BATCH_LOOK_INTERVAL_S = 0.05
QUERY_STOP_TIMEOUT_S = 5.0
INITIALIZING = "Initializing"
"""How the message of a query begins that has no sources yet."""
SOURCES_TIMEOUT_S = 30.0
SOURCES_LOOK_INTERVAL_S = 0.05
UNSEEN_BATCHES_MAX = 100
"""Spark keeps no more."""


class QueryStopped(ConnectError):
    """Somebody else has stopped a query that ends only where the job does; Spark says nothing of it."""


class RunningJob:
    """Runs a plan.

    Args:
        session: Spark.
        plan: what to do.
        clients: how topics are reached.
        log: where it says what it does.
        should_stop: returns whether to begin no more.
    """

    def __init__(
        self,
        session: "SparkSession",
        plan: JobPlan,
        clients: TopicClients,
        log: logging.Logger,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session = session
        self._plan = plan
        self._clients = clients
        self._log = log
        self._should_stop = should_stop
        self._queries: dict[str, StreamingQuery] = {}
        self._batches: list[BatchRun] = []
        self._seen: dict[str, str] = {}
        self._last: dict[str, QueryProgress] = {}

    def begin(self, function: Function | None = None) -> None:
        """Start everything.

        Args:
            function: what makes the outputs, if that is not SQL.

        Raises:
            ForeignCheckpoint: the checkpoint is another query's.
            ConnectError: an output cannot be written in the way that is asked for, or a schema cannot be inferred.
            PySparkException: Spark does not understand a query, or cannot start it.
        """
        folder = folder_at(self._plan.checkpoint_location, self._session)
        assert folder is not None, "there is Spark"
        record = continued_record(folder, self._plan)
        schemas = Schemas({table: dict(parts) for table, parts in record.schemas.items()})
        plan = with_schemas(self._session, self._plan, self._clients, schemas)
        for table, parts in schemas.kept.items() if schemas.changed else ():
            self._log.info("inferred of %s: %s", table, "; ".join(f"{part} {what}" for part, what in parts.items()))
        prepared = prepare(self._session, plan, self._clients, function)
        if self._should_stop():
            return
        kept = KeptRecord(folder, record)
        once = {
            each.output.name: next_batch(folder, each.output.name)
            for each in prepared
            if each.streaming and each.output.is_exactly_once
        }
        kept.change(lambda before: before.with_schemas(schemas.kept).with_exactly_once(once))
        try:
            for each in prepared:
                if each.streaming:
                    self._await_sources()
                    since = kept.record.exactly_once_since.get(each.output.name, 0)
                    self._queries[each.output.name] = start_query(each, plan, self._clients, since)
                else:
                    self._batches.append(BatchRun(self._session, each, self._clients, kept, self._log))
            for batch in self._batches:
                batch.start()
        except BaseException:
            self.stop()
            raise

    def is_active(self) -> bool:
        """Return whether something runs still; all that does not is done, as failures are raised by `check`."""
        return any(query.isActive for query in self._queries.values()) or any(b.is_active() for b in self._batches)

    def check(self) -> None:
        """Raise what an output has failed with, after all the others are stopped.

        Raises:
            QueryStopped: a query has ended, and neither failed nor was to end.
            ConnectError: a batch has failed.
            StreamingQueryException: a query has failed.
        """
        for output, query in self._queries.items():
            if query.isActive:
                continue
            error: Exception | None = query.exception()
            if error is None and not self._plan.available_now:
                error = QueryStopped(f"somebody else has stopped the query of output {output}; Spark names no reason")
            if error is not None:
                self.stop()
                raise error
        for batch in self._batches:
            if batch.error is not None:
                self.stop()
                raise batch.error

    def news(self) -> Iterator[tuple[str, QueryProgress]]:
        """Yield by output what its query has done since the last call, oldest first."""
        for output, query in self._queries.items():
            for progress in self._unseen(output, query):
                self._last[output] = progress
                yield output, progress

    def document(self) -> dict[str, Any]:
        """Return what the task's status shows."""
        outputs: dict[str, Any] = {}
        for output, query in self._queries.items():
            last = self._last.get(output)
            outputs[output] = {
                "state": _state_of(query),
                **(last.document() if last else {}),
            }
        for batch in self._batches:
            outputs[batch.name] = {"state": "running" if batch.is_active() else "finished"}
            if batch.duration_s is not None:
                outputs[batch.name]["duration_ms"] = int(batch.duration_s * 1000)
        return outputs

    def stop(self) -> None:
        """Stop everything; a batch under way is finished, or given up as a whole."""
        deadline = time.monotonic() + BATCH_GRACE_S
        stopping = [
            threading.Thread(target=_stop, args=(output, query, deadline, self._log), daemon=True)
            for output, query in self._queries.items()
        ]
        for thread in stopping:
            thread.start()
        for batch in self._batches:
            batch.stop()
        for thread in stopping:
            thread.join(max(0.0, deadline + QUERY_STOP_TIMEOUT_S - time.monotonic()))

    def _await_sources(self) -> None:
        """Wait until the queries that were started have their sources.

        Each source is a Python process, which Spark gives up if it has not begun within ten seconds: many at a time
        would not on a busy machine.
        """
        deadline = time.monotonic() + SOURCES_TIMEOUT_S
        for query in self._queries.values():
            while query.isActive and query.status["message"].startswith(INITIALIZING) and time.monotonic() < deadline:
                time.sleep(SOURCES_LOOK_INTERVAL_S)

    def _unseen(self, output: str, query: "StreamingQuery") -> list[QueryProgress]:
        java: Any = query._jsq  # noqa: SLF001 - `recentProgress` would fetch all that Spark keeps, every time
        last = java.lastProgress()
        if last is None or last.timestamp() == self._seen.get(output):
            return []
        recent = java.recentProgress()
        unseen: list[QueryProgress] = []
        for index in range(len(recent) - 1, -1, -1):
            if recent[index].timestamp() == self._seen.get(output) or len(unseen) == UNSEEN_BATCHES_MAX:
                break
            unseen.append(QueryProgress.of(json.loads(recent[index].json()), self._plan.tables))
        if unseen:
            self._seen[output] = unseen[0].at
        return unseen[::-1]


def _state_of(query: "StreamingQuery") -> str:
    if query.isActive:
        return "running"
    return "finished" if query.exception() is None else "failed"


def _stop(output: str, query: "StreamingQuery", deadline: float, log: logging.Logger) -> None:
    try:
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(BATCH_LOOK_INTERVAL_S)
        if query.isActive:
            query.stop()
    except Exception as error:  # noqa: BLE001 - Java may be gone, and is ended in any case
        log.warning("the query %s has not stopped in order: %s", output, error)
