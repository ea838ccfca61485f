"""Statements that need a few records only: columns of one topic, as far as a LIMIT. Pure.

Any records are right for these, so the first are read beside Spark and given to it as a relation of constants: no
Python worker has to start. Spark still gets the statement as it was typed. What is not surely of this form is none:
an expression may be an aggregation, and a condition may leave out all records that were read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from ottla_spark.statement_splitting import Kind, Token, tokens

ROWS_MAX = 200
TEXT_MAX = 256 << 10
"""Characters; Spark's parser is slow with long statements."""
RECORD_COLUMNS = "key, value, topic, partition, offset, timestamp"
TIMESTAMP_MAX_MS = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class PlainSelect:
    """`SELECT a, b AS c FROM name LIMIT count`."""

    name: str
    count: int


def plain_select(statement: str) -> PlainSelect | None:
    """Return what a statement reads, if it is of the form above."""
    found = list(tokens(statement))
    places = [index for index, each in enumerate(found) if each.is_word("FROM")]
    if len(places) != 1 or not found[0].is_word("SELECT"):
        return None
    (place,) = places
    rest = found[place + 1 :]
    if len(rest) != len(("name", "LIMIT", "count")) or not _is_name(rest[0]) or not rest[1].is_word("LIMIT"):
        return None
    if not rest[2].text.isdecimal() or not 0 < int(rest[2].text) <= ROWS_MAX:
        return None
    if not all(map(_is_column, _parts(found[1:place]))):
        return None
    return PlainSelect(rest[0].value, int(rest[2].text))


def constants(messages: Sequence[Message]) -> str | None:
    """Return a query whose rows are these records, in the columns of the data source; None if it would be long."""
    if not messages:
        return None
    rows = ", ".join(map(_row, messages))
    return f"SELECT * FROM VALUES {rows} AS t({RECORD_COLUMNS})" if len(rows) <= TEXT_MAX else None  # noqa: S608


def _row(message: Message) -> str:
    kind, time_ms = message.timestamp()
    if kind == 0:
        time_ms = -1  # as the data source has it of a record without a time
    time = f"timestamp_millis({time_ms})" if abs(time_ms) <= TIMESTAMP_MAX_MS else "CAST(NULL AS TIMESTAMP)"
    topic = str(message.topic())  # of a name's letters, digits, points, dashes and underscores
    return (
        f"({_binary(message.key())}, {_binary(message.value())}, '{topic}', {message.partition()}, "
        f"{message.offset()}L, {time})"
    )


def _binary(data: str | bytes | None) -> str:
    if data is None:
        return "CAST(NULL AS BINARY)"
    return f"X'{(data.encode() if isinstance(data, str) else data).hex()}'"


def _parts(found: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for each in found:
        if each.is_symbol(","):
            parts.append([])
        else:
            parts[-1].append(each)
    return parts


def _is_column(part: Sequence[Token]) -> bool:
    match part:
        case [one]:
            return _is_name(one) or one.is_symbol("*")
        case [one, as_, other]:
            return _is_name(one) and as_.is_word("AS") and _is_name(other)
    return False


def _is_name(token: Token) -> bool:
    return token.kind in (Kind.WORD, Kind.NAME)
