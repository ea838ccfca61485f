"""Runs what is assigned to this worker, and tells the cluster how it goes.

`reconcile` compares the assignment and the configuration with what runs, as often as either changes, and tells each
`Unit` what to do. What the units' processes say goes from here into the stores: statuses, source offsets, topics.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import State, Status, TargetState
from ottla_connect.herder.reconciliation import UnitId, work_for
from ottla_connect.herder.task_config_publisher import TaskConfigPublisher
from ottla_connect.herder.unit import Unit
from ottla_connect.ids import TaskId
from ottla_connect.processes.host import ProcessHost
from ottla_connect.processes.messages import (
    CheckTransactions,
    CommitOffsets,
    FromProcess,
    HealthTold,
    Lease,
    Measured,
    Message,
    OffsetKeysRead,
    OffsetsCommitted,
    OffsetsRead,
    Progressed,
    ReadOffsetKeys,
    ReadOffsets,
    SetLogLevel,
    TaskConfigs,
    TopicsUsed,
    TransactionCheck,
    TransactionsChecked,
)
from ottla_connect.state.config_state import ConfigState
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.stores import Stores
from ottla_core.background import start_detached
from ottla_core.clock import boot_time_s
from ottla_core.rest.errors import RequestError

FORGET_RETRY_S = 1.0
SAYING_STATES = (State.RUNNING, State.FAILED)
RESTING_STATES = {TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}

log = structlog.get_logger("worker")


class Worker:
    """The connectors and tasks of this worker.

    Attributes:
        id: HOST:PORT, by which statuses name it.
        measured: the last readings of each task.
    """

    def __init__(
        self,
        url: str,
        config: WorkerConfig,
        *,
        host: ProcessHost,
        stores: Stores,
        publisher: TaskConfigPublisher,
        fence: Callable[[str], Awaitable[None]] | None = None,
        is_transactional: Callable[[Mapping[str, str]], bool] = lambda _: False,
    ) -> None:
        """Prepare.

        Args:
            url: of this worker.
            config: its settings.
            host: starts processes.
            stores: what is stored.
            publisher: has the leader store the settings of tasks.
            fence: has the leader fence former tasks of a connector; raises `RequestError`. None: nobody can.
            is_transactional: whether tasks of a connector with these settings write in transactions.
        """
        self.id = urlsplit(url).netloc
        self.measured: dict[TaskId, Mapping[str, float]] = {}
        self._config = config
        self._host = host
        self._stores = stores
        self._publisher = publisher
        self._fence = fence
        self._is_transactional = is_transactional
        self._units: dict[UnitId, Unit] = {}
        self._connectors: frozenset[str] = frozenset()
        self._tasks: frozenset[TaskId] = frozenset()
        self._generation = -1
        self._lease_until_s = 0.0
        self._log_levels: dict[str, str] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._committing: dict[UnitId, set[asyncio.Task[None]]] = {}
        self._closed = False
        self._has_ended = False

    @property
    def state(self) -> ConfigState:
        """The cluster's configuration, as far as this worker has read it."""
        return self._stores.config.state

    def units(self) -> Iterable[Unit]:
        """Return what runs here."""
        return self._units.values()

    def runs(self, unit: UnitId) -> bool:
        """Return whether a connector or task is assigned to this worker."""
        return unit in (self._tasks if isinstance(unit, TaskId) else self._connectors)

    def has_failed(self, unit: UnitId) -> bool | None:
        """Return whether a connector or task has failed that runs here; None for those that do not."""
        return self._units[unit].has_failed if unit in self._units and self.runs(unit) else None

    @property
    def leased_until_s(self) -> float:
        """Until when (CLOCK_BOOTTIME) nobody else does what this worker has to do, such as to lead."""
        return 0.0 if self._has_ended else self._lease_until_s

    @property
    def is_leased(self) -> bool:
        """Whether this worker surely is a member of the group, so that nobody else does what it has to do."""
        return boot_time_s() <= self.leased_until_s

    @property
    def may_write(self) -> bool:
        """Whether what it writes now is stored or given up before anybody else does what it has to do."""
        return boot_time_s() + self._config.write_timeout_s <= self.leased_until_s

    # What is to run.

    def assign(self, connectors: frozenset[str], tasks: frozenset[TaskId], generation: int) -> None:
        """Take an assignment; a worker that stops begins with nothing any more."""
        if self._closed:
            return
        self._connectors, self._tasks, self._generation = connectors, tasks, generation
        for name in connectors:
            self.report_resting(name)
        self.reconcile()

    def reconcile(self) -> None:
        """Bring what runs in line with the assignment and the configuration."""
        wanted = dict(work_for(self._connectors, self._tasks, self.state, is_transactional=self._is_transactional))
        for unit_id, work in wanted.items():
            if unit_id not in self._units:
                self._units[unit_id] = Unit(
                    unit_id,
                    worker=self._config,
                    host=self._host,
                    events=self,
                )
            self._units[unit_id].want(work)
        for unit_id, unit in list(self._units.items()):
            if unit_id not in wanted:
                unit.want(None)
                self._start_job(self._retire(unit))
            elif unit.task_configs is not None:
                # Whatever was stored last, and by whom: settings that were on their way when it was overtaken, too.
                self._compare_task_configs(unit)

    async def settle(self, units: Iterable[UnitId]) -> None:
        """Wait until these have stopped, and nothing of theirs is on its way to the stores."""
        wanted = list(units)
        await asyncio.gather(*(self._units[each].settled() for each in wanted if each in self._units))
        await self._committed(wanted)

    def restart(self, unit: UnitId) -> bool:
        """Restart a connector or task, if it is assigned to this worker; returns whether it is."""
        if unit in self._units and self.runs(unit):
            self._set_status(unit, State.RESTARTING)
            self._units[unit].restart()
        return self.runs(unit)  # a paused or stopped connector has nothing that could be restarted

    async def abandon(self) -> None:
        """End everything at once: the membership is lost, and others take it over; whoever joins anew has nothing."""
        units, self._units = list(self._units.values()), {}
        self._connectors, self._tasks = frozenset(), frozenset()
        self._lease_until_s = 0.0
        self.measured.clear()
        for unit in units:
            self._publisher.forget(unit.connector)
        await asyncio.gather(*(unit.kill() for unit in units))
        await self._committed([unit.id for unit in units])

    async def close(self) -> None:
        """Stop everything, each in its time; then this worker may do nothing any more, as it leaves the group."""
        self._closed = True
        self._connectors, self._tasks = frozenset(), frozenset()
        units = list(self._units.values())
        await asyncio.gather(*(unit.close() for unit in units))
        self._units.clear()
        await self._publisher.close()
        while self._jobs:
            await asyncio.gather(*self._jobs, return_exceptions=True)
        self._has_ended = True

    def extend_lease(self, until_s: float) -> None:
        """Pass a lease on to every task; `until_s` is a time of CLOCK_BOOTTIME."""
        self._lease_until_s = until_s
        for unit in self._units.values():
            if unit.is_task:
                unit.send(Lease(until_s=until_s))

    def set_log_level(self, logger: str, level: str) -> None:
        """Set a log level in every process, now and in the future."""
        self._log_levels[logger] = level
        for unit in self._units.values():
            unit.send(SetLogLevel(logger=logger, level=level))

    async def _retire(self, unit: Unit) -> None:
        await unit.settled()
        if self._units.get(unit.id) is unit and not unit.is_wanted:
            del self._units[unit.id]
            if isinstance(unit.id, TaskId):
                self.measured.pop(unit.id, None)
            await unit.close()
            self._forget_deleted(unit)

    def _forget_deleted(self, unit: Unit) -> None:
        if unit.id in self._units:
            return  # it was wanted again while this one was closed, and what follows is about that
        if isinstance(unit.id, str):
            self._publisher.forget(unit.id)
        if unit.connector not in self.state.connectors:
            self.forget_connector(unit.connector)
        elif isinstance(unit.id, str):
            self.report_resting(unit.id)
        elif unit.id.task >= self.state.task_counts.get(unit.connector, 0):
            self._stores.status.remove_task(unit.id)

    def forget_connector(self, name: str) -> None:
        """Remove what was said of a deleted connector, unless it was created anew meanwhile."""
        self._start_job(self._forget_connector(name))

    async def _forget_connector(self, name: str) -> None:
        """Look whether it is still deleted when everything is read: what is said of its successor must stay."""
        while True:
            try:
                await self._stores.config.refresh(self._config.worker_sync_timeout_ms / 1000)
            except LogError as error:
                if self._closed:
                    return
                log.warning("cannot see whether a connector was created anew", connector=name, reason=str(error))
                await asyncio.sleep(FORGET_RETRY_S)
            else:
                break
        if name not in self.state.connectors:
            self._stores.status.remove(name)

    def report_resting(self, name: str) -> None:
        """Say that a connector is paused or stopped, if it is and has no process, which would say so at its end."""
        target = self.state.target_states.get(name)
        if (
            name not in self._units
            and name in self._connectors
            and name in self.state.connectors
            and target in RESTING_STATES
        ):
            self._set_status(name, RESTING_STATES[target])

    # What units say.

    def greetings(self, unit: Unit) -> Iterable[Message]:
        """Return the lease and the log levels."""
        if unit.is_task:
            yield Lease(until_s=self._lease_until_s)
        for logger, level in self._log_levels.items():
            yield SetLogLevel(logger=logger, level=level)

    def on_state(self, unit: Unit, state: State, trace: str, version: str) -> None:
        """Tell the cluster about a unit's state."""
        self._set_status(unit.id, state, trace, version)

    def on_message(self, unit: Unit, message: FromProcess) -> None:
        """Do what a unit's process asks for."""
        match message:
            case TaskConfigs():
                if unit.is_current:
                    unit.task_configs = message.configs
                    self._compare_task_configs(unit)
            case ReadOffsets():
                self._start_job(self._read_offsets(unit, message))
            case CommitOffsets():
                self._note_commit(unit.id, self._start_job(self._commit_offsets(unit, message)))
            case ReadOffsetKeys() | CheckTransactions():
                self._start_job(self._serve_transactions(unit, message))
            case TopicsUsed():
                if isinstance(unit.id, TaskId) and self._config.topic_tracking_enable:
                    for topic in message.topics:
                        self._stores.status.add_topic(unit.connector, unit.id.task, topic)
            case Measured():
                if isinstance(unit.id, TaskId):
                    self.measured[unit.id] = message.values
            case Progressed() | HealthTold():
                self._take_saying(unit, message)
            case _:
                log.warning("a process said what it should not", unit=str(unit.id), message=type(message).__name__)

    def _take_saying(self, unit: Unit, message: Progressed | HealthTold) -> None:
        if not self._surely_runs(unit.id):
            return  # another worker may run it, which says how it goes there
        if isinstance(message, Progressed):
            unit.progress = message.progress
        else:
            unit.health = message.health
        self._set_status(unit.id, State.RUNNING, version=unit.version)

    def _set_status(
        self,
        unit: UnitId,
        state: State,
        trace: str = "",
        version: str = "",
    ) -> None:
        name = unit.connector if isinstance(unit, TaskId) else unit
        if name not in self.state.connectors:
            return  # deleted; a status would outlive it
        runs = self._units.get(unit) if state in SAYING_STATES else None
        status = Status(
            state=state,
            worker_id=self.id,
            trace=trace,
            generation=self._generation,
            version=version,
            progress=runs.progress if runs is not None and state is State.RUNNING else None,
            health=runs.health if runs is not None else None,
        )
        # What ends here may have begun elsewhere already: then the other worker's word counts.
        only_if_newer = state is State.UNASSIGNED or (state is State.FAILED and not self._surely_runs(unit))
        if isinstance(unit, TaskId):
            self._stores.status.put_task_status(unit, status, only_if_newer=only_if_newer)
        else:
            self._stores.status.put_connector_status(unit, status, only_if_newer=only_if_newer)

    def _surely_runs(self, unit: UnitId) -> bool:
        return self.runs(unit) and self.is_leased

    def _compare_task_configs(self, unit: Unit) -> None:
        """Publish what a connector wants its tasks to do, unless that is what they do."""
        name, configs, state = unit.connector, unit.task_configs, self.state
        if configs is None or not unit.is_current:
            return
        current = (
            [state.task_configs(name)[TaskId(name, n)] for n in range(state.task_counts.get(name, 0))]
            if name not in state.inconsistent
            else None
        )
        if current == configs and state.applied_connector_config(name) == state.connectors.get(name):
            self._publisher.forget(name)
            return
        self._publisher.publish(
            name,
            configs,
            is_wanted=lambda: unit.is_current and unit.task_configs == configs and self.runs(unit.id),
        )

    async def _read_offsets(self, unit: Unit, message: ReadOffsets) -> None:
        try:
            offsets = await self._stores.offsets.read(unit.connector, message.partitions)
        except LogError as error:
            unit.send(OffsetsRead(request=message.request, offsets=[], error=str(error)))
        else:
            answer = [dict(offset) if offset is not None else None for offset in offsets]
            unit.send(OffsetsRead(request=message.request, offsets=answer))

    async def _serve_transactions(self, unit: Unit, message: ReadOffsetKeys | CheckTransactions) -> None:
        if isinstance(message, ReadOffsetKeys):
            await self._read_offset_keys(unit, message)
        else:
            await self._check_transactions(unit, message)

    async def _read_offset_keys(self, unit: Unit, message: ReadOffsetKeys) -> None:
        try:
            keys = await self._stores.offsets.keys(unit.connector, message.partitions)
        except LogError as error:
            unit.send(OffsetKeysRead(request=message.request, keys=[], error=str(error)))
        else:
            answer = [[key.decode("latin-1") for key in each] for each in keys]
            unit.send(OffsetKeysRead(request=message.request, keys=answer))

    async def _check_transactions(self, unit: Unit, message: CheckTransactions) -> None:
        try:
            if message.check is TransactionCheck.FORMER_TASKS_ARE_FENCED:
                error = await self._fenced(unit.connector)
            else:
                error = await self._outdated(unit)
        except (RequestError, LogError, OSError) as failure:
            error = f"{message.check}: {failure}"
        unit.send(TransactionsChecked(request=message.request, error=error))

    async def _fenced(self, connector: str) -> str | None:
        if self._fence is None:
            return "this worker has no transactions"
        await self._fence(connector)
        return None

    async def _outdated(self, unit: Unit) -> str | None:
        """Return why a task must not begin, after all was read that was written before; None if it may.

        Whoever gives the connector other tasks after this fences this one before those begin.
        """
        await self._stores.config.refresh(self._config.worker_sync_timeout_ms / 1000)
        if not unit.is_current:
            return "the connector has other tasks by now, or this one other settings"
        if not self.runs(unit.id):
            return "another worker has this task by now"
        return None if self.is_leased else "this worker has lost touch with the group, so another may run the task"

    async def _commit_offsets(self, unit: Unit, message: CommitOffsets) -> None:
        error: str | None = None
        if not self.may_write:
            error = "this worker has lost touch with the group, so another may run the task"
        else:
            try:
                await self._stores.offsets.write(unit.connector, message.offsets)
            except LogError as failure:
                error = str(failure)
        unit.send(OffsetsCommitted(request=message.request, error=error))

    async def _committed(self, units: Iterable[UnitId]) -> None:
        """Wait until what these have committed is stored, or somebody changes offsets and this comes after it."""
        if committing := [job for each in units for job in self._committing.get(each, ())]:
            await asyncio.wait(committing)

    def _note_commit(self, unit: UnitId, job: asyncio.Task[None]) -> None:
        jobs = self._committing.setdefault(unit, set())
        jobs.add(job)

        def forget(job: asyncio.Task[None]) -> None:
            jobs.discard(job)
            if not jobs and self._committing.get(unit) is jobs:
                del self._committing[unit]

        job.add_done_callback(forget)

    def _start_job(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        job = start_detached("job of the worker", work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job
