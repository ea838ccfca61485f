"""What a source reads from, a table or a query: its columns and their types, as the database tells them.

Columns are looked up when reading begins, and again when a cheap probe (the same SELECT without rows) shows that they
have changed. Databases do not tell the types of a query's result alike: PostgreSQL's driver has them, SQLite knows
them of a temporary view, for others they are taken from some of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, FromClause, TextClause, types
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.elements import quoted_name

from ottla_sdk import FatalError
from ottla_sql.source.column_types import TypeRules, type_of_values
from ottla_sql.source.table_selection import TableId

SAMPLE_ROWS = 100
"""Whose values tell the types of a query's result, where the database does not."""
_TEMPORARY_VIEW = "ottla_query"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column.

    Attributes:
        name: its name.
        type: its type.
        nullable: whether its values may be null.
    """

    name: str
    type: types.TypeEngine[Any]
    nullable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a view, or a query's result.

    Attributes:
        source: what stands behind FROM.
        columns: its columns in order.
        primary_key: names of the columns of the primary key; empty if there is none.
        counted: name of the column that the database counts up; None if there is none.
        signature: compares equal as long as the columns are the same.
    """

    source: FromClause | TextClause
    columns: Sequence[SourceColumn]
    primary_key: Sequence[str]
    counted: str | None
    signature: object

    @property
    def column_by_name(self) -> Mapping[str, SourceColumn]:
        """The columns by their names."""
        return {each.name: each for each in self.columns}


class RelationMissing(Exception):
    """There is no such table, now."""


def table_clause(table: TableId, quote: bool | None) -> FromClause:
    """Return a table as it stands behind FROM."""
    schema = None if table.schema is None else quoted_name(table.schema, quote)
    return sqlalchemy.table(quoted_name(table.name, quote), schema=schema)


def query_clause(query: str) -> TextClause:
    """Return a query as it stands behind FROM."""
    text = query.strip().rstrip(";").replace(":", "\\:")  # colons are not SQLAlchemy's parameters here
    return sqlalchemy.text(f"({text}\n) ottla_query")  # on a line of its own, for the query may end with a comment


def describe_table(connection: Connection, table: TableId, quote: bool | None) -> Relation:
    """Look a table up.

    Raises:
        RelationMissing: there is none of this name.
        sqlalchemy.exc.SQLAlchemyError: the database refuses.
    """
    inspector = sqlalchemy.inspect(connection)
    try:
        found = inspector.get_columns(table.name, schema=table.schema)
        key = inspector.get_pk_constraint(table.name, schema=table.schema)
    except NoSuchTableError:
        raise RelationMissing(table.full_name) from None
    source = table_clause(table, quote)
    counted = [each["name"] for each in found if each.get("autoincrement") is True or each.get("identity")]
    columns = [SourceColumn(each["name"], each["type"], each["nullable"]) for each in found]
    if not columns:
        raise RelationMissing(table.full_name)
    return Relation(
        source,
        columns,
        tuple(key.get("constrained_columns") or ()),
        counted[0] if len(counted) == 1 else None,
        probe(connection, source),
    )


def describe_query(connection: Connection, query: str, rules: TypeRules) -> Relation:
    """Look up what a query's result looks like.

    Raises:
        FatalError: it cannot be read from, because two of its columns have the same name.
        sqlalchemy.exc.SQLAlchemyError: the database refuses the query.
    """
    source = query_clause(query)
    description = _description(connection, source)
    names = [str(each[0]) for each in description]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise FatalError(f"the query has two columns of the name {', '.join(doubled)}; rename one with AS")
    known: Mapping[str, types.TypeEngine[Any]] = {}
    if connection.dialect.name == "postgresql":
        known = {str(each.name): _postgresql_type(connection, each) for each in description}
    elif connection.dialect.name == "sqlite":
        known = _sqlite_view_types(connection, query)
    unknown = [name for name in names if name not in known]
    sampled = _sampled_types(connection, source, description, unknown, rules) if unknown else {}
    columns = [SourceColumn(name, {**sampled, **known}[name], True) for name in names]
    return Relation(source, columns, (), None, _signature(description))


def probe(connection: Connection, source: FromClause | TextClause) -> object:
    """Return what compares equal as long as a relation's columns are the same."""
    return _signature(_description(connection, source))


def _description(connection: Connection, source: FromClause | TextClause) -> Sequence[Any]:
    statement = sqlalchemy.select(sqlalchemy.text("*")).select_from(source).where(sqlalchemy.text("1 = 0"))
    with connection.execute(statement) as result:
        cursor = result.cursor
        assert cursor is not None, "a result that is open has a cursor"
        assert cursor.description is not None, "a SELECT has columns"
        return tuple(cursor.description)


def _signature(description: Sequence[Any]) -> object:
    return tuple((str(each[0]), str(each[1]), *each[4:6]) for each in description)


_POSTGRESQL_TYPES: Mapping[str, types.TypeEngine[Any]] = {
    "int2": types.SmallInteger(),
    "int4": types.Integer(),
    "int8": types.BigInteger(),
    "float4": types.REAL(),
    "float8": types.Double(),
    "bool": types.Boolean(),
    "text": types.Text(),
    "varchar": types.Text(),
    "bpchar": types.Text(),
    "name": types.Text(),
    "bytea": types.LargeBinary(),
    "date": types.Date(),
    "time": types.Time(),
    "timetz": types.Time(timezone=True),
    "timestamp": postgresql.TIMESTAMP(timezone=False),
    "timestamptz": postgresql.TIMESTAMP(timezone=True),
}


def _postgresql_type(connection: Connection, column: Any) -> types.TypeEngine[Any]:
    """Return the type of a column in psycopg's description of a result; NullType for what becomes text."""
    registry = getattr(connection.connection.dbapi_connection, "adapters").types  # noqa: B009 - only psycopg has it
    info = registry.get(column.type_code)
    if info is None:
        return types.NullType()
    found: types.TypeEngine[Any] = _POSTGRESQL_TYPES.get(info.name, types.NullType())
    if info.name == "numeric":
        found = types.Numeric(column.precision, column.scale)
    return postgresql.ARRAY(found) if info.array_oid == column.type_code else found


def _sqlite_view_types(connection: Connection, query: str) -> Mapping[str, types.TypeEngine[Any]]:
    """Return the types of those columns of a result that are columns of tables."""
    view = f"temp.{_TEMPORARY_VIEW}"
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {view}")
    connection.exec_driver_sql(f"CREATE TEMP VIEW {_TEMPORARY_VIEW} AS {query.strip().rstrip(';')}")
    try:
        found = sqlalchemy.inspect(connection).get_columns(_TEMPORARY_VIEW, schema="temp")
    finally:
        connection.exec_driver_sql(f"DROP VIEW {view}")
    return {each["name"]: each["type"] for each in found if not isinstance(each["type"], types.NullType)}


def _sampled_types(
    connection: Connection,
    source: FromClause | TextClause,
    description: Sequence[Any],
    names: Sequence[str],
    rules: TypeRules,
) -> Mapping[str, types.TypeEngine[Any]]:
    statement = sqlalchemy.select(sqlalchemy.text("*")).select_from(source).limit(SAMPLE_ROWS)
    rows = connection.execute(statement).all()
    sampled = {}
    for place, column in enumerate(description):
        if (name := str(column[0])) in names:
            found = [row[place] for row in rows if row[place] is not None]
            sampled[name] = type_of_values(found, column[5] or 0, rules)
    return sampled
