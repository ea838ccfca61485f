"""How records of one shape become rows of one table; made once for a shape and used for all its records. Pure.

A shape is a topic with the schemas of key and value, or the names of their fields where there are no schemas. The
usual plan needs no more per record than to take the fields of its value; conversions, only where a column needs one,
go through a batch column by column.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ottla_sdk import DataError, SinkRecord
from ottla_sql.sink.compiled_statements import Row, Write
from ottla_sql.sink.key_equality import Same
from ottla_sql.sink.values import Convert

RowsOf = Callable[[Sequence[SinkRecord]], list[Row]]
Take = Callable[[Mapping[str, Any]], Row]

SLICED_MAX = 3
"""Up to so many columns are put into rows one by one; for more it is faster to turn rows into columns and back."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What happens to the values of one column.

    Attributes:
        place: the column's place in the row.
        column: its name, for messages.
        convert: makes what the database takes.
        fit: types of values that the database takes as they are.
        default: stands for None.
    """

    place: int
    column: str
    convert: Convert
    fit: frozenset[type]
    default: Any

    def apply(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return converted values; the same object if they are fit as they are.

        Raises:
            DataError: the column cannot hold one of them.
        """
        convert, default = self.convert, self.default
        if default is None and self.fit.issuperset(set(map(type, values))):
            return values
        try:
            if default is not None:
                default = convert(default)
            return [default if value is None else convert(value) for value in values]
        except (DataError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"column {self.column}: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class RowPlan:
    """How records of one shape change a table.

    Attributes:
        table: the table's name, for messages.
        deletes: whether they delete rows.
        key: the columns of the primary key, which come first in a row.
        rows_of: takes the values of rows from records.
        conversions: for the columns that may need one.
        same: for each column of the primary key, what tells its values apart as the database does.
        write: executes the statement.
    """

    table: str
    deletes: bool
    key: Sequence[str]
    rows_of: RowsOf
    conversions: Sequence[Conversion]
    same: Sequence[Same]
    write: Write

    def rows(self, records: Sequence[SinkRecord]) -> list[Row]:
        """Return the rows of records.

        Raises:
            DataError: a record has no value for its primary key, or one that a column cannot hold.
        """
        rows = self.rows_of(records)
        for place, column in enumerate(self.key):
            if None in [row[place] for row in rows]:
                raise DataError(f"the column {column} of the primary key has no value")
        changed: dict[int, Sequence[Any]] = {}
        for conversion in self.conversions:
            values = [row[conversion.place] for row in rows]
            converted = conversion.apply(values)
            if converted is not values:
                changed[conversion.place] = converted
        return _with_columns(rows, changed) if changed else rows

    def keys(self, records: Sequence[SinkRecord]) -> list[Row] | None:
        """Return the primary keys of records, equal where the database takes them for equal; None if nobody knows."""
        rows = [row[: len(self.key)] for row in self.rows_of(records)]
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for conversion in self.conversions:
            if conversion.place < len(self.key):
                try:
                    columns[conversion.place] = conversion.apply(columns[conversion.place])
                except DataError:
                    return None  # whoever writes the record finds out
        for place, same in enumerate(self.same):
            columns[place] = [same(value) for value in columns[place]]
            if None in columns[place]:
                return None
        return list(zip(*columns, strict=True))


def _with_columns(rows: list[Row], changed: Mapping[int, Sequence[Any]]) -> list[Row]:
    if len(changed) <= SLICED_MAX:
        for place, values in changed.items():
            behind = place + 1
            rows = [(*row[:place], value, *row[behind:]) for row, value in zip(rows, values, strict=True)]
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, values in changed.items():
        columns[place] = values
    return list(zip(*columns, strict=True))


def fields(names: Sequence[str]) -> Take:
    """Return what takes values by their names; a missing one is None."""
    if not names:
        return lambda found: ()
    if len(names) == 1:
        only = names[0]
        return lambda found: (found.get(only),)
    take = itemgetter(*names)

    def taken(found: Mapping[str, Any]) -> Row:
        try:
            row: Row = take(found)
        except KeyError:
            return tuple(found.get(name) for name in names)
        return row

    return taken


def fields_of_values(names: Sequence[str]) -> RowsOf:
    """Return what makes rows of fields of records' values."""
    take = fields(names)
    if len(names) < 2:
        return lambda records: [take(record.value) for record in records]
    take_all: Callable[[Mapping[str, Any]], Row] = itemgetter(*names)

    def rows_of(records: Sequence[SinkRecord]) -> list[Row]:
        try:
            return [take_all(record.value) for record in records]
        except KeyError:
            return [take(record.value) for record in records]

    return rows_of


def key_and_fields(key_of: Callable[[SinkRecord], Row], names: Sequence[str]) -> RowsOf:
    """Return what makes rows of a primary key from elsewhere, and fields of records' values."""
    take = fields(names)
    return lambda records: [key_of(record) + take(record.value) for record in records]


Run = tuple[RowPlan, list[SinkRecord]]
"""Records, and the plan for them."""


def arranged(runs: Sequence[Run], *, inserts: bool) -> Sequence[Run]:
    """Return runs of one table that have the same effect as `runs` do, one after the other, but are fewer.

    Records of the same primary key keep their order; where one makes those before it void, it stands alone. Where it
    is not known which keys the database takes for the same, all records keep their order.

    Args:
        runs: in the order of the records.
        inserts: whether records add rows, so that none makes another void.
    """
    if len(runs) < 2:
        return runs
    if inserts:
        return runs if any(plan.deletes for plan, _ in runs) else _by_plan(runs)
    if any(plan.key != runs[0][0].key for plan, _ in runs):
        return runs
    keys: list[list[Row]] = []
    for plan, records in runs:
        found = plan.keys(records)
        if found is None:
            return runs
        keys.append(found)
    return _by_key(runs, keys)


def _by_plan(runs: Sequence[Run]) -> list[Run]:
    found: dict[RowPlan, list[SinkRecord]] = {}
    for plan, records in runs:
        found.setdefault(plan, []).extend(records)
    return list(found.items())


def _by_key(runs: Sequence[Run], keys: Sequence[Sequence[Row]]) -> list[Run]:
    done: list[Run] = []
    pending: dict[Row, tuple[RowPlan, SinkRecord]] = {}
    for (plan, records), keys_of_run in zip(runs, keys, strict=True):
        for record, key in zip(records, keys_of_run, strict=True):
            before = pending.get(key)
            if before is not None:
                if plan.deletes or before[0] is plan:
                    del pending[key]  # void; and the key moves to the end, behind what came between
                else:
                    done += _flushed(pending)
                    pending = {}
            pending[key] = plan, record
    return done + _flushed(pending)


def _flushed(pending: Mapping[Row, tuple[RowPlan, SinkRecord]]) -> list[Run]:
    """Deletes first: a value that must be unique may move from a deleted row to another."""
    found = _by_plan([(plan, [record]) for plan, record in pending.values()])
    return sorted(found, key=lambda run: not run[0].deletes)
