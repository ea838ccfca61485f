"""One connector or task on this worker: its process, from start to stop, and everything that happens to it.

A unit is told what it should do (`want`) and works towards that by itself, one step at a time, so that a task that is
slow to stop keeps nobody else waiting. It also decides what a failure means: a status, and perhaps another start.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import State
from ottla_connect.herder.reconciliation import UnitId, Work
from ottla_connect.herder.restart_policy import FailureRow, RestartPolicy
from ottla_connect.ids import TaskId
from ottla_connect.processes.host import ChildProcess, Exit, ProcessFailed, ProcessHost, ProcessLimits
from ottla_connect.processes.messages import (
    Failed,
    FromProcess,
    HealthTold,
    Message,
    Outlook,
    Paused,
    Progressed,
    RunConnector,
    Running,
    RunTask,
    SetPaused,
    Stopped,
)
from ottla_core.background import start_recurring

MEMORY_MAX_KEY = "task.memory.max.bytes"
TRACE_LINES_MAX = 40

log = structlog.get_logger("unit")


class UnitListener(Protocol):
    """What a unit tells its worker."""

    def greetings(self, unit: "Unit") -> Iterable[Message]:
        """Return what a process of the unit is to know from the beginning."""

    def on_state(self, unit: "Unit", state: State, trace: str, version: str) -> None:
        """Hear that the unit is in another state."""

    def on_message(self, unit: "Unit", message: FromProcess) -> None:
        """Hear what else the process says: settings of tasks, offsets, topics, readings."""


@dataclass(slots=True)
class _Failure:
    work: Work
    restart: asyncio.TimerHandle | None


class Unit:
    """A connector or task that this worker runs, or is about to stop running.

    Attributes:
        id: which one.
        version: the plugin's version, once it is known.
        task_configs: what its process has said that the tasks shall do; None before it has, and for a task.
        progress: what its process has said last of how its work goes; None before it has.
        health: likewise whether it works; of what has failed, when it is started again.
    """

    def __init__(
        self,
        unit: UnitId,
        *,
        worker: WorkerConfig,
        host: ProcessHost,
        events: UnitListener,
    ) -> None:
        self.id = unit
        self.version = ""
        self.task_configs: list[dict[str, str]] | None = None
        self.progress: Mapping[str, Any] | None = None
        self.health: Mapping[str, Any] | None = None
        self._worker = worker
        self._host = host
        self._events = events
        self._want: Work | None = None
        self._has: Work | None = None
        self._child: ChildProcess | None = None
        self._paused = False
        self._stopping = False
        self._reported: Failed | None = None
        self._failure: _Failure | None = None
        self._row = FailureRow()
        self._restart_asked = False
        self._closed = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._steps = start_recurring("unit", self._run, unit=str(unit))

    @property
    def is_task(self) -> bool:
        """Whether it is a task, not a connector."""
        return isinstance(self.id, TaskId)

    @property
    def is_wanted(self) -> bool:
        """Whether it should run."""
        return self._want is not None

    @property
    def is_current(self) -> bool:
        """Whether its process runs what it should; what one says that is to be replaced or stopped is out of date."""
        return self._want is not None and self._want == self._has

    @property
    def has_failed(self) -> bool:
        """Whether it has failed and does not run again yet."""
        return self._failure is not None or self._reported is not None

    @property
    def connector(self) -> str:
        """The connector's name."""
        return self.id.connector if isinstance(self.id, TaskId) else self.id

    @property
    def pid(self) -> int | None:
        """The process's id, while there is one."""
        return self._child.pid if self._child is not None else None

    def want(self, work: Work | None) -> None:
        """Say what it should do from now on: None to stop, which happens even if other work follows at once."""
        if work is not None and self._want is not None and work == self._want and work.paused == self._want.paused:
            return
        if work is None and self._want is not None:
            self._restart_asked = True
        self._want = work
        self._stir()

    def restart(self) -> None:
        """Stop and start it, whatever its state."""
        self._restart_asked = True
        self._stir()

    def send(self, message: Message) -> None:
        """Pass a message to the process, if there is one."""
        if self._child is not None:
            self._child.send(message)

    async def settled(self) -> None:
        """Wait until it has done what it was told last."""
        await self._idle.wait()

    async def kill(self) -> None:
        """End the process at once, and the unit with it."""
        self._want = None
        self._stopping = True
        if self._child is not None:
            self._child.kill()
        await self.close()

    async def close(self) -> None:
        """Stop it, and end the unit."""
        self.want(None)
        await self.settled()
        self._closed = True
        self._cancel_restart()
        self._steps.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._steps

    def _stir(self) -> None:
        if self._closed:
            return  # by another call: nobody would ever settle this
        self._idle.clear()
        self._wake.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._step()
                if not self._wake.is_set():
                    self._idle.set()
        except Exception:
            self._wake.set()  # the step is taken again when this starts anew
            raise
        finally:
            self._idle.set()  # whoever waits for a unit that another call has closed must not wait for ever

    async def _step(self) -> None:
        want = self._want
        restart, self._restart_asked = self._restart_asked, False
        if self._child is not None and (want is None or restart or want != self._has):
            await self._stop()
            want = self._want
        if want is None:
            self._cancel_restart()
            self._failure = None
            return
        if self._child is not None:
            self._set_paused(want)
            return
        if self._failure is not None and self._failure.work == want and not restart:
            return
        if self._failure is not None and (restart or self._failure.work != want):
            self._row.clear()
            self._cancel_restart()
        await self._start(want)

    async def _start(self, work: Work) -> None:
        self._failure = None
        self._reported = None
        self._stopping = False
        self.task_configs = None
        self._forget_sayings()
        self._has = work
        self._paused = work.paused
        raw = self._worker.raw
        purpose: RunConnector | RunTask
        if isinstance(self.id, TaskId):
            purpose = RunTask(
                connector=self.id.connector,
                task=self.id.task,
                connector_settings=dict(work.connector_settings),
                settings=dict(work.settings),
                worker=raw,
                paused=work.paused,
            )
        else:
            purpose = RunConnector(connector=self.id, settings=dict(work.settings), worker=raw)
        limits = ProcessLimits(memory_bytes=self._memory_bytes_max(work))
        self._row.started(time.monotonic())
        try:
            self._child = await self._host.spawn(
                purpose, limits=limits, on_message=self._on_message, on_exit=self._on_exit
            )
        except ProcessFailed as error:
            reason = f"its process cannot be started: {error}"
            self._events.on_state(self, State.FAILED, reason, self.version)
            self._on_failure(reason, Outlook.OPEN, reason)
            return
        for message in self._events.greetings(self):
            self._child.send(message)

    async def _stop(self) -> None:
        assert self._child is not None
        self._stopping = True
        await self._child.stop(self._worker.task_shutdown_graceful_timeout_ms / 1000)
        self._child = None
        self._has = None
        if self._want is None:
            self._events.on_state(self, State.UNASSIGNED, "", self.version)

    def _set_paused(self, want: Work) -> None:
        if want.paused != self._paused and self._child is not None:
            self._paused = want.paused
            self._child.send(SetPaused(paused=want.paused))

    def _memory_bytes_max(self, work: Work) -> int:
        text = work.connector_settings.get(MEMORY_MAX_KEY, "").strip()
        return int(text) if text.isdecimal() else self._worker.task_memory_max_bytes

    def _on_message(self, message: FromProcess) -> None:
        match message:
            case Running():
                self.version = message.version or self.version
                self._forget_sayings()
                self._events.on_state(self, State.RUNNING, "", self.version)
            case Paused():
                self._events.on_state(self, State.PAUSED, "", self.version)
            case Stopped():
                pass  # its end follows, and counts
            case Progressed() | HealthTold() if self._reported is not None:
                pass  # its other thread has overtaken the end: the status would say for ever that it runs
            case Failed():
                self._reported = message
                self._forget_sayings()
                self._events.on_state(self, State.FAILED, message.trace, self.version)
            case _:
                self._events.on_message(self, message)

    def _on_exit(self, ended: Exit) -> None:
        self._child = None
        if self._stopping:
            return
        if self._reported is not None:
            self._on_failure(self._reported.reason, self._reported.outlook, self._reported.trace)
            return
        last_lines = "\n".join(ended.last_lines[-TRACE_LINES_MAX:])
        trace = f"the process {ended.reason}" + (f"; its last lines were:\n{last_lines}" if last_lines else "")
        self._forget_sayings()
        self._events.on_state(self, State.FAILED, trace, self.version)
        self._on_failure(ended.reason, Outlook.OPEN, trace)

    def _forget_sayings(self) -> None:
        self.progress = self.health = None

    def _on_failure(self, reason: str, outlook: Outlook, trace: str) -> None:
        work = self._has
        assert work is not None
        policy = RestartPolicy.of(self._worker, work.connector_settings)
        delay_s = self._row.failed(policy, time.monotonic(), outlook)
        restart = None
        if delay_s is not None:
            restart = asyncio.get_running_loop().call_later(delay_s, self._restart_by_itself)
            next_try_ms = round((time.time() + delay_s) * 1000)
            self.health = {"state": "RETRYING", "reason": reason, "next_try_ms": next_try_ms}
            self._events.on_state(self, State.FAILED, trace, self.version)
        self._failure = _Failure(work, restart)
        self._has = None
        log.warning(
            "failed",
            unit=str(self.id),
            reason=reason,
            failures=self._row.failures,
            restart_in_s=delay_s,
            outlook=str(outlook),
        )
        self._stir()

    def _restart_by_itself(self) -> None:
        self._failure = None
        self._stir()

    def _cancel_restart(self) -> None:
        if self._failure is not None and self._failure.restart is not None:
            self._failure.restart.cancel()
