"""Short ways to run the SQL connectors in a test: a source on a database, a sink fed with records."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ottla_sdk import Header, Schema, SinkRecord, SourceRecord, TopicPartition
from ottla_sdk.conformance import MemoryOffsets, MemorySinkTaskContext, SourceRun
from ottla_sql import SqlSource
from ottla_sql.sink.task import SqlSinkTask


class SqliteFile:
    """A database in a file.

    Attributes:
        url: for connectors.
    """

    def __init__(self, directory: Path, name: str = "test.db") -> None:
        self.path = directory / name
        self.url = f"sqlite:///{self.path}"

    def run(self, script: str) -> None:
        """Executes statements."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(script)
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query returns."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()


@contextmanager
def running_source(
    url: str, mode: str, *, offsets: MemoryOffsets | None = None, tasks_max: int = 1, **settings: str
) -> Iterator[SourceRun]:
    """A source that runs; settings are given with underscores for points."""
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    basic = {"connection.url": url, "mode": mode, "topic.prefix": "", "poll.interval.ms": "1"}
    with SourceRun(SqlSource, {**basic, **dotted}, offsets=offsets, tasks_max=tasks_max) as run:
        yield run


def polled(run: SourceRun, polls: int = 3) -> list[SourceRecord]:
    """What the first task returns in a few polls, which is all there is if that fits into so many batches."""
    return [record for _ in range(polls) for record in run.poll()]


class FedSink:
    """A sink task in memory that is fed with records, of which each gets the next offset.

    Attributes:
        context: the task's.
        task: the task.
    """

    def __init__(self, url: str, *, tolerant: bool = True, **settings: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.task = SqlSinkTask()
        self.task.configure({"connection.url": url, "retry.backoff.ms": "0", **dotted})
        self.context = MemorySinkTaskContext(tolerant=tolerant, connector="sink")
        self.task.context = self.context
        self._next_offset = 0
        self.task.start()

    def open(self, *partitions: TopicPartition) -> None:
        """Gives it partitions."""
        self.context.assign(partitions)
        self.task.open(partitions)

    def record(
        self,
        value: Any,
        *,
        key: Any = None,
        topic: str = "t",
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        headers: Sequence[Header] = (),
    ) -> SinkRecord:
        """A record at the next offset."""
        offset, self._next_offset = self._next_offset, self._next_offset + 1
        return SinkRecord(
            topic=topic,
            partition=0,
            key=key,
            key_schema=key_schema,
            value=value,
            value_schema=None if value is None else schema,
            headers=tuple(headers),
            offset=offset,
            original_topic=topic,
            original_partition=0,
        )

    def put(self, *values: Any, schema: Schema | None = None, topic: str = "t") -> None:
        """Puts records with these values."""
        self.task.put([self.record(value, schema=schema, topic=topic) for value in values])

    def put_keyed(self, *pairs: tuple[Any, Any], schema: Schema | None = None) -> None:
        """Puts records with these keys and values."""
        self.task.put([self.record(value, key=key, schema=schema) for key, value in pairs])

    def reported(self) -> list[str]:
        """What was said of bad records."""
        return [str(error) for _, error in self.context.reported]

    def stop(self) -> None:
        self.task.stop()


@contextmanager
def fed_sink(url: str, *, tolerant: bool = True, **settings: str) -> Iterator[FedSink]:
    """A sink task that is stopped at the end; settings are given with underscores for points."""
    sink = FedSink(url, tolerant=tolerant, **settings)
    try:
        yield sink
    finally:
        sink.stop()
