"""Ottla Connect's connectors for SQL databases: `SqlSource` reads tables and queries, `SqlSink` writes tables."""

from ottla_sql.sink.connector import SqlSink
from ottla_sql.source.connector import SqlSource

__version__ = "0.1.0"

__all__ = ["SqlSink", "SqlSource"]

for _connector in (SqlSource, SqlSink):
    _connector.__module__ = __name__  # Configurations name them by this module.
