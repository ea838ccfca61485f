"""Settings of the Spark connectors become plans; all that is wrong with them is said at once, under full keys."""

from typing import Any

import pytest

from ottla_sdk import InvalidConfig
from ottla_sdk.config_description import describe
from ottla_spark import SparkPipeline, SparkSink, SparkSource
from ottla_spark.formats.format import Format
from ottla_spark.job.clients import topics_to_make
from ottla_spark.job.config import JobConfig
from ottla_spark.job.plan import FormatRead, FormatWrite, JobPlan, PythonFunction, TopicRead, TopicWrite
from ottla_spark.job.planning import plan_of
from ottla_spark.job.query_text import SqlQuery
from ottla_spark.job.setting_types import Watermark

PIPELINE = {
    "checkpoint.location": "/state/delays",
    "tables": "flights,airlines",
    "tables.flights.watermark": "time_hour 1 hour",
    "tables.flights.value.schema": "carrier STRING",
    "tables.airlines.mode": "static",
    "tables.airlines.format": "csv",
    "tables.airlines.path": "/data/airlines.csv",
    "tables.airlines.options.header": "true",
    "sql": "CREATE TEMPORARY VIEW x AS SELECT 1; SELECT * FROM x",
    "outputs": "delays,table",
    "outputs.delays.topic": "delays",
    "outputs.delays.mode": "update",
    "outputs.delays.key.columns": "carrier,hour",
    "outputs.delays.key.format": "json",
    "outputs.table.format": "parquet",
    "outputs.table.path": "/data/delays",
    "outputs.table.partition.by": "carrier",
    "outputs.table.from": "x",
    "spark.master": "spark://host:7077",
    "kafka.bootstrap.servers": "other:9092",
}
SINK = {"checkpoint.location": "/state/sink", "topics": "a, b", "write.format": "parquet", "write.path": "/data/a"}
SOURCE = {"checkpoint.location": "/state/source", "read.format": "csv", "read.path": "/data/a.csv", "topic": "a"}


def plan(connector: Any, settings: dict[str, str]) -> JobPlan:
    model: type[JobConfig] = connector.config_model
    return plan_of(model.parse(settings), "name")


def problems(connector: Any, settings: dict[str, str]) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as raised:
        connector.config_model.parse(settings)
    return {each.key: each.message for each in raised.value.problems}


def test_a_pipeline_reads_topics_and_files_and_writes_both() -> None:
    made = plan(SparkPipeline, PIPELINE)
    flights, airlines = made.tables
    assert isinstance(flights.reading, TopicRead)
    assert (flights.name, flights.streaming, flights.watermark) == ("flights", True, Watermark("time_hour", "1 hour"))
    assert flights.reading.topics == ("flights",)
    assert flights.reading.options == {
        "subscribe": "flights",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
    }
    assert flights.reading.value == Format(name="json", schema="carrier STRING")
    assert not airlines.streaming
    assert airlines.reading == FormatRead(format="csv", path="/data/airlines.csv", options={"header": "true"})
    assert made.query == SqlQuery(views=("CREATE TEMPORARY VIEW x AS SELECT 1",), query="SELECT * FROM x")
    delays, table = made.outputs
    assert isinstance(delays.writing, TopicWrite)
    assert (delays.mode, delays.view, delays.writing.topic) == ("update", "", "delays")
    assert (delays.writing.key, delays.writing.key_columns) == (Format(name="json"), ("carrier", "hour"))
    assert table.writing == FormatWrite(format="parquet", path="/data/delays", partition_by=("carrier",))
    assert table.view == "x"
    assert (dict(made.spark), dict(made.kafka)) == (
        {"spark.master": "spark://host:7077"},
        {"kafka.bootstrap.servers": "other:9092"},
    )


def test_a_python_function_takes_the_place_of_sql() -> None:
    settings = {key: value for key, value in PIPELINE.items() if key not in ("sql", "outputs.table.from")}
    made = plan(SparkPipeline, {**settings, "python.function": "delays:by_hour", "python.files": "/jobs/delays.py"})
    assert made.query == PythonFunction(module="delays", name="by_hour", files=("/jobs/delays.py",))


def test_a_sink_reads_all_its_topics_as_one_table() -> None:
    settings = {
        **SINK,
        "max.offsets.per.trigger": "500",
        "starting.offsets": "latest",
        "include.headers": "true",
        "value.format": "avro",
        "value.schema.registry.url": "http://schemas:8081",
    }
    (table,) = plan(SparkSink, settings).tables
    assert isinstance(table.reading, TopicRead)
    assert table.reading.options == {
        "subscribe": "a,b",
        "startingOffsets": "latest",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "500",
    }
    assert table.reading.key == Format(name="string")
    assert table.reading.value == Format(name="avro", registry_url="http://schemas:8081")
    assert str(table.reading) == "topic a, b"
    by_pattern = plan(SparkSink, {**SINK, "topics": "", "topics.regex": "a.*"}).tables[0].reading
    assert isinstance(by_pattern, TopicRead)
    assert by_pattern.options["subscribePattern"] == "a.*"


def test_a_sink_may_write_a_topic() -> None:
    settings = {"checkpoint.location": "/state", "topics": "a", "write.format": "topic", "write.topic": "b"}
    made = plan(SparkSink, {**settings, "write.value.columns": "x,y"})
    (output,) = made.outputs
    assert isinstance(output.writing, TopicWrite)
    assert (output.writing.topic, output.writing.value_columns) == ("b", ("x", "y"))
    assert made.query == plan(SparkSink, SINK).query == SqlQuery(query="SELECT * FROM input")


def test_tables_and_sinks_may_be_without_duplicates() -> None:
    (table,) = plan(SparkSink, {**SINK, "deduplicate.by": "id, item"}).tables
    assert table.deduplicate_by == ("id", "item")


def test_a_source_reads_once_or_follows() -> None:
    once = plan(SparkSource, SOURCE)
    assert not once.tables[0].streaming
    assert topics_to_make(once) == ("a",)
    following = plan(
        SparkSource, {**SOURCE, "read.streaming": "true", "read.schema": "x INT", "read.options.sep": ";"}
    )
    assert following.tables[0].streaming
    assert following.tables[0].reading == FormatRead(
        format="csv", path="/data/a.csv", schema="x INT", options={"sep": ";"}
    )


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ({}, ["connect-name-delays", "connect-name-table"]),
        ({"commit.group": "own"}, ["own-delays", "own-table"]),
        ({"commit.group": ""}, ["", ""]),
    ],
)
def test_each_of_several_outputs_commits_to_a_group_of_its_own(settings: dict[str, str], groups: list[str]) -> None:
    made = plan(SparkPipeline, {**PIPELINE, **settings})
    assert [made.commit_group_of(output) for output in made.outputs] == groups
    assert plan(SparkSink, SINK).commit_group_of(plan(SparkSink, SINK).outputs[0]) == "connect-name"


def test_everything_wrong_is_said_at_once() -> None:
    wrong = problems(
        SparkPipeline,
        {
            **PIPELINE,
            "trigger.interval": "often",
            "tables.flights.watermark": "time_hour",
            "tables.flights.starting.offsets": '{"flights": {"0": -7}}',
            "tables.airlines.tpic": "x",
            "tables.airports.topic": "x",
            "outputs.delays.mode": "sometimes",
            "outputs.table.mode": "update",
        },
    )
    assert wrong.keys() == {
        "trigger.interval",
        "tables.flights.watermark",
        "tables.flights.starting.offsets",
        "tables.airlines.tpic",
        "tables.airports.topic",
        "outputs.delays.mode",
        "outputs.table.mode",
    }
    assert wrong["tables.airlines.tpic"] == "there is no such setting; did you mean topic?"
    assert wrong["tables.airports.topic"] == "'airports' is not among the names in tables"


@pytest.mark.parametrize(
    ("connector", "settings", "key", "message"),
    [
        (SparkPipeline, {"sql": ""}, "sql", "must be set, or python.function"),
        (SparkPipeline, {"sql": "SELECT 1; SELECT 2"}, "sql", "line 1: only CREATE TEMPORARY VIEW may stand before"),
        (SparkPipeline, {"sql": "CREATE TEMP VIEW x AS SELECT 1"}, "sql", "ends without a query"),
        (SparkPipeline, {"sql": "DROP TABLE x"}, "sql", "the last statement must be a query"),
        (SparkPipeline, {"sql": "SELECT 'x"}, "sql", "does not end"),
        (SparkPipeline, {"python.function": "a:b"}, "python.function", "is set beside sql"),
        (SparkPipeline, {"python.files": "a.py"}, "python.files", "which is not set"),
        (SparkPipeline, {"tables": "my-flights"}, "tables", "letters, digits and underscores"),
        (
            SparkPipeline,
            {"outputs": "a,A", "outputs.a.topic": "a", "outputs.A.topic": "b"},
            "outputs",
            "stands twice",
        ),
        (
            SparkPipeline,
            {"tables.flights.topic": "a", "tables.flights.pattern": "b"},
            "tables.flights.pattern",
            "beside",
        ),
        (SparkPipeline, {"tables.flights.path": "/a"}, "tables.flights.path", "for tables that have a format"),
        (SparkPipeline, {"tables.airlines.watermark": "a 1 hour"}, "tables.airlines.watermark", "is for streams"),
        (SparkPipeline, {"tables.flights.value.format": "avro"}, "tables.flights.value.schema", "Avro"),
        (SparkPipeline, {"tables.flights.key.schema": "a INT"}, "tables.flights.key.schema", "string"),
        (SparkPipeline, {"outputs.delays.format": "csv"}, "outputs.delays.topic", "beside format csv"),
        (SparkPipeline, {"outputs.delays.path": "/a"}, "outputs.delays.path", "a topic has none"),
        (SparkPipeline, {"outputs.table.path": ""}, "outputs.table.path", "must be set for parquet"),
        (SparkSink, {"write.mode": "complete"}, "write.mode", "must be append for parquet"),
        (SparkSink, {"write.frmat": "csv"}, "write.frmat", "did you mean format?"),
        (SparkSink, {"topics.regex": "("}, "topics.regex", "no regular expression"),
        (SparkSink, {"value.sample.records": "0"}, "value.sample.records", "greater than or equal to 1"),
        (SparkSink, {"checkpoint.location": ""}, "checkpoint.location", "at least 1 character"),
        (SparkSource, {"read.format": ""}, "read.format", "at least 1 character"),
        (SparkSource, {"spark.speculation": "TRUE"}, "spark.speculation", "must be false where a topic is written"),
        (SparkSource, {"read.watermark": "a 1 hour"}, "read.watermark", "set streaming to true"),
        (SparkSource, {"value.columns": "a,b", "value.format": "string"}, "value.columns", "must be one column"),
    ],
)
def test_what_is_wrong_with_a_setting(connector: Any, settings: dict[str, str], key: str, message: str) -> None:
    good = {SparkPipeline: PIPELINE, SparkSink: SINK, SparkSource: SOURCE}[connector]
    assert message in problems(connector, {**good, **settings})[key]


def test_speculative_tasks_may_write_files_but_no_topic() -> None:
    speculative = {"spark.speculation": "true"}
    assert "spark.speculation" in problems(SparkPipeline, {**PIPELINE, **speculative})
    assert plan(SparkSink, {**SINK, **speculative}).spark == speculative


EXACTLY_ONCE = "exactly-once"


def test_topics_are_written_exactly_once_where_that_is_asked_for() -> None:
    made = plan(SparkPipeline, {**PIPELINE, "outputs.delays.delivery.guarantee": EXACTLY_ONCE})
    assert [each.is_exactly_once for each in made.outputs] == [True, False]
    (source,) = plan(SparkSource, {**SOURCE, "delivery.guarantee": EXACTLY_ONCE}).outputs
    assert source.is_exactly_once
    assert not any(each.is_exactly_once for each in plan(SparkPipeline, PIPELINE).outputs)


@pytest.mark.parametrize(
    ("connector", "settings", "key"),
    [
        (SparkPipeline, PIPELINE, "outputs.delays.delivery.guarantee"),
        (SparkSource, SOURCE, "delivery.guarantee"),
        (
            SparkSink,
            {**SINK, "write.format": "topic", "write.path": "", "write.topic": "b"},
            "write.delivery.guarantee",
        ),
    ],
)
def test_sparks_own_sink_writes_nothing_exactly_once(connector: Any, settings: dict[str, str], key: str) -> None:
    found = problems(connector, {**settings, key: EXACTLY_ONCE, "kafka.source": "kafka"})
    assert "Spark's own sink writes no transactions" in found[key]


def test_files_need_no_guarantee() -> None:
    found = problems(SparkPipeline, {**PIPELINE, "outputs.table.delivery.guarantee": EXACTLY_ONCE})
    assert "is for topics" in found["outputs.table.delivery.guarantee"]


def test_two_outputs_cannot_have_one_folder() -> None:
    settings = {
        **PIPELINE,
        "outputs.delays.topic": "",
        "outputs.delays.format": "parquet",
        "outputs.delays.mode": "append",
    }
    wrong = problems(SparkPipeline, {**settings, "outputs.delays.path": "/data/delays"})
    assert wrong == {"outputs.table.path": "is that of the output delays, too; each needs a folder of its own"}


def test_views_are_enough_if_every_output_names_one() -> None:
    settings = {**PIPELINE, "sql": "CREATE TEMPORARY VIEW x AS SELECT 1", "outputs.delays.from": "flights"}
    made = plan(SparkPipeline, settings)
    assert made.query == SqlQuery(views=("CREATE TEMPORARY VIEW x AS SELECT 1",))
    assert [output.view for output in made.outputs] == ["flights", "x"]


def test_settings_below_prefixes_are_described_and_no_setting_is_described_twice() -> None:
    for connector, some in (
        (SparkPipeline, {"tables.NAME.topic", "outputs.NAME.path", "spark.*"}),
        (SparkSink, {"write.path", "write.options.*", "topics"}),
        (SparkSource, {"read.path", "read.options.*", "topic"}),
    ):
        keys = [each.key for each in describe(connector.config_model)]
        assert some <= set(keys)
        assert len(set(keys)) == len(keys)
