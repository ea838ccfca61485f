"""Conditions on `_partition`, `_offset` and `_timestamp` of statements over one topic, for the reader. Pure.

Spark cannot hand these on by itself: they stand above the step that parses values, which it does not look behind.
Only what surely holds for every record that the statement wants is taken: whole terms of a WHERE that is a plain AND,
of a statement with one SELECT and one FROM. Spark applies the conditions, too, so that a term that is passed over
costs time and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla_spark.datasource.record_filters import (
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    OFFSET,
    PARTITION,
    TIMESTAMP,
)
from ottla_spark.statement_splitting import Kind, Token, tokens

COLUMNS = {"_PARTITION": PARTITION, "_OFFSET": OFFSET, "_TIMESTAMP": TIMESTAMP}
ENDS = ("GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "WINDOW", "QUALIFY", "LIMIT", "OFFSET")
"""Words that may follow a WHERE."""
NO_PLAIN_STATEMENT = ("WITH", "JOIN", "UNION", "EXCEPT", "MINUS", "INTERSECT", "LATERAL", "PIVOT", "UNPIVOT", "CASE",
                      "TABLE")  # fmt: skip
NO_PLAIN_SYMBOLS = ("|", "$")
"""Of `|>`, behind which there may be other columns, and of `${…}`, which stands for any text."""
NO_PLAIN_AND = ("OR", "BETWEEN")
TIME_WORDS = frozenset({
    "TIMESTAMP", "DATE", "INTERVAL", "NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE",
    "SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS", "WEEK", "WEEKS",
})  # fmt: skip
"""What a point in time may be written with, besides numbers and strings."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A term.

    Attributes:
        column: partition, offset or timestamp.
        operator: as of `record_filters`.
        operand: a number, or of timestamps any expression of SQL.
    """

    column: str
    operator: str
    operand: str


@dataclass(frozen=True, slots=True)
class PlainConditions:
    """What is known of a statement.

    Attributes:
        name: of what it reads.
        conditions: that all records have to fulfil.
        counts: whether it counts these records and does nothing else, so that keys and values are of no use.
    """

    name: str
    conditions: tuple[Condition, ...]
    counts: bool


def plain_conditions(statement: str) -> PlainConditions | None:
    """Return what a statement says of the records that it wants; None if it is not surely understood."""
    found = list(tokens(statement))
    places = [index for index, each in enumerate(found) if each.is_word("FROM")]
    selects = [each for each in found if each.is_word("SELECT")]
    if len(places) != 1 or len(selects) != 1 or not found[0].is_word("SELECT"):
        return None
    if any(each.is_word(*NO_PLAIN_STATEMENT) or each.text in NO_PLAIN_SYMBOLS for each in found):
        return None
    selected, rest = found[1 : places[0]], found[places[0] + 1 :]
    if not rest or rest[0].kind not in (Kind.WORD, Kind.NAME):
        return None
    terms, behind = _terms(rest[1:])
    if terms is None:
        return None
    conditions = [_condition(statement, term) for term in terms]
    is_whole = None not in conditions and not behind
    known = tuple(each for each in conditions if each is not None)
    counts = is_whole and _counts(selected)
    return PlainConditions(rest[0].value, known, counts) if known or counts else None


def makes_function(statement: str) -> bool:
    """Return whether a statement may define a function, behind whose name there may be a query."""
    found = list(tokens(statement))
    return any(each.is_word("CREATE") for each in found) and any(each.is_word("FUNCTION") for each in found)


def _terms(rest: Sequence[Token]) -> tuple[list[list[Token]] | None, list[Token]]:
    """Return the terms of the WHERE, and what stands behind it; None if they are not joined by AND alone."""
    if not rest or not rest[0].is_word("WHERE"):
        is_plain = not rest or rest[0].is_word(*ENDS)
        return ([] if is_plain else None), list(rest)
    terms: list[list[Token]] = [[]]
    depth = 0
    for index, each in enumerate(rest[1:], start=1):
        depth += each.is_symbol("(") - each.is_symbol(")")
        if depth == 0 and each.is_word(*NO_PLAIN_AND):
            return None, []
        if depth == 0 and each.is_word(*ENDS) and terms[-1]:
            # Some of these words may also be names of columns, behind which the WHERE goes on.
            goes_on = any(following.is_word(*NO_PLAIN_AND) for following in rest[index:])
            return (None if goes_on else terms), list(rest[index:])
        if depth == 0 and each.is_word("AND"):
            terms.append([])
        else:
            terms[-1].append(each)
    return terms, []


def _condition(statement: str, term: Sequence[Token]) -> Condition | None:
    if not term or term[0].kind not in (Kind.WORD, Kind.NAME) or term[0].value.upper() not in COLUMNS:
        return None
    column = COLUMNS[term[0].value.upper()]
    symbols = 1
    while symbols < len(term) and term[symbols].kind is Kind.SYMBOL and term[symbols].text in "<>=":
        symbols += 1
    operator, operand = "".join(each.text for each in term[1:symbols]), term[symbols:]
    operator = EQUAL if operator == "==" else operator
    if operator not in (EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL) or not operand:
        return None
    if column != TIMESTAMP and (len(operand) != 1 or not operand[0].text.isdecimal()):
        return None
    if not all(map(_is_of_time if column == TIMESTAMP else _is_number, operand)):
        return None
    return Condition(column, operator, statement[operand[0].start : operand[-1].end])


def _is_number(token: Token) -> bool:
    return token.kind is Kind.WORD and token.text.isascii() and token.text.isdecimal()


def _is_of_time(token: Token) -> bool:
    if token.kind is Kind.WORD:
        return token.text.upper() in TIME_WORDS or _is_number(token)
    return token.kind is Kind.STRING or (token.kind is Kind.SYMBOL and token.text in "()+-")


def _counts(selected: Sequence[Token]) -> bool:
    """Return whether what is selected is `count(*)`, perhaps with a name."""
    texts = [each.text.upper() for each in selected]
    if texts[:4] not in (["COUNT", "(", "*", ")"], ["COUNT", "(", "1", ")"]):
        return False
    named = selected[4:]
    return not named or (
        len(named) == len(("AS", "name")) and named[0].is_word("AS") and named[1].kind in (Kind.WORD, Kind.NAME)
    )
