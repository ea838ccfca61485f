"""Asks a database in which columns text is compared byte by byte."""

import sqlalchemy
from sqlalchemy import Connection

_POSTGRESQL = """
SELECT a.attname
FROM pg_attribute a
JOIN pg_class r ON r.oid = a.attrelid
JOIN pg_namespace n ON n.oid = r.relnamespace
JOIN pg_collation c ON c.oid = a.attcollation
WHERE r.relname = :table AND n.nspname = coalesce(:schema, current_schema()) AND c.collisdeterministic
"""
_SQLITE_TEXTS = "SELECT sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL"
_SQLITE_COLUMNS = "SELECT name FROM pragma_table_info(:table)"
_WITH_NONDETERMINISTIC_COLLATIONS = (12,)


def plain_text_columns(connection: Connection, schema: str | None, table: str) -> frozenset[str]:
    """Return the columns whose text, if they hold text, is surely compared byte by byte; perhaps there are more.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database cannot be reached, or refuses.
    """
    named = {"schema": schema, "table": table}
    if connection.dialect.name == "postgresql":
        version = connection.dialect.server_version_info or ()
        if version < _WITH_NONDETERMINISTIC_COLLATIONS:
            return frozenset()
        return frozenset(connection.execute(sqlalchemy.text(_POSTGRESQL), named).scalars())
    if connection.dialect.name == "sqlite":
        # A word of SQLite's own: whoever wants another comparison than that of bytes says COLLATE, somewhere.
        texts = connection.execute(sqlalchemy.text(_SQLITE_TEXTS), {"table": table}).scalars()
        if any("collate" in text.lower() for text in texts):
            return frozenset()
        return frozenset(connection.execute(sqlalchemy.text(_SQLITE_COLUMNS), {"table": table}).scalars())
    return frozenset()
