"""The SQL source: divides tables among tasks, and watches for tables that come and go."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from ottla_sdk import InvalidConfig, Problem, RetriableError, SourceConnector
from ottla_sql.connection import described, open_engine, translated
from ottla_sql.source.config import SqlSourceConfig, tables_setting
from ottla_sql.source.discovery import find_tables
from ottla_sql.source.position import InvalidPosition, Position, table_id_in
from ottla_sql.source.table_selection import TableId, divided, topic_of
from ottla_sql.source.task import SqlSourceTask


class SqlSource(SourceConnector[SqlSourceConfig]):
    """Reads rows of tables, views or a query of a SQL database into topics: all of them, or new and changed ones."""

    config_model = SqlSourceConfig
    task_class = SqlSourceTask
    aliases = ("io.confluent.connect.jdbc.JdbcSourceConnector", "JdbcSourceConnector")

    def check(self) -> Iterable[Problem]:
        """Check that the database can be reached and that its tables can be listed."""
        try:
            self._find_tables()
        except InvalidConfig as error:
            yield from error.problems
        except SQLAlchemyError as error:
            yield Problem("connection.url", f"the database cannot be used: {described(error)}")

    def start(self) -> None:
        """Watch for tables that come and go."""
        self._stopping = threading.Event()
        self._known: frozenset[TableId] | None = None
        self._watcher: threading.Thread | None = None
        if not self.config.query:
            self._watcher = threading.Thread(target=self._watch, name="table-watcher", daemon=True)
            self._watcher.start()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return a task for the query, or tasks that share the tables evenly.

        Raises:
            RetriableError: the database cannot be reached now.
        """
        if self.config.query:
            return [dict(self.settings)] if tasks_max else []
        try:
            tables = self._find_tables()
        except SQLAlchemyError as error:
            raise translated(error, "list the tables") from error
        self._known = tables
        self._warn(tables)
        return [{**self.settings, "tables": tables_setting(each)} for each in divided(tables, tasks_max)]

    def exactly_once_support(self) -> bool:
        """Return whether every row has an offset of its own: those of a timestamp alone may be shared by several."""
        return self.config.mode.uses_incrementing

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Check that partitions and offsets are of this connector's form."""
        for partition, offset in offsets:
            wanted = "query" if self.config.query else "table"
            if set(partition) != {wanted} or not isinstance(partition[wanted], str):
                example = '{"query": "query"}' if self.config.query else '{"table": "SCHEMA.TABLE"}'
                yield Problem("", f"the partition {dict(partition)} is not of the form {example}")
            try:
                Position.from_offset(offset)
                table_id_in(offset)
            except InvalidPosition as error:
                yield Problem("", f"the offset {dict(offset or {})}: {error}")

    def stop(self) -> None:
        """Stop watching."""
        if (stopping := getattr(self, "_stopping", None)) is not None:
            stopping.set()
        watcher = getattr(self, "_watcher", None)
        if watcher is not None:
            watcher.join(timeout=5)

    def _find_tables(self) -> frozenset[TableId]:
        engine = open_engine(self.config)
        try:
            with engine.connect() as connection:
                if self.config.query:
                    return frozenset()
                return find_tables(connection, self.config)
        finally:
            engine.dispose()

    def _warn(self, tables: frozenset[TableId]) -> None:
        if not tables:
            self.context.log.warning("no table is to be read; looking again every table.poll.interval.ms")
            self.context.waits_for("no table is there that is to be read")
        topics = Counter(topic_of(self.config.topic_prefix, each) for each in tables)
        for topic, count in topics.items():
            if count > 1:
                self.context.log.warning("rows of %d tables of the same name go to the topic %s", count, topic)
        names = {name for table in tables for name in (table.name, table.full_name)}
        if missing := sorted(set(self.config.whitelist) - names):
            self.context.log.warning("table.whitelist names tables that do not exist, now: %s", ", ".join(missing))

    def _watch(self) -> None:
        while not self._stopping.wait(self.config.table_poll_interval_ms / 1000):
            try:
                tables = self._find_tables()
            except (SQLAlchemyError, RetriableError) as error:
                self.context.log.warning("cannot look for new tables now: %s", error)
                self.context.waits_for(f"cannot look for new tables now: {error}")
                continue
            self.context.waits_for(None if tables else "no table is there that is to be read")
            known = self._known
            if known is not None and tables != known:
                changed = sorted(each.full_name for each in tables ^ known)
                self.context.log.info("tables have come or gone: %s", ", ".join(changed))
                self.context.request_task_reconfiguration()
