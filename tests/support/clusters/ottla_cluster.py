"""A local Ottla cluster started by `ottla up`, as a user would start one, and always stopped.

The command prints one JSON document once every service is ready; its standard error goes to a log file. Stopping
is SIGTERM to the command, which takes its processes with it; `stop` checks that they are gone.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.eventually import eventually
from tests.support.free_ports import free_port_block

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 30.0
LOG_TAIL_CHARACTERS = 4000


class LauncherFailed(AssertionError):
    """`ottla up` ended or stayed silent; the message has what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process of the cluster, as `ottla up --json` reports it."""

    role: str
    id: int
    pid: int
    port: int
    log: Path


class OttlaCluster:
    """Runs `ottla up` in the foreground.

    Attributes:
        directory: the cluster's data directory.
        bootstrap: known after `start`.
        services: one entry per process, known after `start`.

    Args:
        directory: where the cluster keeps everything.
        brokers: how many; likewise `controllers` and `coordinators`.
        arguments: more of `ottla up`.
        command: the `ottla` to run; this environment's by default.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 1,
        controllers: int = 1,
        coordinators: int = 1,
        arguments: Sequence[str] = (),
        command: str | None = None,
    ):
        self.directory = directory
        self.base_port = free_port_block(brokers)
        self.bootstrap = ""
        self.services: list[Service] = []
        self._command = [
            command or ottla_command(),
            "up",
            *("--dir", str(directory)),
            *("--base-port", str(self.base_port)),
            *("--brokers", str(brokers)),
            *("--controllers", str(controllers)),
            *("--coordinators", str(coordinators)),
            "--json",
            *arguments,
        ]
        self._launcher_log = directory.parent / f"{directory.name}-launcher.log"
        self._launcher: subprocess.Popen[str] | None = None

    @property
    def broker(self) -> Service:
        """The first broker."""
        return next(service for service in self.services if service.role == "broker")

    @property
    def supervisor_pid(self) -> int:
        """The process of `ottla up`."""
        assert self._launcher is not None
        return self._launcher.pid

    def start(self) -> None:
        """Starts the cluster and waits until it is ready.

        Raises:
            LauncherFailed: it ended, or was not ready in time.
        """
        with self._launcher_log.open("a") as errors:
            self._launcher = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        document = self._first_document(self._launcher)
        self.bootstrap = document["bootstrap"]
        self.services = _services(document)

    def refresh(self) -> list[Service]:
        """The services as they are now: one that was killed has been started again as another process."""
        command = [ottla_command(), "status", "--dir", str(self.directory), "--json"]
        status = subprocess.run(command, capture_output=True, text=True, check=True)
        self.services = _services(json.loads(status.stdout))
        return self.services

    def stop(self) -> None:
        """Stops the launcher with SIGTERM and waits until every process is gone."""
        launcher, self._launcher = self._launcher, None
        if launcher is None:
            return
        launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._kill(launcher)
            raise LauncherFailed(f"ottla up ignored SIGTERM for {STOP_DEADLINE_S} s: {self._log_tail()}") from None
        finally:
            assert launcher.stdout is not None
            launcher.stdout.close()
        eventually(lambda: not self._left_over(), "no process of the cluster is left", within_s=STOP_DEADLINE_S)

    def recorded(self) -> list[Service]:
        """The processes that run now by the state file, whether they are ready or not."""
        document = json.loads((self.directory / "cluster.json").read_text())
        self.services = _services({"processes": [each for each in document["processes"] if each["pid"] is not None]})
        return self.services

    def kill(self) -> None:
        """Kills the launcher and every process with SIGKILL, as they are at this moment."""
        launcher, self._launcher = self._launcher, None
        assert launcher is not None
        launcher.kill()  # first, or it would start the others again
        launcher.wait()
        assert launcher.stdout is not None
        launcher.stdout.close()
        self.recorded()
        for service in self._left_over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(service.pid, signal.SIGKILL)
        eventually(lambda: not self._left_over(), "no process of the cluster is left", within_s=STOP_DEADLINE_S)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _first_document(self, launcher: subprocess.Popen[str]) -> dict[str, Any]:
        """The JSON document on standard output, which may be spread over several lines."""
        assert launcher.stdout is not None
        give_up = threading.Timer(START_DEADLINE_S, launcher.terminate)
        give_up.start()
        try:
            text = ""
            for line in launcher.stdout:
                text += line
                try:
                    document: dict[str, Any] = json.loads(text)
                except json.JSONDecodeError:
                    continue
                return document
        finally:
            give_up.cancel()
        raise LauncherFailed(f"ottla up printed no JSON document but {text!r}: {self._log_tail()}")

    def _left_over(self) -> list[Service]:
        return [service for service in self.services if Path(f"/proc/{service.pid}").exists()]

    def _kill(self, launcher: subprocess.Popen[str]) -> None:
        launcher.kill()
        launcher.wait()
        for service in self._left_over():
            os.kill(service.pid, signal.SIGKILL)

    def _log_tail(self) -> str:
        return self._launcher_log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def _services(document: dict[str, Any]) -> list[Service]:
    return [
        Service(
            role=process["role"],
            id=int(process["id"]),
            pid=int(process["pid"]),
            port=int(process["port"]),
            log=Path(process["log"]),
        )
        for process in document["processes"]
    ]


def ottla_command() -> str:
    """The installed `ottla`, next to the running interpreter or on PATH."""
    beside = Path(sys.executable).parent / "ottla"
    found = str(beside) if beside.exists() else shutil.which("ottla")
    assert found, "the `ottla` command is not installed in this environment"
    return found
