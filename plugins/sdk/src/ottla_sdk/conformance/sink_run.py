"""Runs one task of a sink connector in this process, and feeds it from partitions that live in memory."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ottla_sdk.conformance.contexts import MemoryConnectorContext, MemorySinkTaskContext
from ottla_sdk.connectors import SinkConnector, SinkTask
from ottla_sdk.errors import RetriableError
from ottla_sdk.records import SinkRecord, TopicPartition
from ottla_sdk.schema import Schema

_PAUSE_S = 0.02


def sink_records(
    values: Sequence[Any], *, topic: str = "conformance", partitions: int = 2, value_schema: Schema | None = None
) -> list[SinkRecord]:
    """Return records with these values, spread over the partitions of a topic; keys and timestamps are made up."""
    offsets = [0] * partitions
    records = []
    for number, value in enumerate(values):
        partition = number % partitions
        records.append(
            SinkRecord(
                topic=topic,
                partition=partition,
                key=f"key-{number}",
                value=value,
                value_schema=value_schema,
                timestamp_ms=1_700_000_000_000 + number,
                offset=offsets[partition],
                original_topic=topic,
                original_partition=partition,
            )
        )
        offsets[partition] += 1
    return records


def begun_anew(records: Sequence[SinkRecord]) -> list[SinkRecord]:
    """Return records like these whose offsets begin with 0 in each partition."""
    offsets: dict[TopicPartition, int] = {}
    made = []
    for record in records:
        offset = offsets.get(record.origin, 0)
        offsets[record.origin] = offset + 1
        made.append(record.replaced(offset=offset))
    return made


class SinkRun:
    """A sink task that runs; a context manager that stops it. Its connector is started and stopped with it.

    Attributes:
        committed: the offsets that the task said may be committed; give them to another run to restart from there.
        connector: the connector.
        task: the task.
        context: the task's context.
    """

    def __init__(
        self,
        connector: type[SinkConnector[Any]],
        settings: Mapping[str, str],
        records: Sequence[SinkRecord],
        *,
        committed: Mapping[TopicPartition, int] | None = None,
        tolerant: bool = True,
    ) -> None:
        self.committed = dict(committed or {})
        self.connector = connector()
        self.connector.configure(settings)
        self.connector.context = MemoryConnectorContext()
        self.task: SinkTask[Any] = connector.task_class()
        self.context = MemorySinkTaskContext(tolerant=tolerant)
        self._logs: dict[TopicPartition, list[SinkRecord]] = {}
        for record in records:
            self._logs.setdefault(record.origin, []).append(record)
        self._positions: dict[TopicPartition, int] = {}
        self._is_stopped = False

    def __enter__(self) -> Self:
        """Start the task and give it all partitions."""
        self.connector.start()
        (settings, *_) = self.connector.task_configs(1)
        self.task.configure(settings)
        self.task.context = self.context
        self.task.start()
        self.open(list(self._logs))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the task; in peace only if nothing was raised."""
        if kind is None and not self._is_stopped:
            self.close(list(self._positions))
        self.crash()

    def create_topics_anew(self, records: Sequence[SinkRecord], topic_ids: Mapping[str, str]) -> None:
        """Let other topics bear the names: with these records and ids, read from the beginning, nothing committed."""
        self.context.topic_ids = topic_ids
        self._logs = {partition: [] for partition in self._logs}
        for record in records:
            self._logs.setdefault(record.origin, []).append(record)
        self._positions = dict.fromkeys(self._positions, 0)
        self.committed.clear()

    @property
    def put_offsets(self) -> dict[TopicPartition, int]:
        """Offsets behind the last record that was put, by partition."""
        return {partition: position for partition, position in self._positions.items() if position}

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Give the task partitions, and go to where it seeks, or else to their committed offsets."""
        self.context.assign({*self._positions, *partitions})
        self.context.seeks.clear()
        self.task.open(partitions)
        for partition in partitions:
            self._positions[partition] = self.context.seeks.get(partition, self.committed.get(partition, 0))
        self.context.seeks.clear()

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit, and take partitions away from the task."""
        self.commit()
        self.task.close(partitions)
        for partition in partitions:
            del self._positions[partition]
        self.context.assign(self._positions)

    def next_records(self, records_max: int) -> list[SinkRecord]:
        """Return what a consumer would return next; nothing of paused partitions."""
        chosen = []
        for partition, position in self._positions.items():
            if partition not in self.context.paused:
                chosen += [each for each in self._logs[partition] if each.offset >= position][:records_max]
        return chosen[:records_max]

    def put(self, records: Sequence[SinkRecord], *, within_s: float = 30.0) -> None:
        """Put records, again and again while the task says that it may work later.

        Raises:
            AssertionError: it said so for too long.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                self.put_once(records)
                break
            except RetriableError as error:
                if time.monotonic() > deadline_s:
                    raise AssertionError(f"put still fails after {within_s} s: {error}") from error
                time.sleep(_PAUSE_S)

    def put_once(self, records: Sequence[SinkRecord]) -> None:
        """Put records; if the task says that it may work later, they come again next."""
        self.task.put(records)
        for record in records:
            self._positions[record.origin] = max(self._positions[record.origin], record.offset + 1)
        for partition, position in self.context.seeks.items():
            self._positions[partition] = position
        self.context.seeks.clear()

    def put_all(self, batch_records: int = 7, *, within_s: float = 30.0) -> None:
        """Put all records from where the task is, in batches."""
        while records := self.next_records(batch_records):
            self.put(records, within_s=within_s)

    def commit(self) -> Mapping[TopicPartition, int]:
        """Call `pre_commit`, note what it returns as committed, and return that."""
        given = self.put_offsets
        returned = self.task.pre_commit(dict(given))
        for partition, offset in returned.items():
            assert partition in given, f"pre_commit returned {partition}, which it was not given"
            assert offset <= given[partition], f"{partition}: offset {offset} was not put, only those before {given}"
            self.committed[partition] = offset
        return returned

    def commit_all(self, *, within_s: float = 30.0) -> None:
        """Commit until all that was put is committed; a task that keeps offsets itself commits nothing.

        Raises:
            AssertionError: it is not in time.
        """
        deadline_s = time.monotonic() + within_s
        while (returned := self.commit()) and returned != self.put_offsets:
            assert time.monotonic() < deadline_s, f"only {returned} of {self.put_offsets} after {within_s} s"
            time.sleep(_PAUSE_S)
            self.put([])

    def crash(self) -> None:
        """Stop the task without closing its partitions, as after a failure."""
        if not self._is_stopped:
            self._is_stopped = True
            self.task.stop()
            self.connector.stop()
