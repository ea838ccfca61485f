"""Which statements are the prompt's own, and what they say."""

import pytest

from ottla_spark.sql.grammar import made_view, parse
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import (
    Declare,
    Deploy,
    DeployedKind,
    DescribePipeline,
    DropPipeline,
    DropTable,
    ForSpark,
    Help,
    Leave,
    MadeView,
    Parsed,
    Query,
    ShowPipelines,
    ShowTables,
    ShowTopics,
)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("exit", Leave()),
        ("QUIT", Leave()),
        ("help", Help()),
        ("Show Topics", ShowTopics()),
        ("show /* all */ tables", ShowTables()),
        ("SHOW PIPELINES", ShowPipelines()),
        ("DESCRIBE PIPELINE delays", DescribePipeline("delays")),
        ("desc pipeline `my-delays`", DescribePipeline("my-delays")),
        ("DROP PIPELINE delays", DropPipeline("delays", if_exists=False)),
        ("DROP PIPELINE IF EXISTS `a.b`", DropPipeline("a.b", if_exists=True)),
        ("drop pipeline a keep checkpoint", DropPipeline("a", if_exists=False, keep_checkpoint=True)),
        ("DROP TABLE IF EXISTS x", DropTable("x", "DROP TABLE IF EXISTS x")),
    ],
)
def test_short_statements_are_known_in_any_case(text: str, parsed: Parsed) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TABLES IN other",
        "SHOW TBLPROPERTIES x",
        "DESCRIBE flights",
        "DESCRIBE pipeline",
        "DROP VIEW v",
        "DROP TABLE a.b",
        "CREATE TABLE x USING parquet AS SELECT 1",
        "CREATE TABLE a.b (x INT) USING csv",
        "CREATE TABLE x LIKE y",
        "CREATE TABLE x (a INT COMMENT 'WITH') PARTITIONED BY (a)",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "SET spark.sql.shuffle.partitions = 4",
        "EXPLAIN SELECT 1",
        "INSERT INTO x SELECT 1",
        "nonsense",
    ],
)
def test_everything_else_is_left_to_spark_as_it_is(text: str) -> None:
    assert parse(text) == ForSpark(text)


def test_a_query_is_one_also_in_parentheses_and_behind_with() -> None:
    for text in (
        "SELECT 1",
        "(SELECT 1) UNION (SELECT 2)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "FROM x SELECT y",
    ):
        assert parse(text) == Query(text)


def test_emit_changes_and_its_limit_are_not_shown_to_spark() -> None:
    assert parse("SELECT * FROM x emit  changes") == Query("SELECT * FROM x", emit_changes=True)
    assert parse("SELECT * FROM x LIMIT 5 EMIT CHANGES") == Query("SELECT * FROM x", emit_changes=True, rows_max=5)


def test_a_limit_of_a_query_over_what_is_there_is_sparks() -> None:
    assert parse("SELECT * FROM x LIMIT 5") == Query("SELECT * FROM x LIMIT 5")


@pytest.mark.parametrize("text", ["SELECT 'EMIT CHANGES'", "SELECT x AS emit, y AS changes FROM z"])
def test_emit_changes_counts_only_as_the_last_two_words(text: str) -> None:
    assert parse(text) == Query(text)


def test_a_table_is_declared_with_columns_and_settings_in_quotes_or_not() -> None:
    parsed = parse(
        "CREATE TABLE delays (carrier STRING, d DECIMAL(10, 2), s STRUCT<a: INT>) WITH (\n"
        "  topic = daily-flights, value.format = 'json', 'watermark' = \"time_hour 1 hour\",\n"
        "  `options.minPartitions` = 4,\n"
        "  n = -1, link = 'http://host/a')"
    )
    assert parsed == Declare(
        "delays",
        "carrier STRING, d DECIMAL(10, 2), s STRUCT<a: INT>",
        {
            "topic": "daily-flights",
            "value.format": "json",
            "watermark": "time_hour 1 hour",
            "options.minPartitions": "4",
            "n": "-1",
            "link": "http://host/a",
        },
    )


def test_a_table_can_be_declared_without_settings_or_anew() -> None:
    assert parse("CREATE TABLE IF NOT EXISTS x (a INT)") == Declare("x", "a INT", if_not_exists=True)
    assert parse("CREATE OR REPLACE TABLE x WITH (mode = static)") == Declare(
        "x", settings={"mode": "static"}, or_replace=True
    )


@pytest.mark.parametrize("kind", list(DeployedKind))
def test_create_as_deploys_a_pipeline(kind: DeployedKind) -> None:
    parsed = parse(f"CREATE {kind.upper()} IF NOT EXISTS out WITH (key = a) AS SELECT a FROM x EMIT CHANGES")
    query = Query("SELECT a FROM x", emit_changes=True)
    assert parsed == Deploy(kind, "out", {"key": "a"}, query, if_not_exists=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TOPIC x", "AS and a query"),
        ("CREATE PIPELINE x AS", "a query has to follow AS"),
        ("CREATE PIPELINE x (a INT) AS SELECT 1", "the columns follow from the query"),
        ("CREATE OR REPLACE TABLE x AS SELECT 1", "first DROP PIPELINE x"),
        ("CREATE TABLE a-b (x INT)", "backquotes"),
        ("CREATE TABLE x ()", "hold no column"),
        ("CREATE TABLE x (a INT", "a parenthesis is not closed"),
        ("CREATE TABLE x WITH (a = 1, a = 2)", "a is set twice"),
        ("CREATE TABLE x WITH (path = /data)", "the value of path, in quotes if it is more than a word, has"),
        ("CREATE TABLE x WITH (a 1)", "“=” has to stand before “1” (line 1, position 23)"),
        ("CREATE TABLE x WITH (a = 1) foo", "the end of the statement has to stand before “foo”"),
        ("DROP PIPELINE", "the statement ends where a name has to follow"),
        ("DROP PIPELINE a b", "the end of the statement"),
        ("INSERT INTO x SELECT 1 EMIT CHANGES", "EMIT CHANGES stands behind a query only"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_statement_of_the_prompt_is_said_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(SqlProblem) as raised:
        parse(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("CREATE TEMPORARY VIEW v AS SELECT 1", MadeView("v", "CREATE TEMPORARY VIEW v AS SELECT 1")),
        ("create temp view `a-b` as table c", MadeView("a-b", "create temp view `a-b` as table c")),
        ("DROP VIEW IF EXISTS v", MadeView("v", "")),
        ("CREATE VIEW v AS SELECT 1", None),
        ("SELECT 1", None),
    ],
)  # fmt: skip
def test_temporary_views_that_statements_of_spark_make_are_noticed(text: str, made: MadeView | None) -> None:
    assert made_view(text) == made
