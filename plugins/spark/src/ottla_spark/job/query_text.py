"""The `sql` of a connector: statements that create views, then one query.

Whether a statement is right is left to Spark, when the task starts. Here it is only seen which kind each is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ottla_sdk import Problem
from ottla_spark.statement_splitting import Kind, split, statements, tokens

_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_CREATES_VIEW = re.compile(r"CREATE( OR REPLACE)? TEMP(ORARY)? VIEW")
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """What a connector's `sql` says.

    Attributes:
        views: the statements that create views, in their order.
        query: the query; empty if there is none.
    """

    views: tuple[str, ...] = ()
    query: str = ""


def parsed_query(sql: str) -> SqlQuery:
    """Return the statements of a text in which `query_problems` has found nothing."""
    found = statements(sql)
    if found and _is_query(found[-1]):
        return SqlQuery(views=tuple(found[:-1]), query=found[-1])
    return SqlQuery(views=tuple(found))


def query_problems(sql: str, *, views_only: bool = False) -> Iterator[Problem]:
    """Yield what is wrong with a connector's `sql`; an empty one is right.

    Args:
        sql: its text.
        views_only: whether it may do without a query at its end.
    """
    if any(each.kind is Kind.UNFINISHED for each in tokens(sql)):
        yield Problem("sql", "a string, a name in backquotes or a comment does not end")
        return
    found = split(sql)
    for each in found[:-1] if found and _is_query(found[-1].text) else found:
        if not _creates_view(each.text):
            if each is found[-1] and not views_only:
                yield Problem(
                    "sql", f"line {each.line}: the last statement must be a query such as SELECT: {_shown(each.text)}"
                )
            else:
                yield Problem(
                    "sql",
                    f"line {each.line}: only CREATE TEMPORARY VIEW may stand before the one query: "
                    f"{_shown(each.text)}",
                )
        elif each is found[-1] and not views_only:
            yield Problem(
                "sql", "ends without a query; add a SELECT, or say with outputs.NAME.from which view is written"
            )


def _is_query(statement: str) -> bool:
    for token in tokens(statement):
        if not token.is_symbol("("):
            return token.is_word(*_QUERY_WORDS)
    return False


def _creates_view(statement: str) -> bool:
    words = []
    for token, _ in zip(tokens(statement), range(5), strict=False):
        words.append(token.text.upper())
    return _CREATES_VIEW.match(" ".join(words)) is not None


def _shown(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
