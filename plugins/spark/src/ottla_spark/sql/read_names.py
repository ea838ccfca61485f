"""Which tables a statement reads, as far as its words tell, so that a misspelt one is found without Spark. Pure.

What is named here surely is a table. Where words do not tell, as with common table expressions, functions and names
of several parts, nothing is said: Spark understands the whole statement, seconds later.
"""

from collections.abc import Container, Iterable

from ottla_spark.statement_splitting import Kind, Token, tokens

CONFIGURED_ELSEWHERE = ("SPARK_CONF_DIR", "SPARK_HOME")
_READS = ("FROM", "JOIN")
_NO_NAMES = ("LATERAL", "VALUES", "SELECT", "TABLE", "STREAM")
_BEGINS_QUERY = ("SELECT", "FROM")


def may_have_catalogue(settings: Iterable[str], variables: Container[str]) -> bool:
    """Return whether Spark may know tables of its own from the beginning.

    Args:
        settings: the names of Spark's settings.
        variables: the environment's, of which some name a Spark with settings of its own.
    """
    is_set_up = any("catalog" in key.lower() or "hive" in key.lower() for key in settings)
    return is_set_up or any(each in variables for each in CONFIGURED_ELSEWHERE)


def read_names(statement: str) -> list[str]:
    """Return names of tables that a statement reads, in its order."""
    found = list(tokens(statement))
    if not found or any(each.is_word("WITH") for each in found):
        return []
    if found[0].is_word("DESCRIBE", "DESC"):
        return [found[1].value] if len(found) == len(("DESCRIBE", "name")) and _is_name(found[1]) else []
    if not found[0].is_word(*_BEGINS_QUERY):
        return []
    names = []
    are_queries = [True]
    for index, token in enumerate(found):
        if token.is_symbol("("):
            are_queries.append(_is_word_at(found, index + 1, *_BEGINS_QUERY))
        elif token.is_symbol(")") and len(are_queries) > 1:
            are_queries.pop()
        elif token.is_word(*_READS) and are_queries[-1] and not _is_word_at(found, index - 1, "DISTINCT"):
            names += _name_at(found, index + 1)
    return names


def _name_at(found: list[Token], index: int) -> list[str]:
    """Return the name there, unless it is part of a longer one, a function, or no name at all."""
    if index >= len(found) or not _is_name(found[index]):
        return []
    if index + 1 < len(found) and any(found[index + 1].is_symbol(each) for each in ".(-"):
        return []
    return [found[index].value]


def _is_word_at(found: list[Token], index: int, *words: str) -> bool:
    return 0 <= index < len(found) and found[index].is_word(*words)


def _is_name(token: Token) -> bool:
    if token.kind is Kind.NAME:
        return True
    return token.kind is Kind.WORD and not token.text[0].isdigit() and not token.is_word(*_NO_NAMES)
