"""Writes a batch of records in one transaction; if the database refuses one of them, finds it and goes on without it.

The batch is first tried as a whole. If that fails because of what some row says, it is tried again in halves, each
below a savepoint, until the bad records stand alone; they are reported before the commit, so that a report that fails
leaves nothing behind.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from ottla_sdk import DataError, SinkRecord
from ottla_sql.connection import described, is_about_data, is_transient
from ottla_sql.sink.config import InsertMode, SqlSinkConfig
from ottla_sql.sink.planner import Planner
from ottla_sql.sink.row_plan import RowPlan, Run, arranged

Report = Callable[[SinkRecord, Exception], None]
BadRecord = tuple[SinkRecord, Exception]
Planned = tuple[RowPlan, SinkRecord]


class Progress(NamedTuple):
    """How far records are written, which is kept beside them.

    Attributes:
        move: called in the transaction before anything is written.
        settle_reports: called before the commit; raises if a record that was left out has to come again.
    """

    move: Callable[[Connection], None]
    settle_reports: Callable[[], None]


class Writer:
    """Writes to one database.

    Args:
        engine: the database.
        config: how.
        report: what to tell of a record that cannot be written; may raise.
    """

    def __init__(self, engine: Engine, config: SqlSinkConfig, report: Report) -> None:
        self._engine = engine
        self._config = config
        self._report = report
        self._planner = Planner(engine, config)

    def forget(self) -> None:
        """Look at all tables anew."""
        self._planner.forget()

    def write(self, records: Sequence[SinkRecord], progress: Progress | None = None) -> None:
        """Write records, all in one transaction.

        Args:
            records: the records, in order.
            progress: is kept in the transaction, if there is any.

        Raises:
            DataError: a record cannot be written and must not be left out; nothing was written.
            RetriableError: a table cannot be looked up now; nothing was written.
            FatalError: a table does not exist.
            sqlalchemy.exc.SQLAlchemyError: the database refuses for another reason; nothing was written.
        """
        try:
            self._write_planned(records, progress)
        except DBAPIError as error:
            if is_transient(error) or is_about_data(error):
                raise
            # A table may not be what it was when it was looked up.
            self.forget()
            self._write_planned(records, progress)

    def _write_planned(self, records: Sequence[SinkRecord], progress: Progress | None) -> None:
        runs, unplanned = self._runs(records)
        if not unplanned:
            try:
                with self._transaction(progress) as connection:
                    self._apply(connection, runs)
                return
            except DataError:
                pass
            except DBAPIError as error:
                if not is_about_data(error):
                    raise
        planned = [(plan, record) for plan, of_plan in runs for record in of_plan]
        with self._transaction(progress) as connection:
            found = self._write_good(connection, planned)
            for record, reason in [*unplanned, *found]:
                self._report(record, reason)

    @contextmanager
    def _transaction(self, progress: Progress | None) -> Iterator[Connection]:
        with self._engine.connect() as unmarked:
            connection = unmarked.execution_options(ottla_writes=True)
            with connection.begin():
                if progress is not None:
                    progress.move(connection)
                yield connection
                if progress is not None:
                    progress.settle_reports()

    def _runs(self, records: Sequence[SinkRecord]) -> tuple[list[Run], list[BadRecord]]:
        """Return records with their plans, and those for which there is none."""
        runs: list[Run] = []
        bad: list[BadRecord] = []
        plan: RowPlan | None = None
        current: list[SinkRecord] = []
        plan_of = self._planner.plan
        before: SinkRecord | None = None
        for record in records:
            if before is not None and _has_same_schemas(record, before):
                current.append(record)
                continue
            try:
                found = plan_of(record, records)
            except DataError as error:
                bad.append((record, error))
                continue
            if found is None:
                continue
            before = record
            if found is not plan:
                plan, current = found, []
                runs.append((found, current))
            current.append(record)
        return runs, bad

    def _apply(self, connection: Connection, runs: Sequence[Run]) -> None:
        """Execute runs, table by table in the order of their first records."""
        by_table: dict[str, list[Run]] = {}
        for run in runs:
            by_table.setdefault(run[0].table, []).append(run)
        size = self._config.batch_size
        for runs_of_table in by_table.values():
            for plan, records in arranged(runs_of_table, inserts=self._config.insert_mode is InsertMode.INSERT):
                for start in range(0, len(records), size):
                    chunk = records if len(records) <= size else records[start : start + size]
                    _execute(connection, plan, chunk)

    def _write_good(self, connection: Connection, planned: Sequence[Planned]) -> list[BadRecord]:
        """Write those records that can be written, and return the others; in order."""
        if not planned:
            return []
        try:
            with connection.begin_nested():
                self._apply(connection, _runs_of(planned))
            return []
        except DataError as error:
            if len(planned) == 1:
                return [(planned[0][1], error)]
        except DBAPIError as error:
            if not is_about_data(error):
                raise
            if len(planned) == 1:
                ((plan, record),) = planned
                return [(record, DataError(f"table {plan.table} refuses the record: {described(error)}"))]
        middle = len(planned) // 2
        return self._write_good(connection, planned[:middle]) + self._write_good(connection, planned[middle:])


def _execute(connection: Connection, plan: RowPlan, records: Sequence[SinkRecord]) -> None:
    rows = plan.rows(records)
    try:
        plan.write(connection, rows)
    except (OverflowError, UnicodeError) as error:
        # Drivers find some values too large, or text that is none, before the database sees them.
        raise DataError(f"table {plan.table}: {error}") from None


def _runs_of(planned: Sequence[Planned]) -> list[Run]:
    runs: list[Run] = []
    for plan, record in planned:
        if not runs or runs[-1][0] is not plan:
            runs.append((plan, []))
        runs[-1][1].append(record)
    return runs


def _has_same_schemas(record: SinkRecord, before: SinkRecord) -> bool:
    """Return whether a record surely has the plan of the one before it; the usual case, and so the fast one."""
    return (
        record.value_schema is before.value_schema
        and record.value_schema is not None
        and record.key_schema is before.key_schema
        and record.topic == before.topic
        and (record.value is None) is (before.value is None)
        and (record.key_schema is not None or record.key is None)
    )
