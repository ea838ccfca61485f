"""Tables that a statement reads are found by its words, and only what surely is one counts."""

import pytest

from ottla_spark.sql.read_names import read_names


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SELECT * FROM flights", ["flights"]),
        ("select name from `flights-2013` join airlines using (carrier)", ["flights-2013", "airlines"]),
        ("FROM flights SELECT carrier", ["flights"]),
        ("SELECT * FROM (SELECT carrier FROM flights) AS f LEFT JOIN airlines ON true", ["flights", "airlines"]),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM flights)", ["flights"]),
        ("DESCRIBE flights", ["flights"]),
        ("DESC flights", ["flights"]),
    ],
)
def test_what_follows_from_or_join_is_read(statement: str, names: list[str]) -> None:
    assert read_names(statement) == names


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "SELECT 1",
        "SELECT 'x FROM y' -- FROM z",
        "WITH late AS (SELECT 1) SELECT * FROM late",
        "SELECT extract(DAY FROM time_hour), trim(BOTH 'x' FROM carrier), substring(a FROM 2)",
        "SELECT a IS DISTINCT FROM b, a IS NOT DISTINCT FROM b",
        "SELECT * FROM range(10)",
        "SELECT * FROM without-quotes",
        "SELECT * FROM spark_catalog.default.t",
        "SELECT * FROM parquet.`/tmp/x`",
        "SELECT * FROM VALUES (1), (2)",
        "SELECT * FROM (VALUES (1)) AS t",
        "SELECT * FROM LATERAL (SELECT 1)",
        "SELECT * FROM",
        "SELECT )) FROM",
        "DESCRIBE EXTENDED flights",
        "DESCRIBE FUNCTION abs",
        "DROP VIEW x",
        "CREATE TEMPORARY VIEW v AS SELECT * FROM flights",
    ],
)
def test_what_may_be_something_else_is_left_to_spark(statement: str) -> None:
    assert read_names(statement) == []
