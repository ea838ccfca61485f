"""Reads the tokens of a statement from left to right, for the few statements that are the prompt's own."""

from collections.abc import Sequence

from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.statement_splitting import Kind, Token


class Reader:
    """Reads a statement's tokens from left to right.

    Args:
        text: the statement.
        sequence: its tokens.
    """

    def __init__(self, text: str, sequence: Sequence[Token]) -> None:
        self.text = text
        self._sequence = sequence
        self._next = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """Return a token that is still to come."""
        position = self._next + ahead
        return self._sequence[position] if position < len(self._sequence) else None

    def take(self) -> Token:
        """Return the next token.

        Raises:
            SqlProblem: there is none.
        """
        token = self.peek()
        if token is None:
            raise SqlProblem("the statement ends too early")
        self._next += 1
        return token

    def follows(self, *words: str) -> bool:
        """Return whether one of these keywords is next."""
        token = self.peek()
        return token is not None and token.is_word(*words)

    def follows_name(self, ahead: int = 0) -> bool:
        """Return whether a name is next."""
        token = self.peek(ahead)
        return token is not None and token.kind in (Kind.WORD, Kind.NAME)

    def follows_symbol(self, symbol: str) -> bool:
        """Return whether this character is next."""
        token = self.peek()
        return token is not None and token.is_symbol(symbol)

    def accept(self, *words: str) -> bool:
        """Pass over one of these keywords if it is next, and tell so."""
        if self.follows(*words):
            self._next += 1
            return True
        return False

    def accept_phrase(self, *words: str) -> bool:
        """Pass over these keywords if all of them are next, and tell so."""
        ahead = [self.peek(index) for index in range(len(words))]
        if all(token is not None and token.is_word(word) for token, word in zip(ahead, words, strict=True)):
            self._next += len(words)
            return True
        return False

    def expect_symbol(self, symbol: str) -> None:
        """Pass over a character.

        Raises:
            SqlProblem: something else is next.
        """
        if not self.follows_symbol(symbol):
            raise self.unexpected(f"“{symbol}”")
        self._next += 1

    def name(self) -> str:
        """Return the next name.

        Raises:
            SqlProblem: there is none, or it has dots or dashes and no backquotes.
        """
        token = self.peek()
        if token is None or token.kind not in (Kind.WORD, Kind.NAME):
            raise self.unexpected("a name")
        self._next += 1
        following = self.peek()
        if following is not None and following.text in (".", "-"):
            raise SqlProblem(
                f"a name with dots or dashes is written in backquotes, unlike {token.value}{following.text}…"
            )
        if not token.value:
            raise SqlProblem("a name cannot be empty")
        return token.value

    def in_parentheses(self) -> str:
        """Return the text between the next parenthesis and its partner, which are passed over.

        Raises:
            SqlProblem: there is no such pair.
        """
        self.expect_symbol("(")
        opened = self._sequence[self._next - 1]
        depth = 1
        while depth:
            token = self.peek()
            if token is None:
                raise SqlProblem("a parenthesis is not closed")
            depth += token.is_symbol("(") - token.is_symbol(")")
            self._next += 1
        return self.text[opened.end : self._sequence[self._next - 1].start].strip()

    def rest(self) -> list[Token]:
        """Return all tokens that are still to come."""
        return list(self._sequence[self._next :])

    def unexpected(self, wanted: str) -> SqlProblem:
        """Return the error that something else is needed here."""
        token = self.peek()
        if token is None:
            return SqlProblem(f"the statement ends where {wanted} has to follow")
        line = self.text.count("\n", 0, token.start) + 1
        column = token.start - self.text.rfind("\n", 0, token.start) - 1
        return SqlProblem(f"{wanted} has to stand before “{token.text}” (line {line}, position {column})")

    def check_end(self) -> None:
        """Check that all was read.

        Raises:
            SqlProblem: there is more.
        """
        if self.peek() is not None:
            raise self.unexpected("the end of the statement")
