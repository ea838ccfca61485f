"""What the REST API asks of a worker. Nouns, states and rules are Kafka Connect's (its `Herder` interface). Pure."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla_connect.connector_states import Status, TargetState
from ottla_connect.ids import TaskId


class ConnectorType(enum.StrEnum):
    """What a connector does."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorInfo:
    """A connector as it is configured."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[TaskId]
    type: ConnectorType


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """A connector's status and its tasks', by number."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: ConnectorType


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A plugin class, as in the plugin list.

    Attributes:
        class_name: module and name; for a plugin that cannot be imported, its entry point.
        type: source, sink, transformation, predicate, converter, header_converter, configprovider; or ``broken``.
        version: its version.
        error: why it cannot be imported; empty if it can.
    """

    class_name: str
    type: str
    version: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What a worker says of itself."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether a worker works: `status` is healthy, starting or unhealthy."""

    status: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerLevel:
    """A logger's level, and when it was set in milliseconds since the epoch (None: not since the start)."""

    level: str
    last_modified_ms: int | None


ConnectorOffsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""Pairs of partition and offset, as in REST; for sinks ``kafka_topic``, ``kafka_partition`` and ``kafka_offset``."""


class Herder(Protocol):
    """Answers for all connectors of the cluster.

    Every method raises a `RequestError` when it refuses, `Elsewhere` when another worker has to answer. What reads
    goes by this worker's view; what writes returns once it is stored.
    """

    def server_info(self) -> ServerInfo:
        """Return the worker's version and its Kafka cluster's id."""

    async def health(self) -> Health:
        """Return whether this worker has joined the group and reads the cluster's state."""

    def connectors(self) -> Sequence[str]:
        """Return the names of all connectors, sorted."""

    def connector_info(self, name: str) -> ConnectorInfo:
        """Return how a connector is configured."""

    def connector_status(self, name: str) -> ConnectorStatus:
        """Return a connector's and its tasks' statuses."""

    def task_status(self, task: TaskId) -> Status:
        """Return a task's status."""

    def task_configs(self, name: str) -> Mapping[TaskId, Mapping[str, str]]:
        """Return the settings of a connector's tasks."""

    async def create_connector(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None
    ) -> ConnectorInfo:
        """Create a connector; `Conflict` if there is one of this name."""

    async def put_connector_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector; returns whether it is new."""

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector; None removes one."""

    async def delete_connector(self, name: str) -> None:
        """Delete a connector."""

    async def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume (STARTED) or stop a connector."""

    async def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus | None:
        """Restart a connector, and its tasks; returns what is planned, None if the connector alone is."""

    async def restart_task(self, task: TaskId) -> None:
        """Restart a task."""

    def topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has used since it was created or they were reset."""

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that a connector has used."""

    async def offsets(self, name: str) -> ConnectorOffsets:
        """Return a connector's offsets."""

    async def alter_offsets(self, name: str, offsets: ConnectorOffsets) -> str:
        """Set offsets of a stopped connector; returns the message for the user."""

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a stopped connector; returns the message for the user."""

    async def plugins(self) -> Sequence[PluginInfo]:
        """Return all plugin classes, and the plugins that cannot be imported."""

    async def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        """Return the `ConfigKeyInfo` documents of a plugin class."""

    async def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the `ConfigInfos` document of a connector's settings."""

    async def logs(self, name: str, task: int | None, lines: int) -> Sequence[str]:
        """Return the last log lines of a connector's own process, or of one of its tasks."""

    def loggers(self) -> Mapping[str, LoggerLevel]:
        """Return all loggers whose level was set, and ``root``."""

    def logger_level(self, logger: str) -> LoggerLevel:
        """Return the level of a logger, its own or the one that it inherits."""

    async def set_logger_level(self, logger: str, level: str, *, cluster: bool) -> Sequence[str]:
        """Set a level on this worker and its processes, or on all; returns the loggers it affects here."""

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Store what a connector's tasks shall do; workers ask this of the leader."""

    async def fence_tasks(self, name: str) -> None:
        """Fence former tasks of a source that writes in transactions; workers ask this of the leader (KIP-618)."""

    def check_signature(self, method: str, path: str, body: bytes, signature: str, algorithm: str) -> None:
        """Check that a request between workers bears a valid signature (KIP-507); `RequestError` 403 if not."""
