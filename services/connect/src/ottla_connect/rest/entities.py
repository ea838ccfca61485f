"""The JSON documents of the REST API: those of Kafka Connect (its `rest.entities`) and our few more. Pure."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from ottla_connect.connector_states import State, Status
from ottla_connect.herder import api
from ottla_connect.ids import TaskId


class ServerInfo(BaseModel):
    """What a worker says of itself."""

    version: str
    commit: str
    kafka_cluster_id: str

    @classmethod
    def of(cls, info: api.ServerInfo) -> Self:
        """Return the document."""
        return cls(version=info.version, commit=info.commit, kafka_cluster_id=info.kafka_cluster_id)


class WorkerStatus(BaseModel):
    """Whether a worker works."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class ConnectorTaskId(BaseModel):
    """Names a task."""

    connector: str
    task: int

    @classmethod
    def of(cls, task: TaskId) -> Self:
        """Return the document."""
        return cls(connector=task.connector, task=task.task)


class ConnectorInfo(BaseModel):
    """A connector as it is configured."""

    name: str
    config: dict[str, str]
    tasks: list[ConnectorTaskId]
    type: api.ConnectorType

    @classmethod
    def of(cls, info: api.ConnectorInfo) -> Self:
        """Return the document."""
        tasks = [ConnectorTaskId.of(task) for task in info.tasks]
        return cls(name=info.name, config=dict(info.config), tasks=tasks, type=info.type)


class Health(BaseModel):
    """Whether what runs does its work, and how it goes; Kafka Connect has nothing like it."""

    state: str = Field(description="WORKING; WAITING for something; RETRYING: it has failed and is started again.")
    reason: str | None = Field(None, description="What it waits for, such as the last error.")
    since_ms: int | None = Field(None, description="Since when, in milliseconds since 1970.")
    next_try_ms: int | None = Field(None, description="When it is tried again, likewise; left out if not known.")
    records_per_second: float | None = Field(None, description="Records done, over some ten seconds.")
    lag: int | None = Field(None, description="Records that a sink has still to take, as far as it knows.")

    @classmethod
    def of(cls, status: Status) -> Self | None:
        """Return the document; None for what has said nothing, or does not run."""
        try:
            return cls.model_validate(status.health) if status.health is not None else None
        except ValidationError:
            return None  # another version of the worker has written it


class ConnectorState(BaseModel):
    """The state of a connector's own process."""

    state: State
    worker_id: str = Field(description="HOST:PORT of the worker that runs it, or ran it last.")
    trace: str | None = Field(None, description="Why it failed; left out if it has not.")
    version: str | None = Field(None, description="The plugin's version; left out if it is not known.")
    health: Health | None = Field(None, description="Whether it does its work; left out if it has not said.")

    @classmethod
    def of(cls, status: Status) -> Self:
        """Return the document."""
        return cls(
            state=status.state,
            worker_id=status.worker_id,
            trace=status.trace or None,
            version=status.version or None,
            health=Health.of(status),
        )


class TaskState(BaseModel):
    """The state of a task."""

    id: int
    state: State
    worker_id: str = Field(description="HOST:PORT of the worker that runs it, or ran it last.")
    trace: str | None = Field(None, description="Why it failed; left out if it has not.")
    version: str | None = Field(None, description="The plugin's version; left out if it is not known.")
    health: Health | None = Field(None, description="Whether it does its work; left out if it has not said.")
    progress: dict[str, Any] | None = Field(
        None, description="How the work of a task that is a job goes, such as Spark's; left out elsewhere."
    )

    @classmethod
    def of(cls, number: int, status: Status) -> Self:
        """Return the document."""
        return cls(
            id=number,
            state=status.state,
            worker_id=status.worker_id,
            trace=status.trace or None,
            version=status.version or None,
            health=Health.of(status),
            progress=dict(status.progress) if status.progress is not None else None,
        )


class ConnectorStateInfo(BaseModel):
    """A connector's state and its tasks'."""

    name: str
    connector: ConnectorState
    tasks: list[TaskState]
    type: api.ConnectorType

    @classmethod
    def of(cls, status: api.ConnectorStatus) -> Self:
        """Return the document."""
        return cls(
            name=status.name,
            connector=ConnectorState.of(status.connector),
            tasks=[TaskState.of(number, status.tasks[number]) for number in sorted(status.tasks)],
            type=status.type,
        )


class ExpandedConnector(BaseModel):
    """What ``?expand=status`` and ``?expand=info`` add to the list of connectors."""

    status: ConnectorStateInfo | None = None
    info: ConnectorInfo | None = None


class CreateConnectorRequest(BaseModel):
    """A connector to be made."""

    name: str
    config: dict[str, str]
    initial_state: Literal["RUNNING", "PAUSED", "STOPPED"] | None = None


class TaskInfo(BaseModel):
    """A task and its settings."""

    id: ConnectorTaskId
    config: dict[str, str]


class ActiveTopics(BaseModel):
    """The topics that a connector has used."""

    topics: list[str]


class ConnectorOffset(BaseModel):
    """Where a connector is in one partition of its source, or of a topic; an offset of null removes it."""

    partition: dict[str, Any]
    offset: dict[str, Any] | None


class ConnectorOffsets(BaseModel):
    """Where a connector is.

    For sinks, partitions have ``kafka_topic`` and ``kafka_partition``, offsets ``kafka_offset``.
    """

    offsets: list[ConnectorOffset]

    @classmethod
    def of(cls, offsets: api.ConnectorOffsets) -> Self:
        """Return the document."""
        pairs = [
            ConnectorOffset(partition=dict(partition), offset=None if offset is None else dict(offset))
            for partition, offset in offsets
        ]
        return cls(offsets=pairs)


class Message(BaseModel):
    """What was done."""

    message: str


class PluginInfo(BaseModel):
    """A plugin class; or, of type ``broken``, a plugin that cannot be imported."""

    class_name: str = Field(serialization_alias="class")
    type: str
    version: str | None = None
    error: str | None = Field(None, description="Why it cannot be imported; left out if it can.")

    @classmethod
    def of(cls, plugin: api.PluginInfo) -> Self:
        """Return the document."""
        return cls(
            class_name=plugin.class_name,
            type=plugin.type,
            version=plugin.version or None,
            error=plugin.error or None,
        )


class ConfigKeyInfo(BaseModel):
    """A setting as its plugin defines it."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class ConfigValueInfo(BaseModel):
    """A setting's value, and what is wrong with it."""

    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class ConfigInfo(BaseModel):
    """A setting: its definition, null for one that has none, and its value."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


class ConfigInfos(BaseModel):
    """What validation found."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigInfo]


class LoggerLevel(BaseModel):
    """A logger's level."""

    level: str
    last_modified: int | None = Field(description="Milliseconds since 1970; null if it was not set since the start.")

    @classmethod
    def of(cls, level: api.LoggerLevel) -> Self:
        """Return the document."""
        return cls(level=level.level, last_modified=level.last_modified_ms)


class WantedLevel(BaseModel):
    """The level that a logger is to have."""

    level: Literal["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"]


class LogLines(BaseModel):
    """The last log lines of a connector's own process, or of a task."""

    connector: str
    task: int | None
    lines: list[str]


def task_infos(configs: Mapping[TaskId, Mapping[str, str]]) -> list[TaskInfo]:
    """Return the documents of tasks, by number."""
    return [TaskInfo(id=ConnectorTaskId.of(task), config=dict(configs[task])) for task in sorted(configs)]
