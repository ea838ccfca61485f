"""The herder of a worker: it answers for all connectors of the cluster, on whichever worker they run.

Configurations are changed by the leading worker alone (`ConnectorChanges`), so requests that change them raise
`Elsewhere` on the others; restarts of one connector or task go to the worker that runs it. What any worker changes
comes back through the configuration topic, as a `ConfigChange`, and turns here into work for the `Worker` or into a
new round of assignments.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import Status, TargetState
from ottla_connect.group.membership import Assignment, GroupView, Membership, Revoked
from ottla_connect.group.sole_member import SoleMember
from ottla_connect.herder.api import (
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatus,
    Health,
    LoggerLevel,
    PluginInfo,
    ServerInfo,
)
from ottla_connect.herder.connector_changes import ConnectorChanges
from ottla_connect.herder.loggers import Loggers
from ottla_connect.herder.offset_requests import OffsetRequests
from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.herder.reconciliation import UnitId
from ottla_connect.herder.restarts import as_it_is_here, restart_plan
from ottla_connect.herder.session_keys import SessionKeys
from ottla_connect.herder.signatures import KeyNotRead, verify
from ottla_connect.herder.validation import Validation
from ottla_connect.herder.views import CLASS_KEY, Views
from ottla_connect.herder.worker import Worker
from ottla_connect.ids import TaskId
from ottla_connect.processes.process_logs import ProcessLogs
from ottla_connect.state.config_records import RestartRequest
from ottla_connect.state.config_state import (
    ConfigChange,
    ConfigState,
    ConnectorRemoved,
    LoggerLevelChanged,
    RestartRequested,
    TargetStateChanged,
)
from ottla_connect.state.keyed_log import LogError
from ottla_connect.state.stores import Stores
from ottla_core.background import start_detached
from ottla_core.rest.errors import Conflict, Elsewhere, NotFound, RequestError

STATUS_TIMEOUT_S = 5.0
CLAIM_TIMEOUT_S = 30.0
NOT_A_MEMBER = "This worker is not in the group at the moment, as during a rebalance; try again shortly"

log = structlog.get_logger("herder")


class WorkerHerder:
    """A `Herder` over a worker, its group and the cluster's stores."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker: Worker,
        stores: Stores,
        catalog: PluginCatalog,
        validation: Validation,
        logs: ProcessLogs,
        server: ServerInfo,
    ) -> None:
        self._config = config
        self._worker = worker
        self._stores = stores
        self._catalog = catalog
        self._validation = validation
        self._logs = logs
        self._server = server
        self._views = Views(stores, catalog)
        self._loggers = Loggers(worker.set_log_level)
        self._session_keys = SessionKeys(config, stores.config)
        self._offsets = OffsetRequests(
            config, stores=stores, validation=validation, leased_until_s=lambda: worker.leased_until_s
        )
        self._membership: Membership | SoleMember | None = None
        self._viewed: Mapping[str, int] = {}
        self._changes = ConnectorChanges(
            store=stores.config,
            views=self._views,
            validation=validation,
            offsets=self._offsets,
            lead=self._lead,
            forget=self._forget,
            sync_timeout_s=config.worker_sync_timeout_ms / 1000,
            leads_in_transactions=config.leads_in_transactions,
            has_transactional_sources=config.has_transactional_sources,
        )
        self._claiming: asyncio.Task[None] | None = None

    # The group.

    def join(self, membership: Membership | SoleMember) -> None:
        """Take part in a group; called once, before the membership starts."""
        self._membership = membership
        self._viewed = self.group_view().connectors

    def group_view(self) -> GroupView:
        """Return what the leader assigns."""
        state = self._state
        return GroupView(state.offset, {name: state.task_counts.get(name, 0) for name in state.connectors})

    async def on_assigned(self, assignment: Assignment, revoked: Revoked) -> None:
        """Take an assignment; returns when what is revoked has stopped."""
        if assignment.config_offset > self._state.offset:
            await self._refresh()
        self._lead_config(leads=assignment.is_leader)
        self._worker.assign(assignment.connectors, assignment.tasks, assignment.generation)
        units: list[UnitId] = [*revoked.connectors, *revoked.tasks]
        if units:
            await self._worker.settle(units)
            await self._stores.status.written(STATUS_TIMEOUT_S)  # before whoever gets them says that they run
        await self._changes.on_assigned()

    async def on_lost(self) -> None:
        """Stop everything: others take it over."""
        self._lead_config(leads=False)
        await self._worker.abandon()
        await self._offsets.end_changes()

    def on_config_change(self, change: ConfigChange) -> None:
        """Follow a change of the cluster's configuration."""
        match change:
            case RestartRequested():
                self._carry_out(change.request)
            case LoggerLevelChanged():
                self._loggers.set(change.logger, change.level)
            case ConnectorRemoved():
                self._worker.forget_connector(change.name)
                self._worker.reconcile()
            case TargetStateChanged():
                self._worker.reconcile()
                self._worker.report_resting(change.name)
            case _:
                self._worker.reconcile()
        self._rejoin_if_work_changed()

    async def close(self) -> None:
        """Stop what runs here."""
        self._lead_config(leads=False)
        await self._worker.close()
        await self._offsets.end_changes()

    def _lead_config(self, *, leads: bool) -> None:
        """Begin to look after the configuration, or leave it to another worker."""
        self._session_keys.lead(leads=leads)
        if not leads:
            self._stores.config.relinquish()
        elif self._claiming is None or self._claiming.done():
            self._claiming = start_detached("claim of the config topic", self._claim())

    async def _claim(self) -> None:
        """End what a former leader has left open, which nobody could read past; or else the next write does it."""
        try:
            await self._stores.config.claim(CLAIM_TIMEOUT_S)
        except LogError as error:
            log.warning("the configuration topic cannot be claimed yet", reason=str(error))

    def _rejoin_if_work_changed(self) -> None:
        view = self.group_view()
        if view.connectors == self._viewed:
            return
        self._viewed = view.connectors
        assignment = self._assignment
        if self._membership is not None and (assignment is None or assignment.config_offset < view.config_offset):
            self._membership.request_rejoin()

    @property
    def _state(self) -> ConfigState:
        return self._stores.config.state

    @property
    def _assignment(self) -> Assignment | None:
        return self._membership.assignment if self._membership is not None else None

    def _lead(self) -> Assignment:
        """Return what this worker leads.

        Raises:
            Elsewhere: another one does.
            Conflict: this worker does not know who does, as after a pause of its process.
        """
        assignment = self._assignment
        if assignment is None or not self._worker.may_write:
            raise Conflict(NOT_A_MEMBER)
        if not assignment.is_leader:
            raise Elsewhere(assignment.leader_url)
        return assignment

    async def _forget(self, name: str) -> None:
        self._stores.status.remove(name)
        await self._stores.status.written(STATUS_TIMEOUT_S)

    async def _refresh(self) -> None:
        try:
            await self._stores.config.refresh(self._config.worker_sync_timeout_ms / 1000)
        except LogError as error:
            log.warning("the configuration topic cannot be read to its end", reason=str(error))

    # What is.

    def server_info(self) -> ServerInfo:
        """Return the worker's version and its Kafka cluster's id."""
        return self._server

    async def health(self) -> Health:
        """Return whether this worker has joined the group and reads the cluster's state."""
        if self._assignment is None:
            return Health(status="starting", message="Worker has not joined the group yet.")
        try:
            await self._stores.config.refresh(self._config.worker_sync_timeout_ms / 1000)
        except LogError as error:
            return Health(status="unhealthy", message=f"The configuration topic cannot be read: {error}")
        return Health(status="healthy", message="Worker has joined the group and takes requests.")

    def connectors(self) -> Sequence[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self._state.connectors)

    def connector_info(self, name: str) -> ConnectorInfo:
        """Return how a connector is configured."""
        return self._views.info(name)

    def connector_status(self, name: str) -> ConnectorStatus:
        """Return a connector's and its tasks' statuses."""
        return self._views.status(name)

    def task_status(self, task: TaskId) -> Status:
        """Return a task's status."""
        return self._views.task_status(task)

    def task_configs(self, name: str) -> Mapping[TaskId, Mapping[str, str]]:
        """Return the settings of a connector's tasks."""
        return self._views.task_configs(name)

    def topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has used."""
        return self._views.topics(name)

    async def logs(self, name: str, task: int | None, lines: int) -> Sequence[str]:
        """Return the last log lines of a connector's own process, or of one of its tasks."""
        self._views.config(name)
        if task is not None:
            self._views.task_status(TaskId(name, task))
        unit: UnitId = name if task is None else TaskId(name, task)
        if not self._worker.runs(unit):
            self._raise_elsewhere(unit)
        return self._logs.lines(name, task, lines)

    # Configurations.

    async def create_connector(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None
    ) -> ConnectorInfo:
        """Create a connector; `Conflict` if there is one of this name."""
        return await self._changes.create(name, config, initial_state)

    async def put_connector_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector; returns whether it is new."""
        return await self._changes.put(name, config)

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector; None removes one."""
        return await self._changes.patch(name, patch)

    async def delete_connector(self, name: str) -> None:
        """Delete a connector."""
        await self._changes.delete(name)

    async def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume (STARTED) or stop a connector."""
        await self._changes.set_target_state(name, state)

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Store what a connector's tasks shall do, unless that is no longer wanted when its turn comes."""
        await self._changes.put_task_configs(name, configs, is_wanted)

    async def fence_tasks(self, name: str) -> None:
        """Fence former tasks of a source that writes in transactions (KIP-618)."""
        await self._changes.fence_tasks(name)

    # Restarts.

    async def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        """Restart a connector, and its tasks; returns what is planned, None if the connector alone is."""
        if name not in self._state.connectors:
            raise NotFound(f"Unknown connector: {name}")
        if not include_tasks and not only_failed:
            if not self._worker.restart(name):
                self._raise_elsewhere(name)
            return None
        return await self._changes.restart(
            RestartRequest(connector=name, include_tasks=include_tasks, only_failed=only_failed)
        )

    async def restart_task(self, task: TaskId) -> None:
        """Restart a task."""
        if task.connector not in self._state.connectors:
            raise NotFound(f"Unknown connector: {task.connector}")
        if task not in self._views.tasks(task.connector):
            raise NotFound(f"Unknown task: {task}")
        if not self._worker.restart(task):
            self._raise_elsewhere(task)

    def _carry_out(self, request: RestartRequest) -> None:
        if request.connector not in self._state.connectors:
            return
        status = as_it_is_here(self._views.status(request.connector), self._worker.has_failed)
        plan = restart_plan(status, include_tasks=request.include_tasks, only_failed=request.only_failed)
        if plan.connector is not status.connector:
            self._worker.restart(request.connector)
        for number, task in plan.tasks.items():
            if task is not status.tasks[number]:
                self._worker.restart(TaskId(request.connector, number))

    def _raise_elsewhere(self, unit: UnitId) -> None:
        """Say which worker runs a connector or task: the leader knows, others know the leader."""
        assignment = self._assignment
        if assignment is None:
            raise Conflict(NOT_A_MEMBER)
        if not assignment.is_leader:
            raise Elsewhere(assignment.leader_url)
        owner = assignment.task_urls.get(unit) if isinstance(unit, TaskId) else assignment.connector_urls.get(unit)
        if owner is None or self._worker.runs(unit):
            raise Conflict(f"No worker runs {unit} at the moment, as during a rebalance; try again shortly")
        raise Elsewhere(owner)

    # Offsets.

    async def offsets(self, name: str) -> ConnectorOffsets:
        """Return a connector's offsets."""
        return await self._offsets.read(self._views.info(name))

    async def alter_offsets(self, name: str, offsets: ConnectorOffsets) -> str:
        """Set offsets of a stopped connector; returns the message for the user."""
        return await self._changes.alter_offsets(name, offsets)

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a stopped connector; returns the message for the user."""
        return await self._changes.reset_offsets(name)

    # Topics, plugins, loggers.

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that a connector has used."""
        self._stores.status.reset_topics(name)

    async def plugins(self) -> Sequence[PluginInfo]:
        """Return all plugin classes, and the plugins that cannot be imported."""
        await self._catalog.refresh()
        return self._catalog.plugins()

    async def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        """Return the `ConfigKeyInfo` documents of a plugin class."""
        if self._catalog.find(plugin) is None:
            await self._catalog.refresh()
        if self._catalog.find(plugin) is None:
            raise NotFound(f"Unknown plugin {plugin}.")
        return await self._validation.describe(plugin)

    async def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the `ConfigInfos` document of a connector's settings."""
        return await self._validation.validate({CLASS_KEY: plugin, **config})

    def loggers(self) -> Mapping[str, LoggerLevel]:
        """Return all loggers whose level was set, and ``root``."""
        return self._loggers.all()

    def logger_level(self, logger: str) -> LoggerLevel:
        """Return the level of a logger, its own or the one that it inherits."""
        return self._loggers.find(logger)

    async def set_logger_level(self, logger: str, level: str, *, cluster: bool) -> Sequence[str]:
        """Set a level on this worker and its processes, or on all; returns the loggers it affects here."""
        level = self._loggers.check(level)
        if not cluster:
            return self._loggers.set(logger, level)
        try:
            await self._stores.config.put_logger_level(logger, level)
        except LogError as error:
            raise RequestError(f"Failed to write to the configuration topic: {error}") from None
        return []

    def check_signature(self, method: str, path: str, body: bytes, signature: str, algorithm: str) -> None:
        """Check that a request between workers bears a valid signature (KIP-507); `RequestError` 403 if not."""
        key = self._state.session_key
        if key is None:
            raise KeyNotRead("This worker has not read the cluster's session key yet; try again shortly")
        permitted = self._config.inter_worker_verification_algorithms
        verify(key.key, permitted, method=method, path=path, body=body, signature=signature, algorithm=algorithm)
