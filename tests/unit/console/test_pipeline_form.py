"""A query as a pipeline: what is created is what `ottla sql` makes of the statement that is shown."""

import pytest

from ottla_console.views.pipeline_form import OWN_CHECKPOINT_KEY, BadPipeline, pipeline_form, suggested
from ottla_spark.job.connector_configs import SparkPipelineConfig
from ottla_spark.sql.grammar import parse
from ottla_spark.sql.pipelines import pipeline_config
from ottla_spark.sql.statement_kinds import Declare, Deploy, ForSpark
from ottla_spark.sql.tables import declared_table
from ottla_spark.statement_splitting import statements

SQL = "SELECT carrier, \"delay\" FROM records WHERE note <> 'it''s; late'"
TYPED = {
    "q": SQL, "name": "late", "target": "late_flights", "mode": "append", "key": "carrier", "checkpoint": "/c/late",
}  # fmt: skip


def typed(**others: str) -> dict[str, str]:
    return {**TYPED, **others}


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"name": "late.flights-2013", "target": "daily-flights", "mode": "update"},
        {"name": "2013", "key": ""},
        {"key": "carrier, flight", "checkpoint": "s3a://b/it's\\here"},
        {"q": f"{SQL} ; "},
        {"q": "WITH late AS (SELECT * FROM records)\r\nSELECT carrier, count(*) FROM late GROUP BY ALL"},
    ],
)
def test_the_connector_is_the_one_that_the_statement_makes(others: dict[str, str]) -> None:
    wanted = pipeline_form(typed(**others), "flights")
    setting, table, deploy = (parse(each) for each in statements(wanted.statement()))
    assert setting == ForSpark("SET spark.sql.ansi.doubleQuotedIdentifiers = true")
    assert isinstance(table, Declare)
    assert isinstance(deploy, Deploy)
    made = pipeline_config(
        deploy,
        [declared_table(table)],
        (),
        mode=wanted.mode,
        checkpoint="",
        spark_settings={"spark.sql.ansi.doubleQuotedIdentifiers": "true"},
    )
    assert wanted.config() == {"name": deploy.name, **made}
    SparkPipelineConfig.parse(wanted.config())


def test_a_checkpoint_that_was_drawn_is_the_pipeline_s_own_and_another_is_not() -> None:
    drawn = suggested({"q": SQL, "name": "late"}, "flights", "/checkpoints/", "0a1b2c3d")
    assert drawn["checkpoint"] == "/checkpoints/late-0a1b2c3d"
    assert pipeline_form(drawn, "flights").config()[OWN_CHECKPOINT_KEY] == "/checkpoints/late-0a1b2c3d"
    assert OWN_CHECKPOINT_KEY not in pipeline_form(typed(), "flights").config()


def test_what_is_empty_is_suggested_and_what_was_typed_stays() -> None:
    plain = suggested({"q": "SELECT * FROM records"}, "flights", None, "0a1b2c3d")
    assert (plain["name"], plain["target"], plain["mode"]) == ("flights_query", "flights_query", "append")
    assert plain["checkpoint"] == ""
    assert suggested({"q": "select carrier from records group  by all"}, "flights", None, "")["mode"] == "update"
    assert {**suggested(TYPED, "flights", "/checkpoints", "0a1b2c3d")} == TYPED


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"name": ""}, "Name"),
        ({"name": "a b"}, "Name"),
        ({"name": "`; DROP PIPELINE x"}, "Name"),
        ({"target": "../x"}, "Target topic"),
        ({"target": "flights"}, "would read what it writes"),
        ({"mode": "all"}, "Result"),
        ({"checkpoint": ""}, "Checkpoint"),
        ({"checkpoint": "/c\n/d"}, "Checkpoint"),
        ({"key": "k" * 1001}, "Key columns"),
        ({"q": " ; "}, "Query"),
        ({"q": "x" * 100_001}, "Query"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(others: dict[str, str], told: str) -> None:
    with pytest.raises(BadPipeline, match=told):
        pipeline_form(typed(**others), "flights")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY VIEW v USING kafka OPTIONS (subscribe 'payments'); SELECT * FROM v",
        "-- late ones\nCREATE TEMP VIEW v USING text OPTIONS (path '/etc/passwd'); SELECT * FROM records, v",
        "-- \\\nSELECT\nCREATE TEMP VIEW v AS SELECT 1; SELECT * FROM v",
        "-- \rCREATE TEMP VIEW v AS SELECT 1;\nSELECT * FROM v",
        "/* /* */ SELECT */ CREATE TEMP VIEW v AS SELECT 1; SELECT * FROM v",
        "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT * FROM records",
        "SELECTED",
    ],
)
def test_nothing_but_a_query_is_taken_as_views_could_read_what_is_masked(sql: str) -> None:
    with pytest.raises(BadPipeline, match="Query: "):
        pipeline_form(typed(q=sql), "flights")


@pytest.mark.parametrize(
    "sql", ["-- late ones\n/* of all */ select * FROM records", "(SELECT * FROM records)", "FROM records"]
)
def test_a_query_may_begin_with_comments_and_brackets(sql: str) -> None:
    assert pipeline_form(typed(q=sql), "flights").sql == sql


def test_a_comment_at_the_end_does_not_take_the_end_of_the_statement_with_it() -> None:
    shown = pipeline_form(typed(q="SELECT carrier FROM records -- all"), "flights").statement()
    assert len(statements(f"{shown}\nSHOW TABLES;")) == 4
