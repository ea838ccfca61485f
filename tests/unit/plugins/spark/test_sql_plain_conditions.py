"""What is known of the records that a statement wants."""

import pytest

from ottla_spark.sql.plain_conditions import Condition, PlainConditions, plain_conditions

OFFSET = Condition("offset", ">=", "5")


@pytest.mark.parametrize(
    ("statement", "meant"),
    [
        ("SELECT * FROM t WHERE _offset >= 5", PlainConditions("t", (OFFSET,), counts=False)),
        (
            "select a, max(b) from `t-1` where _Partition = 0 and a > 1 and (b = 1 or c = 2) group by a order by a",
            PlainConditions("t-1", (Condition("partition", "=", "0"),), counts=False),
        ),
        ("SELECT count(*) FROM t", PlainConditions("t", (), counts=True)),
        ("SELECT count(1) AS n FROM t WHERE `_offset` >= 5", PlainConditions("t", (OFFSET,), counts=True)),
        ("SELECT count(*) FROM t WHERE _offset >= 5 AND a = 1", PlainConditions("t", (OFFSET,), counts=False)),
        ("SELECT count(*) FROM t WHERE _offset >= 5 LIMIT 1", PlainConditions("t", (OFFSET,), counts=False)),
        (
            "SELECT * FROM t WHERE _timestamp > now() - INTERVAL 1 HOUR AND _timestamp < '2024-01-01'",
            PlainConditions(
                "t",
                (
                    Condition("timestamp", ">", "now() - INTERVAL 1 HOUR"),
                    Condition("timestamp", "<", "'2024-01-01'"),
                ),
                counts=False,
            ),
        ),
    ],
)
def test_terms_that_hold_for_all_records_are_known(statement: str, meant: PlainConditions) -> None:
    assert plain_conditions(statement) == meant


@pytest.mark.parametrize(
    "where",
    [
        "_offset >= 5 OR a = 1",
        "NOT _offset >= 5",
        "_offset != 5",
        "_offset <> 5",
        "_offset <=> 5",
        "_offset >= 5 + a",
        "_offset >= a",
        "_offset >= -5",
        "_offset + 1 >= 5",
        "a BETWEEN 1 AND _offset >= 5",
        "CASE WHEN a AND _offset >= 5 AND b THEN true ELSE false END",
        "(a = 1 AND _offset >= 5) = false",
        "a IN (SELECT 1 FROM u WHERE _offset >= 5)",
        "exists(SELECT 1) AND _offset >= 5",
        "_timestamp >= a",
        "_timestamp >= timestamp_millis(a)",
        "_offset >= 5 AND 1 < window OR a = 1",
        "_offset >= 5 AND t.offset > 1 OR a = 1",
        "_offset >= 5 AND ${more}",
        "_offset >= 5 AND a IN (TABLE v)",
        "a = 1 |> SET _offset = _offset + 9 |> WHERE b = 1 AND _offset >= 5",
    ],
)
def test_other_terms_say_nothing(where: str) -> None:
    assert plain_conditions(f"SELECT * FROM t WHERE {where}") is None


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM t JOIN u USING (a) WHERE _offset >= 5",
        "SELECT * FROM t, u WHERE _offset >= 5",
        "SELECT * FROM t f WHERE _offset >= 5",
        "SELECT * FROM t WHERE _offset >= 5 UNION ALL TABLE t",
        "WITH t AS (VALUES 1) SELECT * FROM t WHERE _offset >= 5",
        "SELECT count(a) FROM t",
        "SELECT count(*), a FROM t",
        "SELECT count(*) + max(a) FROM t",
        "SELECT count(*) FROM t GROUP BY a",
        "SELECT count(*) FROM t TABLESAMPLE (5 ROWS)",
        "SELECT 1",
        "FROM t SELECT count(*)",
    ],
)
def test_of_other_statements_nothing_is_known(statement: str) -> None:
    assert plain_conditions(statement) is None
