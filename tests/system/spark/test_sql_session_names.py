"""What only the session of a prompt has, and no pipeline: refused when the pipeline is made."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.connect_rest import ConnectRest
from ottla_spark.sql.deployment import Deployment
from ottla_spark.sql.grammar import made_view, parse
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Deploy
from ottla_spark.sql.topics import Topics
from tests.conftest import TopicFactory

pytestmark = pytest.mark.slow


class Prompt:
    """A session without a screen."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str) -> None:
        self.spark = spark
        self.catalog = Catalog(Topics(bootstrap, {}), {"kafka.bootstrap.servers": bootstrap})
        self.deployment = Deployment(ConnectRest("http://127.0.0.1:1"), {})
        self.topic = topic

    def run(self, statement: str) -> None:
        text = statement.format(t=self.topic)
        self.catalog.analyzed(self.spark, text)
        made = made_view(text)
        if made is not None:
            self.catalog.temporary_views[made.name] = made.statement

    def configured(self, query: str) -> dict[str, str]:
        deploy = parse(f"CREATE PIPELINE p AS {query.format(t=self.topic)}")
        assert isinstance(deploy, Deploy)
        return self.deployment.configured(self.spark, self.catalog, deploy)


@pytest.fixture
def prompt(spark: SparkSession, bootstrap: str, new_topic: TopicFactory) -> Iterator[Prompt]:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps({"carrier": "UA", "delay": 1.5}))
    assert producer.flush(30) == 0
    yield Prompt(spark.newSession(), bootstrap, f"`{topic}`")
    for each in ("DROP TABLE IF EXISTS kept", "DROP VIEW IF EXISTS seen", "DROP FUNCTION IF EXISTS doubled",
                 "DROP VIEW IF EXISTS global_temp.everywhere"):  # fmt: skip
        spark.sql(each)


@pytest.mark.parametrize(
    ("before", "query", "said"),
    [
        (["DECLARE VARIABLE most DOUBLE DEFAULT 2"], "SELECT * FROM {t} WHERE delay < most", "most"),
        (
            ["CREATE TEMPORARY FUNCTION twice(x DOUBLE) RETURNS DOUBLE RETURN x * 2"],
            "SELECT twice(delay) AS d FROM {t}",
            "twice",
        ),
        (
            [
                "DECLARE VARIABLE most DOUBLE DEFAULT 2",
                "CREATE TEMPORARY VIEW few AS SELECT * FROM {t} WHERE delay < most",
            ],
            "SELECT carrier FROM few",
            "most",
        ),
        (["CACHE TABLE cached AS SELECT 'UA' AS carrier"], "SELECT * FROM {t} JOIN cached USING (carrier)", "cached"),
        (
            ["CREATE FUNCTION doubled(x DOUBLE) RETURNS DOUBLE RETURN x * 2"],
            "SELECT doubled(delay) AS d FROM {t}",
            "the function doubled",
        ),
        (
            ["CREATE TABLE kept USING parquet AS SELECT 'UA' AS carrier"],
            "SELECT * FROM {t} WHERE carrier IN (SELECT carrier FROM kept)",
            "the table kept",
        ),
        (
            ["CREATE VIEW seen AS SELECT 'UA' AS carrier"],
            "SELECT * FROM {t} JOIN seen USING (carrier)",
            "the view seen",
        ),
        (
            ["CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT 'UA' AS carrier"],
            "SELECT * FROM {t} JOIN global_temp.everywhere USING (carrier)",
            "the view everywhere",
        ),
    ],
)  # fmt: skip
def test_it_is_refused(prompt: Prompt, before: list[str], query: str, said: str) -> None:
    for each in before:
        prompt.run(each)
    with pytest.raises(SqlProblem, match="needs what only this session has") as raised:
        prompt.configured(query)
    assert said in str(raised.value)


def test_settings_and_temporary_views_go_with_a_pipeline_and_mistakes_are_told_as_ever(prompt: Prompt) -> None:
    prompt.run("SET spark.sql.ansi.enabled = false")
    prompt.run("CREATE TEMPORARY VIEW few AS SELECT carrier, CAST('x' AS INT) AS n FROM {t}")
    prompt.run("CREATE TEMPORARY VIEW fewer AS SELECT carrier FROM few")
    config = prompt.configured("SELECT * FROM fewer")
    assert config["spark.sql.ansi.enabled"] == "false"
    assert config["sql"].index("VIEW few AS") < config["sql"].index("VIEW fewer AS")
    assert config["tables"]
    with pytest.raises(SqlProblem, match="there is no topic and no table nowhere"):
        prompt.configured("SELECT * FROM nowhere")
