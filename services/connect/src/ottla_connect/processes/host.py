"""Runs the processes of connectors and tasks, and short-lived ones that answer a question about plugins.

A launcher (`ottla_core/processes/launcher.py`) forks them. It is started again when it dies; its processes die with
it, and are reported as ended. Every quarter of a second the host looks at how much memory each uses, and whether it
does what it must.
"""

import asyncio
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import structlog

from ottla_connect.processes.channel import Channel
from ottla_connect.processes.child_process import ChildProcess
from ottla_connect.processes.exits import Exit, ProcessFailed, ProcessLimits
from ottla_connect.processes.launcher_link import LauncherLink
from ottla_connect.processes.line_budget import LineBudget
from ottla_connect.processes.messages import (
    Answer,
    ChangeOffsets,
    CheckOffsets,
    DescribeConfig,
    Failed,
    FenceTasks,
    FromProcess,
    ListPlugins,
    Purpose,
    RunConnector,
    RunTask,
    Validate,
)
from ottla_connect.processes.orphans import kill_group_of_orphan, reap_orphan
from ottla_connect.processes.output_lines import OutputLine
from ottla_connect.processes.output_reader import OutputReader
from ottla_connect.processes.process_logs import ProcessLogs
from ottla_core.background import note_failure, start_awaited
from ottla_core.processes.launcher_protocol import LauncherEvent, LauncherEventKind

__all__ = ["ChildProcess", "Exit", "ProcessFailed", "ProcessHost", "ProcessLimits", "ProcessLogs"]

ENTRY = "ottla_connect.task.main:run"
START_WITHIN_S = 30.0
CLOSE_GRACE_S = 5.0
ASKS_MAX = 4
ASK_LIMITS = ProcessLimits(memory_bytes=1024 * 1024 * 1024)
LINES_PER_SECOND = 8000.0
LINES_BURST = 1000
LAUNCHES_MAX = 6
"""So often in a row is a launcher started that does not live for `LAUNCHER_HEALTHY_S`."""
LAUNCHER_HEALTHY_S = 60.0
RELAUNCH_BACKOFF_S = 0.1
RELAUNCH_BACKOFF_MAX_S = 5.0
GONE_WITHIN_S = 5.0
"""The processes of a dead launcher are killed by the kernel at once; waiting ends here if one of them cannot die."""
GONE_POLL_INTERVAL_S = 0.005

log = structlog.get_logger(__name__)


class ProcessHost:
    """Starts, watches and stops processes.

    Attributes:
        logs: the last log lines of every connector and task.
        failed: a future, from `start` on; its exception says why no processes can be started any more.
    """

    failed: asyncio.Future[None]

    def __init__(self, *, memory_check_interval_s: float = 0.25, entry: str = ENTRY) -> None:
        """Prepare.

        Args:
            memory_check_interval_s: seconds between two looks at the processes.
            entry: MODULE:FUNCTION that every process runs with its channel.
        """
        self.logs = ProcessLogs()
        self._check_interval_s = memory_check_interval_s
        self._entry = entry
        self._numbers = itertools.count(1)
        self._children: dict[int, ChildProcess] = {}
        self._starting: dict[int, asyncio.Future[str]] = {}
        self._link: LauncherLink | None = None
        self._launched = asyncio.Event()
        self._asks = asyncio.Semaphore(ASKS_MAX)
        self._budget = LineBudget(per_second=LINES_PER_SECOND, burst=LINES_BURST)
        self._duties: list[asyncio.Task[None]] = []
        self._is_closing = False

    @property
    def launcher_pid(self) -> int:
        """The process id of the launcher, the parent of all processes."""
        assert self._link is not None, "the host was not started"
        return self._link.pid

    @property
    def process_count(self) -> int:
        """How many processes there are, those included that are being started or have not gone yet."""
        return len(self._children)

    async def start(self) -> None:
        """Start the launcher; from the thread that the worker's life is tied to, the main one.

        Raises:
            ProcessFailed: it cannot be started.
        """
        self.failed = asyncio.get_running_loop().create_future()
        await self._launch()
        self._duties = [
            start_awaited("launcher", self._keep_launcher()),
            start_awaited("watch over processes", self._watch()),
        ]
        for duty in self._duties:
            duty.add_done_callback(self._duty_ended)

    async def close(self) -> None:
        """Stop all processes, kill those that do not stop in `CLOSE_GRACE_S`, and end the launcher."""
        self._is_closing = True
        await asyncio.gather(*(child.stop(CLOSE_GRACE_S) for child in list(self._children.values())))
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        if self._link is not None:
            await self._link.close()
            self._link = None
        if self._duties and self.failed.done():
            self.failed.exception()  # has been seen, by whoever closes this
        self._duties = []

    async def spawn(
        self,
        purpose: RunConnector | RunTask,
        *,
        limits: ProcessLimits,
        on_message: Callable[[FromProcess], None],
        on_exit: Callable[[Exit], None],
    ) -> ChildProcess:
        """Start a process.

        Args:
            purpose: what it is for.
            limits: what it may use.
            on_message: called with each of its messages, first after this has returned.
            on_exit: called once, after its last message.

        Raises:
            ProcessFailed: it cannot be started.
        """
        return await self._spawn(purpose, limits=limits, on_message=on_message, on_exit=on_exit)

    async def ask(
        self,
        purpose: ListPlugins | Validate | DescribeConfig | CheckOffsets | ChangeOffsets | FenceTasks,
        *,
        timeout_s: float,
        on_started: Callable[[ChildProcess], object] = lambda _: None,
    ) -> Answer:
        """Start a process, and return its answer. At most `ASKS_MAX` do so at a time, others wait.

        Args:
            purpose: what it is for.
            timeout_s: seconds until it is given up, which has it killed.
            on_started: is given the process; what it raises is raised here, and has it killed.

        Raises:
            ProcessFailed: it ended without an answer, or gave none within `timeout_s` seconds, all in all.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        child: ChildProcess | None = None

        def on_message(message: FromProcess) -> None:
            if answer.done():
                return
            if isinstance(message, Answer):
                answer.set_result(message)
            elif isinstance(message, Failed):
                answer.set_exception(ProcessFailed(message.reason, message.trace.splitlines()))

        def on_exit(end: Exit) -> None:
            self._asks.release()
            if not answer.done():
                answer.set_exception(ProcessFailed(f"the process {end.reason}", end.last_lines))

        try:
            async with asyncio.timeout(timeout_s):
                await self._asks.acquire()
                try:
                    child = await self._spawn(purpose, limits=ASK_LIMITS, on_message=on_message, on_exit=on_exit)
                except BaseException:
                    self._asks.release()
                    raise
                on_started(child)
                return await answer
        except TimeoutError:
            raise ProcessFailed(f"no answer within {timeout_s:g} s") from None
        finally:
            if not answer.done() or answer.cancelled():
                answer.cancel()
                if child is not None:
                    child.kill()

    async def _spawn(
        self,
        purpose: Purpose,
        *,
        limits: ProcessLimits,
        on_message: Callable[[FromProcess], None],
        on_exit: Callable[[Exit], None],
    ) -> ChildProcess:
        link = await self._launcher()
        number = next(self._numbers)
        is_handed_over = False

        def tell_exit(end: Exit) -> None:
            del self._children[number]
            if is_handed_over:
                on_exit(end)

        connector, task = _identity(purpose)

        def keep_line(line: OutputLine) -> None:
            if isinstance(purpose, RunConnector | RunTask):
                self.logs.add(connector, task, time.time(), line.texts())

        child = ChildProcess(
            limits,
            on_message=on_message,
            on_exit=tell_exit,
            request_kill=lambda: link.request_kill(number),
            keep_line=keep_line,
        )
        self._children[number] = child
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._starting[number] = started
        try:
            await self._start(link, number, child, purpose)
            async with asyncio.timeout(START_WITHIN_S):
                problem = await started
            if problem:
                raise ProcessFailed(problem)
            is_handed_over = True
        except TimeoutError:
            link.kill()  # and with it all its processes: a launcher that does not answer is of no use
            raise ProcessFailed(f"the launcher has not started a process within {START_WITHIN_S:g} s") from None
        except BaseException:
            child.kill()
            raise
        finally:
            del self._starting[number]
        return child

    async def _start(self, link: LauncherLink, number: int, child: ChildProcess, purpose: Purpose) -> None:
        """Give the process its descriptors and its purpose; it is reported as started later."""
        try:
            ours, theirs = socket.socketpair()
            output, output_end = os.pipe()
        except OSError as error:
            child.ended(None, None)
            raise ProcessFailed(f"no descriptors for another process: {error.strerror}") from None
        connector, task = _identity(purpose)
        tags: dict[str, Any] = {"connector": connector} if connector else {"purpose": type(purpose).__name__}
        if task is not None:
            tags["task"] = task
        channel = Channel(ours, on_message=child.received, on_broken=child.kill_because)
        child.attach(channel, OutputReader(output, keep=child.keep, shared=self._budget, tags=tags))
        try:
            channel.send(purpose)
            name = type(purpose).__name__ if not connector else connector if task is None else f"{connector}-{task}"
            await link.request_start(number, name, [theirs.fileno(), output_end])
        except BaseException:  # it was not asked for, so nobody will report its end
            child.ended(None, None)
            raise
        finally:
            theirs.close()
            os.close(output_end)

    async def _launcher(self) -> LauncherLink:
        """Return the launcher, waiting for it if it is being started again."""
        if self._is_closing:
            raise ProcessFailed("the worker is stopping")
        if self.failed.done():
            raise ProcessFailed(str(self.failed.exception()))
        try:
            async with asyncio.timeout(START_WITHIN_S):
                await self._launched.wait()
        except TimeoutError:
            raise ProcessFailed("there is no launcher of processes at present") from None
        assert self._link is not None, "a launcher that is ready is there"
        return self._link

    async def _launch(self) -> None:
        self._link = LauncherLink(self._entry, on_report=self._on_report)
        await self._link.start(self._budget)
        self._launched.set()

    def _on_report(self, report: LauncherEvent) -> None:
        child = self._children.get(report.number)
        if child is None:
            return
        # What else follows is put off until `_spawn` has returned, which waits for what `_has_started` tells.
        soon = asyncio.get_running_loop().call_soon
        if report.kind is LauncherEventKind.STARTED:
            child.started(report.pid)
            self._has_started(report.number)
            soon(child.open)
        elif report.kind is LauncherEventKind.NOT_STARTED:
            self._has_started(report.number, f"cannot fork: {os.strerror(report.value)}")
            soon(child.ended, None, None)
        elif report.kind is LauncherEventKind.SIGNALLED:
            soon(child.ended, None, report.value)
        else:
            soon(child.ended, report.value, None)

    def _has_started(self, number: int, problem: str = "") -> None:
        started = self._starting.get(number)
        if started is not None and not started.done():
            started.set_result(problem)

    async def _keep_launcher(self) -> None:
        """Start the launcher again whenever it has died, a few times; then give up."""
        launches = 1
        while True:
            assert self._link is not None, "there is a launcher as long as it is kept"
            launched_s = time.monotonic()
            await self._link.died
            self._launched.clear()
            if not self._is_closing:
                log.error("the launcher of processes has died", pid=self._link.pid, processes=len(self._children))
            await self._link.close()
            await self._bury_children()
            if self._is_closing:
                return
            if time.monotonic() - launched_s > LAUNCHER_HEALTHY_S:
                launches = 0
            problem = "it has died again and again"
            while launches < LAUNCHES_MAX:
                await asyncio.sleep(min(RELAUNCH_BACKOFF_MAX_S, RELAUNCH_BACKOFF_S * 2**launches))
                launches += 1
                try:
                    await self._launch()
                    break
                except ProcessFailed as error:
                    problem = error.reason
                    log.error("the launcher of processes cannot be started", reason=problem)
            else:
                self.failed.set_exception(ProcessFailed(f"no launcher of processes can be kept running: {problem}"))
                return

    def _duty_ended(self, duty: asyncio.Task[None]) -> None:
        if not duty.cancelled() and (error := duty.exception()) is not None and not self.failed.done():
            if not isinstance(error, ProcessFailed):
                note_failure("process host", error)
            self.failed.set_exception(error)

    async def _bury_children(self) -> None:
        """Report the processes of a launcher that has died; they died with it."""
        for number in self._starting:
            self._has_started(number, "the launcher of processes has died")
        children = list(self._children.values())
        for child in children:
            if child.pid:
                kill_group_of_orphan(child.pid)
        deadline_s = time.monotonic() + GONE_WITHIN_S
        for child in children:
            while not child.has_closed_channel and time.monotonic() < deadline_s:  # noqa: ASYNC110 - rare, and short
                await asyncio.sleep(GONE_POLL_INTERVAL_S)
            if child.pid:
                reap_orphan(child.pid)
            child.kill_because("died with the launcher of processes")
            child.ended(None, int(signal.SIGKILL))

    async def _watch(self) -> None:
        """Look at every process again and again."""
        awake_s = 0.0
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(self._check_interval_s)
            awake_s += min(time.monotonic() - before_s, 2 * self._check_interval_s)
            for child in list(self._children.values()):
                child.check(awake_s)


def _identity(purpose: Purpose) -> tuple[str, int | None]:
    """Return the connector's name, empty if there is none, and the task's number."""
    match purpose:
        case RunTask():
            return purpose.connector, purpose.task
        case RunConnector() | CheckOffsets() | ChangeOffsets() | FenceTasks():
            return purpose.connector, None
        case Validate():
            return purpose.settings.get("name", ""), None
        case _:
            return "", None
