"""Runs a source connector and all its tasks in this process, one after the other, as a worker does."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from ottla_sdk.conformance.contexts import MemoryOffsets, MemorySourceConnectorContext, MemorySourceTaskContext
from ottla_sdk.connectors import SourceConnector, SourceTask
from ottla_sdk.records import SourceRecord


class SourceRun:
    """A source connector that runs; a context manager that stops it.

    Attributes:
        offsets: the committed offsets; give them to another run to restart from there.
        connector: the connector.
        tasks: its tasks, started.
        records: what each task has returned, by its number.
        longest_poll_s: how long the longest `poll` took.
    """

    def __init__(
        self,
        connector: type[SourceConnector[Any]],
        settings: Mapping[str, str],
        *,
        tasks_max: int = 1,
        offsets: MemoryOffsets | None = None,
    ) -> None:
        self.offsets = offsets if offsets is not None else MemoryOffsets()
        self.connector = connector()
        self.connector.configure(settings)
        self.connector.context = MemorySourceConnectorContext(self.offsets)
        self.tasks: list[SourceTask[Any]] = []
        self.records: dict[int, list[SourceRecord]] = {}
        self.longest_poll_s = 0.0
        self._tasks_max = tasks_max

    def __enter__(self) -> Self:
        """Start the connector and its tasks."""
        try:
            self.connector.start()
            for number, settings in enumerate(self.connector.task_configs(self._tasks_max)):
                task = self.connector.task_class()
                task.configure(settings)
                task.context = MemorySourceTaskContext(self.offsets, task=number)
                self.tasks.append(task)
                self.records[number] = []
                task.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    @property
    def all_records(self) -> list[SourceRecord]:
        """What all tasks have returned."""
        return [record for records in self.records.values() for record in records]

    def poll(self, number: int = 0) -> list[SourceRecord]:
        """Poll a task once."""
        began_s = time.monotonic()
        records = list(self.tasks[number].poll())
        self.longest_poll_s = max(self.longest_poll_s, time.monotonic() - began_s)
        self.records[number] += records
        return records

    def read(self, count: int, *, within_s: float = 30.0) -> list[SourceRecord]:
        """Poll all tasks in turn until they have returned `count` records together, since the run began.

        Raises:
            AssertionError: they did not in time.
        """
        deadline_s = time.monotonic() + within_s
        while self._count() < count:
            for number in range(len(self.tasks)):
                self.poll(number)
            got = self._count()
            assert got >= count or time.monotonic() < deadline_s, f"{got} of {count} records after {within_s} s"
        return self.all_records

    def _count(self) -> int:
        return sum(map(len, self.records.values()))

    def commit(self, records: list[SourceRecord] | None = None) -> None:
        """Commit the offsets of these records, or of all, and tell the tasks about their own."""
        chosen = self.all_records if records is None else records
        self.offsets.commit_records(chosen)
        identities = set(map(id, chosen))
        for number, task in enumerate(self.tasks):
            mine = [each for each in self.records[number] if id(each) in identities]
            task.committed([(each.source_partition, each.source_offset) for each in mine])

    def stop(self) -> None:
        """Stop the tasks and the connector."""
        for task in self.tasks:
            task.stop()
        self.connector.stop()
