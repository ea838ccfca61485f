"""What a query may write is decided by its options and columns alone, before anything is sent."""

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from ottla_sdk import InvalidConfig
from ottla_spark.datasource.writing import batch_writer, stream_writer
from ottla_spark.datasource.writing_plan import write_plan

OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "flights"}
WITHOUT_TOPIC = {"kafka.bootstrap.servers": "127.0.0.1:1"}
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema_of(**columns: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])  # type: ignore[arg-type]


def problems_of(options: dict[str, str], schema: StructType) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as raised:
        write_plan(options, schema)
    return {problem.key: problem.message for problem in raised.value.problems}


def test_all_columns_may_be_there_and_others_are_ignored() -> None:
    schema = schema_of(
        key=BinaryType(),
        value=StringType(),
        topic=StringType(),
        partition=IntegerType(),
        headers=HEADERS,
        offset=LongType(),
    )
    plan = write_plan(WITHOUT_TOPIC, schema)
    assert plan.columns == {"key", "value", "partition", "headers"}
    assert plan.topic is None


def test_the_option_wins_over_the_column_whose_type_then_does_not_matter() -> None:
    assert write_plan({**OPTIONS, "Topic": " flights "}, schema_of(value=StringType())).topic == "flights"
    assert write_plan(OPTIONS, schema_of(value=VarcharType(9), topic=LongType())).topic == "flights"


@pytest.mark.parametrize(
    ("columns", "column", "said"),
    [
        ({"value": DoubleType()}, "value", "type double, and must be string or binary"),
        ({"value": StringType(), "key": LongType()}, "key", "type bigint, and must be string or binary"),
        ({"value": StringType(), "partition": LongType()}, "partition", "type bigint, and must be int"),
        ({"value": StringType(), "headers": StringType()}, "headers", "array<struct<key:string,value:binary>>"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "headers", "type array<string>"),
        ({"key": StringType(), "other": StringType()}, "value", "it has: key, other"),
    ],
)
def test_a_column_that_does_not_fit_is_named_with_its_type(
    columns: dict[str, object], column: str, said: str
) -> None:
    problems = problems_of(OPTIONS, schema_of(**columns))
    assert list(problems) == [column]
    assert said in problems[column]


def test_a_topic_must_come_from_somewhere_and_be_a_legal_name() -> None:
    assert "write the option 'topic'" in problems_of(WITHOUT_TOPIC, schema_of(value=StringType()))["topic"]
    assert "type int" in problems_of(WITHOUT_TOPIC, schema_of(value=StringType(), topic=IntegerType()))["topic"]
    for illegal in ("", " ", "a b", "..", "a/b", "x" * 250):
        assert (
            "no name of a topic" in problems_of({**OPTIONS, "topic": illegal}, schema_of(value=StringType()))["topic"]
        )


def test_the_same_column_twice_is_refused() -> None:
    twice = StructType([StructField("value", StringType()), StructField("value", StringType())])
    assert "several columns" in problems_of(OPTIONS, twice)["value"]


def test_everything_wrong_with_columns_and_options_is_said_at_once() -> None:
    problems = problems_of({"kafka.acks": "1"}, schema_of(key=LongType()))
    assert list(problems) == ["topic", "value", "key", "kafka.acks", "kafka.bootstrap.servers"]


def test_overwriting_is_refused_for_a_batch_and_means_appending_all_rows_for_a_stream() -> None:
    schema = schema_of(value=StringType())
    with pytest.raises(InvalidConfig, match=r"mode\('append'\)"):
        batch_writer(OPTIONS, schema, True)
    assert stream_writer(OPTIONS, schema, True)


def test_what_librdkafka_does_not_know_is_refused_while_the_query_is_planned() -> None:
    with pytest.raises(InvalidConfig, match=r"lingerms"):
        batch_writer({**OPTIONS, "kafka.lingerms": "1"}, schema_of(value=StringType()), False)


def test_writers_reach_the_executors_by_pickling() -> None:
    writer = batch_writer(OPTIONS, schema_of(value=StringType()), False)
    assert pickle.loads(pickle.dumps(writer))._plan == writer._plan  # type: ignore[attr-defined]
