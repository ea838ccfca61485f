"""Spark, started in the background, and a thread of its own for all that is asked of it.

The main thread stays free for the keyboard: it takes results chunk by chunk from a bounded queue, and Ctrl-C there
cancels what the other thread does without breaking off a conversation with the JVM in the middle of a word.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla_spark.cluster.executors import PATIENCE_S, waits_for_executors
from ottla_spark.cluster.java import require_java
from ottla_spark.cluster.java_class_archive import DEFAULT_OPTIONS_KEY, QuickStart, quick_start
from ottla_spark.cluster.session_folder import LOCAL_DIRECTORY_KEY, TEMPORARY_OPTION
from ottla_spark.session import start_session
from ottla_spark.sql.interrupted_java_start import descendants, kill_descendants
from ottla_spark.sql.progress import Tasks
from ottla_spark.sql.read_names import may_have_catalogue
from ottla_spark.sql.screen import note
from ottla_spark.sql.sql_errors import Interrupted, InterruptedTwice, SqlProblem

APPLICATION = "ottla sql"
JOB_GROUP = "ottla-sql"
CHUNKS_AHEAD_MAX = 4
LOOK_INTERVAL_S = 0.1
CANCEL_AGAIN_S = 0.5
STOP_TIMEOUT_S = 10.0
GIVE_UP_WITHIN_S = 1.0
ARCHIVING = "Keeping Java's classes, so that later sessions start sooner. This happens once; Ctrl-C skips it."
ARCHIVED_WITHIN_S = 600.0
TRAINED_WITHIN_S = 60.0
USUAL_STATEMENTS = (
    "SELECT from_json(v, 'a STRING, b BIGINT, c TIMESTAMP') FROM VALUES ('{}') AS t(v)",
    """SELECT schema_of_json('[{"a": 1, "b": "2013-01-01T05:00:00Z"}]', map('inferTimestamp', 'true'))""",
    "SELECT id % 7 AS k, count(*), sum(id), max(CAST(id AS STRING)) FROM range(1000) GROUP BY 1 ORDER BY 2",
    "SELECT a.id FROM range(100) AS a JOIN range(10) AS b ON a.id = b.id LIMIT 3",
)


def spark_defaults(folder: Path) -> dict[str, str]:
    """Return settings that leave nothing behind but what statements write on purpose, and keep Java in its memory.

    Args:
        folder: of the session.
    """
    return {
        # A result of a task that is larger is an error in one line, and not the end of Java.
        "spark.driver.maxResultSize": "384m",
        # Results of slices go straight to the driver: the block manager loses them where memory is scarce.
        "spark.task.maxDirectResultSize": "64m",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        LOCAL_DIRECTORY_KEY: str(folder),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    }


class Cancelled(Exception):
    """The statement is to end; raised in Spark's thread."""


class TimedOut(SqlProblem):
    """A statement took longer than it may."""


@dataclass(slots=True)
class Work:
    """A statement being carried out, as Spark's thread sees it.

    Attributes:
        cancelled: set when it is to end.
        chunks: what it has to show.
        parts: how many parts the result is handed over in; 0 if it comes as a whole.
        parts_done: how many of them were.
    """

    parts: int = 0
    parts_done: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    chunks: "queue.Queue[Any]" = field(default_factory=lambda: queue.Queue(CHUNKS_AHEAD_MAX))

    def emit(self, chunk: Any) -> None:
        """Hand something to the main thread.

        Raises:
            Cancelled: nobody wants it any more.
        """
        while not self.cancelled.is_set():
            with contextlib.suppress(queue.Full):
                self.chunks.put(chunk, timeout=LOOK_INTERVAL_S)
                return
        raise Cancelled


class _Waiting:
    """Among the chunks: the cluster has nobody who could work on the statement."""


class SparkThread:
    """Spark and its thread.

    Args:
        settings: Spark's.
        folder: for Java's temporary files.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._quick = QuickStart(())
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spark")
        self._work: Work | None = None
        self._session: Future[SparkSession] | None = None
        self._is_closing = False
        self._not_ours: frozenset[int] = frozenset()

    def start(self) -> None:
        """Begin to start Spark; returns at once."""
        if self._session is None or self.has_failed:
            self._not_ours = descendants(os.getpid())
            self._session = self._executor.submit(self._started_quickly)

    @property
    def has_no_tables(self) -> bool:
        """Return whether Spark surely has no tables of its own: it has done nothing, and has no catalogue."""
        return not self.is_ready and not may_have_catalogue(self._settings, os.environ)

    @property
    def is_ready(self) -> bool:
        """Return whether Spark has started."""
        return self._session is not None and self._session.done() and self._session.exception() is None

    @property
    def has_failed(self) -> bool:
        """Return whether Spark could not be started."""
        return self._session is not None and self._session.done() and self._session.exception() is not None

    @property
    def has_ended(self) -> bool:
        """Return whether Spark could not be started, or its Java process has ended."""
        gateway = SparkContext._gateway  # noqa: SLF001 - no public way to the JVM
        return self.has_failed or (self.is_ready and (gateway is None or gateway.proc.poll() is not None))

    def begin_anew(self) -> None:
        """Have the next statements find a session without views, variables and settings of former ones."""
        if self.is_ready:
            session = self.started()
            self._session = self._executor.submit(session.newSession)

    def chunks(
        self,
        statement: Callable[[SparkSession, Work], None],
        timeout_s: float | None = None,
        on_waiting: Callable[[], None] | None = None,
    ) -> Generator[Any]:
        """Carry out a statement in Spark's thread, and yield what it emits.

        Args:
            statement: called with the session.
            timeout_s: how long it may take, when Spark is ready.
            on_waiting: called once if the cluster has no executors for the statement for a while.

        Raises:
            Interrupted: Ctrl-C.
            InterruptedTwice: Ctrl-C once more, before it has ended.
            TimedOut: it has not ended in time.
        """
        self._work = work = Work()
        running: Future[None] | None = None
        try:
            session = self.started()
            deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
            running = self._executor.submit(_in_job_group, statement, session, work)
            if on_waiting is not None:
                threading.Thread(target=_tell_if_it_waits, args=(session, work, running), daemon=True).start()
            for chunk in _taken(work, running, deadline_s):
                if isinstance(chunk, _Waiting) and on_waiting is not None:
                    on_waiting()
                else:
                    yield chunk
        except KeyboardInterrupt:
            raise Interrupted from None
        except _Late:
            raise TimedOut(f"it took longer than {timeout_s:g} s and was cancelled") from None
        finally:
            if running is not None:
                self._end(work, running)

    def tasks(self) -> Tasks | None:
        """Return how far Spark has come; None while it is starting. For threads that nobody interrupts."""
        work, session = self._work, self._session
        if session is None or not self.is_ready:
            return None
        parts = Tasks() if work is None else Tasks(parts=work.parts, parts_done=work.parts_done)
        with contextlib.suppress(Exception):  # Spark may end meanwhile, and whoever waits for it hears why
            return replace(parts, **_running_tasks(session.result()))
        return parts

    def close(self, *, in_order: bool = False) -> None:
        """End Spark with its JVM, also one that is still starting.

        Args:
            in_order: whether there is time to write the archive of classes, if there is none yet.
        """
        session = self._session
        try:
            if session is not None and not session.cancel():
                self._give_up_start(session)
                ready = session.result() if self.is_ready else None
                archives = in_order and ready is not None and self._quick.archive is not None
                ended_well = False
                try:
                    if archives and ready is not None:
                        if sys.stderr.isatty():
                            note(ARCHIVING)
                        wait([self._executor.submit(_load_usual_classes, ready)], TRAINED_WITHIN_S)
                    ended_well = _end_jvm(ready, ARCHIVED_WITHIN_S if archives else STOP_TIMEOUT_S, self._quick)
                except KeyboardInterrupt:
                    _end_jvm(None, STOP_TIMEOUT_S, self._quick)
                    if not archives:  # what was asked for is done otherwise
                        raise
                finally:
                    self._quick.keep(ended_well=archives and ended_well)
        finally:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _give_up_start(self, session: "Future[SparkSession]") -> None:
        """End a Java of which nobody has a handle yet; what this process imports meanwhile is not waited for."""
        self._is_closing = True
        deadline_s = time.monotonic() + GIVE_UP_WITHIN_S
        while not session.done() and SparkContext._gateway is None:  # noqa: SLF001 - no public way to the JVM
            kill_descendants(other_than=self._not_ours)
            if time.monotonic() > deadline_s:
                return
            wait([session], LOOK_INTERVAL_S)

    def _started_quickly(self) -> SparkSession:
        java = require_java()
        self._quick = quick_start(java.program, java.version, self._settings, os.environ)
        own = self._settings.get(DEFAULT_OPTIONS_KEY, "")
        # What the user says comes behind, and counts.
        if self._is_closing:
            raise Cancelled
        options = " ".join([*map(_quoted, (f"{TEMPORARY_OPTION}{self._folder}", *self._quick.options)), own]).strip()
        return start_session(APPLICATION, {**self._settings, DEFAULT_OPTIONS_KEY: options})

    def started(self) -> SparkSession:
        """Wait until Spark is ready; start it if nobody has."""
        self.start()
        assert self._session is not None, "it is being started"
        while not self._session.done():
            wait([self._session], LOOK_INTERVAL_S)
        return self._session.result()

    def _end(self, work: Work, running: "Future[None]") -> None:
        """Cancel what still runs, and wait until the thread is free.

        Raises:
            InterruptedTwice: Ctrl-C meanwhile.
        """
        work.cancelled.set()
        try:
            while not running.done():
                self.started().sparkContext.cancelJobGroup(JOB_GROUP)
                wait([running], CANCEL_AGAIN_S)
        except KeyboardInterrupt:
            raise InterruptedTwice from None


class _Late(Exception):
    """The time is up."""


def _in_job_group(statement: Callable[[SparkSession, Work], None], session: SparkSession, work: Work) -> None:
    session.sparkContext.setJobGroup(JOB_GROUP, APPLICATION, interruptOnCancel=True)
    with contextlib.suppress(Cancelled):
        statement(session, work)


def _running_tasks(session: SparkSession) -> dict[str, int]:
    """Return the counts of the stages and tasks of the jobs that run."""
    tracker: Any = session.sparkContext.statusTracker()
    jobs = [job for each in tracker.getActiveJobsIds() if (job := tracker.getJobInfo(each)) is not None]
    stages = {stage for job in jobs for stage in job.stageIds}
    begun = [stage for each in stages if (stage := tracker.getStageInfo(each)) is not None and stage.numTasks]
    return {
        "stages": len(stages),
        "stages_done": sum(each.numCompletedTasks == each.numTasks for each in begun),
        "tasks": sum(each.numTasks for each in begun),
        "tasks_done": sum(each.numCompletedTasks for each in begun),
    }


def _tell_if_it_waits(session: SparkSession, work: Work, running: "Future[None]") -> None:
    with contextlib.suppress(Cancelled):
        while not wait([running], PATIENCE_S).done:
            if waits_for_executors(session):
                work.emit(_Waiting())
                return


def _taken(work: Work, running: "Future[None]", deadline_s: float | None) -> Iterator[Any]:
    """Yield chunks until the statement has ended, and raise what it has failed with."""
    while True:
        ended = running.done()
        with contextlib.suppress(queue.Empty):
            yield work.chunks.get(timeout=0 if ended else LOOK_INTERVAL_S)
            continue
        if ended:
            running.result()
            return
        if deadline_s is not None and time.monotonic() > deadline_s:
            raise _Late


def _load_usual_classes(session: SparkSession) -> None:
    """Have Java load what most sessions need, so that the archive has it."""
    for statement in USUAL_STATEMENTS:
        with contextlib.suppress(PySparkException, Py4JError):
            session.sql(statement).collect()


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option


def _end_jvm(session: SparkSession | None, timeout_s: float, quick: QuickStart) -> bool:
    """End the JVM, in order if there is a session; one that is still starting is killed.

    Returns:
        Whether it has ended by itself.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 - no public way to the JVM
    if gateway is None:
        return False
    process = gateway.proc
    try:
        if session is not None:
            with contextlib.suppress(PySparkException, Py4JError, ConnectionError):
                session.stop()
            if quick.archive is None or timeout_s == ARCHIVED_WITHIN_S:
                process.stdin.close()
                process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        ended_well = bool(process.poll() == 0)
        if process.poll() is None:
            process.kill()
            process.wait()
    return ended_well
