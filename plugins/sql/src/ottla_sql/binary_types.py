"""The types of columns that hold bytes: SQLAlchemy has no public class above all of them."""

from sqlalchemy import types
from sqlalchemy.dialects import mssql, mysql

BINARY_TYPES = (
    types.LargeBinary,
    types.BINARY,
    types.VARBINARY,
    mssql.TIMESTAMP,
    mysql.TINYBLOB,
    mysql.MEDIUMBLOB,
    mysql.LONGBLOB,
)
