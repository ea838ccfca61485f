"""The tables that a sink writes: looks them up, creates them and adds columns, where settings allow it.

What is known of a table is kept until a statement fails in a way that may come from a change made by others. Several
tasks may create the same table at the same time: who comes second finds it there and goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import Column, ColumnClause, MetaData, Table, types
from sqlalchemy.engine import Engine
from sqlalchemy.exc import CompileError, NoSuchTableError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.sql.elements import quoted_name

from ottla_sdk import ConnectError, DataError, FatalError
from ottla_sql.connection import is_transient, translated
from ottla_sql.sink.collations import plain_text_columns
from ottla_sql.sink.column_specs import ColumnSpec, sql_type
from ottla_sql.sink.config import TOPIC_PLACEHOLDER, SqlSinkConfig


@dataclass(frozen=True, slots=True)
class TableName:
    """Where a table is.

    Attributes:
        schema: its schema; None for the connection's own.
        name: its name.
    """

    schema: str | None
    name: str

    def __str__(self) -> str:
        """Return ``SCHEMA.TABLE`` or ``TABLE``."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table as it is in the database.

    Attributes:
        name: where it is.
        columns: the types of its columns by their names, in order.
        primary_key: names of the columns of its primary key; empty if it has none.
        plain_text: names of columns whose text is surely compared byte by byte.
    """

    name: TableName
    columns: Mapping[str, types.TypeEngine[Any]]
    primary_key: Sequence[str]
    plain_text: frozenset[str] = frozenset()

    def spelled(self, wanted: str) -> str | None:
        """Return a column's name as the table spells it, or None if it has no such column."""
        if wanted in self.columns:
            return wanted
        alike = [name for name in self.columns if name.lower() == wanted.lower()]
        return alike[0] if len(alike) == 1 else None


def table_name(format_: str, topic: str, dialect: str) -> TableName:
    """Return the table for a topic, by the setting `table.name.format`."""
    name = format_.replace(TOPIC_PLACEHOLDER, topic)
    schema, point, table = name.rpartition(".")
    if dialect == "sqlite" or not point or not schema or not table:
        return TableName(None, name)
    return TableName(schema, table)


class Tables:
    """The tables of one database, as far as a task has used them."""

    def __init__(self, engine: Engine, config: SqlSinkConfig) -> None:
        self._engine = engine
        self._config = config
        self._known: dict[TableName, TargetTable] = {}

    def forget(self) -> None:
        """Look all tables up anew when they are needed next."""
        self._known.clear()

    def find(self, name: TableName) -> TargetTable | None:
        """Return a table as it is; None if there is none.

        Raises:
            RetriableError: the database cannot be reached now.
            ConnectError: the database refuses.
        """
        table = self._known.get(name)
        if table is None:
            try:
                table = self._look_up(name)
            except SQLAlchemyError as error:
                raise translated(error, f"look up table {name}") from error
            if table is not None:
                self._known[name] = table
        return table

    def get(self, name: TableName, specs: Sequence[ColumnSpec], key: Sequence[str]) -> TargetTable:
        """Return a table that has certain columns, created or changed if need be.

        Args:
            name: the table.
            specs: the columns that are needed.
            key: names of those that are the primary key, if the table is created.

        Raises:
            FatalError: there is no such table, and it may not be created.
            DataError: a column is missing and may not be added.
            RetriableError: the database cannot be reached now.
            ConnectError: the database refuses.
        """
        table = self.find(name)
        try:
            if table is None:
                table = self._create(name, specs, key)
            if missing := [spec for spec in specs if table.spelled(spec.name) is None]:
                table = self._add_columns(table, missing)
        except SQLAlchemyError as error:
            raise translated(error, f"prepare table {name}") from error
        self._known[name] = table
        return table

    def _look_up(self, name: TableName) -> TargetTable | None:
        with self._engine.connect() as connection:
            inspector = sqlalchemy.inspect(connection)
            try:
                columns = inspector.get_columns(name.name, schema=name.schema)
                key = inspector.get_pk_constraint(name.name, schema=name.schema)
            except NoSuchTableError:
                return None
            if not columns:
                return None
            plain_text = plain_text_columns(connection, name.schema, name.name)
        found = {str(each["name"]): each["type"] for each in columns}
        return TargetTable(name, found, tuple(key.get("constrained_columns") or ()), plain_text)

    def _create(self, name: TableName, specs: Sequence[ColumnSpec], key: Sequence[str]) -> TargetTable:
        if not self._config.auto_create:
            raise FatalError(f"there is no table {name}; create it, or set auto.create=true")
        columns = [self._column(spec, in_key=spec.name in key) for spec in specs]
        table = Table(self._quoted(name.name), MetaData(), *columns, schema=name.schema)
        self._change(CreateTable(table), name)
        created = self._look_up(name)
        if created is None:
            raise ConnectError(f"table {name} was created but is not there")
        return created

    def _add_columns(self, table: TargetTable, missing: Sequence[ColumnSpec]) -> TargetTable:
        if not self._config.auto_evolve:
            names = ", ".join(spec.name for spec in missing)
            raise DataError(
                f"table {table.name} has no column {names}; add it, set auto.evolve=true, or leave the field out "
                "with fields.whitelist"
            )
        for spec in missing:
            self._add_column(table, spec)
        changed = self._look_up(table.name)
        if changed is None:
            raise ConnectError(f"table {table.name} has gone")
        return changed

    def _add_column(self, table: TargetTable, spec: ColumnSpec) -> None:
        column = self._column(spec, in_key=False, added=True)
        target = Table(self._quoted(table.name.name), MetaData(), column, schema=table.name.schema)
        preparer = self._engine.dialect.identifier_preparer
        definition = str(CreateColumn(target.columns[0]).compile(dialect=self._engine.dialect))
        word = "ADD" if self._engine.dialect.name in ("mssql", "oracle") else "ADD COLUMN"
        statement = f"ALTER TABLE {preparer.format_table(target)} {word} {definition}"
        # The text is the dialect's already, so no character in it is a parameter of SQLAlchemy's.
        self._change(sqlalchemy.text(statement.replace("%%", "%").replace(":", "\\:")), table.name, spec)

    def _change(self, statement: Any, name: TableName, added: ColumnSpec | None = None) -> None:
        """Change the schema; that somebody else has just done the same is no error."""
        try:
            with self._engine.begin() as connection:
                connection.execute(statement)
        except SQLAlchemyError as error:
            if is_transient(error):
                raise
            found = self._look_up(name)
            if found is None or (added is not None and found.spelled(added.name) is None):
                raise

    def _column(self, spec: ColumnSpec, *, in_key: bool, added: bool = False) -> "Column[Any]":
        kind = sql_type(spec, self._engine.dialect.name, in_key=in_key)
        return Column(
            self._quoted(spec.name),
            kind,
            primary_key=in_key,
            autoincrement=False,
            nullable=not in_key and (added or spec.may_be_null),
            server_default=self._default(spec, kind),
        )

    def _default(self, spec: ColumnSpec, kind: types.TypeEngine[Any]) -> Any:
        if spec.default is None or (
            self._engine.dialect.name in ("mysql", "mariadb") and isinstance(kind, types.Text)
        ):
            return None
        literal = sqlalchemy.literal(spec.default, kind)
        try:
            literal.compile(dialect=self._engine.dialect, compile_kwargs={"literal_binds": True})
        except CompileError:
            return None
        return literal

    def _quoted(self, name: str) -> quoted_name:
        return quoted_name(name, self._config.quotes)


def insert_target(table: TargetTable, names: Sequence[str], quote: bool | None) -> sqlalchemy.TableClause:
    """Return a table as statements that change its rows name it.

    Its columns have no types: casts of parameters, which SQLAlchemy would write for PostgreSQL, cut text silently.
    """
    columns: list[ColumnClause[Any]] = [sqlalchemy.column(quoted_name(name, quote)) for name in names]
    schema = None if table.name.schema is None else quoted_name(table.name.schema, quote)
    return sqlalchemy.table(quoted_name(table.name.name, quote), *columns, schema=schema)
