"""Which tables a source reads: their names, and the rules that choose among them. No database here."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

_TOPIC_CHARACTERS = re.compile(r"[^a-zA-Z0-9._-]")


class TableId(NamedTuple):
    """A table or view.

    Attributes:
        schema: its schema; None where the database has none.
        name: its name.
        is_view: whether it is a view, of whose columns the database does not know whether they may be null.
    """

    schema: str | None
    name: str
    is_view: bool = False

    @property
    def full_name(self) -> str:
        """``SCHEMA.TABLE``, which stands in source partitions, or ``TABLE``."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


def topic_of(prefix: str, table: TableId) -> str:
    """Return the topic of a table's rows; characters that topics cannot have become underscores."""
    return prefix + _TOPIC_CHARACTERS.sub("_", table.name)


def table_filter(
    *, whitelist: Sequence[str], blacklist: Sequence[str], include: Sequence[str], exclude: Sequence[str]
) -> Callable[[TableId], bool]:
    """Return what says whether a table is read: the lists as the settings of the same names hold them."""
    included = [re.compile(each) for each in include]
    excluded = [re.compile(each) for each in exclude]

    def chosen(table: TableId) -> bool:
        names = {table.name, table.full_name}
        if whitelist:
            return not names.isdisjoint(whitelist)
        if included and not any(each.fullmatch(table.full_name) for each in included):
            return False
        if any(each.fullmatch(table.full_name) for each in excluded):
            return False
        return names.isdisjoint(blacklist)

    return chosen


def schema_filter(pattern: str) -> Callable[[str], bool]:
    """Return what says whether a schema's name matches a pattern of SQL's LIKE; a backslash takes away the magic."""
    text = ""
    escaped = False
    for character in pattern:
        if not escaped and character == "\\":
            escaped = True
            continue
        text += {"%": ".*", "_": "."}.get(character, re.escape(character)) if not escaped else re.escape(character)
        escaped = False
    compiled = re.compile(text)
    return lambda name: compiled.fullmatch(name) is not None


def divided(tables: Iterable[TableId], tasks_max: int) -> list[list[TableId]]:
    """Return the tables of each task: contiguous runs of the sorted tables, as even as possible."""
    ordered = sorted(tables, key=lambda each: each.full_name)
    count = min(tasks_max, len(ordered))
    if count == 0:
        return []
    size, larger = divmod(len(ordered), count)
    divided_tables, start = [], 0
    for task in range(count):
        end = start + size + (task < larger)
        divided_tables.append(ordered[start:end])
        start = end
    return divided_tables
