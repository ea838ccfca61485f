"""Contexts that live in memory, for tests of connectors and tasks without a worker and without a cluster."""

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ottla_sdk.context import (
    ConnectorContext,
    JobTaskContext,
    Metrics,
    OffsetReader,
    SinkTaskContext,
    SourceConnectorContext,
    SourceTaskContext,
)
from ottla_sdk.errors import ConnectError, DataError
from ottla_sdk.records import SinkRecord, SourceRecord, TopicPartition


class MemoryMetrics(Metrics):
    """Keeps counters and gauges.

    Attributes:
        values: by name.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def add(self, name: str, count: int | float = 1) -> None:
        """Add to a counter."""
        self.values[name] = self.values.get(name, 0) + count

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self.values[name] = value


class MemoryOffsets(OffsetReader):
    """Keeps the committed offsets of source partitions, through JSON as a worker does."""

    def __init__(self) -> None:
        self._offsets: dict[str, str] = {}

    def commit(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """Take an offset as committed."""
        self._offsets[_key(partition)] = json.dumps(offset)

    def commit_records(self, records: Iterable[SourceRecord]) -> None:
        """Take the offsets of these records as committed, the last of each partition."""
        for record in records:
            self.commit(record.source_partition, record.source_offset)

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return the committed offset of each partition."""
        found = [self._offsets.get(_key(each)) for each in partitions]
        return [None if each is None else json.loads(each) for each in found]


def _key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


_WAIT_MAX_S = 0.05


class _Stopping:
    """What task contexts have in common: they can be asked to stop, from any thread."""

    waiting: str | None = None

    def __init__(self) -> None:
        self._stop = threading.Event()

    def waits_for(self, reason: str | None) -> None:
        """Keep the reason; `waiting` is the last one, None if there is none."""
        self.waiting = reason

    def request_stop(self) -> None:
        """Ask the task to stop, as a worker does."""
        self._stop.set()

    def should_stop(self) -> bool:
        """Return whether the task is asked to stop."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, but not for long, as tests are in a hurry; return earlier if the task is asked to stop."""
        return self._stop.wait(min(seconds, _WAIT_MAX_S))


class MemoryConnectorContext(ConnectorContext):
    """A connector's.

    Attributes:
        reconfigurations: how often new task configurations were asked for.
        failure: what the connector has reported.
        waiting: what it has said last that it waits for; None if nothing.
    """

    waiting: str | None = None

    def waits_for(self, reason: str | None) -> None:
        """Keep the reason."""
        self.waiting = reason

    def __init__(self, connector: str = "conformance") -> None:
        self.connector = connector
        self.log = logging.getLogger(connector)
        self.metrics = MemoryMetrics()
        self.reconfigurations = 0
        self.failure: Exception | None = None

    def request_task_reconfiguration(self) -> None:
        """Count it."""
        self.reconfigurations += 1

    def fail(self, error: Exception) -> None:
        """Keep the error."""
        self.failure = error


class MemorySourceConnectorContext(MemoryConnectorContext, SourceConnectorContext):
    """A source connector's."""

    def __init__(self, offsets: OffsetReader | None = None, connector: str = "conformance") -> None:
        super().__init__(connector)
        self.offsets = offsets or MemoryOffsets()


class MemorySourceTaskContext(_Stopping, SourceTaskContext):
    """A source task's."""

    def __init__(self, offsets: OffsetReader | None = None, *, connector: str = "conformance", task: int = 0) -> None:
        super().__init__()
        self.connector = connector
        self.task = task
        self.log = logging.getLogger(f"{connector}-{task}")
        self.metrics = MemoryMetrics()
        self.offsets = offsets or MemoryOffsets()


class MemorySinkTaskContext(_Stopping, SinkTaskContext):
    """A sink task's.

    Attributes:
        tolerant: whether `report` lets the task go on without the record (`errors.tolerance` = all).
        reported: the records reported, each with its error.
        lost: what `settle_reports` raises; None while all dead letters arrive.
        seeks: where the task has sought to, by partition; the caller takes them away.
        paused: the partitions whose records it does not want now.
        commit_requests: how often it has asked for a commit.
        retry_ms: what it has asked for last by `retry_in`; None if nothing.
        topic_ids: what `topic_id` answers; by default a cluster without ids.
    """

    def __init__(self, *, tolerant: bool = True, connector: str = "conformance", task: int = 0) -> None:
        super().__init__()
        self.connector = connector
        self.task = task
        self.log = logging.getLogger(f"{connector}-{task}")
        self.metrics = MemoryMetrics()
        self.tolerant = tolerant
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self.lost: ConnectError | None = None
        self.seeks: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.commit_requests = 0
        self.retry_ms: int | None = None
        self.topic_ids: Mapping[str, str] = {}
        self._assignment: frozenset[TopicPartition] = frozenset()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that were assigned."""
        return self._assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the assignment."""
        self._assignment = frozenset(partitions)

    def topic_id(self, topic: str) -> str | None:
        """Return the id that the test gives the topic."""
        return self.topic_ids.get(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep where to go on; a partition must be assigned."""
        self._expect_assigned(offsets)
        self.seeks.update(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause assigned partitions."""
        wanted = set(partitions)
        self._expect_assigned(wanted)
        self.paused |= wanted

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume assigned partitions."""
        wanted = set(partitions)
        self._expect_assigned(wanted)
        self.paused -= wanted

    def retry_in(self, milliseconds: int) -> None:
        """Keep how long to wait."""
        self.retry_ms = milliseconds

    def request_commit(self) -> None:
        """Count it."""
        self.commit_requests += 1

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Keep the record and its error.

        Raises:
            DataError: errors are not tolerated.
        """
        self.reported.append((record, error))
        if not self.tolerant:
            raise DataError(str(error)) from error

    def settle_reports(self) -> None:
        """Return if dead letters arrive.

        Raises:
            ConnectError: one was not taken.
        """
        if self.lost is not None:
            raise self.lost

    def _expect_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        if foreign := sorted(set(partitions) - self._assignment):
            raise AssertionError(f"the task was not assigned {', '.join(map(str, foreign))}")


class MemoryJobTaskContext(_Stopping, JobTaskContext):
    """A job's.

    Attributes:
        topics: those it has asked for.
        progress: what it has reported last.
    """

    def __init__(self, client: Mapping[str, str], connector: str = "conformance", task: int = 0) -> None:
        super().__init__()
        self.connector = connector
        self.task = task
        self.log = logging.getLogger(connector)
        self.metrics = MemoryMetrics()
        self.topics: list[str] = []
        self.progress: Mapping[str, Any] = {}
        self._client = client

    def client_settings(self, kind: Literal["consumer", "producer", "admin"]) -> Mapping[str, str]:
        """Return the same settings for every kind."""
        return self._client

    def ensure_topics(self, topics: Iterable[str]) -> None:
        """Note the topics; the test creates them."""
        self.topics += topics

    def report_progress(self, progress: Mapping[str, Any]) -> None:
        """Keep it, through JSON."""
        self.progress = json.loads(json.dumps(progress))
