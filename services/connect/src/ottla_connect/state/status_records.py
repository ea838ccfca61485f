"""The records of the status topic, as Kafka Connect writes them (its KafkaStatusBackingStore). Pure.

The status of a connector or task: ``{"state", "trace", "worker_id", "generation"}``, with the plugin's ``version``
if it is known, and the ``progress`` that a task has reported. A topic that a connector uses: ``{"topic": {"name",
"connector", "task", "discoverTimestamp"}}``.
"""

from typing import NamedTuple

from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import BadRecord, decode_json_object, encode_json

CONNECTOR_PREFIX = "status-connector-"
TASK_PREFIX = "status-task-"
TOPIC_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


class TopicUse(NamedTuple):
    """A connector uses a topic."""

    connector: str
    topic: str


Subject = str | TaskId | TopicUse
"""What a record is about: a connector by its name, a task, or a connector's use of a topic."""


def key_of(subject: Subject) -> bytes:
    """Return the key of the record about a connector, a task, or the use of a topic."""
    if isinstance(subject, TaskId):
        return f"{TASK_PREFIX}{subject}".encode()
    if isinstance(subject, TopicUse):
        return f"{TOPIC_PREFIX}{subject.topic}{TOPIC_SEPARATOR}{subject.connector}".encode()
    return f"{CONNECTOR_PREFIX}{subject}".encode()


def subject_of(key: bytes | None) -> Subject:
    """Return what a record is about.

    Raises:
        BadRecord: the topic has no keys of this form.
    """
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        raise BadRecord(f"its key {key!r} is no text") from None
    if text.startswith(TASK_PREFIX):
        connector, dash, number = text.removeprefix(TASK_PREFIX).rpartition("-")
        if dash and connector and number.isascii() and number.isdecimal() and len(number) < 10:
            return TaskId(connector, int(number))
    elif text.startswith(TOPIC_PREFIX):
        topic, separator, connector = text.removeprefix(TOPIC_PREFIX).partition(TOPIC_SEPARATOR)
        if topic and separator and connector:
            return TopicUse(connector, topic)
    elif text.startswith(CONNECTOR_PREFIX) and text != CONNECTOR_PREFIX:
        return text.removeprefix(CONNECTOR_PREFIX)
    raise BadRecord(f"its key {text!r} is unknown")


def encode_status(status: Status) -> bytes:
    """Return the value of a status record."""
    document: dict[str, object] = {
        "state": status.state.value,
        "trace": status.trace or None,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    if status.version:
        document["version"] = status.version
    if status.progress is not None:
        document["progress"] = status.progress
    if status.health is not None:
        document["health"] = status.health
    return encode_json(document)


def decode_status(value: bytes) -> Status:
    """Return the status that a record has.

    Raises:
        BadRecord: it has no status.
    """
    document = decode_json_object(value)
    state, worker_id, generation = (document.get(key) for key in ("state", "worker_id", "generation"))
    trace, version = document.get("trace"), document.get("version")
    progress, health = document.get("progress"), document.get("health")
    if not isinstance(state, str) or state not in State.__members__:
        raise BadRecord(f"its state is {state!r}")
    if not isinstance(worker_id, str) or type(generation) is not int:
        raise BadRecord("it lacks a worker or a generation")
    return Status(
        state=State(state),
        worker_id=worker_id,
        generation=generation,
        trace=trace if isinstance(trace, str) else "",
        version=version if isinstance(version, str) else "",
        progress=progress if isinstance(progress, dict) else None,
        health=health if isinstance(health, dict) else None,
    )


def encode_topic_use(use: TopicUse, task: int, now_ms: int) -> bytes:
    """Return the value of a record that says which task used a topic first, and when."""
    return encode_json(
        {"topic": {"name": use.topic, "connector": use.connector, "task": task, "discoverTimestamp": now_ms}}
    )
