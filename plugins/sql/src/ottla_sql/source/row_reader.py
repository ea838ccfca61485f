"""Reads the rows of one table or query, round after round, and makes records of them.

A round is one SELECT whose rows stream from the database, a batch at a time; after the last one the next round waits
for `poll.interval.ms`. The offset of each record is where a restarted task goes on behind it. In the mode `timestamp`
nothing tells rows of the same timestamp apart, so all but the last of them carry the offset before that timestamp: a
restart repeats some of them rather than losing any.
"""

import datetime as dt
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import ColumnElement, Connection, CursorResult, Select, types
from sqlalchemy.sql.elements import quoted_name

from ottla_sdk import DataError, FatalError, Schema, SourceRecord
from ottla_sdk import schema as connect
from ottla_sql.source import clock
from ottla_sql.source.column_types import TypeRules, value_type
from ottla_sql.source.config import KeyMode, Mode, Recreated, SqlSourceConfig
from ottla_sql.source.criteria import Criteria, check_not_null, check_timestamps, chosen_columns
from ottla_sql.source.position import TABLE_ID, Position, microseconds
from ottla_sql.source.relation import Relation, describe_query, describe_table, probe
from ottla_sql.source.table_identity import table_identity
from ottla_sql.source.table_selection import TableId, topic_of
from ottla_sql.source.values import to_int, to_utc

log = logging.getLogger(__name__)
_SNAPSHOT = "ottla_rows"
_SQLITE_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How to read a relation, and what becomes of its rows; made anew when its columns change."""

    relation: Relation
    criteria: Criteria
    select: Select[Any]
    names: Sequence[str]
    schema: Schema
    conversions: Sequence[tuple[str, Callable[[Any], Any]]]
    key_names: Sequence[str]
    key_schema: Schema | None


class RowReader:
    """Reads one table, or the query.

    Attributes:
        name: the table's, or ``the query``, for messages.
        partition: the source partition.
    """

    def __init__(self, config: SqlSourceConfig, table: TableId | None, dialect: str) -> None:
        self._config = config
        self._table = table
        self._rules = TypeRules(
            dialect=dialect,
            timezone=config.timezone,
            numeric_mapping=config.numeric_mapping,
            numeric_scale_default=config.numeric_scale_default,
            timestamp_granularity=config.timestamp_granularity,
        )
        self.name = "the query" if table is None else f"table {table.full_name}"
        self.partition: Mapping[str, str] = {"query": "query"} if table is None else {"table": table.full_name}
        self._topic = config.topic_prefix if table is None else topic_of(config.topic_prefix, table)
        self._position = Position()
        self._plan: _Plan | None = None
        self._result: CursorResult[Any] | None = None
        self._held: tuple[dict[str, Any], Position] | None = None
        self._round_began_ms = 0
        self._utc = to_utc(config.timezone)
        self._table_id: str | None = None
        self._begins_anew = False
        self._initial_position: Position | None = None  # where it was told to begin, and no row was read

    def go_on_behind(self, position: Position, table_id: str | None = None) -> None:
        """Set where the first round begins, and of which table that is."""
        self._position = position
        self._table_id = table_id

    @property
    def is_reading(self) -> bool:
        """Whether a round is under way."""
        return self._result is not None

    def read(self, connection: Connection) -> list[SourceRecord]:
        """Return the next records of the round, beginning one if none is under way.

        The round is over when `is_reading` is false afterwards. The connection must be the same during a round, and
        its transaction must stay open.

        Raises:
            RelationMissing: the table does not exist.
            DataError: a value does not fit its column's type.
            FatalError: the table cannot be read in this mode.
            sqlalchemy.exc.SQLAlchemyError: the database refuses; call `abort`.
        """
        if self._result is None:
            self._begin_round(connection)
        assert self._result is not None
        assert self._plan is not None
        rows = self._result.fetchmany(self._config.batch_rows_max)
        if len(rows) < self._config.batch_rows_max:
            self._result.close()
            self._result = None
        return self._records(self._plan, rows)

    def abort(self) -> None:
        """Give the round up, after an error; the next one begins behind the last record that was returned."""
        self._result = None
        self._held = None
        self._plan = None

    def _begin_round(self, connection: Connection) -> None:
        now = clock.database_time(connection, self._config.timezone)
        # What follows may see one snapshot of the database, as in SQLite. If that were taken before the time, rows
        # that are stored in between would be missed, though others of their timestamp are read, and never looked for.
        connection.rollback()
        plan = self._plan
        if plan is None or probe(connection, plan.relation.source) != plan.relation.signature:
            plan = self._plan = self._make_plan(connection)
        self._identify(connection, plan)
        self._round_began_ms = microseconds(now) // 1000
        end = None
        if self._config.mode.uses_timestamp:
            end = now - dt.timedelta(milliseconds=self._config.timestamp_delay_ms)
            self._position = self._initial(now)
        select = plan.criteria.restricted(plan.select, plan.relation, self._position, end)
        if self._config.query_suffix:
            select = select.suffix_with(sqlalchemy.text(self._config.query_suffix.replace(":", "\\:")))
        self._result = self._streamed(connection, select)

    def _identify(self, connection: Connection, plan: _Plan) -> None:
        """Look whether it is the table that was read before, and if not do as `table.recreated` says.

        Raises:
            FatalError: it is another one, and the task shall fail.
        """
        if self._table is None or self._config.mode is Mode.BULK:
            return
        found = table_identity(connection, self._table)
        known, self._table_id = self._table_id, None if found is None else found.id
        if found is None or known is None or found.id == known or self._position.is_at_beginning:
            return
        if found.is_hint:
            if self._position == self._initial_position:
                return  # there never was a row whose absence could tell anything
            select = plan.criteria.at_or_behind(plan.relation, self._position)
            if connection.execute(select).first() is not None:
                return
        what = f"{self.name} was dropped and created anew since its last rows were read"
        if self._config.recreated is Recreated.FAIL:
            self._table_id = known  # so that it is found again by whoever tries again
            raise FatalError(f"{what}; table.recreated says what to do, or reset the connector's offsets")
        if self._config.recreated is Recreated.CONTINUE:
            log.warning("%s; going on behind %s as table.recreated says", what, self._position)
            return
        log.warning("%s; reading it from its beginning", what)
        self._position = Position()
        self._begins_anew = True

    def _initial(self, now: dt.datetime) -> Position:
        initial = self._config.timestamp_initial_ms
        if self._position.timestamp_us is not None or initial is None:
            return self._position
        if initial == -1 and self._begins_anew:
            return self._position  # all of the new table's rows have come since the connector began
        self._initial_position = Position(None, microseconds(now) if initial == -1 else initial * 1000)
        return self._initial_position

    def _streamed(self, connection: Connection, select: Select[Any]) -> CursorResult[Any]:
        if connection.dialect.name != "sqlite":
            options = {"stream_results": True, "max_row_buffer": self._config.batch_rows_max}
            return connection.execute(select, execution_options=options)
        # While a cursor of SQLite is open nobody can write; so the rows go to a table of our own first.
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS temp.{_SNAPSHOT}")
        compiled = select.compile(connection)
        parameters = tuple(compiled.params[name] for name in compiled.positiontup or ())
        connection.exec_driver_sql(f"CREATE TEMP TABLE {_SNAPSHOT} AS {compiled}", parameters)
        connection.commit()
        return connection.exec_driver_sql(f"SELECT * FROM temp.{_SNAPSHOT} ORDER BY rowid")  # noqa: S608 - a constant

    def _make_plan(self, connection: Connection) -> _Plan:
        config, quote = self._config, self._config.quotes
        if self._table is None:
            relation = describe_query(connection, config.query, self._rules)
        else:
            relation = describe_table(connection, self._table, quote)
        number, times = chosen_columns(
            config.mode, config.incrementing_column, config.timestamp_columns, relation, self.name
        )
        check_timestamps(relation, times, self._rules.dialect, self.name)
        if config.validate_non_null and self._table is not None and not self._table.is_view:
            check_not_null(relation, number, times, self.name)
        criteria = Criteria(
            mode=config.mode,
            incrementing=number,
            timestamps=times,
            dialect=self._rules.dialect,
            timezone=config.timezone,
            quote=quote,
        )
        return self._planned(relation, criteria)

    def _planned(self, relation: Relation, criteria: Criteria) -> _Plan:
        schemas, conversions, selected = {}, [], []
        for each in relation.columns:
            becomes = value_type(each.type, self._rules)
            schemas[each.name] = becomes.schema.as_optional() if each.nullable else becomes.schema
            if becomes.convert is not None:
                conversions.append((each.name, becomes.convert))
            # Without a type, the driver's own values come, which `values` understands.
            column: ColumnElement[Any] = sqlalchemy.column(quoted_name(each.name, criteria.quote))
            selected.append(sqlalchemy.cast(column, types.Text()).label(each.name) if becomes.as_text else column)
        schema = connect.struct_schema(schemas, name=None if self._table is None else self._table.name)
        key_names = self._key_names(relation)
        key_schema = connect.struct_schema({name: schemas[name] for name in key_names}) if key_names else None
        return _Plan(
            relation=relation,
            criteria=criteria,
            select=sqlalchemy.select(*selected).select_from(relation.source),
            names=list(schemas),
            schema=schema,
            conversions=conversions,
            key_names=key_names,
            key_schema=key_schema,
        )

    def _key_names(self, relation: Relation) -> Sequence[str]:
        if self._config.key_mode is KeyMode.NONE:
            return ()
        if self._config.key_mode is KeyMode.PRIMARY_KEY:
            if not relation.primary_key:
                raise FatalError(f"{self.name} has no primary key; set key.mode to columns or none")
            return relation.primary_key
        if missing := [name for name in self._config.key_columns if name not in relation.column_by_name]:
            raise FatalError(f"{self.name} has no column {', '.join(missing)} for key.columns")
        return self._config.key_columns

    def _records(self, plan: _Plan, rows: Sequence[Any]) -> list[SourceRecord]:
        if self._config.mode is Mode.BULK:
            offset = {"round_began_ms": self._round_began_ms}
            return [self._record(plan, dict(zip(plan.names, row, strict=True)), offset) for row in rows]
        read = [self._positioned(plan, dict(zip(plan.names, row, strict=True))) for row in rows]
        if self._config.mode is not Mode.TIMESTAMP:
            records = [self._record(plan, value, self._offset(position)) for value, position in read]
            self._position = read[-1][1] if read else self._position
            return records
        return self._records_by_timestamp(plan, read)

    def _records_by_timestamp(self, plan: _Plan, read: list[tuple[dict[str, Any], Position]]) -> list[SourceRecord]:
        """Hold the last row back until it is known whether another with its timestamp follows."""
        if self._held is not None:
            read.insert(0, self._held)
            self._held = None
        if read and self.is_reading:
            self._held = read.pop()
        following = [position for _, position in read[1:]] + ([self._held[1]] if self._held else [])
        records = []
        for number, (value, position) in enumerate(read):
            if number >= len(following) or following[number] != position:
                self._position = position
            records.append(self._record(plan, value, self._offset(self._position)))
        return records

    def _offset(self, position: Position) -> Mapping[str, Any]:
        offset = position.to_offset()
        return offset if self._table_id is None else {**offset, TABLE_ID: self._table_id}

    def _positioned(self, plan: _Plan, value: dict[str, Any]) -> tuple[dict[str, Any], Position]:
        criteria = plan.criteria
        number = None
        if criteria.incrementing:
            number = self._converted(to_int, criteria.incrementing, value[criteria.incrementing], value)
        if not criteria.timestamps:
            return value, Position(number)
        name = next((each for each in criteria.timestamps if value[each] is not None), criteria.timestamps[0])
        time = value[name]
        if isinstance(time, str) and _SQLITE_TIME.fullmatch(time) is None:
            raise DataError(
                f"{self.name}, column {name}: {time!r:.80} must be written as YYYY-MM-DD HH:MM:SS, with up to six "
                "digits behind a point and no time zone: SQLite compares text"
            )
        return value, Position(number, microseconds(self._converted(self._utc, name, time, value)))

    def _record(self, plan: _Plan, value: dict[str, Any], offset: Mapping[str, Any]) -> SourceRecord:
        for name, convert in plan.conversions:
            if (found := value[name]) is not None:
                value[name] = self._converted(convert, name, found, value)
        return SourceRecord(
            topic=self._topic,
            key={name: value[name] for name in plan.key_names} if plan.key_schema is not None else None,
            key_schema=plan.key_schema,
            value=value,
            value_schema=plan.schema,
            source_partition=self.partition,
            source_offset=offset,
        )

    def _converted(self, convert: Callable[[Any], Any], name: str, found: Any, row: Mapping[str, Any]) -> Any:
        try:
            return convert(found)
        except DataError as error:
            plan = self._plan
            keys = plan.relation.primary_key if plan is not None else ()
            where = ", ".join(f"{key}={row.get(key)!r}" for key in keys)
            raise DataError(f"{self.name}, column {name}{f' of the row {where}' if where else ''}: {error}") from None
