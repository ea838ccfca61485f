"""Several `ottla-connect` workers against a Kafka cluster, which a test may kill, pause and start again.

Every worker has a port of its own for REST, and keeps it over restarts. The processes of connectors and tasks are
found in /proc below the worker, by the names that it gives them, so that a test can kill one of them.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.child_process import ChildProcess
from tests.support.clusters.service_process import service_command
from tests.support.eventually import NotInTime, eventually
from tests.support.free_ports import LOOPBACK, free_ports

START_DEADLINE_S = 60.0
REQUEST_TIMEOUT_S = 20.0
PROCESS_NAME_MAX = 15
"""Linux shows so much; give connectors short names."""

# As short as is safe on a busy machine; a test should not wait for Connect's defaults.
WORKER_SETTINGS = {
    "session.timeout.ms": "4000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "1000",
    "rebalance.timeout.ms": "20000",
    "offset.flush.interval.ms": "500",
    "task.restart.backoff.ms": "200",
    "task.shutdown.graceful.timeout.ms": "3000",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "1",
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "500",
    "consumer.auto.offset.reset": "earliest",
}


class ConnectWorker:
    """One `ottla-connect`.

    Attributes:
        number: from 1 on.
        url: of its REST API.
        process: its process, and the log of it and its tasks.
        disturbances: how often it was started, killed, paused or resumed.
    """

    def __init__(
        self, number: int, directory: Path, settings: Mapping[str, str], environment: Mapping[str, str] | None = None
    ):
        self.number = number
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}"
        written = {"listeners": self.url, **settings}
        arguments = [word for key, value in written.items() for word in ("--set", f"{key}={value}")]
        self.process = ChildProcess(
            f"ottla-connect-{number}",
            [service_command("ottla-connect"), *arguments],
            log=directory / f"worker-{number}.log",
            env=environment,
        )
        self.disturbances = 0
        self.is_paused = False
        self._is_up = False
        self._health = ""

    def start(self) -> None:
        """Starts it without waiting; `wait_until_ready` does."""
        self._disturb()
        self.process.start()

    def wait_until_ready(self) -> None:
        """Waits until it answers and belongs to the group."""
        try:
            eventually(self.is_ready, f"{self.process.name} is ready", within_s=START_DEADLINE_S)
        except NotInTime as error:
            raise NotInTime(f"{error}; {self._health}") from None
        self._is_up = True

    def is_ready(self) -> bool:
        self.process.check_running()
        try:
            # Without verify=False, loading certificates would take 20 ms of processor time for every look.
            answer = httpx.get(f"{self.url}/health", timeout=REQUEST_TIMEOUT_S, verify=False, trust_env=False)
        except httpx.TransportError as error:
            self._health = repr(error)
            return False
        self._health = answer.text
        return answer.status_code == httpx.codes.OK

    def answers(self) -> bool:
        """Whether it can be expected to."""
        return self._is_up and not self.is_paused

    def kill(self) -> None:
        """SIGKILL."""
        self._is_up = False
        self._disturb()
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM; its end must be a clean one."""
        self._is_up = False
        self._disturb()
        assert self.process.stop() == 0, f"{self.process.name} did not stop cleanly"

    def pause(self) -> None:
        """SIGSTOP to the worker; its tasks are other processes, and go on as far as they may."""
        self.is_paused = True
        self._disturb()
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.process.pid, signal.SIGCONT)
        self._disturb()
        self.is_paused = False

    def processes(self) -> dict[int, str]:
        """Its connectors' and tasks' processes: the name by process id, such as ``flights`` or ``flights-0``."""
        if not self.process.is_running():
            return {}
        grandchildren = (each for launcher in _children(self.process.pid) for each in _children(launcher))
        return {pid: name for pid in grandchildren if (name := _name(pid))}

    def _disturb(self) -> None:
        self.disturbances += 1


class ConnectCluster:
    """The workers, started and always ended.

    Attributes:
        workers: all of them, also those that do not run.
    """

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *,
        workers: int = 3,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        written = {"bootstrap.servers": bootstrap, **WORKER_SETTINGS, **(settings or {})}
        self.workers = [ConnectWorker(number + 1, directory, written, environment) for number in range(workers)]

    def __enter__(self) -> Self:
        try:
            for worker in self.workers:
                worker.start()
            for worker in self.workers:
                worker.wait_until_ready()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for worker in self.workers:
                if worker.is_paused:
                    worker.resume()
                if error is None:
                    worker.process.stop()
        finally:
            self._kill()

    def answering(self) -> list[ConnectWorker]:
        """The workers that run and are not paused."""
        return [worker for worker in self.workers if worker.answers()]

    def request(self, method: str, path: str, json: Any = None, *, worker: ConnectWorker | None = None) -> Any:
        """Asks a worker, by default the first that runs, and returns the document; 409 is tried again, as told.

        Raises:
            AssertionError: the answer is an error; the message has it.
        """
        asked = worker or self.answering()[0]

        def answered() -> httpx.Response | None:
            answer = httpx.request(
                method, asked.url + path, json=json, timeout=REQUEST_TIMEOUT_S, verify=False, trust_env=False
            )
            return None if answer.status_code == httpx.codes.CONFLICT else answer

        answer = eventually(answered, f"{method} {path} is not refused for a rebalance")
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def put_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or changes a connector."""
        assert len(name) + 2 <= PROCESS_NAME_MAX, f"{name} is too long to be seen in the list of processes"
        self.request("PUT", f"/connectors/{name}/config", dict(config))

    def states(self, name: str, *, worker: ConnectWorker | None = None) -> dict[str, str]:
        """The states of a connector (under its name) and of its tasks, such as ``flights-0``."""
        status = self.request("GET", f"/connectors/{name}/status", worker=worker)
        tasks = {f"{name}-{task['id']}": str(task["state"]) for task in status["tasks"]}
        return {name: str(status["connector"]["state"])} | tasks

    def processes(self, *, without: ConnectWorker | None = None) -> dict[str, list[int]]:
        """Process ids by name, over all workers that run but perhaps one; a name with several is run twice."""
        found: dict[str, list[int]] = {}
        for worker in self.workers:
            if worker is without:
                continue
            for pid, name in worker.processes().items():
                found.setdefault(name, []).append(pid)
        return found

    def logs(self) -> str:
        """What all workers have logged."""
        return "".join(worker.process.log.read_text(errors="replace") for worker in self.workers)

    def _kill(self) -> None:
        for worker in self.workers:
            worker.kill()


def _children(pid: int) -> Iterator[int]:
    """The child processes of every thread of a process."""
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
