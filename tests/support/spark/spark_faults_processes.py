"""The processes of jobs on Spark, as Linux shows them in /proc: who is there, who works, and who is left over.

What a test has started has its mark in the environment, which children inherit, also when their parents have died.
A driver is a task's process with a JVM below it; Python processes are below the JVM of a driver or of an executor.
"""

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

MARK_VARIABLE = "OTTLA_TEST_SPARK_RUN"
LOOK_INTERVAL_S = 0.2
APPLICATION_OPTION = "--app-id"


class Kind(Enum):
    """What a process is."""

    DRIVER = "org.apache.spark.deploy.SparkSubmit"
    EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    DAEMON = "pyspark.daemon"
    WORKER = "forked by the daemon"
    RUNNER = "pyspark.sql.streaming."
    OTHER = "something else"


FORKED = {Kind.DAEMON: Kind.WORKER, Kind.DRIVER: Kind.OTHER, Kind.EXECUTOR: Kind.OTHER}
"""What a process is whose parent runs the same program: of JVMs, one that is about to run something else."""
PYTHON = frozenset({Kind.DAEMON, Kind.WORKER, Kind.RUNNER})


class SparkProcess(NamedTuple):
    """A process with the mark.

    Attributes:
        pid: its id.
        parent: its parent's, which is another one if that has died.
        kind: what it is.
        application: for executors, Spark's id of the application.
        command: its command line, shortened.
    """

    pid: int
    parent: int
    kind: Kind
    application: str
    command: str

    @property
    def works_at_a_part(self) -> bool:
        """Whether it is a Python process that works at parts of batches; there are others that only plan them."""
        return self.kind is Kind.WORKER and self.command.endswith("pyspark.worker")


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells the processes of a test from all others."""

    text: str

    @classmethod
    def new(cls) -> "Mark":
        return cls(uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        """For the processes that the test starts."""
        return {MARK_VARIABLE: self.text}

    def processes(self) -> list[SparkProcess]:
        """All that run."""
        wanted = f"{MARK_VARIABLE}={self.text}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    if wanted in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(_described(folder))
        kinds = {each.pid: each.kind for each in found}
        return [
            each._replace(kind=FORKED.get(each.kind, each.kind)) if kinds.get(each.parent) is each.kind else each
            for each in found
        ]

    def of_kind(self, *kinds: Kind) -> list[SparkProcess]:
        """Those of some kinds."""
        return [each for each in self.processes() if each.kind in kinds]

    def spark(self) -> list[SparkProcess]:
        """All of Spark: JVMs and Python processes."""
        return self.of_kind(Kind.DRIVER, Kind.EXECUTOR, *PYTHON)

    def kill_all(self) -> None:
        """SIGKILL to whatever is left."""
        for each in self.processes():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)


def _described(folder: Path) -> SparkProcess:
    words = [word.decode(errors="replace") for word in (folder / "cmdline").read_bytes().split(b"\0")]
    # The second field, the name, may have spaces and brackets in it.
    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    application = words[words.index(APPLICATION_OPTION) + 1] if APPLICATION_OPTION in words else ""
    return SparkProcess(int(folder.name), parent, _kind(words), application, " ".join(words)[-200:].strip())


def _kind(words: Iterable[str]) -> Kind:
    for word in words:
        for kind in (Kind.DRIVER, Kind.EXECUTOR, Kind.DAEMON):
            if word == kind.value:
                return kind
        if word.startswith(Kind.RUNNER.value):
            return Kind.RUNNER
    return Kind.OTHER


def workers_at_once(processes: Iterable[SparkProcess]) -> Iterator[frozenset[str]]:
    """The drivers whose Python processes run, and the applications whose executors do."""
    listed = list(processes)
    parents = {each.parent for each in listed if each.kind in PYTHON}
    yield frozenset(f"driver {each.pid}" for each in listed if each.kind is Kind.DRIVER and each.pid in parents)
    yield frozenset(each.application for each in listed if each.kind is Kind.EXECUTOR)


class DriverWatch:
    """Looks all the time whether two drivers work at once.

    Attributes:
        longest_s: for how long that was so, at most.
        who: who it was then.
        drivers: everybody that has worked.
    """

    def __init__(self, mark: Mark) -> None:
        self.longest_s = 0.0
        self.who: frozenset[str] = frozenset()
        self.drivers: set[str] = set()
        self._mark = mark
        self._since_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def look(self, processes: Iterable[SparkProcess], now_s: float) -> None:
        """Take in what runs now."""
        at_once = list(workers_at_once(processes))
        self.drivers |= at_once[0]
        several = max(at_once, key=len)
        if len(several) < 2:
            self._since_s = None
            return
        self._since_s = now_s if self._since_s is None else self._since_s
        if now_s - self._since_s >= self.longest_s:
            self.longest_s, self.who = now_s - self._since_s, several

    def _run(self) -> None:
        while not self._stop.wait(LOOK_INTERVAL_S):
            self.look(self._mark.processes(), time.monotonic())
