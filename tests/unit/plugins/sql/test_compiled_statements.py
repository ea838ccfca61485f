"""The statements that the SQL sink writes for each database; only SQLite's and PostgreSQL's are also run in tests."""

import pytest
from sqlalchemy import types as sql
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from ottla_sql.sink.compiled_statements import delete_statement, write_statement
from ottla_sql.sink.config import InsertMode
from ottla_sql.sink.tables import TableName, TargetTable

TABLE = TargetTable(TableName("s", "T"), {name: sql.Integer() for name in ("id", "a b", "c:d")}, ["id"])
NAMES = {"key": ["id"], "others": ["a b", "c:d"], "quote": None}


class Recorder:
    """A connection that keeps what it is asked to execute; no row is ever there."""

    rowcount = 0

    def __init__(self):
        self.executed = []

    def exec_driver_sql(self, text, parameters):
        self.executed.append((" ".join(text.split()), parameters))
        return self


def executed(write, rows):
    recorder = Recorder()
    write(recorder, rows)
    return recorder.executed


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            postgresql.psycopg.dialect(paramstyle="format"),
            'INSERT INTO s."T" (id, "a b", "c:d") VALUES (%s, %s, %s) ON CONFLICT (id)'
            ' DO UPDATE SET "a b" = excluded."a b", "c:d" = excluded."c:d"',
        ),
        (
            sqlite.dialect(),
            'INSERT INTO s."T" (id, "a b", "c:d") VALUES (?, ?, ?) ON CONFLICT (id)'
            ' DO UPDATE SET "a b" = excluded."a b", "c:d" = excluded."c:d"',
        ),
        (
            mysql.pymysql.dialect(),
            "INSERT INTO s.`T` (id, `a b`, `c:d`) VALUES (%s, %s, %s)"
            " ON DUPLICATE KEY UPDATE `a b` = VALUES(`a b`), `c:d` = VALUES(`c:d`)",
        ),
    ],
)
def test_upserts_are_those_of_the_database(dialect, text):
    write = write_statement(dialect, InsertMode.UPSERT, TABLE, **NAMES)
    assert executed(write, [(1, 2, 3), (4, 5, 6)]) == [(text, [(1, 2, 3), (4, 5, 6)])]


def test_elsewhere_an_upsert_is_an_update_and_then_an_insert():
    write = write_statement(mssql.pyodbc.dialect(paramstyle="qmark"), InsertMode.UPSERT, TABLE, **NAMES)
    assert executed(write, [(1, 2, 3)]) == [
        ("UPDATE s.[T] SET [a b]=?, [c:d]=? WHERE s.[T].id = ?", (2, 3, 1)),
        ("INSERT INTO s.[T] (id, [a b], [c:d]) VALUES (?, ?, ?)", (1, 2, 3)),
    ]


def test_parameters_go_by_name_where_the_driver_wants_it():
    write = write_statement(oracle.oracledb.dialect(), InsertMode.INSERT, TABLE, **NAMES)
    ((text, parameters),) = executed(write, [(1, 2, 3)])
    assert text == 'INSERT INTO s."T" (id, "a b", "c:d") VALUES (:c0, :c1, :c2)'
    assert parameters == [{"c0": 1, "c1": 2, "c2": 3}]


def test_deletes_name_the_whole_key():
    delete = delete_statement(sqlite.dialect(), TABLE, ["id", "a b"], None)
    assert executed(delete, [(1, 2)]) == [('DELETE FROM s."T" WHERE s."T".id = ? AND s."T"."a b" = ?', [(1, 2)])]


def test_an_upsert_of_the_key_alone_changes_nothing_that_is_there():
    names = {"key": ["id"], "others": [], "quote": None}
    for dialect, end in (
        (sqlite.dialect(), "ON CONFLICT (id) DO NOTHING"),
        (mysql.pymysql.dialect(), "ON DUPLICATE KEY UPDATE id = VALUES(id)"),
    ):
        ((text, _),) = executed(write_statement(dialect, InsertMode.UPSERT, TABLE, **names), [(1,)])
        assert text.endswith(end)
    assert executed(write_statement(sqlite.dialect(), InsertMode.UPDATE, TABLE, **names), [(1,)]) == []


def test_names_may_go_without_quotes():
    names = {**NAMES, "others": ["Amount"], "quote": False}
    ((text, _),) = executed(write_statement(sqlite.dialect(), InsertMode.INSERT, TABLE, **names), [(1, 2)])
    assert text == "INSERT INTO s.T (id, Amount) VALUES (?, ?)"
