"""The supervisor's side of the launcher from which the services of a local cluster are forked.

The launcher (`ottla_core/processes/launcher.py`) is started at once, so that it does its imports while etcd starts.
If it dies, the kernel kills its services; the supervisor sees their ends, as it sees any crash, and the next start of
a service starts another launcher.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.local.service_process import ENTRY, PREPARE, ServiceStart
from ottla_core.processes.launcher_protocol import LauncherEvent, LauncherEventKind, Request, RequestKind, take_events
from ottla_operations.local_clusters.process_identity import ProcessIdentity, identify, is_alive, send_signal

LAUNCHER_MODULE = "ottla_core.processes.launcher"
ANSWER_WITHIN_S = 60.0
END_WITHIN_S = 5.0
GONE_POLL_INTERVAL_S = 0.005
READ_SIZE = 4096


class LaunchedProcess:
    """A service that was forked; like a subprocess of asyncio, but that it says when it is ready.

    Attributes:
        pid: its process id.
        returncode: its exit code, negative for a signal; None while it runs.
        ready: set when it has said so.
    """

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._identity: ProcessIdentity | None = identify(pid)
        self._channel: socket.socket | None = channel
        asyncio.get_running_loop().add_reader(channel, self._read)

    async def wait(self) -> int:
        """Wait for its end and return the exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def wait_ready(self, timeout_s: float) -> bool:
        """Return whether it has become ready in time; returns early if it ends."""
        waiting = {asyncio.create_task(event.wait()) for event in (self.ready, self._ended)}
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        return self.ready.is_set()

    def terminate(self) -> None:
        """Ask it to stop."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    def is_alive(self) -> bool:
        """Whether the system still knows it."""
        return self._identity is not None and is_alive(self._identity)

    def end(self, returncode: int) -> None:
        """Note that it has ended."""
        self.returncode = returncode
        self._close_channel()
        self._ended.set()

    def _signal(self, number: signal.Signals) -> None:
        if self._identity is not None:  # else it had ended before anybody could look
            send_signal(self._identity, number)

    def _read(self) -> None:
        assert self._channel is not None
        try:
            said = self._channel.recv(READ_SIZE)
        except OSError:
            said = b""
        if said:
            self.ready.set()
        self._close_channel()

    def _close_channel(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None


def _launcher_has_ended() -> OSError:
    return OSError(errno.ECHILD, "the launcher of services has ended")


class ServiceLauncher:
    """Starts services in processes that share their imports.

    Args:
        log: where the launcher's own output goes; a service's goes where its start says.
        environment: variables that count at the imports, and so for all services.
    """

    def __init__(self, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        self._environment = environment or {}
        self._link: _Link | None = None
        self._numbers = itertools.count(1)
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Start the launcher if there is none, without waiting for its imports.

        Raises:
            OSError: the operating system refuses to start it.
        """
        async with self._opening:
            if self._link is None or self._link.has_died:
                self._link = await _Link.start(self._log, self._environment)

    async def start(self, start: ServiceStart, output: int) -> LaunchedProcess:
        """Start a service, with a descriptor for its output.

        Raises:
            OSError: it cannot be forked, or there is no launcher that could do it.
        """
        await self.open()
        assert self._link is not None
        return await self._link.fork(next(self._numbers), start, output)

    async def close(self) -> None:
        """End the launcher, and with it whatever it has started."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()


class _Link:
    """One launcher, from its start to its death."""

    def __init__(self, control: socket.socket, process: asyncio.subprocess.Process) -> None:
        self.has_died = False
        self._control = control
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._is_ready = False
        self._starting: dict[int, tuple[socket.socket, asyncio.Future[LaunchedProcess]]] = {}
        self._running: dict[int, LaunchedProcess] = {}
        self._burial: asyncio.Task[None] | None = None
        control.setblocking(False)
        self._loop.add_reader(control, self._read)

    @classmethod
    async def start(cls, log: Path, environment: Mapping[str, str]) -> "_Link":
        control, theirs = socket.socketpair()
        try:
            with theirs, log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", LAUNCHER_MODULE),
                    *(str(os.getpid()), str(theirs.fileno()), PREPARE, ENTRY),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl-C in a terminal is for the supervisor
                    env={**os.environ, **environment},
                )
        except BaseException:
            control.close()
            raise
        return cls(control, process)

    async def fork(self, number: int, start: ServiceStart, output: int) -> LaunchedProcess:
        channel, theirs = socket.socketpair()
        started: asyncio.Future[LaunchedProcess] = self._loop.create_future()
        self._starting[number] = (channel, started)
        try:
            with theirs:
                channel.sendall(start.to_line())
                channel.setblocking(False)
                request = Request(RequestKind.START, number, start.module.partition(".")[0])
                try:
                    socket.send_fds(self._control, [request.encode()], [theirs.fileno(), output])
                except (BrokenPipeError, ConnectionResetError) as error:  # its end has not been read yet
                    raise _launcher_has_ended() from error
            return await asyncio.wait_for(started, ANSWER_WITHIN_S)
        except BaseException:
            if number in self._starting:
                channel.close()
            raise
        finally:
            self._starting.pop(number, None)

    async def close(self) -> None:
        """Let it end, which ends what it has started; kill it if it does not, or still imports."""
        self._stop_listening()
        if not self._is_ready:
            self._kill()
        try:
            await asyncio.wait_for(self._process.wait(), END_WITHIN_S)
        except TimeoutError:
            self._kill()
            await self._process.wait()
        if self._burial is not None:
            await self._burial

    def _read(self) -> None:
        try:
            received = self._control.recv(READ_SIZE)
        except OSError:
            received = b""
        if not received:
            self._kill()
            self._stop_listening()
            return
        self._received += received
        for report in take_events(self._received):
            self._take(report)

    def _take(self, report: LauncherEvent) -> None:
        match report.kind:
            case LauncherEventKind.READY:
                self._is_ready = True
            case LauncherEventKind.STARTED:
                self._note_start(report)
            case LauncherEventKind.NOT_STARTED:
                if report.number in self._starting:
                    _, started = self._starting[report.number]
                    started.set_exception(OSError(report.value, os.strerror(report.value)))
            case LauncherEventKind.EXITED | LauncherEventKind.SIGNALLED:
                if (launched := self._running.pop(report.number, None)) is not None:
                    launched.end(report.value if report.kind is LauncherEventKind.EXITED else -report.value)

    def _note_start(self, report: LauncherEvent) -> None:
        """Make the process known at once: the report of its end may be the next one."""
        channel, started = self._starting.pop(report.number, (None, None))
        if channel is None or started is None or started.done():  # nobody waits for it any more
            self._control.send(Request(RequestKind.KILL, report.number).encode())
            return
        launched = LaunchedProcess(report.pid, channel)
        self._running[report.number] = launched
        started.set_result(launched)

    def _stop_listening(self) -> None:
        """Give it up: nobody can be started any more, and what it had started dies with it."""
        if self.has_died:
            return
        self.has_died = True
        self._loop.remove_reader(self._control)
        self._control.close()
        for _, started in self._starting.values():
            if not started.done():
                started.set_exception(_launcher_has_ended())
        self._burial = self._loop.create_task(_bury(list(self._running.values())))

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


async def _bury(orphans: Sequence[LaunchedProcess]) -> None:
    """Report the end of what a launcher has left behind when the kernel has killed it.

    Not before: a service that is started again would find its port and its directory still taken.
    """
    deadline = time.monotonic() + END_WITHIN_S
    for orphan in orphans:
        while orphan.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110 - the kernel sets no event
            await asyncio.sleep(GONE_POLL_INTERVAL_S)
        orphan.end(-signal.SIGKILL)
