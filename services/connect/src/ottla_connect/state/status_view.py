"""The statuses of all connectors and tasks, as the status topic's records say them, and when one may be replaced.

A worker that stops a task says so late, perhaps after another has begun to run it. Two rules of Kafka Connect keep
that from hiding the newer status: a "safe" write is left out if another worker has written in a later generation,
and an UNASSIGNED that is read after a RUNNING of the same or a later generation is ignored.

Pure.
"""

from collections.abc import Iterable

from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import BadRecord, decode_json_object
from ottla_connect.state.status_records import Subject, TopicUse, decode_status, subject_of


class StatusView:
    """Follows the records of the status topic."""

    def __init__(self) -> None:
        self._statuses: dict[str | TaskId, Status] = {}
        self._tasks: dict[str, set[TaskId]] = {}
        self._topics: dict[str, set[str]] = {}

    def status(self, subject: str | TaskId) -> Status | None:
        """Return the status of a connector or task; None if there is none."""
        return self._statuses.get(subject)

    def topics(self, connector: str) -> frozenset[str]:
        """Return the topics that a connector has used."""
        return frozenset(self._topics.get(connector, ()))

    def subjects(self, connector: str) -> Iterable[Subject]:
        """Return what there are records of: the connector, its tasks, its topics."""
        if connector in self._statuses:
            yield connector
        yield from sorted(self._tasks.get(connector, ()))
        yield from (TopicUse(connector, topic) for topic in sorted(self._topics.get(connector, ())))

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record.

        Raises:
            BadRecord: it cannot be understood.
        """
        subject = subject_of(key)
        if isinstance(subject, TopicUse):
            self._take_topic(subject, value)
        elif value is None:
            self._statuses.pop(subject, None)
            if isinstance(subject, TaskId):
                self._tasks.get(subject.connector, set()).discard(subject)
        else:
            self._take_status(subject, decode_status(value))

    def may_replace(self, subject: str | TaskId, status: Status) -> bool:
        """Return whether a safe write of this status is left to do (Kafka's ``putSafe``)."""
        current = self._statuses.get(subject)
        return current is None or current.worker_id == status.worker_id or current.generation <= status.generation

    def _take_status(self, subject: str | TaskId, status: Status) -> None:
        current = self._statuses.get(subject)
        if (
            status.state is State.UNASSIGNED
            and current is not None
            and current.state is State.RUNNING
            and current.worker_id != status.worker_id
            and current.generation >= status.generation
        ):
            return  # whoever had it before says so late; it runs elsewhere by now (Kafka does so for tasks only)
        self._statuses[subject] = status
        if isinstance(subject, TaskId):
            self._tasks.setdefault(subject.connector, set()).add(subject)

    def _take_topic(self, use: TopicUse, value: bytes | None) -> None:
        if value is None:
            self._topics.get(use.connector, set()).discard(use.topic)
            return
        if not isinstance(decode_json_object(value).get("topic"), dict):
            raise BadRecord("it describes no topic")
        self._topics.setdefault(use.connector, set()).add(use.topic)
