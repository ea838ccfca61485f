"""Ottla Connect's plugins for SQL databases.

`SqlSource` reads tables and queries, `SqlSink` writes tables, and `SoftDelete` makes tombstones of rows that are
marked as deleted.
"""

from ottla_sql.sink.connector import SqlSink
from ottla_sql.soft_delete import SoftDelete
from ottla_sql.source.connector import SqlSource

__all__ = ["SoftDelete", "SqlSink", "SqlSource"]

for _plugin in (SoftDelete, SqlSink, SqlSource):
    _plugin.__module__ = __name__  # Configurations name them by this module.
