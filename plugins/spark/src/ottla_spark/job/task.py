"""The task of a Spark connector: a Spark driver, from its start to the end of its Java process.

`start` looks first at all that can be wrong without Spark, as Java takes seconds to start. `watch` looks about once a
second whether a query has failed, and what the queries have done. `stop` may come at any time, and leaves no process.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla_sdk import ConnectError, JobTask
from ottla_spark.job.checkpoint import continued_record, folder_at
from ottla_spark.job.clients import topic_clients, topics_to_make
from ottla_spark.job.config import JobConfig
from ottla_spark.job.connector_configs import SparkPipelineConfig, SparkSinkConfig, SparkSourceConfig
from ottla_spark.job.plan import JobPlan, PythonFunction
from ottla_spark.job.planning import plan_of
from ottla_spark.job.python_function import Function, load_function
from ottla_spark.job.topic_admin import check_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla_spark.job.running_job import RunningJob

WATCH_INTERVAL_S = 1.0


class SparkTask(JobTask[JobConfig]):
    """A Spark driver as a task."""

    makes_topics = True

    _session: "SparkSession | None" = None
    _job: "RunningJob | None" = None
    _waits_since: float | None = None
    _says_that_it_waits = False

    def start(self) -> None:
        """Start Spark, and what the settings say.

        Raises:
            FatalError: something is wrong that does not pass by itself.
            RetriableError: a broker or the cluster's master cannot be reached, for example.
            ConnectError: it may work the next time.
        """
        plan = plan_of(self.config, self.context.connector)
        with _in_plain_words():
            function = load_function(plan.query) if isinstance(plan.query, PythonFunction) else None
            self._check(plan)
            if self.makes_topics:
                self.context.ensure_topics(topics_to_make(plan))
            if not self.context.should_stop():
                self._start_spark(plan)
                self._begin(plan, function)

    def watch(self) -> None:
        """Wait about a second; raise what an output has failed with."""
        if self.context.wait(WATCH_INTERVAL_S) or self._job is None:
            return
        with _in_plain_words():
            is_active = self._job.is_active()
            self._job.check()
            self._report(self._job)
        if not is_active:
            self.context.log.info("all is done; Spark stops")
            self.stop()

    def stop(self) -> None:
        """End the queries, Spark, and the Java process."""
        from ottla_spark.job.driver_shutdown import java_has_ended, stop_driver  # noqa: PLC0415

        job, self._job = self._job, None
        session, self._session = self._session, None
        try:
            if job is not None and not java_has_ended():
                job.stop()
        finally:
            stop_driver(session)

    def _check(self, plan: JobPlan) -> None:
        """Look at what can be wrong without Spark."""
        folder = folder_at(plan.checkpoint_location)
        if folder is not None:
            continued_record(folder, plan)
        check_topics(plan, self.context.client_settings("admin"))

    def _start_spark(self, plan: JobPlan) -> None:
        from ottla_spark.session import start_session  # noqa: PLC0415 - where tasks are listed, nobody needs PySpark

        logging.getLogger("py4j").setLevel(logging.WARNING)  # it says of every connection that it ends
        begun = time.monotonic()
        # Spark makes this folder for managed tables, though there are none; by default where the worker was started.
        warehouse = {"spark.sql.warehouse.dir": f"{plan.checkpoint_location}/warehouse"}
        self._session = start_session(f"ottla-{plan.connector}", {**warehouse, **plan.spark})
        context = self._session.sparkContext
        for file in plan.query.files if isinstance(plan.query, PythonFunction) else ():
            context.addPyFile(file)
        took_s = time.monotonic() - begun
        self.context.log.info("Spark %s has started in %.1f s, at %s", context.version, took_s, context.master)

    def _begin(self, plan: JobPlan, function: Function | None) -> None:
        from ottla_spark.job.running_job import RunningJob  # noqa: PLC0415

        assert self._session is not None, "Spark has started"
        clients = topic_clients(
            plan, self.context.client_settings("consumer"), self.context.client_settings("producer")
        )
        job = RunningJob(self._session, plan, clients, self.context.log, self.context.should_stop)
        if not self.context.should_stop():
            job.begin(function)
            self._job = job
            self._report(job)

    def _report(self, job: "RunningJob") -> None:
        for output, progress in job.news():
            if progress.rows:
                self.context.log.info("%s", progress.line(output))
                self.context.metrics.add(f"{output}-rows", progress.rows)
            for name, value in progress.metrics(output).items():
                self.context.metrics.set(name, value)
        self.context.report_progress({"outputs": job.document(), **self._waiting()})

    def _waiting(self) -> dict[str, str]:
        """Return what the status shows while the cluster has no executors for the job; log when that begins."""
        from ottla_spark.cluster.executors import PATIENCE_S, WAITING, waits_for_executors  # noqa: PLC0415

        if self._session is None or not waits_for_executors(self._session):
            self._waits_since, self._says_that_it_waits = None, False
            return {}
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        if time.monotonic() - self._waits_since < PATIENCE_S:
            return {}
        if not self._says_that_it_waits:
            self._says_that_it_waits = True
            self.context.log.warning("%s", WAITING)
        return {"waits": WAITING}


class SparkSourceTask(SparkTask):
    """The task of a `SparkSource`."""

    config_model = SparkSourceConfig


class SparkPipelineTask(SparkTask):
    """The task of a `SparkPipeline`."""

    config_model = SparkPipelineConfig


class SparkSinkTask(SparkTask):
    """The task of a `SparkSink`, which may write a topic, but makes none, as sinks do not."""

    config_model = SparkSinkConfig
    makes_topics = False


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Raise what PySpark raises in words for people, as the SDK's error that says whether trying again may help."""
    try:
        yield
    except ConnectError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever PySpark raises
        from ottla_spark.messages import in_plain_words, kind_of  # noqa: PLC0415

        raise kind_of(error)(in_plain_words(error)) from None
