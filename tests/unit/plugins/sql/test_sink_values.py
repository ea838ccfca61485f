"""What the values of records become for a column of a database."""

import datetime as dt
import decimal
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from ottla_sdk import DataError
from ottla_sdk import schema as connect
from ottla_sql.sink.column_specs import ColumnSpec, sql_type
from ottla_sql.sink.values import value_conversion

AT = dt.datetime(2013, 7, 1, 12, tzinfo=dt.UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("column", "schema"),
    [
        (sql.Integer(), connect.INT64),
        (sql.Text(), connect.STRING),
        (sql.Boolean(), connect.BOOLEAN),
        (sql.Double(), connect.FLOAT64),
        (sql.Numeric(), connect.INT32),
        (mysql.LONGBLOB(), connect.BYTES),
        (postgresql.BYTEA(), connect.BYTES),
    ],
)
def test_values_that_fit_by_their_schema_are_not_touched(column, schema):
    assert value_conversion(column, schema, "postgresql", dt.UTC)[0] is None


@pytest.mark.parametrize(
    ("dialect", "column", "value", "expected"),
    [
        ("postgresql", sql.DateTime(), AT, dt.datetime(2013, 7, 1, 14)),  # noqa: DTZ001
        ("postgresql", postgresql.TIMESTAMP(timezone=True), AT, AT),
        ("postgresql", postgresql.TIMESTAMP(timezone=True), "2013-07-01T12:00:00", AT),
        ("sqlite", sql.DateTime(), AT, "2013-07-01 14:00:00.000000"),
        ("sqlite", sql.DateTime(), 1372680000000, "2013-07-01 14:00:00.000000"),
        ("sqlite", sql.Date(), AT, "2013-07-01"),
        ("sqlite", sql.Time(), 1000, "00:00:01"),
        ("postgresql", sql.Date(), 15887, dt.date(2013, 7, 1)),
        ("sqlite", sql.Numeric(), decimal.Decimal("1E+2"), "100"),
        ("postgresql", sql.Numeric(), 0.1, decimal.Decimal("0.1")),
        ("postgresql", sql.Integer(), 3.0, 3),
        ("postgresql", sql.Integer(), True, 1),
        ("mysql", mysql.BIT(), True, 1),
        ("postgresql", sql.Text(), 5, "5"),
        ("postgresql", sql.Text(), AT, "2013-07-01T12:00:00+00:00"),
        ("postgresql", postgresql.JSONB(), {"a": b"\x00"}, '{"a": "AA=="}'),
        ("postgresql", postgresql.JSONB(), '{"a": 1}', '{"a": 1}'),
        ("postgresql", postgresql.JSONB(), "no json", '"no json"'),
        ("postgresql", postgresql.BYTEA(), "AP8=", b"\x00\xff"),
        ("postgresql", postgresql.ARRAY(sql.Integer()), [1, None, "3"], [1, None, 3]),
        ("postgresql", postgresql.ARRAY(sql.Integer()), [[1], [2.0]], [[1], [2]]),
    ],
)
def test_other_values_become_what_the_column_takes(dialect, column, value, expected):
    convert, _ = value_conversion(column, None, dialect, BERLIN)
    made = convert(value)
    assert (made, type(made)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (sql.Integer(), 1.5),
        (sql.Integer(), "many"),
        (sql.Boolean(), 2),
        (sql.Double(), [1]),
        (sql.Numeric(), "much"),
        (sql.DateTime(), "soon"),
        (sql.DateTime(), True),
        (sql.Date(), "soon"),
        (sql.Time(), 86_400_000),
        (sql.LargeBinary(), "not base64!"),
        (sql.Text(), b"\xff"),
        (sql.JSON(), {"a": float("nan")}),
        (postgresql.ARRAY(sql.Integer()), 5),
    ],
)
def test_what_a_column_cannot_hold_is_refused(column, value):
    convert, fit = value_conversion(column, None, "postgresql", dt.UTC)
    assert type(value) not in fit
    with pytest.raises(DataError):
        convert(value)


@pytest.mark.parametrize(
    ("dialect", "schema", "written"),
    [
        ("postgresql", connect.decimal_schema(2), "NUMERIC"),
        ("mysql", connect.decimal_schema(2), "NUMERIC(38, 2)"),
        ("postgresql", connect.TIMESTAMP, "TIMESTAMP WITHOUT TIME ZONE"),
        ("mysql", connect.TIMESTAMP, "DATETIME(6)"),
        ("mysql", connect.FLOAT32, "FLOAT"),
        ("mysql", connect.BYTES, "LONGBLOB"),
        ("postgresql", connect.array_schema(connect.INT32), "INTEGER[]"),
        ("postgresql", connect.array_schema(connect.array_schema(connect.INT32)), "JSONB"),
        ("sqlite", connect.map_schema(connect.STRING, connect.STRING), "JSON"),
    ],
)
def test_columns_are_created_with_the_types_of_the_database(dialect, schema, written):
    dialects = {"postgresql": postgresql.dialect(), "mysql": mysql.dialect()}
    kind = sql_type(ColumnSpec("x", schema), dialect, in_key=False)
    assert kind.compile(dialect=dialects.get(dialect)) == written


def test_text_in_a_key_has_a_length_where_the_database_wants_one():
    spec = ColumnSpec("x", connect.STRING)
    assert str(sql_type(spec, "mysql", in_key=True)) == "VARCHAR(255)"
    assert str(sql_type(spec, "postgresql", in_key=True)) == "TEXT"
