"""The SQL sink: all its tasks do the same, each for some partitions."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from ottla_sdk import ConnectError, InvalidConfig, Problem, SinkConnector, TopicPartition
from ottla_sql.connection import described, open_engine
from ottla_sql.sink.config import SqlSinkConfig
from ottla_sql.sink.stored_offsets import OffsetMoved, StoredOffsets
from ottla_sql.sink.task import SqlSinkTask


class SqlSink(SinkConnector[SqlSinkConfig]):
    """Writes records of topics into tables of a SQL database: inserts, upserts, updates and deletes."""

    config_model = SqlSinkConfig
    task_class = SqlSinkTask
    aliases = ("io.confluent.connect.jdbc.JdbcSinkConnector", "JdbcSinkConnector")

    def check(self) -> Iterable[Problem]:
        """Check that the database can be reached."""
        try:
            engine = open_engine(self.config)
            try:
                engine.connect().close()
            finally:
                engine.dispose()
        except InvalidConfig as error:
            yield from error.problems
        except SQLAlchemyError as error:
            yield Problem("connection.url", f"the database cannot be used: {described(error)}")

    def check_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> Iterable[Problem]:
        """Say whether offsets that are kept in the target can be reached."""
        try:
            self.kept_offsets()
        except ConnectError as error:
            yield Problem("offsets.table", str(error))

    def kept_offsets(self) -> Mapping[TopicPartition, int]:
        """Return the offsets in `offsets.table`.

        Raises:
            ConnectError: they cannot be read.
        """
        with self._stored_offsets("read") as stored:
            return stored.all() if stored is not None else {}

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the offsets in `offsets.table`, in one transaction.

        Raises:
            ConnectError: they are not changed.
            NotPermitted: likewise, as another worker may lead by now.
        """
        with self._stored_offsets("changed") as stored:
            if stored is not None:
                stored.set(offsets, self.permit)

    @contextmanager
    def _stored_offsets(self, done: str) -> Iterator[StoredOffsets | None]:
        if not self.config.offsets_table:
            yield None
            return
        engine = open_engine(self.config)
        try:
            yield StoredOffsets(engine, self.config.offsets_table, self.settings.get("name", ""))
        except OffsetMoved as moved:
            raise ConnectError(f"somebody else changes the offset of {moved} at the same time") from None
        except SQLAlchemyError as error:
            raise ConnectError(f"the offsets in the target cannot be {done}: {described(error)}") from error
        finally:
            engine.dispose()
