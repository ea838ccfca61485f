"""Topics are those of the worker's cluster, unless a connector names another; missing ones are named."""

from dataclasses import replace

from ottla_spark.formats.format import Format
from ottla_spark.job.clients import reaches_elsewhere, topic_clients, topics_to_make
from ottla_spark.job.plan import JobPlan, Output, Table, TopicRead, TopicWrite
from ottla_spark.job.query_text import SqlQuery
from ottla_spark.job.topic_names import missing_topics

JSON = Format(name="json", schema="a INT")
CONSUMER = {"bootstrap.servers": "worker:9092", "sasl.password": "secret", "auto.offset.reset": "earliest"}
PRODUCER = {"bootstrap.servers": "worker:9092", "linger.ms": "5"}


def plan(kafka: dict[str, str], source: str = "ottla") -> JobPlan:
    return JobPlan(
        connector="a",
        tables=(),
        query=SqlQuery(query="SELECT 1"),
        outputs=(),
        checkpoint_location="/state",
        topic_source=source,
        kafka=kafka,
    )


def test_the_workers_settings_are_taken_over_but_for_where_its_own_consumers_begin() -> None:
    clients = topic_clients(plan({"kafka.linger.ms": "9"}), CONSUMER, PRODUCER)
    assert clients.consumer == {
        "kafka.bootstrap.servers": "worker:9092",
        "kafka.sasl.password": "secret",
        "kafka.linger.ms": "9",
    }
    assert clients.producer == {"kafka.bootstrap.servers": "worker:9092", "kafka.linger.ms": "9"}


def test_another_cluster_gets_nothing_of_the_workers_settings() -> None:
    elsewhere = plan({"kafka.bootstrap.servers": "other:9092"})
    assert reaches_elsewhere(elsewhere)
    assert not reaches_elsewhere(plan({}))
    clients = topic_clients(elsewhere, CONSUMER, PRODUCER)
    assert clients.consumer == clients.producer == {"kafka.bootstrap.servers": "other:9092"}


def test_sparks_own_source_gets_what_java_knows() -> None:
    assert topic_clients(plan({}, "kafka"), CONSUMER, PRODUCER).consumer == {"kafka.bootstrap.servers": "worker:9092"}


def test_what_a_table_or_an_output_says_goes_first() -> None:
    clients = topic_clients(plan({}), CONSUMER, PRODUCER)
    reading = TopicRead(
        topics=("a",), options={"subscribe": "a", "kafka.bootstrap.servers": "x"}, key=JSON, value=JSON
    )
    assert clients.read_options(reading) == {"subscribe": "a", "kafka.bootstrap.servers": "x"}, "and no password"
    writing = TopicWrite(topic="b", key=JSON, value=JSON, options={"kafka.linger.ms": "7", "topic": "other"})
    assert clients.write_options(writing) == {
        "kafka.bootstrap.servers": "worker:9092",
        "kafka.linger.ms": "7",
        "topic": "b",
    }


def test_topics_are_made_in_the_workers_cluster_only() -> None:
    here = TopicWrite(topic="here", key=JSON, value=JSON)
    there = TopicWrite(topic="there", key=JSON, value=JSON, options={"KAFKA.Bootstrap.Servers": "other:9092"})
    outputs = tuple(Output(name=each.topic, writing=each) for each in (here, there))
    assert topics_to_make(replace(plan({}), outputs=outputs)) == ("here",)
    assert topics_to_make(replace(plan({"kafka.bootstrap.servers": "other:9092"}), outputs=outputs)) == ()


def test_missing_topics_are_named_with_their_tables() -> None:
    tables = [
        Table(name="x", streaming=True, reading=TopicRead(topics=("a", "b"), key=JSON, value=JSON)),
        Table(name="y", streaming=True, reading=TopicRead(topics=("c",), key=JSON, value=JSON)),
        Table(name="z", streaming=True, reading=TopicRead(pattern="none.*", key=JSON, value=JSON)),
    ]
    assert missing_topics(tables, ["a", "b", "c"]) == []
    assert missing_topics(tables, ["d"]) == [
        "the topics a, b of the table x do not exist",
        "the topic c of the table y does not exist",
    ]
