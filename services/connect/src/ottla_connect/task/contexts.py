"""What the runtime gives to plugins: the SDK's contexts, over the worker's control and the runners."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from ottla_connect.ids import TaskId
from ottla_connect.task.control import Control
from ottla_connect.task.health import Health
from ottla_connect.task.measures import PluginMetrics
from ottla_sdk import (
    JobTaskContext,
    OffsetReader,
    SinkRecord,
    SinkTaskContext,
    SourceConnectorContext,
    SourceTaskContext,
    TaskContext,
    TopicPartition,
    TransactionContext,
)


class CommittedOffsets(OffsetReader):
    """Asks the worker."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return the last committed offset of each source partition, None where there is none."""
        return self._control.read_offsets(partitions)


class RunningConnectorContext(SourceConnectorContext):
    """A connector's; sink connectors do not look at `offsets`."""

    def __init__(
        self,
        connector: str,
        control: Control,
        metrics: PluginMetrics,
        health: Health,
        *,
        on_reconfigure: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.connector = connector
        self.log = logging.getLogger(f"connector.{connector}")
        self.metrics = metrics
        self._health = health
        self.offsets = CommittedOffsets(control)
        self._on_reconfigure = on_reconfigure
        self._on_failure = on_failure

    def waits_for(self, reason: str | None) -> None:
        """Say that the connector waits, and for what."""
        self._health.plugin_waits(reason)

    def request_task_reconfiguration(self) -> None:
        """Say that `task_configs` would answer differently now."""
        self._on_reconfigure()

    def fail(self, error: Exception) -> None:
        """Report that the connector cannot go on."""
        self._on_failure(error)


class _RunningTaskContext(TaskContext):
    """What contexts of both kinds of tasks have."""

    def __init__(self, task: TaskId, control: Control, metrics: PluginMetrics, health: Health) -> None:
        self._health = health
        self.connector = task.connector
        self.task = task.task
        self.log = logging.getLogger(f"connector.{task.connector}")
        self.metrics = metrics
        self._control = control

    def waits_for(self, reason: str | None) -> None:
        """Say that the task waits, and for what."""
        self._health.plugin_waits(reason)

    def should_stop(self) -> bool:
        """Return whether the task is asked to stop."""
        return self._control.stopping

    def wait(self, seconds: float) -> bool:
        """Wait, or return earlier if the task is asked to stop; returns whether it is."""
        return self._control.wait(seconds)


class RunningSourceTaskContext(_RunningTaskContext, SourceTaskContext):
    """A source task's."""

    def __init__(
        self,
        task: TaskId,
        control: Control,
        metrics: PluginMetrics,
        health: Health,
        transaction_context: TransactionContext | None = None,
    ) -> None:
        super().__init__(task, control, metrics, health)
        self.offsets = CommittedOffsets(control)
        self.transaction_context = transaction_context


class JobTaskActions(Protocol):
    """What a job's plugin can have done."""

    def client_settings(self, kind: Literal["consumer", "producer", "admin"]) -> Mapping[str, str]:
        """Return a client's settings."""

    def ensure_topic(self, topic: str) -> None:
        """Create the topic if it is missing."""

    def report_progress(self, progress: Mapping[str, Any]) -> None:
        """Show it."""


class RunningJobTaskContext(_RunningTaskContext, JobTaskContext):
    """A job's."""

    def __init__(
        self, task: TaskId, control: Control, metrics: PluginMetrics, health: Health, actions: JobTaskActions
    ) -> None:
        super().__init__(task, control, metrics, health)
        self._actions = actions

    def client_settings(self, kind: Literal["consumer", "producer", "admin"]) -> Mapping[str, str]:
        """Return librdkafka's settings for a client of the worker's cluster."""
        return self._actions.client_settings(kind)

    def ensure_topics(self, topics: Iterable[str]) -> None:
        """Create what is missing of these topics."""
        for topic in topics:
            self._actions.ensure_topic(topic)

    def report_progress(self, progress: Mapping[str, Any]) -> None:
        """Show how the work goes."""
        self._actions.report_progress(progress)


class SinkTaskActions(Protocol):
    """What a sink's plugin can make its runner do."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""

    def topic_id(self, topic: str) -> str | None:
        """Ask which topic bears this name now."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading there."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read of these again."""

    def retry_in(self, milliseconds: int) -> None:
        """Try the next failed `put` again after this time."""

    def request_commit(self) -> None:
        """Commit soon."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Go by the rules for errors."""

    def settle_reports(self) -> None:
        """Wait until all dead letters have arrived."""


class RunningSinkTaskContext(_RunningTaskContext, SinkTaskContext):
    """A sink task's."""

    def __init__(
        self, task: TaskId, control: Control, metrics: PluginMetrics, health: Health, actions: SinkTaskActions
    ) -> None:
        super().__init__(task, control, metrics, health)
        self._actions = actions

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions whose records this task gets."""
        return self._actions.assignment

    def topic_id(self, topic: str) -> str | None:
        """Ask the cluster which topic bears this name now."""
        return self._actions.topic_id(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading at these offsets."""
        self._actions.seek(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Get no records of these partitions until `resume`."""
        self._actions.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Get records of these partitions again."""
        self._actions.resume(partitions)

    def retry_in(self, milliseconds: int) -> None:
        """Say how long to wait before the next try, when `put` raises `RetriableError` next."""
        self._actions.retry_in(milliseconds)

    def request_commit(self) -> None:
        """Ask for a flush and a commit of offsets soon."""
        self._actions.request_commit()

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Report a record that the target refuses."""
        self._actions.report(record, error)

    def settle_reports(self) -> None:
        """Return when no record that was left out can get lost any more."""
        self._actions.settle_reports()
