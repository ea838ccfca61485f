"""What may come next at the prompt. Pure, but for the names, which the caller knows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla_spark.sql.pipelines import quoted

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "DISTINCT", "JOIN", "LEFT JOIN", "ON",
    "USING", "AS", "AND", "OR", "NOT", "IN", "IS NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END",
    "CAST", "UNION ALL", "COUNT", "SUM", "AVG", "MIN", "MAX", "WINDOW", "EMIT CHANGES", "WITH", "CREATE PIPELINE",
    "CREATE TABLE", "CREATE TOPIC", "CREATE OR REPLACE TABLE", "CREATE TEMPORARY VIEW", "IF NOT EXISTS",
    "SHOW TOPICS", "SHOW TABLES", "SHOW PIPELINES", "SHOW FUNCTIONS", "DESCRIBE", "DESCRIBE PIPELINE",
    "DROP PIPELINE", "KEEP CHECKPOINT", "DROP TABLE", "DROP VIEW", "EXPLAIN", "SET", "HELP", "EXIT", "QUIT",
)  # fmt: skip
_WORD = re.compile(r"`[^`]*$|[\w]+$")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_BEFORE_TABLE = re.compile(r"\b(FROM|JOIN|DESCRIBE|DESC|TABLE)\s+$", re.IGNORECASE)


def begun_word(text: str) -> str:
    """Return the part of a word that is typed already, with the backquote that opens it."""
    found = _WORD.search(text)
    return found[0] if found else ""


def candidates(text: str, names: Iterable[str], columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield what the word that is being typed may become.

    Args:
        text: what stands before the cursor.
        names: of topics and tables.
        columns: of those whose columns are known.
    """
    word = begun_word(text)
    typed = word.removeprefix("`").lower()
    tables = [written(name) for name in sorted(names) if name.lower().startswith(typed)]
    yield from tables
    if word.startswith("`") or (_BEFORE_TABLE.search(text[: len(text) - len(word)]) and not word):
        return
    mentioned = text.lower()
    found = {column for table, names_ in columns.items() if table.lower() in mentioned for column in names_}
    found = found or {column for names_ in columns.values() for column in names_}
    yield from (written(column) for column in sorted(found) if column.lower().startswith(typed))
    if typed:
        yield from (keyword for keyword in KEYWORDS if keyword.lower().startswith(typed))


def written(name: str) -> str:
    """Return a name as it is written in a statement."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)
