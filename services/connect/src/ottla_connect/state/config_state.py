"""The cluster's configuration, as the records of the config topic say it (Kafka's KafkaConfigBackingStore). Pure.

The topic is compacted, and a connector's tasks take several records, so that a reader may find only some of them.
Their settings therefore wait until a commit record says how many there are; if some are missing then, the connector
is inconsistent: it counts as having no tasks until somebody writes them anew. A commit for a connector that is not
there belongs to one that was deleted, whose tombstone compaction has removed.

`ConfigReplay` takes the records in order; `ConfigState` is what they amount to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    LoggerRecord,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
)

NOTHING: Mapping[str, str] = MappingProxyType({})
NO_TASKS: Mapping[TaskId, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector is new or has other settings."""

    name: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TaskConfigsChanged:
    """A connector's tasks have other settings, or it has another number of them."""

    name: str


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector is to be started, paused or stopped."""

    name: str


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A connector is to be restarted."""

    request: RestartRequest

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.request.connector


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """There is another session key."""


@dataclass(frozen=True, slots=True)
class LoggerLevelChanged:
    """A logger has another level on all workers."""

    logger: str
    level: str


ConfigChange = (
    ConnectorChanged
    | ConnectorRemoved
    | TaskConfigsChanged
    | TargetStateChanged
    | RestartRequested
    | SessionKeyChanged
    | LoggerLevelChanged
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """The tasks of a connector: their settings, and the connector's when they were committed."""

    configs: Mapping[TaskId, Mapping[str, str]]
    connector_config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigState:
    """A snapshot.

    Attributes:
        offset: of the record after the last that was read; -1 if none was.
        connectors: every connector's settings.
        target_states: what users want connectors to be; at least one entry for each connector.
        task_counts: how many tasks a connector has, 0 if it is inconsistent; no entry if none were ever committed.
        inconsistent: connectors some of whose tasks' settings are missing.
        taskless_from: of connectors whose tasks went, now or in an earlier life of the name, the offset behind the
            record that took them.
        session_key: by which workers sign requests to each other; None if there is none yet.
        logger_levels: levels set on all workers.
        fenced_counts: how many tasks of a connector, also of one that was deleted, may have producers with
            transactions; no entry if none ever had.
        unfenced: connectors whose tasks were changed since, so that the former ones are still to be fenced.
        generations: of each connector's tasks, the offset of the record that made them count.
    """

    offset: int = -1
    connectors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    inconsistent: frozenset[str] = frozenset()
    session_key: SessionKey | None = None
    logger_levels: Mapping[str, str] = field(default_factory=dict)
    task_sets: Mapping[str, TaskSet] = field(default_factory=dict, repr=False)
    taskless_from: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    fenced_counts: Mapping[str, int] = field(default_factory=dict)
    unfenced: frozenset[str] = frozenset()
    generations: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def without_tasks_since(self, name: str) -> int:
        """Return the offset from which on a connector without tasks has had none; -1 if none are known at all."""
        return self.taskless_from.get(name, -1)

    def task_configs(self, name: str) -> Mapping[TaskId, Mapping[str, str]]:
        """Return the settings of a connector's tasks; none if it is unknown or inconsistent."""
        return self.task_sets[name].configs if name in self.task_sets else NO_TASKS

    def applied_connector_config(self, name: str) -> Mapping[str, str]:
        """Return the connector's settings when its tasks' were committed; empty if none were."""
        return self.task_sets[name].connector_config if name in self.task_sets else NOTHING


class ConfigReplay:
    """Follows the records of the config topic."""

    def __init__(self) -> None:
        self._offset = -1
        self._connectors: dict[str, Mapping[str, str]] = {}
        self._target_states: dict[str, TargetState] = {}
        self._deferred: dict[str, dict[TaskId, Mapping[str, str]]] = {}
        self._task_sets: dict[str, TaskSet] = {}
        self._inconsistent: set[str] = set()
        self._taskless_from: dict[str, int] = {}
        self._session_key: SessionKey | None = None
        self._logger_levels: dict[str, str] = {}
        self._fenced_counts: dict[str, int] = {}
        self._unfenced: set[str] = set()
        self._generations: dict[str, int] = {}
        self._snapshot: ConfigState | None = None

    def snapshot(self) -> ConfigState:
        """Return what all records up to now amount to."""
        if self._snapshot is None:
            self._snapshot = ConfigState(
                offset=self._offset,
                connectors=dict(self._connectors),
                target_states=dict(self._target_states),
                task_counts={name: len(tasks.configs) for name, tasks in self._task_sets.items()}
                | dict.fromkeys(self._inconsistent, 0),
                inconsistent=frozenset(self._inconsistent),
                session_key=self._session_key,
                logger_levels=dict(self._logger_levels),
                task_sets=dict(self._task_sets),
                taskless_from=dict(self._taskless_from),
                fenced_counts=dict(self._fenced_counts),
                unfenced=frozenset(self._unfenced),
                generations=dict(self._generations),
            )
        return self._snapshot

    def skip(self, offset: int) -> None:
        """Pass a record that says nothing; `offset` is its own."""
        self._offset = offset + 1
        self._snapshot = None

    def apply(self, record: ConfigRecord, offset: int) -> ConfigChange | None:
        """Take the next record and return what it changes, if that concerns anybody; `offset` is its own."""
        self.skip(offset)
        match record:
            case ConnectorRecord():
                return self._apply_connector(record)
            case TaskRecord():
                self._deferred.setdefault(record.task.connector, {})[record.task] = record.config
                return None
            case CommitRecord():
                return self._apply_commit(record)
            case TargetStateRecord():
                return self._apply_target_state(record)
            case RestartRequest():
                return RestartRequested(record)
            case SessionKey():
                self._session_key = record
                return SessionKeyChanged()
            case TaskCountRecord():
                self._fenced_counts[record.name] = record.tasks
                self._unfenced.discard(record.name)
                return None
            case LoggerRecord():
                self._logger_levels[record.logger] = record.level
                return LoggerLevelChanged(record.logger, record.level)

    def _apply_connector(self, record: ConnectorRecord) -> ConfigChange | None:
        if record.config is None:
            existed = record.name in self._connectors
            self._forget(record.name)
            return ConnectorRemoved(record.name) if existed else None
        self._connectors[record.name] = record.config
        self._target_states.setdefault(record.name, TargetState.STARTED)
        return ConnectorChanged(record.name)

    def _apply_commit(self, record: CommitRecord) -> ConfigChange | None:
        connector_config = self._connectors.get(record.name)
        if connector_config is None:
            self._forget(record.name)
            return None
        # What waited is either taken now or, where some is missing, of no use: all of it has to be written again.
        deferred = self._deferred.pop(record.name, {})
        tasks = [TaskId(record.name, number) for number in range(record.tasks)]
        self._note_end_of_tasks(record.name)
        self._unfenced.add(record.name)
        self._generations[record.name] = self._offset
        if all(task in deferred for task in tasks):
            configs = {task: deferred[task] for task in tasks}
            self._task_sets[record.name] = TaskSet(configs=configs, connector_config=connector_config)
            self._inconsistent.discard(record.name)
        else:
            self._task_sets.pop(record.name, None)
            self._inconsistent.add(record.name)
        return TaskConfigsChanged(record.name)

    def _apply_target_state(self, record: TargetStateRecord) -> ConfigChange | None:
        exists = record.name in self._connectors
        if record.state is None:
            # The connector's own tombstone tells of its end; without one it goes on, and needs some target state.
            self._target_states.pop(record.name, None)
            if exists:
                self._target_states[record.name] = TargetState.STARTED
            return None
        changed = self._target_states.get(record.name) is not record.state
        self._target_states[record.name] = record.state
        # A state without its connector is the initial state of one that is being created.
        return TargetStateChanged(record.name) if changed and exists else None

    def _note_end_of_tasks(self, name: str) -> None:
        """Remember where a connector's tasks went, before they do; that there are others is seen by their count."""
        if name in self._task_sets and self._task_sets[name].configs:
            self._taskless_from[name] = self._offset

    def _forget(self, name: str) -> None:
        self._note_end_of_tasks(name)
        self._connectors.pop(name, None)
        self._task_sets.pop(name, None)
        self._deferred.pop(name, None)
        self._inconsistent.discard(name)
        # How many tasks there were is kept: if the name comes again, they are still to be fenced.
        self._generations.pop(name, None)
        self._unfenced.discard(name)
