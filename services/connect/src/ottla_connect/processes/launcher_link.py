"""The worker's side of one launcher: starts it, tells it what to do, and hears what it reports and that it died."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import structlog

from ottla_connect.processes.exits import ProcessFailed
from ottla_connect.processes.line_budget import LineBudget
from ottla_connect.processes.output_lines import OutputLine
from ottla_connect.processes.output_reader import OutputReader
from ottla_connect.processes.process_logs import LineRing
from ottla_core.processes.launcher_protocol import LauncherEvent, LauncherEventKind, Request, RequestKind, take_events

LAUNCHER_MODULE = "ottla_core.processes.launcher"
PREPARE = "ottla_connect.processes.preloading:preload"
READY_WITHIN_S = 60.0
END_WITHIN_S = 5.0
POLL_INTERVAL_S = 0.01
READ_SIZE = 4096
LAST_LINES = 40

log = structlog.get_logger(__name__)


class LauncherLink:
    """A launcher that was started once and dies once.

    Attributes:
        died: done when it has; nothing is reported after that.
    """

    def __init__(self, entry: str, *, on_report: Callable[[LauncherEvent], None]) -> None:
        """Prepare; `entry` is the MODULE:FUNCTION that its processes run."""
        self._entry = entry
        self._on_report = on_report
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self.died: asyncio.Future[None] = self._loop.create_future()
        self._received = bytearray()
        self._last_lines = LineRing(lines_max=LAST_LINES)
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._output: OutputReader | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "the launcher was not started"
        return self._process.pid

    async def start(self, shared_budget: LineBudget) -> None:
        """Start it, and wait until it can start processes.

        The thread that calls this must live as long as the launcher, which dies with it.

        Raises:
            ProcessFailed: it has ended, or takes too long.
        """
        control, theirs = socket.socketpair()
        output, output_end = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - waits for the exec only, a millisecond or two
                [
                    sys.executable,
                    "-P",
                    "-m",
                    LAUNCHER_MODULE,
                    str(os.getpid()),
                    str(theirs.fileno()),
                    PREPARE,
                    self._entry,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal is for the worker, which then stops its processes
            )
        except OSError as error:
            control.close()
            os.close(output)
            raise ProcessFailed(f"cannot start {sys.executable}: {error.strerror}") from None
        finally:
            theirs.close()
            os.close(output_end)
        control.setblocking(False)
        self._control = control
        self._output = OutputReader(
            output,
            keep=self._keep_line,
            shared=shared_budget,
            tags={"process": "launcher", "pid": self._process.pid},
        )
        self._loop.add_reader(control, self._read)
        await self._wait_until_ready()

    async def request_start(self, number: int, name: str, descriptors: Sequence[int]) -> None:
        """Ask it to start a process with these descriptors, of which copies are passed on.

        Raises:
            ProcessFailed: it has died, or does not listen.
        """
        request = Request(RequestKind.START, number, name)
        deadline_s = time.monotonic() + END_WITHIN_S
        while True:
            try:
                if self._control is None:
                    raise ProcessFailed("the launcher has died")
                socket.send_fds(self._control, [request.encode()], list(descriptors))
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise ProcessFailed("the launcher does not listen") from None
                await asyncio.sleep(POLL_INTERVAL_S)
            except OSError as error:
                raise ProcessFailed(f"the launcher has died: {error.strerror}") from None
            else:
                return

    def request_kill(self, number: int) -> None:
        """Ask it to kill a process; no more is to be done if it has died, as its processes die with it."""
        if self._control is None:
            return
        try:
            self._control.send(Request(RequestKind.KILL, number).encode())
        except BlockingIOError:
            log.error("the launcher does not listen, it is killed", pid=self.pid)
            self.kill()
        except OSError:
            return  # it has died, which `_read` sees

    def kill(self) -> None:
        """Kill it, and with it all its processes."""
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """Let it end, kill it if it does not, and return when it has."""
        self._stop_listening()
        if self._process is None:
            return
        deadline_s = time.monotonic() + END_WITHIN_S
        while self._process.poll() is None:
            if time.monotonic() > deadline_s:
                self._process.kill()
            await asyncio.sleep(POLL_INTERVAL_S)
        if self._output is not None:
            self._output.close()
            self._output = None

    async def _wait_until_ready(self) -> None:
        await asyncio.wait((self._ready, self.died), timeout=READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.done():
            return
        why = "has died" if self.died.done() else f"is not ready after {READY_WITHIN_S:g} s"
        self.kill()
        await self.close()
        lines = self._last_lines.texts(LAST_LINES)
        raise ProcessFailed(f"the launcher of processes {why}{f': {lines[-1]}' if lines else ''}", lines)

    def _read(self) -> None:
        assert self._control is not None, "a closed socket is not listened to"
        try:
            received = self._control.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._stop_listening()
            self.kill()
            return
        self._received += received
        for report in take_events(self._received):
            if report.kind is not LauncherEventKind.READY:
                self._on_report(report)
            elif not self._ready.done():
                self._ready.set_result(None)

    def _keep_line(self, line: OutputLine) -> None:
        for text in line.texts():
            self._last_lines.add(time.time(), text)

    def _stop_listening(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control)
            self._control.close()
            self._control = None
        if not self.died.done():
            self.died.set_result(None)
