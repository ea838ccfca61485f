"""Connections to a database: the settings that source and sink share, opening an engine, and what an error means."""

import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import sqlalchemy
from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from ottla_sdk import ConnectError, FatalError, InvalidConfig, PluginConfig, Problem, RetriableError, Width, setting
from ottla_sdk.config import Importance
from ottla_sdk.file_policy import permitted_path
from ottla_sql.connection_url import InvalidUrl, database_url

CONNECT_TIMEOUT_S = 10
"""Where the URL says nothing else."""

_DRIVER_PACKAGES = {"psycopg": "ottla-sql[postgresql]", "pymysql": "ottla-sql[mysql]"}
_GROUP = "Connection"


class QuoteIdentifiers(enum.StrEnum):
    """When names of tables and columns stand in quotes."""

    ALWAYS = "always"
    NEVER = "never"


class DatabaseConfig(PluginConfig):
    """How to reach a database; names and defaults are those of Confluent's JDBC connectors."""

    url: str = setting(
        "connection.url",
        doc="The database: a URL of SQLAlchemy such as `postgresql://HOST:5432/DATABASE`, `mysql://…` or "
        "`sqlite:////PATH`, or one of Java's: `jdbc:postgresql:`, `jdbc:mysql:`, `jdbc:mariadb:` and `jdbc:sqlite:`. "
        "Passwords belong into `connection.password`.",
        importance=Importance.HIGH,
        group=_GROUP,
        width=Width.LONG,
        min_length=1,
    )
    user: str | None = setting(
        "connection.user",
        None,
        doc="User name; goes before the one in the URL.",
        importance=Importance.HIGH,
        group=_GROUP,
    )
    password: SecretStr | None = setting(
        "connection.password",
        None,
        doc="Password; goes before the one in the URL.",
        importance=Importance.HIGH,
        group=_GROUP,
    )
    timezone_name: str = setting(
        "db.timezone",
        "UTC",
        doc="The time zone of date and time columns that store none themselves, such as `Europe/Berlin`.",
        group=_GROUP,
    )
    quote: QuoteIdentifiers = setting(
        "quote.sql.identifiers",
        QuoteIdentifiers.ALWAYS,
        doc="With `always`, names of tables and columns keep their case and their special characters; with `never` "
        "they go to the database as they are, which folds their case as it does elsewhere.",
        importance=Importance.LOW,
        group=_GROUP,
    )

    def check(self) -> Iterable[Problem]:
        """Check the URL and the time zone."""
        try:
            self.database_url()
        except InvalidUrl as error:
            yield Problem("connection.url", str(error))
        try:
            ZoneInfo(self.timezone_name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield Problem("db.timezone", f"there is no time zone {self.timezone_name!r}")

    def database_url(self) -> URL:
        """Return where to connect to, the password included.

        Raises:
            InvalidUrl: it cannot be used.
        """
        password = self.password.get_secret_value() if self.password is not None else None
        return database_url(self.url, self.user, password)

    @property
    def timezone(self) -> dt.tzinfo:
        """The time zone of columns that store none."""
        return dt.UTC if self.timezone_name == "UTC" else ZoneInfo(self.timezone_name)

    @property
    def quotes(self) -> bool | None:
        """What SQLAlchemy calls `quote`: None quotes what needs it, and so keeps every name as it is written."""
        return False if self.quote is QuoteIdentifiers.NEVER else None


def open_engine(config: DatabaseConfig, *, prepares: bool = True) -> Engine:
    """Return an engine of one connection, which is made when it is needed first.

    Args:
        config: where to.
        prepares: whether psycopg may prepare statements; a prepared SELECT fails when its table's columns change.

    Raises:
        InvalidConfig: the URL cannot be used, or the Python driver is not installed.
    """
    try:
        url = config.database_url()
        dialect = url.get_dialect()
        options: dict[str, Any] = {} if dialect.name == "sqlite" else {"pool_size": 1, "max_overflow": 1}
        if dialect.driver == "psycopg":
            options["paramstyle"] = "format"  # its own way with parameters by name costs time for each row
        engine = sqlalchemy.create_engine(
            url, hide_parameters=True, connect_args=_connect_arguments(url, prepares), pool_recycle=-1, **options
        )
    except (InvalidUrl, NoSuchModuleError) as error:
        raise InvalidConfig([Problem("connection.url", str(error))]) from None
    except ModuleNotFoundError as error:
        package = _DRIVER_PACKAGES.get(error.name or "", error.name or "the database's driver")
        message = f"the Python driver for {url.drivername} is not installed; run: pip install '{package}'"
        raise InvalidConfig([Problem("connection.url", message)]) from None
    for key in FILE_PARAMETERS & url.query.keys():
        permitted_path(str(url.query[key]))
    if dialect.name == "sqlite":
        _keep_to_permitted_files(engine)
        _let_sqlalchemy_begin(engine)
    if dialect.name in ("mysql", "mariadb"):
        _set_time_zone(engine, "+00:00" if config.timezone_name == "UTC" else config.timezone_name)
    return engine


def _connect_arguments(url: URL, prepares: bool) -> dict[str, Any]:
    driver = url.get_driver_name()
    arguments: dict[str, Any] = {}
    if driver in ("psycopg", "pymysql") and "connect_timeout" not in url.query:
        arguments["connect_timeout"] = CONNECT_TIMEOUT_S
    if driver == "psycopg" and not prepares:
        arguments["prepare_threshold"] = None
    return arguments


def _keep_to_permitted_files(engine: Engine) -> None:
    """Have SQLite open what may be opened, asked each time right before."""

    @event.listens_for(engine, "do_connect")
    def connecting(dialect: object, record: object, arguments: list[Any], parameters: dict[str, Any]) -> None:
        del dialect, record
        database = str(arguments[0]) if arguments else ""
        if not database or database.startswith(IN_MEMORY):
            return
        if parameters.get("uri"):
            database = database.removeprefix("file:").partition("?")[0]
            permitted_path(unquote(database))
        else:
            arguments[0] = str(permitted_path(database))


def _let_sqlalchemy_begin(engine: Engine) -> None:
    """Make SQLite's transactions what they are elsewhere; Python's driver leaves DDL and savepoints out of them."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: object) -> None:
        del record
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: sqlalchemy.Connection) -> None:
        # A reader that becomes a writer later may fail without waiting for others; a writer says so at once.
        writes = connection.get_execution_options().get("ottla_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_time_zone(engine: Engine, name: str) -> None:
    """TIMESTAMP columns of MySQL are shown in the session's time zone."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: object) -> None:
        del record
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = %s", (name,))


FILE_PARAMETERS = frozenset(
    {
        *("sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "passfile", "service", "servicefile"),
        *("ssl_ca", "ssl_cert", "ssl_key", "ssl_capath", "read_default_file", "local_infile"),
    }
)
"""What in a database's URL has the driver read a file, in the words of psycopg and PyMySQL."""
IN_MEMORY = ":memory:"
_TRANSIENT_STATES = ("08", "40", "53", "55P03", "57")
"""SQLSTATEs, or beginnings of some: lost connections, deadlocks, lack of resources, locks, shutdowns."""
_TRANSIENT_MYSQL_ERRORS = frozenset({1040, 1053, 1203, 1205, 1213, 2002, 2003, 2006, 2013, 2055, 4031})
_TRANSIENT_SQLITE_WORDS = ("locked", "busy", "unable to open", "disk i/o", "readonly")


def is_transient(error: SQLAlchemyError) -> bool:
    """Return whether what failed may work a little later: the connection is lost, or somebody was in the way."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, sqlalchemy.exc.TimeoutError)
    if error.connection_invalidated:
        return True
    original = error.orig
    if (state := getattr(original, "sqlstate", None)) is not None:
        return str(state).startswith(_TRANSIENT_STATES)
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    module = type(original).__module__
    if module == "sqlite3":
        return any(word in str(original).lower() for word in _TRANSIENT_SQLITE_WORDS)
    if module.startswith("pymysql"):
        arguments: Sequence[Any] = getattr(original, "args", ())
        return len(arguments) > 0 and arguments[0] in _TRANSIENT_MYSQL_ERRORS
    return True


_NO_TIME_OF_PYTHON = ("after year 10K", "before year 1")
"""What psycopg says of dates and times that Python has not, such as infinity."""


def is_about_data(error: SQLAlchemyError) -> bool:
    """Return whether the database refuses what a row says: a constraint, a type, a length."""
    if isinstance(error, IntegrityError | DataError):
        return True
    if not isinstance(error, DBAPIError) or is_transient(error):
        return False
    state = str(getattr(error.orig, "sqlstate", None) or "")
    # PostgreSQL: data exceptions, integrity, checks of views, triggers that raise. Drivers: values that they cannot
    # send, in the words of psycopg and of Python's sqlite3.
    cannot_send = not state and any(words in str(error.orig) for words in ("cannot adapt", "binding parameter"))
    return state[:2] in ("22", "23", "44", "P0") or cannot_send


def described(error: SQLAlchemyError) -> str:
    """Return what the database said, on one line, without the statement's parameters."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(original).__name__}: {' '.join(str(original).split())}"


def translated(error: SQLAlchemyError, what: str) -> ConnectError:
    """Return what to raise for an error of the database.

    Args:
        error: the error.
        what: what was being done, such as ``read table orders``.
    """
    if is_transient(error):
        return RetriableError(f"cannot {what} now: {described(error)}")
    if isinstance(error, DBAPIError) and any(words in str(error.orig) for words in _NO_TIME_OF_PYTHON):
        return FatalError(
            f"cannot {what}: {described(error)}. Times must be of the years 1 to 9999; leave such rows out by a view "
            "or a query, or cast the column to text there"
        )
    return ConnectError(f"cannot {what}: {described(error)}")
