"""A task of the SQL sink: each `put` is one transaction."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ottla_sdk import ConnectError, RetriableError, SinkRecord, SinkTask, TopicPartition
from ottla_sql.connection import described, is_transient, open_engine, translated
from ottla_sql.sink.config import SqlSinkConfig
from ottla_sql.sink.stored_offsets import OffsetMoved, StoredOffsets
from ottla_sql.sink.writer import Writer


class SqlSinkTask(SinkTask[SqlSinkConfig]):
    """Writes records into tables."""

    config_model = SqlSinkConfig

    def start(self) -> None:
        """Get ready; the connection is made when it is needed."""
        self._engine: Engine | None = open_engine(self.config)
        self._writer = Writer(self._engine, self.config, self.context.report)
        self._failures = 0
        self._stored: StoredOffsets | None = None
        if self.config.offsets_table:
            self._stored = StoredOffsets(self._engine, self.config.offsets_table, self.context.connector)
        self._next: dict[TopicPartition, int | None] = {}
        self._unsure: set[TopicPartition] = set()

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Go on where the stored offsets say, if there are any."""
        if self._stored is None:
            return
        try:
            found = self._stored.read(partitions)
        except SQLAlchemyError as error:
            if not is_transient(error):
                raise translated(error, f"read the offsets in {self.config.offsets_table}") from error
            # `put` reads them before it writes anything.
            self.context.log.warning("cannot read the stored offsets now: %s", described(error))
            self._unsure.update(partitions)
            return
        self._next.update({partition: found.get(partition) for partition in partitions})
        if found:
            self.context.seek(found)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records in one transaction."""
        if not records:
            return
        try:
            if self._stored is None:
                self._writer.write(records)
            else:
                self._write_once(self._stored, records)
        except OffsetMoved as error:
            self._unsure.update(record.origin for record in records)
            raise RetriableError(f"another task has written records of {error}; looking where to go on") from None
        except RetriableError as error:
            self._fail_for_now(error, records)
        except SQLAlchemyError as error:
            failure = translated(error, "write")
            if isinstance(failure, RetriableError):
                self._fail_for_now(failure, records)
            raise failure from error
        self._failures = 0
        self.context.metrics.add("records_written", len(records))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets of what is written; with stored offsets those, for others to see how far it is."""
        if self._stored is None:
            return offsets
        known = ((partition, self._next.get(partition)) for partition in offsets if partition not in self._unsure)
        return {partition: offset for partition, offset in known if offset is not None}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget where partitions are; others write them now."""
        for partition in partitions:
            self._next.pop(partition, None)
            self._unsure.discard(partition)

    def stop(self) -> None:
        """Disconnect."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.dispose()

    def _fail_for_now(self, error: RetriableError, records: Sequence[SinkRecord]) -> None:
        assert self._engine is not None, "not started"
        self._engine.dispose()
        if self._stored is not None:
            # It may be the commit that failed, and have taken effect all the same.
            self._unsure.update(record.origin for record in records)
        self._failures += 1
        if self._failures > self.config.retries_max:
            self._failures = 0
            raise ConnectError(f"{error}; giving up after {self.config.retries_max} more tries") from error
        self.context.retry_in(self.config.retry_backoff_ms)
        raise error

    def _write_once(self, stored: StoredOffsets, records: Sequence[SinkRecord]) -> None:
        """Write the records that are not written yet, and how far that is."""
        records = self._unwritten(stored, records)
        if not records:
            return
        moved: dict[TopicPartition, int] = {}
        for record in records:
            moved[record.origin] = record.offset + 1

        def move_offsets(connection: Connection) -> None:
            for partition in sorted(moved):  # in the same order in all tasks, against deadlocks
                stored.move(connection, partition, self._next.get(partition), moved[partition])

        self._writer.write(records, move_offsets)
        self._next.update(moved)

    def _unwritten(self, stored: StoredOffsets, records: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        unsure = sorted({record.origin for record in records} & self._unsure)
        ahead: dict[TopicPartition, int] = {}
        if unsure:
            try:
                found = stored.read(unsure)
            except DBAPIError as error:
                raise translated(error, f"read the offsets in {self.config.offsets_table}") from error
            first = {record.origin: record.offset for record in reversed(records)}
            for partition in unsure:
                offset = found.get(partition)
                # Where nothing was known, the consumer may have begun too far ahead.
                if partition not in self._next and offset is not None and offset < first[partition]:
                    ahead[partition] = offset
                self._next[partition] = offset
            self._unsure.difference_update(unsure)
        if ahead:
            self.context.seek(ahead)
        return [
            record
            for record in records
            if record.origin not in ahead and record.offset >= (self._next.get(record.origin) or 0)
        ]
