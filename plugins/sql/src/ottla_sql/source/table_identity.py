"""What tells a table from another one of the same name that was there before.

An offset says how far rows of a table were read, and nothing of a table that was created anew. PostgreSQL gives each
table a number of its own. The others only hint at a change: SQLite counts changes of any table, and the time that
MySQL gives changes with many an ALTER TABLE. A hint counts only where the last row that was read has gone, with all
behind it; so a new table that has already grown past there is not noticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy
from sqlalchemy import Connection

from ottla_sql.source.table_selection import TableId


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """Which table it is.

    Attributes:
        id: another one for a table that was created anew.
        is_hint: whether it may be another one for the same table, too.
    """

    id: str
    is_hint: bool


_MYSQL = "SELECT create_time FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name"
_QUERIES: Mapping[str, tuple[str, bool]] = {
    "postgresql": (
        "SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = :schema AND c.relname = :name",
        False,
    ),
    "sqlite": ("PRAGMA schema_version", True),
    "mysql": (_MYSQL, True),
    "mariadb": (_MYSQL, True),
}


def table_identity(connection: Connection, table: TableId) -> TableIdentity | None:
    """Return which table bears a name; None for views, and where the database does not tell.

    The transaction should have read the table already, which keeps it from being dropped in between.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database refuses.
    """
    if table.is_view or connection.dialect.name not in _QUERIES:
        return None
    query, is_hint = _QUERIES[connection.dialect.name]
    names = {"schema": table.schema, "name": table.name} if ":name" in query else {}
    found = connection.execute(sqlalchemy.text(query), names).scalar()
    return None if found is None else TableIdentity(str(found), is_hint)
