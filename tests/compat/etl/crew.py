"""The workers of one group, as processes, and their notes."""

import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.compat.etl.judgement import History, history_of
from tests.compat.etl.worker_program import WorkerSpec
from tests.support.child_process import ChildDied, ChildProcess
from tests.support.reference.java_class_archive import QUICK_START
from tests.support.reference.kafka_jars import kafka_classpath

JAVA_SOURCE = Path(__file__).with_name("EtlWorker.java")
JAVA_OPTIONS = (*QUICK_START, "-Xmx96m")
COMPILE_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and how its workers join.

    Attributes:
        module: of the worker's program; None for Java's.
    """

    module: str | None
    protocol: str = "classic"


CLIENTS = {
    "confluent": Client("tests.compat.etl.confluent_worker"),
    "confluent, consumer protocol": Client("tests.compat.etl.confluent_worker", "consumer"),
    "aiokafka": Client("tests.compat.etl.aiokafka_worker"),
    "kafka-python": Client("tests.compat.etl.kafka_python_worker"),
    "java": Client(None),
    "java, consumer protocol": Client(None, "consumer"),
}
PYTHON_CLIENTS = tuple(name for name, client in CLIENTS.items() if client.module is not None)


class Crew:
    """Some workers of one client, in a group of their own, between topics of their own.

    Attributes:
        source: the topic that they read; `sink` the one that they write.
    """

    def __init__(self, client: str, bootstrap: str, directory: Path, *, workers: int):
        self.client = client
        self._name = f"{client.replace(', ', '-').replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        self.group, self.source, self.sink = f"etl-{self._name}", f"source-{self._name}", f"sink-{self._name}"
        self._bootstrap = bootstrap
        self._directory = directory / self._name
        self._directory.mkdir(parents=True)
        self._started = 0
        self._places: list[ChildProcess | None] = [None] * workers

    @property
    def history(self) -> History:
        """What has been noted so far."""
        return history_of({notes.stem: _whole_lines(notes) for notes in self._directory.glob("*.notes")})

    def start(self) -> None:
        """Starts a worker at every place that has none; it is another one, with a name of its own."""
        for place, worker in enumerate(self._places):
            if worker is None:
                self._places[place] = self._new_worker()

    def kill_one(self, turn: int) -> None:
        """SIGKILL to the worker whose turn it is, whatever it is at."""
        place = turn % len(self._places)
        worker, self._places[place] = self._places[place], None
        if worker is not None:
            worker.kill()

    def check_running(self) -> None:
        """Raises ChildDied if one has ended by itself."""
        for worker in self._workers:
            worker.check_running()

    def stop(self) -> None:
        """Lets each leave; one that cannot is killed, as what matters is in the sink and in the notes."""
        for worker in self._workers:
            try:
                worker.stop()
            except ChildDied as late:
                print(f"{self.client}: {late.args[0].splitlines()[0]}", file=sys.stderr)

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    @property
    def _workers(self) -> list[ChildProcess]:
        return [worker for worker in self._places if worker is not None]

    def _new_worker(self) -> ChildProcess:
        name = f"{self._name}-{self._started}"
        self._started += 1
        spec = WorkerSpec(
            bootstrap=self._bootstrap,
            worker=name,
            group=self.group,
            source=self.source,
            sink=self.sink,
            notes=str(self._notes(name)),
            protocol=CLIENTS[self.client].protocol,
        )
        worker = ChildProcess(name, self._command(spec), log=self._directory / f"{name}.log")
        worker.start()
        return worker

    def _notes(self, worker: str) -> Path:
        return self._directory / f"{worker}.notes"

    def _command(self, spec: WorkerSpec) -> list[str]:
        module = CLIENTS[self.client].module
        if module is not None:
            return [sys.executable, "-m", module, spec.to_json()]
        arguments = [spec.bootstrap, spec.worker, spec.group, spec.source, spec.sink, spec.notes, spec.protocol]
        return ["java", *JAVA_OPTIONS, "-cp", _java_classpath(self._directory.parent), "EtlWorker", *arguments]


def committed(history: History) -> dict[int, int]:
    """The highest acknowledged offset of each partition."""
    offsets: dict[int, int] = {}
    for commit in history.commits:
        if commit.granted_s is not None:
            offsets[commit.partition] = max(offsets.get(commit.partition, 0), commit.offset)
    return offsets


def _whole_lines(notes: Path) -> Iterable[str]:
    if not notes.exists():
        return []
    lines = notes.read_text().split("\n")
    return lines[:-1]


def _java_classpath(directory: Path) -> str:
    """Kafka's jars and the compiled worker."""
    classes = directory / "classes"
    if not classes.exists():
        command = ["javac", "-cp", kafka_classpath(), "-d", str(classes), str(JAVA_SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_DEADLINE_S)
    return f"{kafka_classpath()}:{classes}"
