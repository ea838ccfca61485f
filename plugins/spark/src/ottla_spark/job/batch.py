"""Outputs that are no stream: written once, in a thread of their own, so that the task can be stopped meanwhile.

What is begun and what is done is kept in the checkpoint. Files that were begun into an empty folder are written anew
after a crash, in place of what is there of them; so every row is there once. Anything else is written again, as a
whole; topics with `delivery.guarantee=exactly-once` excepted, for which all rows are one transaction.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from ottla_spark.job.checkpoint import Folder, folder_at
from ottla_spark.job.checkpoint_record import FILE_NAME, CheckpointRecord
from ottla_spark.job.clients import TopicClients
from ottla_spark.job.plan import FILE_SINKS, FormatWrite, Output, TopicWrite
from ottla_spark.job.queries import Prepared, exactly_once_writer, write_rows

STOP_TIMEOUT_S = 5.0


class KeptRecord:
    """The record of a checkpoint, in its folder; any thread may change it."""

    def __init__(self, folder: Folder, record: CheckpointRecord) -> None:
        self._folder = folder
        self._record = record
        self._lock = threading.Lock()

    @property
    def record(self) -> CheckpointRecord:
        """Return it as it is now."""
        return self._record

    def change(self, changed: Callable[[CheckpointRecord], CheckpointRecord]) -> None:
        """Write what `changed` makes of it."""
        with self._lock:
            self._record = changed(self._record)
            self._folder.write(FILE_NAME, self._record.to_json())


class BatchRun:
    """Writes one output.

    Attributes:
        error: what it has failed with.
        duration_s: how long it took; None while it runs.
    """

    def __init__(
        self,
        session: SparkSession,
        prepared: Prepared,
        clients: TopicClients,
        kept: KeptRecord,
        log: logging.Logger,
    ) -> None:
        self._session = session
        self._prepared = prepared
        self._clients = clients
        self._kept = kept
        self._log = log
        self._tag = f"ottla-{prepared.output.name}"
        self._thread = threading.Thread(target=self._run, name=f"batch-{prepared.output.name}", daemon=True)
        self.error: BaseException | None = None
        self.duration_s: float | None = None

    @property
    def name(self) -> str:
        """Return the output's name."""
        return self._prepared.output.name

    def start(self) -> None:
        """Begin to write, unless that was done before."""
        if self.name in self._kept.record.done:
            self._log.info("%s is written already, as the checkpoint says", self.name)
            self.duration_s = 0.0
        else:
            self._thread.start()

    def is_active(self) -> bool:
        """Return whether it is being written."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Give it up, if it is being written."""
        if not self.is_active():
            return
        try:
            self._session.sparkContext.cancelJobsWithTag(self._tag)
        except Exception as error:  # noqa: BLE001 - Java may be gone, and is ended in any case
            self._log.warning("%s has not stopped in order: %s", self.name, error)
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self._use_session()
            writing = self._prepared.output.writing
            if isinstance(writing, TopicWrite) and writing.exactly_once:
                exactly_once_writer(writing, self._clients, 0).write(self._prepared.frame, self._writer(), 0)
            else:
                write_rows(self._prepared.frame, self._prepared.output, self._clients, self._write_mode())
            self._kept.change(lambda record: record.with_done(self.name))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever watches
            self.error = error
        else:
            self.duration_s = time.monotonic() - begun
            self._log.info("%s is written, in %.1f s", self.name, self.duration_s)

    def _use_session(self) -> None:
        """Say what Spark keeps by thread: the session, to find Python data sources by, and the tag of the work."""
        java: Any = self._session._jvm  # noqa: SLF001 - PySpark does it itself for the thread that starts it
        SparkSession._get_j_spark_session_class(java).setActiveSession(self._session._jsparkSession)  # noqa: SLF001
        self._session.sparkContext.addJobTag(self._tag)

    def _writer(self) -> str:
        """Return the name under which the one batch is written; the same until the checkpoint is deleted."""
        if self.name not in self._kept.record.writers:
            self._kept.change(lambda record: record.with_writer(self.name, str(uuid.uuid4())))
        return self._kept.record.writers[self.name]

    def _write_mode(self) -> str:
        output = self._prepared.output
        if output.mode == "complete":
            return "overwrite"
        fresh = self._kept.record.begun.get(self.name)
        if fresh is None:
            is_fresh = _is_empty(self._session, output)
            self._kept.change(lambda record: record.with_begun(self.name, fresh=is_fresh))
        elif fresh:
            self._log.info("%s was begun and not finished; it is written anew", self.name)
            return "overwrite"
        else:
            self._log.warning(
                "%s was begun and not finished; it is written again, so rows may be there twice", self.name
            )
        return "append"


def _is_empty(session: SparkSession, output: Output) -> bool:
    """Return whether an output's files have a folder to themselves, so that what is there can be replaced."""
    writing = output.writing
    if not isinstance(writing, FormatWrite) or writing.format not in FILE_SINKS:
        return False
    folder = folder_at(writing.path, session)
    assert folder is not None, "there is Spark"
    return folder.is_empty()
