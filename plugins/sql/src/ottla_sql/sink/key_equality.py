"""Which values of a key column a database takes for equal, as far as that can be known here. Pure.

A database compares by the column: collations ignore case or accents, numbers are rounded to the column's digits,
text is padded or cut, times lose their fractions. Only for whole numbers, for UUIDs, and for text that is compared
byte by byte do two values that differ here differ there as well. For all others nobody knows, and records keep
their order.
"""

import uuid
from collections.abc import Callable, Hashable
from typing import Any

from sqlalchemy import types as sql

Same = Callable[[Any], Hashable | None]
"""Returns what is the same for values that the database takes for equal, and for no others; None if it is unknown."""

_REFUSE_WHAT_DOES_NOT_FIT = frozenset({"postgresql", "sqlite", "mssql", "oracle"})
"""Databases that never make another whole number of one; MySQL may, by its mode."""
_TEXT = frozenset({sql.TEXT, sql.VARCHAR})


def key_equality(column: sql.TypeEngine[Any], dialect: str, *, is_plain_text: bool) -> Same:
    """Return what tells keys apart.

    Args:
        column: the column's type.
        dialect: SQLAlchemy's name of the database.
        is_plain_text: whether the column holds text that is compared byte by byte.
    """
    if isinstance(column, sql.Integer) and dialect in _REFUSE_WHAT_DOES_NOT_FIT:
        return _whole_number
    if isinstance(column, sql.Uuid) and dialect == "postgresql":
        return _uuid
    if is_plain_text and type(column) in _TEXT:
        length_max = getattr(column, "length", None) if dialect == "postgresql" else None
        # PostgreSQL cuts off blanks that are too much.
        return lambda value: (
            value if type(value) is str and (length_max is None or len(value) <= length_max) else None
        )
    return lambda value: None


def _whole_number(value: Any) -> int | None:
    return value if type(value) is int else None


def _uuid(value: Any) -> uuid.UUID | None:
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        return None
