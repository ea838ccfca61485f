"""A herder in memory, for the REST API's tests: it keeps what it is told and starts nothing.

Attributes of it are set by tests: `leader` makes whatever writes raise `Elsewhere`, `owner` whatever one worker alone
can answer, `held` makes requests wait, `broken` makes them fail in ways that nobody foresaw.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ottla_connect.connector_states import State, Status, TargetState
from ottla_connect.herder.api import (
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatus,
    ConnectorType,
    Health,
    LoggerLevel,
    PluginInfo,
    ServerInfo,
)
from ottla_connect.herder.signatures import verify
from ottla_connect.ids import TaskId
from ottla_core.rest.errors import BadRequest, Conflict, Elsewhere, NotFound

WORKER = "127.0.0.1:8083"
SESSION_KEY = b"the cluster's session key"
PLUGINS = (
    PluginInfo(class_name="ottla_file.FileSink", type="sink", version="1.0"),
    PluginInfo(class_name="ottla_file.FileSource", type="source", version="1.0"),
    PluginInfo(class_name="ottla_standard.JsonConverter", type="converter", version=""),
    PluginInfo(class_name="damaged.plugin", type="broken", version="0.1", error="No module named 'gone'"),
)
STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


def setting(name: str, **changes: Any) -> dict[str, Any]:
    """A `ConfigKeyInfo`."""
    return {
        "name": name, "type": "STRING", "required": True, "default_value": None, "importance": "HIGH",
        "documentation": "…", "group": None, "order_in_group": -1, "width": "NONE", "display_name": name,
        "dependents": [], **changes,
    }  # fmt: skip


class ScriptedHerder:
    """See the file's head."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.targets: dict[str, TargetState] = {}
        self.restarts: list[tuple[object, ...]] = []
        self.stored_offsets: dict[str, list[Any]] = {}
        self.used_topics: dict[str, list[str]] = {}
        self.stored_task_configs: dict[str, list[dict[str, str]]] = {}
        self.fenced: list[str] = []
        self.levels = {"root": LoggerLevel(level="INFO", last_modified_ms=None)}
        self.log_requests: list[tuple[str, int | None, int]] = []
        self.failed: dict[TaskId, str] = {}
        self.progress: dict[TaskId, dict[str, Any]] = {}
        self.healths: dict[TaskId, dict[str, Any]] = {}
        self.leader: str | None = None
        self.owner: str | None = None
        self.held: asyncio.Event | None = None
        self.broken: Exception | None = None
        self.health_requests = 0
        self.state_of_health = Health(status="healthy", message="Worker has completed startup.")

    def server_info(self) -> ServerInfo:
        if self.broken is not None:
            raise self.broken
        return ServerInfo(version="0.1.0", commit="abc", kafka_cluster_id="cluster")

    async def health(self) -> Health:
        self.health_requests += 1
        await self._hold()
        return self.state_of_health

    def connectors(self) -> Sequence[str]:
        return sorted(self.configs)

    def connector_info(self, name: str) -> ConnectorInfo:
        config = self._config(name)
        kind = ConnectorType.SINK if config["connector.class"].endswith("Sink") else ConnectorType.SOURCE
        return ConnectorInfo(name=name, config=config, tasks=self._tasks(name), type=kind)

    def connector_status(self, name: str) -> ConnectorStatus:
        info = self.connector_info(name)
        status = Status(state=STATES[self.targets[name]], worker_id=WORKER, version="1.0")
        tasks = {task.task: self.task_status(task) for task in info.tasks}
        return ConnectorStatus(name=name, connector=status, tasks=tasks, type=info.type)

    def task_status(self, task: TaskId) -> Status:
        if task.connector not in self.configs or task not in self._tasks(task.connector):
            raise NotFound(f"No status found for task {task}")
        if (trace := self.failed.get(task)) is not None:
            return Status(state=State.FAILED, worker_id=WORKER, trace=trace)
        return Status(
            state=STATES[self.targets[task.connector]],
            worker_id=WORKER,
            version="1.0",
            progress=self.progress.get(task),
            health=self.healths.get(task),
        )

    def task_configs(self, name: str) -> Mapping[TaskId, Mapping[str, str]]:
        config = self._config(name)
        return {task: {**config, "task": str(task.task)} for task in self._tasks(name)}

    async def create_connector(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None
    ) -> ConnectorInfo:
        await self._ask_the_leader()
        self._check(config)
        if name in self.configs:
            raise Conflict(f"Connector {name} already exists")
        self.configs[name] = dict(config)
        self.targets[name] = initial_state or TargetState.STARTED
        return self.connector_info(name)

    async def put_connector_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        await self._ask_the_leader()
        self._check(config)
        is_new = name not in self.configs
        self.configs[name] = dict(config)
        self.targets.setdefault(name, TargetState.STARTED)
        return is_new, self.connector_info(name)

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self._config(name), **patch}
        self.configs[name] = {key: value for key, value in merged.items() if value is not None}
        return self.connector_info(name)

    async def delete_connector(self, name: str) -> None:
        await self._ask_the_leader()
        self._config(name)
        del self.configs[name]

    async def set_target_state(self, name: str, state: TargetState) -> None:
        self._config(name)
        self.targets[name] = state

    async def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        self._ask_the_owner()
        self._config(name)
        self.restarts.append((name, include_tasks, only_failed))
        return self.connector_status(name) if include_tasks or only_failed else None

    async def restart_task(self, task: TaskId) -> None:
        self._ask_the_owner()
        if task.connector not in self.configs:
            raise NotFound(f"Unknown connector: {task.connector}")
        if task not in self._tasks(task.connector):
            raise NotFound(f"Unknown task: {task}")
        self.restarts.append((task,))

    def topics(self, name: str) -> Sequence[str]:
        return self.used_topics.get(name, [])

    async def reset_topics(self, name: str) -> None:
        self.used_topics.pop(name, None)

    async def offsets(self, name: str) -> ConnectorOffsets:
        self._config(name)
        return self.stored_offsets.get(name, [])

    async def alter_offsets(self, name: str, offsets: ConnectorOffsets) -> str:
        self._config(name)
        if self.targets[name] is not TargetState.STOPPED:
            raise BadRequest("Only a stopped connector's offsets can be changed")
        self.stored_offsets[name] = [pair for pair in offsets if pair[1] is not None]
        return "The offsets for this connector have been altered successfully"

    async def reset_offsets(self, name: str) -> str:
        self._config(name)
        self.stored_offsets.pop(name, None)
        return "The offsets for this connector have been reset successfully"

    async def plugins(self) -> Sequence[PluginInfo]:
        return PLUGINS

    async def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        if plugin != "FileSource":
            raise NotFound(f"Unknown plugin {plugin}.")
        return [setting("topic"), setting("batch.size", required=False, default_value="2000", type="LONG")]

    async def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        problems = {
            "tasks.max": "Input should be a valid integer" if config.get("tasks.max") == "many" else None,
            "topic": None if "topic" in config else "must be set, there is no default",
        }
        values = [
            {
                "name": key, "value": config.get(key), "recommended_values": [], "visible": True,
                "errors": [] if problem is None else [problem],
            }
            for key, problem in problems.items()
        ]  # fmt: skip
        return {
            "name": config.get("connector.class", plugin),
            "error_count": sum(problem is not None for problem in problems.values()),
            "groups": ["Common"],
            "configs": [{"definition": setting(value["name"]), "value": value} for value in values],
        }

    async def logs(self, name: str, task: int | None, lines: int) -> Sequence[str]:
        self._ask_the_owner()
        self._config(name)
        self.log_requests.append((name, task, lines))
        return [f"line {number}" for number in range(min(lines, 3))]

    def loggers(self) -> Mapping[str, LoggerLevel]:
        return self.levels

    def logger_level(self, logger: str) -> LoggerLevel:
        if logger not in self.levels:
            raise NotFound(f"Logger {logger} not found.")
        return self.levels[logger]

    async def set_logger_level(self, logger: str, level: str, *, cluster: bool) -> Sequence[str]:
        if level.upper() not in ("DEBUG", "INFO"):
            raise NotFound(f"invalid log level '{level}'.")
        self.levels[logger] = LoggerLevel(level=level.upper(), last_modified_ms=17)
        return [logger]

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        await self._ask_the_leader()
        self.stored_task_configs[name] = [dict(each) for each in configs]

    async def fence_tasks(self, name: str) -> None:
        await self._ask_the_leader()
        self.fenced.append(name)

    def check_signature(self, method: str, path: str, body: bytes, signature: str, algorithm: str) -> None:
        verify(
            SESSION_KEY, ("HmacSHA256",),
            method=method, path=path, body=body, signature=signature, algorithm=algorithm,
        )  # fmt: skip

    def _config(self, name: str) -> dict[str, str]:
        if name not in self.configs:
            raise NotFound(f"Connector {name} not found")
        return self.configs[name]

    def _tasks(self, name: str) -> list[TaskId]:
        count = 0 if self.targets[name] is TargetState.STOPPED else int(self.configs[name].get("tasks.max", "1"))
        return [TaskId(name, number) for number in range(count)]

    def _check(self, config: Mapping[str, str]) -> None:
        if "connector.class" not in config:
            raise BadRequest(f"Connector config {dict(config)} contains no connector type")

    async def _hold(self) -> None:
        if self.held is not None:
            await self.held.wait()

    async def _ask_the_leader(self) -> None:
        await self._hold()
        if self.leader is not None:
            raise Elsewhere(self.leader)

    def _ask_the_owner(self) -> None:
        if self.owner is not None:
            raise Elsewhere(self.owner)
