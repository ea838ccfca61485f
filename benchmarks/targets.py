"""What is measured, started afresh on this machine: the floor, an Ottla cluster, a reference Kafka.

Each target lives in a directory of its own and can be stopped and started again on the same data. `processes` names
every process that it consists of; `subject` is the one that clients talk to.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from benchmarks.client import BenchmarkFailed, Subject, wait_for_leaders
from benchmarks.process_stats import children
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.reference.reference_kafka import ReferenceKafka

STOP_TIMEOUT_S = 30.0
OTHER = "other"
"""How another checkout of Ottla is called in reports."""


class Target(Protocol):
    """A broker under the control of the benchmark."""

    name: str
    address: str
    """Where it will answer, known before it is started."""
    started_at_s: float
    """When the command that starts everything was executed last, by CLOCK_BOOTTIME."""

    def start(self) -> Subject:
        """Start it and return its broker once it answers."""

    def stop(self) -> None:
        """Stop it cleanly; nothing of it is left running."""

    def processes(self) -> dict[str, int]:
        """Return the process ids by name."""


class FloorTarget:
    """The floor as a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.name = "floor"
        self.started_at_s = 0.0
        port = free_port()
        self.address = f"{LOOPBACK}:{port}"
        self._command = [sys.executable, "-m", "benchmarks", "floor", "--dir", str(directory), "--port", str(port)]
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Subject:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.started_at_s = _now_s()
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        address = self._process.stdout.readline().strip()
        if not address:
            self.stop()
            raise BenchmarkFailed("the floor did not start")
        return Subject(address, self._process.pid)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def processes(self) -> dict[str, int]:
        return {} if self._process is None else {"floor": self._process.pid}


class OttlaTarget:
    """One broker, one controller, one group coordinator and the embedded etcd, as `ottla up` starts them.

    Args:
        directory: where it keeps everything.
        name: what it is called in reports.
        command: the `ottla` of another checkout; this one's by default.
    """

    def __init__(self, directory: Path, name: str = "ottla", command: str | None = None) -> None:
        self.name = name
        self.started_at_s = 0.0
        directory.mkdir(parents=True, exist_ok=True)
        self._cluster = OttlaCluster(directory / "cluster", command=command)
        self.address = f"{LOOPBACK}:{self._cluster.base_port}"

    def start(self) -> Subject:
        self.started_at_s = _now_s()
        try:
            self._cluster.start()
        except BaseException:
            self._cluster.stop()
            raise
        return Subject(self._cluster.bootstrap, self._cluster.broker.pid)

    def stop(self) -> None:
        self._cluster.stop()

    def processes(self) -> dict[str, int]:
        named = {f"{service.role}-{service.id}": service.pid for service in self._cluster.services}
        supervisor = self._cluster.supervisor_pid
        others = [pid for pid in children(supervisor) if pid not in named.values()]
        return {**named, "supervisor": supervisor, **{f"launcher-{n}": pid for n, pid in enumerate(others, start=1)}}


class KafkaTarget:
    """One Apache Kafka node, broker and controller in one process."""

    def __init__(self, directory: Path) -> None:
        self.name = "kafka"
        self.started_at_s = 0.0
        self._kafka = ReferenceKafka(directory / "kafka", java_options=("-Xmx1g", "-Xms1g"))
        self.address = self._kafka.bootstrap

    def start(self) -> Subject:
        self.started_at_s = _now_s()
        try:
            self._kafka.start()
        except BaseException:
            self._kafka.kill()
            raise
        return Subject(self._kafka.bootstrap, self._kafka.process.pid)

    def stop(self) -> None:
        self._kafka.stop()

    def processes(self) -> dict[str, int]:
        return {"kafka": self._kafka.process.pid}


class CommandTarget:
    """Any command that runs a broker in the foreground and ends on SIGTERM."""

    def __init__(self, command: str, address: str) -> None:
        self.name = "command"
        self.address = address
        self.started_at_s = 0.0
        self._command = shlex.split(command)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Subject:
        self.started_at_s = _now_s()
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for_leaders(self.address, 0)
            return Subject.at(self.address)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def processes(self) -> dict[str, int]:
        return {} if self._process is None else {self._command[0]: self._process.pid}


def other_checkout(path: Path) -> Callable[[Path], Target]:
    """Return what makes a target of another checkout of Ottla, which needs an environment of its own in `.venv`.

    Raises:
        BenchmarkFailed: it has none.
    """
    command = path / ".venv/bin/ottla"
    if not command.is_file():
        raise BenchmarkFailed(f"{command} does not exist; run `make setup` in {path}")
    return lambda directory: OttlaTarget(directory, OTHER, str(command))


TARGETS: dict[str, type[FloorTarget] | type[OttlaTarget] | type[KafkaTarget]] = {
    "floor": FloorTarget,
    "ottla": OttlaTarget,
    "kafka": KafkaTarget,
}


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Stop a process and wait for it; kill it if it does not go."""
    process.terminate()
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
