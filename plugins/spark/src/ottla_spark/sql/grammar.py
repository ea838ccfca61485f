"""The statements that are the prompt's own; whatever is none of these is Spark's.

    statement  := query [EMIT CHANGES]
                | CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ["(" columns ")"] [WITH "(" settings ")"]
                | CREATE (PIPELINE | TABLE | TOPIC) [IF NOT EXISTS] name [WITH "(" settings ")"]
                      AS query [EMIT CHANGES]
                | DROP TABLE [IF EXISTS] name              -- one that was made by the first CREATE
                | SHOW TOPICS | SHOW TABLES | SHOW PIPELINES
                | DESCRIBE PIPELINE name | DROP PIPELINE [IF EXISTS] name [KEEP CHECKPOINT]
                | HELP | EXIT | QUIT
    settings   := setting {"," setting}
    setting    := key "=" value
    key        := word {("." | "-") word} | string | name in backquotes
    value      := string | ["-"] word {("." | "-" | ":" | "/") word}     -- what needs more is put in quotes
    columns    := as in Spark: name type {"," name type}
    name       := word | name in backquotes                              -- dots and dashes need backquotes

Keywords are read in any case. `CREATE TABLE … USING …` and everything else that follows a name there is Spark's.
"""

from collections.abc import Mapping, Sequence

from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import (
    Declare,
    Deploy,
    DeployedKind,
    DescribePipeline,
    DropPipeline,
    DropTable,
    ForSpark,
    Help,
    Leave,
    MadeView,
    Parsed,
    Query,
    ShowPipelines,
    ShowTables,
    ShowTopics,
)
from ottla_spark.sql.statement_reader import Reader
from ottla_spark.statement_splitting import Kind, Token, tokens

QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


_WHOLE: Mapping[tuple[str, ...], Parsed] = {
    ("EXIT",): Leave(),
    ("QUIT",): Leave(),
    ("HELP",): Help(),
    ("SHOW", "TOPICS"): ShowTopics(),
    ("SHOW", "TABLES"): ShowTables(),
    ("SHOW", "PIPELINES"): ShowPipelines(),
}


def parse(text: str) -> Parsed:
    """Return what a statement is.

    Args:
        text: one statement, as `statements` returns it.

    Raises:
        SqlProblem: it begins as one of the prompt's own statements and does not go on as one.
    """
    sequence = list(tokens(text))
    whole = _WHOLE.get(tuple(token.text.upper() for token in sequence))
    if whole is not None:
        return whole
    reader = Reader(text, sequence)
    if reader.accept("CREATE"):
        return _create(reader) or _spark_or_query(text, sequence)
    if reader.accept("DROP"):
        return _drop(reader) or ForSpark(text)
    if reader.accept("DESCRIBE", "DESC") and reader.follows("PIPELINE") and reader.follows_name(1):
        reader.take()
        return _finished(reader, DescribePipeline(reader.name()))
    return _spark_or_query(text, sequence)


def is_query(text: str) -> bool:
    """Return whether a statement only reads."""
    first = next(iter(tokens(text)), None)
    return first is not None and (first.is_word(*QUERY_WORDS) or first.is_symbol("("))


def _create(reader: Reader) -> Parsed | None:
    """Read on behind CREATE; None for a statement of Spark's."""
    or_replace = reader.accept_phrase("OR", "REPLACE")
    noun = reader.peek()
    if noun is None or not noun.is_word(*(kind.name for kind in DeployedKind)):
        return None
    reader.take()
    if_not_exists = reader.accept_phrase("IF", "NOT", "EXISTS")
    kind = DeployedKind[noun.text.upper()]
    if kind is DeployedKind.TABLE and _is_sparks_table(reader):
        return None
    name = reader.name()
    has_columns = reader.follows_symbol("(")
    columns = reader.in_parentheses() if has_columns else ""
    if has_columns and not columns:
        raise SqlProblem("the parentheses behind the name hold no column; leave them out to have them found out")
    settings = _settings(reader) if reader.accept("WITH") else {}
    if reader.accept("AS"):
        if has_columns:
            raise SqlProblem("the columns follow from the query; leave out those behind the name")
        if or_replace:
            raise SqlProblem(f"what runs cannot be replaced; first DROP PIPELINE {name}")
        return Deploy(kind, name, settings, _query(reader.text, reader.rest()), if_not_exists)
    if kind is not DeployedKind.TABLE:
        raise reader.unexpected("AS and a query")
    return _finished(reader, Declare(name, columns, settings, if_not_exists, or_replace))


def _is_sparks_table(reader: Reader) -> bool:
    """Return whether what follows the name is none of the prompt's grammar."""
    if not reader.follows_name():
        return False
    ahead = Reader(reader.text, reader.rest())
    ahead.take()
    while ahead.follows_symbol("."):
        ahead.take()
        if ahead.follows_name():
            ahead.take()
    if ahead.follows_symbol("("):
        ahead.in_parentheses()
    following = ahead.peek()
    return following is not None and following.kind is Kind.WORD and not following.is_word("WITH", "AS")


def _drop(reader: Reader) -> Parsed | None:
    noun = reader.peek()
    if noun is None or not noun.is_word("PIPELINE", "TABLE"):
        return None
    reader.take()
    if_exists = reader.accept_phrase("IF", "EXISTS")
    if noun.is_word("PIPELINE"):
        name = reader.name()
        return _finished(reader, DropPipeline(name, if_exists, reader.accept_phrase("KEEP", "CHECKPOINT")))
    following = reader.rest()
    if len(following) == 1 and reader.follows_name():
        return DropTable(reader.name(), reader.text)
    return None


def _finished(reader: Reader, parsed: Parsed) -> Parsed:
    reader.check_end()
    return parsed


def _settings(reader: Reader) -> dict[str, str]:
    reader.expect_symbol("(")
    found: dict[str, str] = {}
    while True:
        key = _joined(reader, ".-", "a setting's name")
        reader.expect_symbol("=")
        if key in found:
            raise SqlProblem(f"{key} is set twice")
        found[key] = _joined(reader, ".-:/", f"the value of {key}, in quotes if it is more than a word,")
        if reader.follows_symbol(")"):
            reader.take()
            return found
        reader.expect_symbol(",")


def _joined(reader: Reader, joints: str, wanted: str) -> str:
    """Return a string, or words with the characters that may join them."""
    token = reader.peek()
    if token is None or token.kind is Kind.UNFINISHED:
        raise reader.unexpected(wanted)
    if token.kind in (Kind.STRING, Kind.NAME):
        return reader.take().value
    sign = reader.take().text if token.is_symbol("-") else ""
    if not reader.follows_name():
        raise reader.unexpected(wanted)
    parts = [sign, reader.take().text]
    while (joint := reader.peek()) is not None and joint.kind is Kind.SYMBOL and joint.text in joints:
        parts.append(reader.take().text)
        if not reader.follows_name():
            raise reader.unexpected(wanted)
        parts.append(reader.take().text)
    return "".join(parts)


def _spark_or_query(text: str, sequence: Sequence[Token]) -> Parsed:
    if not is_query(text):
        if _emits(sequence):
            raise SqlProblem("EMIT CHANGES stands behind a query only")
        return ForSpark(text)
    return _query(text, sequence)


def _query(text: str, sequence: Sequence[Token]) -> Query:
    """Return the query that a text's last tokens are."""
    if not sequence:
        raise SqlProblem("a query has to follow AS")
    if not _emits(sequence):
        return Query(text[sequence[0].start : sequence[-1].end])
    sequence = sequence[:-2]
    if not sequence:
        raise SqlProblem("a query has to stand before EMIT CHANGES")
    rows_max = None
    if len(sequence) > 2 and sequence[-2].is_word("LIMIT") and sequence[-1].text.isdecimal():
        rows_max = int(sequence[-1].text)
        sequence = sequence[:-2]
    return Query(text[sequence[0].start : sequence[-1].end], emit_changes=True, rows_max=rows_max)


def _emits(sequence: Sequence[Token]) -> bool:
    return len(sequence) > 1 and sequence[-2].is_word("EMIT") and sequence[-1].is_word("CHANGES")


def made_view(text: str) -> MadeView | None:
    """Return which temporary view a statement of Spark's makes or drops; None for any other."""
    reader = Reader(text, list(tokens(text)))
    if reader.accept_phrase("DROP", "VIEW"):
        reader.accept_phrase("IF", "EXISTS")
        return MadeView(reader.take().value, "") if reader.follows_name() else None
    if not reader.accept("CREATE"):
        return None
    reader.accept_phrase("OR", "REPLACE")
    if not reader.accept("TEMP", "TEMPORARY") or not reader.accept("VIEW"):
        return None
    reader.accept_phrase("IF", "NOT", "EXISTS")
    return MadeView(reader.take().value, text) if reader.follows_name() else None
