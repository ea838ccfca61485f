"""What the runtime gives to connectors and tasks: offsets, pausing, reports of bad records, metrics, a logger.

These are abstract here. The runtime has its own; `ottla_sdk.conformance` has some that live in memory, for tests.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ottla_sdk.records import SinkRecord, SourceRecord, TopicPartition


class Metrics(ABC):
    """Counts and readings of a task, shown in REST and by the worker's Prometheus endpoint."""

    @abstractmethod
    def add(self, name: str, count: int | float = 1) -> None:
        """Add to a counter, for example ``metrics.add("rows")``."""

    @abstractmethod
    def set(self, name: str, value: float) -> None:
        """Set a gauge."""


class Context(ABC):
    """What all connectors and tasks have.

    Attributes:
        connector: the connector's name.
        log: a logger; its lines are tagged with the connector and, in a task, the task's number.
        metrics: counters and gauges.
    """

    connector: str
    log: logging.Logger
    metrics: Metrics

    def waits_for(self, reason: str | None) -> None:
        """Say that the work cannot go on before something happens that is no error, such as a file that is to come.

        Users see the reason in the status. It holds until a call of `poll`, `put` or `task_configs` succeeds in which
        this was not said again, or None is given. What is raised as a `RetriableError` is shown without this.
        """
        self.log.debug("waits for: %s", reason)


class OffsetReader(ABC):
    """Reads the offsets that a source connector's tasks have committed."""

    @abstractmethod
    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return the last committed offset of each source partition, None where there is none."""

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the last committed offset of one source partition."""
        return self.offsets([partition])[0]


class ConnectorContext(Context):
    """A connector's."""

    @abstractmethod
    def request_task_reconfiguration(self) -> None:
        """Say that `task_configs` would answer differently now; may be called from any thread."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Report that the connector cannot go on; may be called from any thread."""


class SourceConnectorContext(ConnectorContext):
    """A source connector's.

    Attributes:
        offsets: the offsets that its tasks have committed.
    """

    offsets: OffsetReader


class ChangePermit:
    """Whether a sink may still change the offsets in its target; always, unless the runtime says otherwise."""

    def require(self) -> None:
        """Return if nobody else can be changing them yet.

        Raises:
            NotPermitted: another worker may lead by now. Nothing may be written any more.
        """


class TaskContext(Context):
    """A task's.

    Attributes:
        task: the task's number, from 0.
    """

    task: int

    @abstractmethod
    def should_stop(self) -> bool:
        """Return whether the task is asked to stop; long work looks now and then, from any thread."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait, or return earlier if the task is asked to stop; returns whether it is."""


class TransactionContext(ABC):
    """Says where transactions end, for a source task that defines that itself (`transaction.boundary=connector`).

    A transaction begins with the first record behind the end of the last one. What is said counts for the records
    that the present or next `poll` returns; if it returns none, the transaction of those before ends. Where one is
    aborted, its records never become visible, but their offsets are committed: they are not read again.
    """

    @abstractmethod
    def commit(self) -> None:
        """Commit a transaction behind the last record of the batch."""

    @abstractmethod
    def commit_on(self, record: SourceRecord) -> None:
        """Commit a transaction behind this record of the batch."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction behind the last record of the batch."""

    @abstractmethod
    def abort_on(self, record: SourceRecord) -> None:
        """Abort the transaction behind this record of the batch, which is its last."""


class SourceTaskContext(TaskContext):
    """A source task's.

    Attributes:
        offsets: the offsets committed before.
        transaction_context: says where transactions end; None unless the task is to define that.
    """

    offsets: OffsetReader
    transaction_context: TransactionContext | None = None


class JobTaskContext(TaskContext):
    """A job's."""

    @abstractmethod
    def client_settings(self, kind: Literal["consumer", "producer", "admin"]) -> Mapping[str, str]:
        """Return librdkafka's settings for a client of the worker's cluster, with what the connector overrides."""

    @abstractmethod
    def ensure_topics(self, topics: Iterable[str]) -> None:
        """Create what is missing of these topics by the connector's `topic.creation.*` settings, if it has such.

        They also count as topics that the connector uses.

        Raises:
            ConnectError: a topic cannot be created.
        """

    @abstractmethod
    def report_progress(self, progress: Mapping[str, Any]) -> None:
        """Show how the work goes, as `progress` of the task's status: JSON, replaced every few seconds at most."""


class SinkTaskContext(TaskContext):
    """A sink task's."""

    @property
    @abstractmethod
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions whose records this task gets."""

    def topic_id(self, topic: str) -> str | None:
        """Ask the cluster which topic bears this name now: the id that it got when it was created, in Kafka's form.

        A topic that is deleted and created anew has another id, and begins with offset 0 again. A sink that keeps
        offsets in its target keeps the id beside them, and compares: in `open`, and again before it leaves records
        out because their offsets say that they are written. Each call asks a broker.

        Returns:
            None if the cluster gives no ids (Kafka before 2.8), or does not tell.

        Raises:
            RetriableError: no broker answers, or there is no such topic now.
        """
        return None

    @abstractmethod
    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading at these offsets; for sinks that keep offsets in their target, usually called in `open`.

        Raises:
            ConnectError: this task does not have one of the partitions, as in `start`, where it has none yet.
        """

    @abstractmethod
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Get no records of these partitions until `resume`, or until they are given away.

        Raises:
            ConnectError: this task does not have one of them.
        """

    @abstractmethod
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Get records of these partitions again."""

    @abstractmethod
    def retry_in(self, milliseconds: int) -> None:
        """Say how long to wait before the next try, when `put` raises `RetriableError` next."""

    @abstractmethod
    def request_commit(self) -> None:
        """Ask for a flush and a commit of offsets soon."""

    @abstractmethod
    def report(self, record: SinkRecord, error: Exception) -> None:
        """Report a record that the target refuses, by the rules of `errors.tolerance`; then go on without it.

        Raises:
            DataError: errors are not tolerated; let it pass.
        """

    def settle_reports(self) -> None:
        """Return when no record that was left out can get lost any more, by `report`, a converter or a transform.

        Its dead letter is only on its way when `report` returns. What the worker commits waits for that. A sink that
        keeps offsets in its target calls this right before it moves them: it would go on behind the record otherwise,
        though nobody has it.

        Raises:
            ConnectError: a dead letter was not taken, so that its record has to come again; let it pass. It is no
                `DataError`, as it is about no record of the task's own.
        """
