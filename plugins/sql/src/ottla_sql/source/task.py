"""A task of the SQL source: reads its tables in turn, each until no row is left, then again after a while.

It has one connection. When that is lost, or the database is busy, the task says so and is called again; it then
connects anew and goes on behind the last record it has returned.
"""

import time
from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from ottla_sdk import ConnectError, FatalError, SourceRecord, SourceTask
from ottla_sql.connection import is_transient, open_engine, translated
from ottla_sql.source.config import Mode, SqlSourceTaskConfig
from ottla_sql.source.position import InvalidPosition, Position, table_id_in
from ottla_sql.source.relation import RelationMissing
from ottla_sql.source.row_reader import RowReader

POLL_WAIT_S_MAX = 1.0
"""A poll that finds nothing to do returns after this time."""


class SqlSourceTask(SourceTask[SqlSourceTaskConfig]):
    """Reads some of the tables, or the query."""

    config_model = SqlSourceTaskConfig

    def start(self) -> None:
        """Get the offsets; the connection is made when it is needed."""
        self._engine: Engine | None = open_engine(self.config, prepares=False)
        self._connection: Connection | None = None
        dialect = self._engine.dialect.name
        tables = [None] if self.config.query else self.config.table_ids()
        self._readers = [RowReader(self.config, table, dialect) for table in tables]
        self._due_s = dict.fromkeys(self._readers, 0.0)
        self._current: RowReader | None = None
        if self.config.mode is not Mode.BULK:
            self._go_on_behind_offsets()

    def _go_on_behind_offsets(self) -> None:
        offsets = self.context.offsets.offsets([reader.partition for reader in self._readers])
        for reader, offset in zip(self._readers, offsets, strict=True):
            try:
                position, table_id = Position.from_offset(offset), table_id_in(offset)
            except InvalidPosition as error:
                raise FatalError(f"the offset of {reader.name} is not one of this connector: {error}") from None
            reader.go_on_behind(position, table_id)
            self.context.log.info("%s: going on behind %s", reader.name, position)

    def poll(self) -> Sequence[SourceRecord]:
        """Return the next batch of rows of one table."""
        reader = self._current or self._next_reader()
        if reader is None:
            return ()
        try:
            records = self._read(reader)
        except SQLAlchemyError as error:
            self._give_up(reader)
            if not is_transient(error):
                self._postpone(reader)
            raise translated(error, f"read {reader.name}") from error
        except RelationMissing:
            self._give_up(reader)
            self._postpone(reader)
            self.context.log.warning("%s does not exist, now", reader.name)
            return ()
        except ConnectError:
            self._give_up(reader)
            raise
        self._current = reader if reader.is_reading else None
        if not reader.is_reading:
            self._postpone(reader)
        self.context.metrics.add("rows_read", len(records))
        return records

    def stop(self) -> None:
        """Disconnect."""
        engine = getattr(self, "_engine", None)
        if engine is not None:
            self._disconnect()
            engine.dispose()

    def _next_reader(self) -> RowReader | None:
        """Return the reader that has been due longest; wait a little for one."""
        if not self._readers:
            self.context.wait(POLL_WAIT_S_MAX)
            return None
        reader = min(self._readers, key=lambda each: self._due_s[each])
        wait_s = self._due_s[reader] - time.monotonic()
        if wait_s > 0:
            self.context.wait(min(wait_s, POLL_WAIT_S_MAX))
            return None if wait_s > POLL_WAIT_S_MAX or self.context.should_stop() else reader
        return reader

    def _read(self, reader: RowReader) -> list[SourceRecord]:
        began_anew = not reader.is_reading
        try:
            return self._read_once(reader)
        except SQLAlchemyError as error:
            if not began_anew or is_transient(error):
                raise
        # Its columns may have changed between the look at them and now; `abort` makes it look again.
        self._give_up(reader)
        return self._read_once(reader)

    def _read_once(self, reader: RowReader) -> list[SourceRecord]:
        if self._connection is None:
            assert self._engine is not None, "not started"
            self._connection = self._engine.connect()
        records = reader.read(self._connection)
        if not reader.is_reading:
            self._connection.rollback()
        return records

    def _give_up(self, reader: RowReader) -> None:
        reader.abort()
        self._current = None
        self._disconnect()

    def _postpone(self, reader: RowReader) -> None:
        self._due_s[reader] = time.monotonic() + self.config.poll_interval_ms / 1000

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.invalidate()
            connection.close()
        except SQLAlchemyError as error:
            self.context.log.debug("closing the connection: %s", error)
