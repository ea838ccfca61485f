"""Which rows come next, as SQL: behind the last row, older than the database's clock says, in a stable order.

With a timestamp and an incrementing column, rows are ordered by both, and those behind the last row have a later
timestamp, or the same and a greater number; so rows of the same timestamp are neither repeated nor skipped. The upper
bound is the database's time, less `timestamp.delay.interval.ms`, cut to the resolution of the column: a second that
has not ended may still get rows. So may the hour that comes twice when summer time ends, where a column stores no
time zone: its rows are left for when it is over for the second time.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import ColumnElement, Select, types
from sqlalchemy.sql.elements import quoted_name

from ottla_sdk import FatalError
from ottla_sql.source.config import Mode
from ottla_sql.source.position import Position
from ottla_sql.source.relation import Relation

MICROSECOND_DIGITS = 6
_MICROSECOND = dt.timedelta(microseconds=1)
_SECOND = dt.timedelta(seconds=1)
_MSSQL_DATETIME_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """How rows that are new or changed are found in one relation.

    Attributes:
        mode: by which columns.
        incrementing: the incrementing column's name; empty if the mode has none.
        timestamps: the timestamp columns' names; empty if the mode has none.
        dialect: SQLAlchemy's name of the database.
        timezone: of columns that store none.
        quote: what SQLAlchemy calls so.
    """

    mode: Mode
    incrementing: str
    timestamps: Sequence[str]
    dialect: str
    timezone: dt.tzinfo
    quote: bool | None

    def restricted(
        self, select: Select[Any], relation: Relation, begin: Position, end: dt.datetime | None
    ) -> Select[Any]:
        """Return a SELECT with the rows behind `begin` whose timestamps are before `end`, in order.

        Args:
            select: the SELECT without conditions.
            relation: what it reads.
            begin: the last row that was read.
            end: a time in UTC; None in modes without timestamps.
        """
        conditions: list[ColumnElement[bool]] = []
        order: list[ColumnElement[Any]] = []
        timestamp = self._timestamp(relation) if self.timestamps else None
        number = self._column(relation, self.incrementing) if self.incrementing else None
        if timestamp is not None:
            assert end is not None, "a mode with timestamps has an upper bound"
            conditions.append(timestamp < self._end(relation, self._floored(relation, end)))
            order.append(timestamp)
            conditions += self._behind(relation, timestamp, number, begin)
        elif number is not None and begin.incrementing is not None:
            conditions.append(number > begin.incrementing)
        if number is not None:
            if relation.column_by_name[self.incrementing].nullable:
                conditions.append(number.is_not(None))
            order.append(number)
        return select.where(*conditions).order_by(*order)

    def at_or_behind(self, relation: Relation, place: Position) -> Select[Any]:
        """Return a SELECT that has a row if the relation has one where `place` is, or behind it."""
        select = sqlalchemy.select(sqlalchemy.literal(1)).select_from(relation.source).limit(1)
        if self.timestamps and place.timestamp is not None:
            return select.where(self._timestamp(relation) >= self._time(relation, place.timestamp))
        if self.incrementing and place.incrementing is not None:
            return select.where(self._column(relation, self.incrementing) >= place.incrementing)
        return select

    def _behind(
        self,
        relation: Relation,
        timestamp: ColumnElement[Any],
        number: ColumnElement[Any] | None,
        begin: Position,
    ) -> list[ColumnElement[bool]]:
        if begin.timestamp is None:
            return []
        # Times finer than Python's microseconds were cut, so the last row's is anywhere within its microsecond.
        last, next_time = (self._time(relation, begin.timestamp + step) for step in (dt.timedelta(0), _MICROSECOND))
        if number is None or begin.incrementing is None:
            return [timestamp >= next_time]
        same_time = sqlalchemy.and_(timestamp >= last, timestamp < next_time, number > begin.incrementing)
        return [sqlalchemy.or_(timestamp >= next_time, same_time)]

    def _column(self, relation: Relation, name: str) -> ColumnElement[Any]:
        return sqlalchemy.column(quoted_name(name, self.quote), relation.column_by_name[name].type)

    def _timestamp(self, relation: Relation) -> ColumnElement[Any]:
        columns = [self._column(relation, name) for name in self.timestamps]
        found: ColumnElement[Any] = columns[0] if len(columns) == 1 else sqlalchemy.func.coalesce(*columns)
        return _uniform_text(found) if self.dialect == "sqlite" else found

    def _time(self, relation: Relation, time: dt.datetime) -> ColumnElement[Any]:
        """Return a time as the timestamp columns hold it."""
        if not self._stores_zone(relation):
            time = time.astimezone(self.timezone).replace(tzinfo=None)
        return self._literal(relation, time)

    def _end(self, relation: Relation, time: dt.datetime) -> ColumnElement[Any]:
        """Return a time as the timestamp columns hold it, or an earlier one if rows from before it may yet come."""
        if self._stores_zone(relation):
            return self._literal(relation, time)
        wall_time = time.astimezone(self.timezone).replace(tzinfo=None)
        return self._literal(relation, before_repetition(wall_time, self.timezone))

    def _stores_zone(self, relation: Relation) -> bool:
        return bool(getattr(relation.column_by_name[self.timestamps[0]].type, "timezone", False))

    def _literal(self, relation: Relation, time: dt.datetime) -> ColumnElement[Any]:
        column = relation.column_by_name[self.timestamps[0]].type
        if self.dialect == "sqlite":
            return sqlalchemy.literal(time.isoformat(" ", "microseconds"), types.Text())
        return sqlalchemy.literal(time, column)

    def _floored(self, relation: Relation, time: dt.datetime) -> dt.datetime:
        digits = min(fraction_digits(relation.column_by_name[name].type, self.dialect) for name in self.timestamps)
        step = 10 ** (MICROSECOND_DIGITS - digits)
        return time.replace(microsecond=time.microsecond // step * step)


def before_repetition(wall_time: dt.datetime, timezone: dt.tzinfo) -> dt.datetime:
    """Return a local time; if it comes twice, as clocks are set back, the first of those that do."""
    if not (set_back := _set_back(wall_time, timezone)):
        return wall_time
    once, twice = wall_time - set_back, wall_time
    while twice - once > _SECOND:
        middle = once + (twice - once) / 2
        if _set_back(middle, timezone):
            twice = middle
        else:
            once = middle
    return twice.replace(microsecond=0)  # clocks are set back at whole seconds


def _set_back(wall_time: dt.datetime, timezone: dt.tzinfo) -> dt.timedelta:
    """Return how far clocks are set back if a local time comes twice by that; zero if it does not."""
    before, after = (timezone.utcoffset(wall_time.replace(fold=fold)) for fold in (0, 1))
    return max(dt.timedelta(0), before - after) if before is not None and after is not None else dt.timedelta(0)


def _uniform_text(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return SQLite's text for a time always as YYYY-MM-DD HH:MM:SS.ffffff, which compares as the times do.

    CURRENT_TIMESTAMP has no fraction, SQLAlchemy writes six digits, others three or a T in the middle.
    """
    text = sqlalchemy.cast(column, types.Text())
    zeros = sqlalchemy.case((sqlalchemy.func.instr(text, ".") > 0, "000000"), else_=".000000")
    return sqlalchemy.func.substr(sqlalchemy.func.replace(text, "T", " ") + zeros, 1, 26, type_=types.Text())


def fraction_digits(column: types.TypeEngine[Any], dialect: str) -> int:
    """Return how many digits of a second a timestamp column surely has."""
    if dialect in ("mysql", "mariadb"):
        return int(getattr(column, "fsp", None) or 0)
    if dialect == "sqlite":
        return 0  # whoever writes CURRENT_TIMESTAMP writes whole seconds
    if dialect == "mssql" and type(column).__name__ in ("DATETIME", "SMALLDATETIME"):
        return _MSSQL_DATETIME_DIGITS if type(column).__name__ == "DATETIME" else 0
    if dialect == "oracle" and type(column).__name__ == "DATE":
        return 0
    precision = getattr(column, "precision", None)
    return MICROSECOND_DIGITS if precision is None else min(int(precision), MICROSECOND_DIGITS)


def chosen_columns(
    mode: Mode, incrementing: str, timestamps: Sequence[str], relation: Relation, name: str
) -> tuple[str, tuple[str, ...]]:
    """Return the names of the incrementing column and of the timestamp columns, as the relation spells them.

    Args:
        mode: decides which there have to be.
        incrementing: as the setting says; empty to find it.
        timestamps: as the setting says.
        relation: the table or query.
        name: its name, for messages.

    Raises:
        FatalError: there is no such column, or it cannot be found.
    """
    number = ""
    times: tuple[str, ...] = ()
    if mode.uses_incrementing:
        number = _spelled(relation, incrementing or _counting_column(relation, name), name)
        if not isinstance(relation.column_by_name[number].type, types.Integer | types.Numeric):
            raise FatalError(f"{name}: the incrementing column {number} holds no whole numbers")
    if mode.uses_timestamp:
        times = tuple(_spelled(relation, each, name) for each in timestamps)
    return number, times


def _counting_column(relation: Relation, name: str) -> str:
    if relation.counted is not None:
        return relation.counted
    integers = [
        each for each in relation.primary_key if isinstance(relation.column_by_name[each].type, types.Integer)
    ]
    if len(relation.primary_key) == 1 and integers:
        return integers[0]
    raise FatalError(
        f"{name} has no column that the database counts up, nor one column of integers as its primary key; "
        "set incrementing.column.name, or leave the table out"
    )


def _spelled(relation: Relation, wanted: str, name: str) -> str:
    if wanted in relation.column_by_name:
        return wanted
    alike = [each.name for each in relation.columns if each.name.lower() == wanted.lower()]
    if len(alike) == 1:
        return alike[0]
    raise FatalError(f"{name} has no column {wanted}; it has {', '.join(each.name for each in relation.columns)}")


def check_timestamps(relation: Relation, timestamps: Sequence[str], dialect: str, name: str) -> None:
    """Check that timestamp columns hold timestamps.

    Raises:
        FatalError: one does not.
    """
    kinds = (types.DateTime, types.String, types.NullType) if dialect == "sqlite" else (types.DateTime,)
    for each in timestamps:
        if not isinstance(relation.column_by_name[each].type, kinds):
            raise FatalError(
                f"{name}: the timestamp column {each} holds no timestamps, but {relation.column_by_name[each].type}"
            )


def check_not_null(relation: Relation, incrementing: str, timestamps: Sequence[str], name: str) -> None:
    """Check, for `validate.non.null`, that rows cannot be missed because a column is null.

    Raises:
        FatalError: they can.
    """
    nullable = {each.name for each in relation.columns if each.nullable} - set(relation.primary_key)
    hint = "make it NOT NULL, or set validate.non.null=false; rows where it is null are never read"
    if incrementing in nullable:
        raise FatalError(f"{name}: the incrementing column {incrementing} may be null; {hint}")
    if timestamps and nullable.issuperset(timestamps):
        raise FatalError(f"{name}: the timestamp column {', '.join(timestamps)} may be null; {hint}")
