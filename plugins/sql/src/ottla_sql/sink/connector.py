"""The SQL sink: all its tasks do the same, each for some partitions."""

from collections.abc import Iterable, Mapping

from sqlalchemy.exc import SQLAlchemyError

from ottla_sdk import InvalidConfig, Problem, SinkConnector, TopicPartition
from ottla_sql.connection import described, open_engine
from ottla_sql.sink.config import SqlSinkConfig
from ottla_sql.sink.stored_offsets import StoredOffsets
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
        """Move the offsets in the target too, if they are kept there."""
        if not self.config.offsets_table:
            return
        engine = open_engine(self.config)
        try:
            StoredOffsets(engine, self.config.offsets_table, self.settings.get("name", "")).set(offsets)
        except SQLAlchemyError as error:
            yield Problem("offsets.table", f"the offsets in the target cannot be changed: {described(error)}")
        finally:
            engine.dispose()
