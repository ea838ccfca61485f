"""The statements of a sink, compiled once for a table and a set of columns.

They are compiled by SQLAlchemy and given to the driver as text, with rows as tuples in the order of the parameters:
per row nothing is left to do but to make the tuple. (SQLAlchemy's own way processes each parameter of each row, which
costs more than the insert.) `update_then_insert` stands for an upsert where a database has none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Executable, TableClause, bindparam
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Dialect

from ottla_sql.sink.config import InsertMode
from ottla_sql.sink.tables import TargetTable, insert_target

Row = tuple[Any, ...]
"""The columns of the primary key, then the others."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement.

    Attributes:
        text: as the driver takes it.
        arrange: makes of a row what the driver takes as parameters; None if it takes the row.
    """

    text: str
    arrange: Callable[[Row], Any] | None

    def execute(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Execute it for each row, in order."""
        parameters = rows if self.arrange is None else [self.arrange(row) for row in rows]
        connection.exec_driver_sql(self.text, list(parameters))

    def execute_one(self, connection: Connection, row: Row) -> int:
        """Execute it for a row, and return how many rows of the table it has changed."""
        parameters = row if self.arrange is None else self.arrange(row)
        return connection.exec_driver_sql(self.text, parameters).rowcount


Write = Callable[[Connection, Sequence[Row]], None]


def write_statement(
    dialect: Dialect,
    mode: InsertMode,
    table: TargetTable,
    *,
    key: Sequence[str],
    others: Sequence[str],
    quote: bool | None,
) -> Write:
    """Return what writes rows into a table.

    Args:
        dialect: the database's.
        mode: what a row does.
        table: the table.
        key: the columns of the primary key; of each row they come first.
        others: its other columns.
        quote: what SQLAlchemy calls so.
    """
    target = insert_target(table, [*key, *others], quote)
    if mode is InsertMode.INSERT:
        return _insert(dialect, target).execute
    if mode is InsertMode.UPDATE:
        found = _conditions(dialect, table, key, target)
        return _update(dialect, target, found).execute if others else lambda connection, rows: None
    upsert = _UPSERTS.get(dialect.name)
    if upsert is not None:
        return _compiled(dialect, upsert(target, len(key)), _in_order(target)).execute
    return _update_then_insert(dialect, target, _conditions(dialect, table, key, target))


def delete_statement(dialect: Dialect, table: TargetTable, key: Sequence[str], quote: bool | None) -> Write:
    """Return what deletes rows by their primary keys."""
    target = insert_target(table, key, quote)
    conditions = _conditions(dialect, table, key, target)
    return _compiled(dialect, sqlalchemy.delete(target).where(*conditions), _in_order(target)).execute


_ROUNDED = (sql.Integer, sql.Numeric, sql.Float, sql.DateTime, sql.Time)


def _conditions(
    dialect: Dialect, table: TargetTable, key: Sequence[str], target: TableClause
) -> list[sqlalchemy.ColumnElement[bool]]:
    """Return what finds the row of a key: `key` are the target's first columns.

    PostgreSQL rounds numbers and times when it stores them, and not when it compares: 1.001 would not find the row
    that was written with it into a column of two digits, so it is rounded first. (Text is not: a cast would cut it.)
    """
    conditions = []
    for name, column, parameter in zip(key, target.columns, _in_order(target), strict=False):
        kind = table.columns[name]
        is_rounded = dialect.name == "postgresql" and isinstance(kind, _ROUNDED)
        value: Any = sqlalchemy.cast(bindparam(parameter), kind) if is_rounded else bindparam(parameter)
        conditions.append(column == value)
    return conditions


def _in_order(target: TableClause) -> list[str]:
    """Return names for the parameters that stand for the columns, which may have any names themselves."""
    return [f"c{number}" for number in range(len(target.columns))]


def _values(target: TableClause) -> dict[Any, Any]:
    return {column: bindparam(name) for column, name in zip(target.columns, _in_order(target), strict=True)}


def _insert(dialect: Dialect, target: TableClause) -> Statement:
    return _compiled(dialect, sqlalchemy.insert(target).values(_values(target)), _in_order(target))


def _update(dialect: Dialect, target: TableClause, conditions: Sequence[sqlalchemy.ColumnElement[bool]]) -> Statement:
    pairs = list(_values(target).items())
    statement = sqlalchemy.update(target).where(*conditions).values(dict(pairs[len(conditions) :]))
    return _compiled(dialect, statement, _in_order(target))


def _on_conflict(insert: Callable[[TableClause], Any]) -> Callable[[TableClause, int], Executable]:
    def upsert(target: TableClause, key_size: int) -> Executable:
        statement = insert(target).values(_values(target))
        columns = list(target.columns)
        key, others = columns[:key_size], columns[key_size:]
        if not others:
            return statement.on_conflict_do_nothing(index_elements=key)  # type: ignore[no-any-return]
        changes = {column: statement.excluded[column.name] for column in others}
        return statement.on_conflict_do_update(index_elements=key, set_=changes)  # type: ignore[no-any-return]

    return upsert


def _on_duplicate_key(target: TableClause, key_size: int) -> Executable:
    statement = mysql.insert(target).values(_values(target))
    columns = list(target.columns)
    changed = columns[key_size:] or columns[:1]
    return statement.on_duplicate_key_update({column.name: statement.inserted[column.name] for column in changed})


_UPSERTS: dict[str, Callable[[TableClause, int], Executable]] = {
    "postgresql": _on_conflict(postgresql.insert),
    "sqlite": _on_conflict(sqlite.insert),
    "mysql": _on_duplicate_key,
    "mariadb": _on_duplicate_key,
}


def _update_then_insert(
    dialect: Dialect, target: TableClause, conditions: Sequence[sqlalchemy.ColumnElement[bool]]
) -> Write:
    insert = _insert(dialect, target)
    columns = list(target.columns)
    names = _in_order(target)
    if len(conditions) < len(columns):
        update = _update(dialect, target, conditions)
    else:
        # There is nothing to change: setting a column of the key to itself tells whether the row is there.
        same = sqlalchemy.update(target).where(*conditions).values({columns[0]: columns[0]})
        update = _compiled(dialect, same, names)

    def write(connection: Connection, rows: Sequence[Row]) -> None:
        for row in rows:
            if update.execute_one(connection, row) == 0:
                insert.execute_one(connection, row)

    return write


def _compiled(dialect: Dialect, statement: Executable, names: Sequence[str]) -> Statement:
    """Compile a statement whose parameters bear `names`, in the order of a row."""
    compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
    if not compiled.positional:
        used = [(name, place) for place, name in enumerate(names) if name in compiled.params]
        return Statement(str(compiled), lambda row: {name: row[place] for name, place in used})
    places = [names.index(name) for name in compiled.positiontup]
    if places == list(range(len(names))):
        return Statement(str(compiled), None)
    if len(places) == 1:
        return Statement(str(compiled), lambda row: (row[places[0]],))
    return Statement(str(compiled), itemgetter(*places))
