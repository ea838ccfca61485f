"""One supervised process: started with its output in its log, asked for its health, waited for, stopped.

It runs in a session of its own, so that Ctrl-C in the terminal reaches the supervisor alone, and it dies with the
supervisor whatever happens to that one (see `tied_exec`). A service is forked from a launcher where there is one, and
then says by itself when it is ready; everything else is executed, and asked.
"""

import asyncio
import contextlib
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ottla.local import tied_exec
from ottla.local.cluster_directory import last_lines
from ottla.local.plan import ProcessSpec
from ottla.local.service_launcher import LaunchedProcess, ServiceLauncher
from ottla.local.service_process import ServiceStart
from ottla_operations.local_clusters.cluster_report import ProcessReport, ProcessState
from ottla_operations.local_clusters.process_identity import identify

START_DEADLINE_S = 60.0
HEALTH_INTERVAL_S = 0.02
LOG_TAIL_LINES = 12
LOG_LINE_LENGTH_MAX = 400
LOG_SIZE_MAX_BYTES = 20 * 1024 * 1024
START_MARK = "--- "


class ProcessFailed(Exception):
    """A process did not start, or ended; the message names it and its log and shows the log's last lines."""


class ManagedProcess:
    """The present incarnation of a `ProcessSpec`, and how often there had to be a new one.

    Args:
        spec: what it is.
        launcher: forks it if it is a service; without one, every process is executed.
    """

    def __init__(self, spec: ProcessSpec, launcher: ServiceLauncher | None = None) -> None:
        self.spec = spec
        self.state: ProcessState = "stopped"
        self.restarts = 0
        self._launcher = launcher
        self._child: asyncio.subprocess.Process | LaunchedProcess | None = None
        self._start = ""

    def is_running(self) -> bool:
        """Whether there is a child that has not ended."""
        return self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Start it and return once it is ready.

        Raises:
            ProcessFailed: it ended first, or was not ready in time.
            OSError: the operating system refuses to start it, for example as the disk is full.
        """
        assert not self.is_running()
        self.state = "starting"
        await self._spawn()
        problem = await (self._listen() if isinstance(self._child, LaunchedProcess) else self._ask())
        if not self.is_running():
            raise ProcessFailed(self.describe_end("ended while it was starting"))
        if problem is not None:
            raise ProcessFailed(self._with_log(f"was not ready within {START_DEADLINE_S:.0f} s: {problem}"))
        self.state = "ready"

    async def wait(self) -> int:
        """Wait for its end and return the exit code, negative for a signal."""
        assert self._child is not None
        return await self._child.wait()

    def terminate(self) -> None:
        """Ask it to stop."""
        self._signal("terminate")

    def kill(self) -> None:
        """End it at once."""
        self._signal("kill")

    def describe_end(self, what: str) -> str:
        """Return a message about its end: name, what happened, how, and the end of its log."""
        assert self._child is not None
        return self._with_log(f"{what} ({describe_exit(self._child.returncode)})")

    def report(self) -> ProcessReport:
        """Return what is known of it."""
        spec = self.spec
        running = self._child if self.is_running() else None
        return ProcessReport(
            role=spec.role,
            id=spec.id,
            pid=running.pid if running else None,
            start=self._start if running else None,
            address=f"{spec.host}:{spec.port}",
            port=spec.port,
            rpc=spec.rpc,
            metrics=spec.metrics,
            log=str(spec.log),
            state=self.state,
            restarts=self.restarts,
        )

    async def _listen(self) -> str | None:
        """Wait until it says that it is ready, or has ended; returns what is missing if it takes too long."""
        assert isinstance(self._child, LaunchedProcess)
        return None if await self._child.wait_ready(START_DEADLINE_S) else "it has not said that it is ready"

    async def _ask(self) -> str | None:
        """Ask until it is ready, or has ended; returns what is missing if it takes too long."""
        deadline = time.monotonic() + START_DEADLINE_S
        while (problem := await self.spec.health.problem()) is not None and self.is_running():
            if time.monotonic() > deadline:
                return problem
            await asyncio.sleep(HEALTH_INTERVAL_S)
        return None

    async def _spawn(self) -> None:
        spec = self.spec
        set_aside_big_log(spec.log)
        with spec.log.open("ab", buffering=0) as log:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            with contextlib.suppress(OSError):  # a line that does not fit on a full disk is no reason not to start
                log.write(f"{START_MARK}{now} ottla starts {spec.name}: {' '.join(spec.command)}\n".encode())
            if self._launcher is not None and spec.service_module is not None:
                self._child = await self._launcher.start(_service_start(spec, spec.service_module), log.fileno())
            else:
                self._child = await _execute(spec, log)
        identity = identify(self._child.pid)
        self._start = identity.start if identity else ""

    def _signal(self, action: str) -> None:
        if self._child is None or self._child.returncode is not None:
            return
        try:
            self._child.terminate() if action == "terminate" else self._child.kill()
        except ProcessLookupError:
            return  # it ended in this moment; the waiter will see that

    def _with_log(self, what: str) -> str:
        lines = last_lines(self.spec.log, LOG_TAIL_LINES)
        starts = [number for number, line in enumerate(lines) if line.startswith(START_MARK)]
        own_lines = lines[starts[-1] + 1 :] if starts else lines
        shown = [f"  | {line[:LOG_LINE_LENGTH_MAX]}" for line in own_lines]
        tail = ":\n" + "\n".join(shown) if shown else " (empty)"
        return f"{self.spec.name} {what}; its log is {self.spec.log}{tail}"


def _service_start(spec: ProcessSpec, module: str) -> ServiceStart:
    return ServiceStart(module, spec.command, dict(spec.environment), sorted(spec.hidden_variables))


async def _execute(spec: ProcessSpec, log: BinaryIO) -> asyncio.subprocess.Process:
    inherited = {key: value for key, value in os.environ.items() if key not in spec.hidden_variables}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", tied_exec.__file__, str(os.getpid())),
        *spec.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**inherited, **spec.environment},
    )


def describe_exit(code: int | None) -> str:
    """Return an exit code in words."""
    if code is None:
        return "still running"
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def set_aside_big_log(log: Path) -> None:
    """Rename a log that has grown big, so that at most two such files stay per process."""
    if log.exists() and log.stat().st_size > LOG_SIZE_MAX_BYTES:
        log.replace(log.with_name(log.name + ".1"))
