"""The database's own clock: rows bear its time, not this machine's."""

import datetime as dt
from collections.abc import Mapping

from sqlalchemy import Connection

from ottla_sql.source.values import to_utc

_QUERIES: Mapping[str, tuple[str, bool]] = {
    "postgresql": ("SELECT clock_timestamp()", True),
    "sqlite": ("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')", True),
    "mysql": ("SELECT utc_timestamp(6)", True),
    "mariadb": ("SELECT utc_timestamp(6)", True),
    "mssql": ("SELECT sysutcdatetime()", True),
    "oracle": ("SELECT sys_extract_utc(systimestamp) FROM dual", True),
}
_STANDARD = ("SELECT CURRENT_TIMESTAMP", False)


def database_time(connection: Connection, timezone: dt.tzinfo) -> dt.datetime:
    """Return what time it is for the database, in UTC.

    Args:
        connection: a connection to it.
        timezone: the zone of its CURRENT_TIMESTAMP, where nothing better is known.
    """
    query, is_utc = _QUERIES.get(connection.dialect.name, _STANDARD)
    return to_utc(dt.UTC if is_utc else timezone)(connection.exec_driver_sql(query).scalar_one())
