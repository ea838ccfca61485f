"""An empty database of a PostgreSQL that runs, for a test."""

import itertools
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.machine.postgres_server import PostgresServer

_numbers = itertools.count(1)


class PostgresDatabase:
    """A context manager that closes the connection.

    Attributes:
        url: for connectors.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.create_database(f"made{next(_numbers)}")
        self._connection = psycopg.connect(self.url, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def run(self, statement: str) -> None:
        """Executes a statement."""
        self._connection.execute(statement)

    def rows(self, query: str) -> list[Any]:
        """What a query returns."""
        return self._connection.execute(query).fetchall()
