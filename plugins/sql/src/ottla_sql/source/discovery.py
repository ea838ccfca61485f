"""Finds the tables that a source reads, by asking the database."""

from collections.abc import Iterator

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.engine import Inspector

from ottla_sql.source.config import SqlSourceConfig, TableType
from ottla_sql.source.table_selection import TableId, schema_filter, table_filter

_SYSTEM_SCHEMAS = frozenset(
    {"information_schema", "pg_catalog", "pg_toast", "sys", "mysql", "performance_schema", "temp"}
)
_ONE_SCHEMA_DIALECTS = frozenset({"mysql", "mariadb", "oracle"})
"""Their schemas are what others call databases or users: by default only the connection's own is read."""

_PARTITIONS = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relispartition
"""


def find_tables(connection: Connection, config: SqlSourceConfig) -> frozenset[TableId]:
    """Return the tables that the settings choose, of those that there are now.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database refuses.
    """
    inspector = sqlalchemy.inspect(connection)
    chosen = table_filter(
        whitelist=config.whitelist, blacklist=config.blacklist, include=config.include, exclude=config.exclude
    )
    kinds = {TableType(each.upper()) for each in config.table_types}
    partitions = _partitions(connection)
    found = (
        table
        for schema in _schemas(inspector, config.schema_pattern)
        for table in _tables(inspector, schema, kinds)
        if (table.schema, table.name) not in partitions
    )
    return frozenset(filter(chosen, found))


def _schemas(inspector: Inspector, pattern: str | None) -> Iterator[str | None]:
    dialect = inspector.dialect.name
    if dialect == "sqlite":
        yield None
    elif not pattern and dialect in _ONE_SCHEMA_DIALECTS:
        yield inspector.default_schema_name
    else:
        wanted = schema_filter(pattern or "%")
        for name in inspector.get_schema_names():
            if name.lower() not in _SYSTEM_SCHEMAS and wanted(name):
                yield name


def _tables(inspector: Inspector, schema: str | None, kinds: set[TableType]) -> Iterator[TableId]:
    if TableType.TABLE in kinds:
        yield from (TableId(schema, name) for name in inspector.get_table_names(schema=schema))
    if TableType.VIEW in kinds:
        yield from (TableId(schema, name, True) for name in inspector.get_view_names(schema=schema))
    if TableType.MATERIALIZED_VIEW in kinds:
        yield from (TableId(schema, name, True) for name in inspector.get_materialized_view_names(schema=schema))


def _partitions(connection: Connection) -> frozenset[tuple[str | None, str]]:
    """Return the partitions of PostgreSQL's partitioned tables: the tables themselves have the rows already."""
    if connection.dialect.name != "postgresql":
        return frozenset()
    return frozenset((str(schema), str(name)) for schema, name in connection.exec_driver_sql(_PARTITIONS))
