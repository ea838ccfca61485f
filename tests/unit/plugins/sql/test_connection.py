"""Where the SQL connectors connect to, and what errors of databases mean."""

import sqlite3

import pytest
import sqlalchemy
from sqlalchemy.exc import DataError, IntegrityError, OperationalError, ProgrammingError

from ottla_sdk import InvalidConfig
from ottla_sql.connection import described, is_about_data, is_transient, open_engine
from ottla_sql.connection_url import InvalidUrl, database_url
from ottla_sql.sink.config import SqlSinkConfig


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://h:5432/d", "postgresql+psycopg://h:5432/d"),
        ("postgres://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgresql+asyncpg://h/d", "postgresql+asyncpg://h/d"),
        ("mysql://h/d?charset=utf8mb4", "mysql+pymysql://h/d?charset=utf8mb4"),
        ("mariadb://h/d", "mariadb+pymysql://h/d"),
        ("sqlite:////var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("jdbc:sqlite:/var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("jdbc:sqlite:x.db", "sqlite:///x.db"),
        ("jdbc:postgresql://h:5433/d?user=u&password=p%20q", "postgresql+psycopg://u:p q@h:5433/d"),
        ("jdbc:postgresql:d", "postgresql+psycopg:///d"),
        ("jdbc:postgresql://[::1]:5432/d", "postgresql+psycopg://[::1]:5432/d"),
        (
            "jdbc:postgresql://h/d?ssl=true&connectTimeout=5",
            "postgresql+psycopg://h/d?connect_timeout=5&sslmode=verify-full",
        ),
        ("jdbc:postgresql://h/d?currentSchema=a,b", "postgresql+psycopg://h/d?options=-csearch_path%3Da%2Cb"),
        (
            "jdbc:postgresql://a,b:1/d?targetServerType=primary",
            "postgresql+psycopg:///d?host=a%3A5432&host=b%3A1&target_session_attrs=primary",
        ),
        ("jdbc:mysql://h:3306/d?characterEncoding=UTF-8", "mysql+pymysql://h:3306/d?charset=utf8mb4"),
        ("jdbc:mariadb://h/d?connectTimeout=2000", "mariadb+pymysql://h/d?connect_timeout=2"),
    ],
)
def test_urls_of_sqlalchemy_and_of_java_are_understood(text, expected):
    assert database_url(text).render_as_string(hide_password=False) == expected


def test_user_and_password_go_before_those_of_the_url():
    url = database_url("postgresql://a:b@h/d", "user@corp", "p@ss:/word")
    assert (url.username, url.password, url.host) == ("user@corp", "p@ss:/word", "h")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "neither a URL of SQLAlchemy"),
        ("jdbc:oracle:thin:@h:1521:x", "jdbc:oracle: URLs cannot be translated"),
        ("jdbc:postgresql://h/d?ssl=true&tcpKeepAlive=true&password=geheim", "the parameter tcpKeepAlive"),
        ("jdbc:mysql://h/d?connectTimeout=soon", "a timeout is not a number"),
        ("jdbc:mysql://a,b/d", "several hosts"),
        ("jdbc:postgresql://h:x/d", "the port of 'h:x'"),
        ("jdbc:postgresql://u:geheim@h/d", "connection.user and connection.password"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_reason(text, message):
    with pytest.raises(InvalidUrl) as raised:
        database_url(text)
    assert message in str(raised.value)
    assert "geheim" not in str(raised.value)


def test_a_missing_driver_is_named_with_the_command_that_installs_it(monkeypatch):
    def no_driver(*arguments, **options):
        raise ModuleNotFoundError("No module named 'pymysql'", name="pymysql")

    monkeypatch.setattr(sqlalchemy, "create_engine", no_driver)
    with pytest.raises(InvalidConfig, match=r"pip install 'ottla-sql\[mysql\]'"):
        open_engine(SqlSinkConfig.parse({"connection.url": "mysql://h/d"}))
    monkeypatch.undo()
    with pytest.raises(InvalidConfig, match=r"connection\.url"):
        open_engine(SqlSinkConfig.parse({"connection.url": "nosuchdatabase://h/d"}))


class WithState(Exception):
    """What psycopg raises."""

    def __init__(self, state):
        self.sqlstate = state
        super().__init__(f"state {state}")


@pytest.mark.parametrize(
    ("error", "transient", "about_data"),
    [
        (OperationalError("", {}, sqlite3.OperationalError("database is locked")), True, False),
        (OperationalError("", {}, sqlite3.OperationalError("no such table: t")), False, False),
        (IntegrityError("", {}, sqlite3.IntegrityError("NOT NULL constraint failed: t.a")), False, True),
        (OperationalError("", {}, WithState("57P01")), True, False),
        (OperationalError("", {}, WithState("40P01")), True, False),
        (OperationalError("", {}, WithState("08006")), True, False),
        (OperationalError("", {}, WithState(None)), True, False),
        (ProgrammingError("", {}, WithState("42703")), False, False),
        (DataError("", {}, WithState("22001")), False, True),
        (ProgrammingError("", {}, WithState("22P02")), False, True),
        (ProgrammingError("", {}, WithState("42703"), connection_invalidated=True), True, False),
    ],
)
def test_errors_tell_whether_to_try_again_or_to_blame_a_record(error, transient, about_data):
    assert (is_transient(error), is_about_data(error)) == (transient, about_data)


def test_a_described_error_is_one_line_without_the_statement():
    error = DataError("INSERT secret", {"a": "secret"}, WithState("22001\nDETAIL: x"))
    assert described(error) == "WithState: state 22001 DETAIL: x"
