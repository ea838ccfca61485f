"""From `CREATE … AS SELECT` to a connector's settings."""

import pytest

from ottla_spark.job.connector_configs import SparkPipelineConfig
from ottla_spark.sql.grammar import parse
from ottla_spark.sql.pipelines import output_mode, pipeline_config, pipelines_of, views_used
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Declare, Deploy
from ottla_spark.sql.tables import declared_table

FLIGHTS = declared_table(Declare("flights", "carrier STRING", {"watermark": "t 1 hour"}))
AIRLINES = declared_table(Declare("airlines", settings={"path": "/data/airlines", "format": "csv"}))


def configured(text: str, *tables: object, views: tuple[str, ...] = (), mode: str = "append") -> dict[str, str]:
    deploy = parse(text)
    assert isinstance(deploy, Deploy)
    return pipeline_config(
        deploy, tables or (FLIGHTS,), views, mode=mode, checkpoint="/checkpoints/x", spark_settings={}
    )


def test_a_pipeline_has_all_that_its_query_reads_and_an_output_of_its_name() -> None:
    config = configured("CREATE PIPELINE out AS SELECT * FROM flights EMIT CHANGES", FLIGHTS, AIRLINES)
    assert config == {
        "connector.class": "ottla_spark.SparkPipeline",
        "tasks.max": "1",
        "checkpoint.location": "/checkpoints/x",
        "tables": "flights,airlines",
        "tables.flights.topic": "flights",
        "tables.flights.value.schema": "carrier STRING",
        "tables.flights.watermark": "t 1 hour",
        "tables.airlines.path": "/data/airlines",
        "tables.airlines.format": "csv",
        "sql": "SELECT * FROM flights",
        "outputs": "out",
        "outputs.out.topic": "out",
        "outputs.out.mode": "append",
        "topic.creation.default.partitions": "-1",
        "topic.creation.default.replication.factor": "-1",
    }


def test_the_settings_of_a_statement_go_to_the_output_to_topics_and_to_the_connector() -> None:
    config = configured(
        "CREATE TABLE out WITH (key = carrier, key.format = json, mode = complete, starting.offsets = latest, "
        "partitions = 3, spark.sql.shuffle.partitions = 2, trigger.interval = '5 seconds', checkpoint = '/c') "
        "AS SELECT * FROM flights",
        FLIGHTS,
        AIRLINES,
    )
    assert config["outputs.out.key.columns"] == "carrier"
    assert config["outputs.out.key.format"] == "json"
    assert config["outputs.out.mode"] == "complete"
    assert config["tables.flights.starting.offsets"] == "latest"
    assert "tables.airlines.starting.offsets" not in config
    assert config["topic.creation.default.partitions"] == "3"
    assert config["spark.sql.shuffle.partitions"] == "2"
    assert config["trigger.interval"] == "5 seconds"
    assert config["checkpoint.location"] == "/c"


def test_the_settings_of_a_session_go_to_the_connector_unless_the_statement_says_otherwise() -> None:
    deploy = parse("CREATE PIPELINE out WITH (spark.sql.ansi.enabled = true) AS SELECT * FROM flights")
    assert isinstance(deploy, Deploy)
    session = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "false"}
    config = pipeline_config(deploy, (FLIGHTS,), (), mode="append", checkpoint="/c", spark_settings=session)
    assert {key: value for key, value in config.items() if key.startswith("spark.")} == {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.ansi.enabled": "true",
    }


def test_files_are_an_output_without_a_topic() -> None:
    config = configured("CREATE TABLE out WITH (path = '/data/out', partition.by = 'a,b') AS SELECT * FROM flights")
    output = {key: value for key, value in config.items() if key.startswith(("outputs", "topic.creation"))}
    assert output == {
        "outputs": "out",
        "outputs.out.path": "/data/out",
        "outputs.out.format": "parquet",
        "outputs.out.partition.by": "a,b",
        "outputs.out.mode": "append",
    }


def test_names_that_a_key_cannot_have_are_given_back_to_the_query_by_a_view() -> None:
    dashed = declared_table(Declare("daily-flights", "a INT"))
    alike = declared_table(Declare("daily_flights", "a INT"))
    config = configured("CREATE PIPELINE `a.b` AS SELECT * FROM `daily-flights`", dashed, alike)
    assert config["tables"] == "daily_flights,daily_flights_"
    assert config["tables.daily_flights.topic"] == "daily-flights"
    assert config["tables.daily_flights_.topic"] == "daily_flights"
    assert config["sql"].splitlines() == [
        "CREATE TEMPORARY VIEW `daily-flights` AS SELECT * FROM daily_flights;",
        "CREATE TEMPORARY VIEW `daily_flights` AS SELECT * FROM daily_flights_;",
        "SELECT * FROM `daily-flights`",
    ]
    assert config["outputs"] == "a_b"
    assert config["outputs.a_b.topic"] == "a.b"


def test_views_of_the_session_stand_before_the_query() -> None:
    config = configured(
        "CREATE PIPELINE x AS SELECT * FROM v", views=("CREATE TEMP VIEW v AS SELECT * FROM flights",)
    )
    assert config["sql"] == "CREATE TEMP VIEW v AS SELECT * FROM flights;\nSELECT * FROM v"
    assert SparkPipelineConfig.parse(config).sql == config["sql"]


def test_only_views_that_a_query_uses_count_and_those_that_they_use() -> None:
    views = {
        "a": "CREATE TEMP VIEW a AS SELECT * FROM flights",
        "other": "CREATE TEMP VIEW other AS SELECT 1",
        "b-c": "CREATE TEMP VIEW `b-c` AS SELECT * FROM A",
    }
    assert views_used("SELECT * FROM `b-c` WHERE x = 'other'", views) == [views["a"], views["b-c"]]


@pytest.mark.parametrize(
    ("aggregates", "sorts", "mode"),
    [(False, False, "append"), (False, True, "append"), (True, False, "update"), (True, True, "complete")],
)
def test_how_results_change_follows_from_the_query(aggregates: bool, sorts: bool, mode: str) -> None:
    assert output_mode(aggregates=aggregates, sorts=sorts) == mode


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("topik = x, modus = y", "there is no setting modus, topik"),
        ("mode = anything", "outputs.x.mode"),
        ("key = 'a,b', key.format = bytes", "outputs.x.key.columns"),
        ("sql = 'SELECT 1'", "there is no setting sql"),
        ("trigger.interval = often", "trigger.interval"),
        ("checkpoint = ''", "WITH (checkpoint = '…')"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_before_any_worker_is_asked(settings: str, said: str) -> None:
    with pytest.raises(SqlProblem) as raised:
        configured(f"CREATE PIPELINE x WITH ({settings}) AS SELECT * FROM flights")
    assert said in str(raised.value)


def test_a_topic_has_no_path() -> None:
    with pytest.raises(SqlProblem, match="write CREATE TABLE x"):
        configured("CREATE TOPIC x WITH (path = '/data') AS SELECT * FROM flights")


def test_a_query_that_reads_nothing_is_no_pipeline() -> None:
    deploy = parse("CREATE PIPELINE x AS SELECT 1")
    assert isinstance(deploy, Deploy)
    with pytest.raises(SqlProblem, match="reads no topic"):
        pipeline_config(deploy, (), (), mode="append", checkpoint="/c", spark_settings={})


def test_pipelines_are_those_connectors_whose_class_says_so() -> None:
    config = configured("CREATE TABLE out WITH (path = '/data/out') AS SELECT * FROM flights", FLIGHTS, AIRLINES)
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED"}]}
    connectors = {
        "out": {"info": {"config": config}, "status": status},
        "file": {"info": {"config": {"connector.class": "ottla_file.FileSource"}}, "status": status},
    }
    assert pipelines_of(connectors) == [
        {"pipeline": "out", "state": "FAILED", "reads": "flights, csv /data/airlines", "writes": "parquet /data/out"}
    ]
