"""The records of the config topic, as Kafka Connect writes them (its KafkaConfigBackingStore). Pure.

A record's key says what it is about, its value is schemaless JSON. `decode` makes a typed record of both, or raises
`BadRecord`; the other functions make what is written. All workers of a cluster, Kafka's too, must agree on this.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId

CONNECTOR_PREFIX = "connector-"
TASK_PREFIX = "task-"
COMMIT_PREFIX = "commit-"
TARGET_STATE_PREFIX = "target-state-"
RESTART_PREFIX = "restart-connector-"
LOGGER_PREFIX = "logger-cluster-"
TASK_COUNT_PREFIX = "tasks-fencing-"
SESSION_KEY = "session-key"

# More tasks than this are taken for garbage: every worker would keep an entry for each of them.
TASKS_MAX = 100_000


class BadRecord(Exception):
    """A record of the config topic cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """The key by which workers sign requests to each other (KIP-507).

    Attributes:
        key: the key's bytes.
        algorithm: what it is for, by Java's name, such as ``HmacSHA256``.
        created_ms: when it was made, in milliseconds since the epoch.
    """

    key: bytes = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """Users want a connector, and perhaps its tasks, restarted (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


class ConnectorRecord(NamedTuple):
    """A connector's settings; None removes the connector."""

    name: str
    config: Mapping[str, str] | None


class TaskRecord(NamedTuple):
    """A task's settings, which count from the next `CommitRecord` of its connector on."""

    task: TaskId
    config: Mapping[str, str]


class CommitRecord(NamedTuple):
    """A connector has so many tasks, whose settings stand before this."""

    name: str
    tasks: int


class TargetStateRecord(NamedTuple):
    """What users want a connector to be; None removes it."""

    name: str
    state: TargetState | None


class TaskCountRecord(NamedTuple):
    """So many tasks of a connector may have producers with transactions from here on; all former ones are fenced."""

    name: str
    tasks: int


class LoggerRecord(NamedTuple):
    """The level of a logger on all workers."""

    logger: str
    level: str


ConfigRecord = (
    ConnectorRecord
    | TaskRecord
    | CommitRecord
    | TargetStateRecord
    | RestartRequest
    | SessionKey
    | TaskCountRecord
    | LoggerRecord
)


class Write(NamedTuple):
    """A key and a value to be written; no value is a tombstone."""

    key: bytes
    value: bytes | None


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord:
    """Return what a record says.

    Raises:
        BadRecord: it says nothing that could be understood.
    """
    name = _text(key)
    for prefix, read in _READERS:
        if name.startswith(prefix):
            return read(name.removeprefix(prefix), value)
    if name == SESSION_KEY:
        return _session_key(value)
    raise BadRecord(f"its key {name!r} is unknown")


def connector_write(name: str, config: Mapping[str, str] | None) -> Write:
    """Return the record of a connector's settings; None removes it."""
    return _write(CONNECTOR_PREFIX + name, None if config is None else {"properties": dict(config)})


def task_write(task: TaskId, config: Mapping[str, str]) -> Write:
    """Return the record of a task's settings."""
    return _write(f"{TASK_PREFIX}{task}", {"properties": dict(config)})


def commit_write(name: str, tasks: int) -> Write:
    """Return the record that makes the tasks' settings before it count."""
    return _write(COMMIT_PREFIX + name, {"tasks": tasks})


def target_state_write(name: str, state: TargetState | None) -> Write:
    """Return the record of a target state; None removes it.

    Workers older than Kafka 3.5 know no STOPPED and read PAUSED instead (KIP-875).
    """
    if state is None:
        return _write(TARGET_STATE_PREFIX + name, None)
    older = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _write(TARGET_STATE_PREFIX + name, {"state": older.value, "state.v2": state.value})


def restart_write(request: RestartRequest) -> Write:
    """Return the record of a restart request."""
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _write(RESTART_PREFIX + request.connector, value)


def session_key_write(key: SessionKey) -> Write:
    """Return the record of a session key."""
    encoded = base64.b64encode(key.key).decode("ascii")
    return _write(SESSION_KEY, {"key": encoded, "algorithm": key.algorithm, "creation-timestamp": key.created_ms})


def task_count_write(name: str, tasks: int) -> Write:
    """Return the record of how many tasks may have producers with transactions (KIP-618)."""
    return _write(TASK_COUNT_PREFIX + name, {"task-count": tasks})


def logger_write(logger: str, level: str) -> Write:
    """Return the record of a logger's level."""
    return _write(LOGGER_PREFIX + logger, {"level": level})


def _write(key: str, value: Mapping[str, object] | None) -> Write:
    return Write(key.encode(), None if value is None else encode_json(value))


def encode_json(value: object) -> bytes:
    """Return JSON as Kafka's JsonConverter writes it: without spaces, in UTF-8.

    Text that has no UTF-8, such as a file's name with stray bytes, is escaped.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode_json_object(value: bytes | None) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        BadRecord: the bytes are malformed.
    """
    if value is None:
        raise BadRecord("it has no value")
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"its value is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRecord(f"its value is no JSON object but {type(document).__name__}")
    return document


def _text(key: bytes | None) -> str:
    if key is None:
        raise BadRecord("it has no key")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadRecord(f"its key {key[:100]!r} is no text") from None


def _connector(name: str, value: bytes | None) -> ConnectorRecord:
    return ConnectorRecord(name, None if value is None else _properties(value))


def _task(text: str, value: bytes | None) -> TaskRecord:
    connector, dash, number = text.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= len(str(TASKS_MAX))
    if not dash or not connector or not is_number or int(number) >= TASKS_MAX:
        raise BadRecord(f"its key {TASK_PREFIX}{text} names no task")
    return TaskRecord(TaskId(connector, int(number)), _properties(value))


def _commit(name: str, value: bytes | None) -> CommitRecord:
    return CommitRecord(name, _count_of_tasks(decode_json_object(value).get("tasks")))


def _task_count(name: str, value: bytes | None) -> TaskCountRecord:
    return TaskCountRecord(name, _count_of_tasks(decode_json_object(value).get("task-count")))


def _count_of_tasks(tasks: object) -> int:
    if not isinstance(tasks, int) or isinstance(tasks, bool) or not 0 <= tasks <= TASKS_MAX:
        raise BadRecord(f"its number of tasks is {tasks!r}")
    return tasks


def _target_state(name: str, value: bytes | None) -> TargetStateRecord:
    if value is None:
        return TargetStateRecord(name, None)
    document = decode_json_object(value)
    newer = document.get("state.v2")
    text = newer if isinstance(newer, str) else document.get("state")
    if not isinstance(text, str) or text not in TargetState.__members__:
        raise BadRecord(f"its target state is {text!r}")
    return TargetStateRecord(name, TargetState(text))


def _restart(name: str, value: bytes | None) -> RestartRequest:
    document = decode_json_object(value)
    return RestartRequest(
        connector=name,
        include_tasks=document.get("include-tasks") is True,
        only_failed=document.get("only-failed") is True,
    )


def _session_key(value: bytes | None) -> SessionKey:
    document = decode_json_object(value)
    encoded, algorithm, created_ms = (document.get(each) for each in ("key", "algorithm", "creation-timestamp"))
    if not isinstance(encoded, str) or not isinstance(algorithm, str) or type(created_ms) is not int:
        raise BadRecord("it lacks a key, an algorithm or a time")
    try:
        return SessionKey(key=base64.b64decode(encoded, validate=True), algorithm=algorithm, created_ms=created_ms)
    except (binascii.Error, ValueError):
        raise BadRecord("its key is not in Base64") from None


def _logger(logger: str, value: bytes | None) -> LoggerRecord:
    level = decode_json_object(value).get("level")
    if not isinstance(level, str):
        raise BadRecord(f"its level is {level!r}")
    return LoggerRecord(logger, level)


def _properties(value: bytes | None) -> dict[str, str]:
    """Return settings: text, other scalars as JSON writes them, without the nulls that Kafka allows."""
    properties = decode_json_object(value).get("properties")
    if not isinstance(properties, dict):
        raise BadRecord(f"its properties are no JSON object but {type(properties).__name__}")
    nested = [key for key, each in properties.items() if isinstance(each, dict | list)]
    if nested:
        raise BadRecord(f"its properties {', '.join(nested)} are no text")
    return {
        key: each if isinstance(each, str) else json.dumps(each)
        for key, each in properties.items()
        if each is not None
    }


_READERS = (
    (TARGET_STATE_PREFIX, _target_state),
    (TASK_COUNT_PREFIX, _task_count),
    (CONNECTOR_PREFIX, _connector),
    (TASK_PREFIX, _task),
    (COMMIT_PREFIX, _commit),
    (RESTART_PREFIX, _restart),
    (LOGGER_PREFIX, _logger),
)
