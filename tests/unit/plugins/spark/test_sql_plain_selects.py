"""Which statements need a few records only."""

import pytest

from ottla_spark.sql.plain_selects import ROWS_MAX, PlainSelect, plain_select


@pytest.mark.parametrize(
    ("statement", "meant"),
    [
        ("SELECT carrier FROM flights LIMIT 1", PlainSelect("flights", 1)),
        ("select *, _key as k, `odd name` -- all\nfrom `daily-flights` limit 20", PlainSelect("daily-flights", 20)),
    ],
)
def test_columns_of_a_topic_up_to_a_limit_need_the_first_records_alone(statement: str, meant: PlainSelect) -> None:
    assert plain_select(statement) == meant


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT carrier FROM flights",
        f"SELECT carrier FROM flights LIMIT {ROWS_MAX + 1}",
        "SELECT carrier FROM flights LIMIT 0",
        "SELECT carrier FROM flights LIMIT 1 + 1",
        "SELECT carrier FROM flights LIMIT 1 OFFSET 2",
        "SELECT DISTINCT carrier FROM flights LIMIT 1",
        "SELECT ALL carrier FROM flights LIMIT 1",
        "SELECT count(*) FROM flights LIMIT 1",
        "SELECT explode(legs) FROM flights LIMIT 1",
        "SELECT (SELECT max(n) FROM a) FROM flights LIMIT 1",
        "SELECT carrier FROM flights WHERE dep_delay > 1 LIMIT 1",
        "SELECT carrier FROM flights ORDER BY carrier LIMIT 1",
        "SELECT carrier FROM flights, airlines LIMIT 1",
        "SELECT carrier FROM flights f LIMIT 1",
        "SELECT carrier FROM a.flights LIMIT 1",
        "SELECT carrier FROM (flights) LIMIT 1",
        "SELECT carrier FROM flights LIMIT 1 UNION SELECT 1",
        "WITH flights AS (SELECT 1) SELECT carrier FROM flights LIMIT 1",
        "INSERT INTO x SELECT carrier FROM flights LIMIT 1",
        "FROM flights SELECT carrier LIMIT 1",
        "SELECT 1",
    ],
)
def test_whatever_else_a_statement_says_spark_reads_the_topic(statement: str) -> None:
    assert plain_select(statement) is None
