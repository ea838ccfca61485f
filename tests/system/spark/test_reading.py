"""Topics read with `format("ottla")`, in batches and streams, by every option."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import TimestampType

from ottla_spark.datasource.offsets import TopicOffsets
from tests.support.clusters.broker_under_test import make_anew
from tests.support.eventually import eventually

TopicFactory = Callable[..., str]
Batch = Callable[..., DataFrame]

START_MS = 1_700_000_000_000
STREAM_DEADLINE_S = 60


@pytest.fixture
def batch(spark: SparkSession, bootstrap: str) -> Batch:
    """A function that reads a batch with these options."""

    def read(**options: str) -> DataFrame:
        return spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).options(**options).load()

    return read


def produce(bootstrap: str, topic: str, values: Mapping[int, range], *, keyed: bool = True) -> None:
    """Write numbers as values to partitions, each with a timestamp that many seconds after `START_MS`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for partition, numbers in values.items():
        for number in numbers:
            producer.produce(
                topic,
                str(number).encode(),
                b"key-%d" % number if keyed else None,
                partition=partition,
                timestamp=START_MS + 1000 * number,
            )
    assert producer.flush(30) == 0


def numbers(frame: DataFrame) -> list[int]:
    """Return the values, which are numbers, in order."""
    return sorted(int(row.value) for row in frame.select("value").collect())


def failure(frame: DataFrame) -> str:
    """Return the message with which reading fails."""
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    return str(raised.value)


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """Delete the first records of partition 0."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    assert future.result(30).low_watermark == offset


def test_a_batch_has_the_columns_of_sparks_kafka_source(
    batch: Batch, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic(partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap})
    headers: list[tuple[str, bytes | None]] = [("source", b"a"), ("source", b"\x00"), ("none", None)]
    producer.produce(topic, b"first", b"\xff\x00", partition=1, timestamp=START_MS, headers=headers)
    producer.produce(topic, None, None, partition=1, timestamp=START_MS + 1)
    producer.produce(topic, "zwölf".encode(), b"", partition=1, timestamp=START_MS + 2)
    assert producer.flush(30) == 0

    frame = batch(subscribe=topic)
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    first, deleted, last = frame.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"\xff\x00", b"first")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 1, 0, 0)
    assert frame.schema["timestamp"].dataType == TimestampType()
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert (deleted.key, deleted.value, deleted.offset) == (None, None, 1)
    assert (bytes(last.key), bytes(last.value).decode()) == (b"", "zwölf")

    with_headers = batch(subscribe=topic, includeHeaders="true").orderBy("offset")
    assert with_headers.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    found = [row.headers for row in with_headers.collect()]
    assert [(header.key, header.value and bytes(header.value)) for header in found[0]] == headers
    assert found[1:] == [None, None]


def test_a_batch_starts_and_ends_where_its_options_say(batch: Batch, bootstrap: str, new_topic: TopicFactory) -> None:
    topic, other = new_topic(partitions=3), new_topic()
    produce(bootstrap, topic, {0: range(100), 1: range(100, 150)})  # partition 2 stays empty
    produce(bootstrap, other, {0: range(1000, 1010)})
    all_of_it = [*range(150)]

    assert numbers(batch(subscribe=topic)) == all_of_it
    assert numbers(batch(subscribe=f"{topic}, {other}")) == [*all_of_it, *range(1000, 1010)]
    assert numbers(batch(subscribePattern=f"({topic}|{other[:-1]}.)")) == [*all_of_it, *range(1000, 1010)]
    assert numbers(batch(subscribePattern="no-such-topic-.*")) == []
    assert numbers(batch(assign=f'{{"{topic}":[1,2]}}')) == [*range(100, 150)]

    some = batch(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":90,"1":-2,"2":0}}}}',
        endingOffsets=f'{{"{topic}":{{"0":-1,"1":5,"2":0}}}}',
    )
    assert numbers(some) == [*range(90, 105)]
    since = batch(
        subscribe=topic,
        startingTimestamp=str(START_MS + 98_000),
        startingOffsetsByTimestampStrategy="latest",
        endingTimestamp=str(START_MS + 102_000),
    )
    assert numbers(since) == [98, 99, 100, 101]
    each = f'{{"{topic}":{{"0":{START_MS + 95_500},"1":{START_MS + 149_000},"2":0}}}}'
    by_partition = batch(
        subscribe=topic, startingOffsetsByTimestamp=each, startingOffsetsByTimestampStrategy="latest"
    )
    assert numbers(by_partition) == [96, 97, 98, 99, 149]
    assert f"no record of {topic}-2 is as late" in failure(batch(subscribe=topic, startingOffsetsByTimestamp=each))

    assert batch(subscribe=topic).rdd.getNumPartitions() == 2
    split = batch(subscribe=topic, minPartitions="6")
    assert (split.rdd.getNumPartitions(), numbers(split)) == (6, all_of_it)
    short = batch(subscribe=topic, maxRecordsPerPartition="30")
    assert (short.rdd.getNumPartitions(), numbers(short)) == (6, all_of_it)


def test_what_a_batch_cannot_read_is_said_in_one_message(
    batch: Batch, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, {0: range(20)})

    assert "MissingTopic: topic no-such-topic does not exist" in failure(batch(subscribe="no-such-topic"))
    assert f"partition 7 of topic {topic} does not exist" in failure(batch(assign=f'{{"{topic}":[0,7]}}'))
    unknown = failure(batch(subscribe=topic, startingOffsets=f'{{"{topic}":{{"1":5}}}}'))
    assert f"there is {topic}-0 without a number and no {topic}-1" in unknown
    beyond = failure(batch(subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":21}}}}'))
    assert f"partition 0 of topic {topic} would start at offset 21 and end at 20" in beyond
    wrong = failure(batch(subscribe=topic, minPartitions="0", startingOffsets="latest"))
    assert "minPartitions: has to be" in wrong
    assert "startingOffsets: a batch cannot start at the latest" in wrong


def test_records_that_are_gone_fail_a_batch_or_are_skipped(
    batch: Batch, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, {0: range(50)})
    delete_before(bootstrap, topic, 30)

    from_the_first = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":10}}}}'}
    message = failure(batch(**from_the_first))
    assert f"DataLost: cannot read offsets 10 to 50 of partition 0 of topic {topic}" in message
    assert "offsets 30 to 50 only; set failOnDataLoss to false" in message
    assert numbers(batch(**from_the_first, failOnDataLoss="false")) == [*range(30, 50)]

    beyond_the_last = {"subscribe": topic, "endingOffsets": f'{{"{topic}":{{"0":60}}}}'}
    assert "at offset 50: the partition has offsets 30 to 50 only" in failure(batch(**beyond_the_last))
    assert numbers(batch(**beyond_the_last, failOnDataLoss="false")) == [*range(30, 50)]


class Stream:
    """A query that copies topics into a folder, stopped and started again on one checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder

    def start(self, *, available_now: bool = True, **options: str) -> StreamingQuery:
        """Start it where it left off."""
        source = self._spark.readStream.format("ottla").option("kafka.bootstrap.servers", self._bootstrap)
        writer = (
            source.options(**options)
            .load()
            .selectExpr("CAST(CAST(value AS STRING) AS INT) AS number", "partition", "offset")
            .writeStream.option("checkpointLocation", str(self._folder / "checkpoint"))
        )
        trigger = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        return trigger.format("parquet").start(str(self._folder / "table"))

    def run(self, **options: str) -> list[Any]:
        """Read all there is now and return the progress of the batches that had records."""
        query = self.start(**options)
        try:
            assert query.awaitTermination(STREAM_DEADLINE_S)
            return [progress for progress in query.recentProgress if progress.numInputRows]
        finally:
            query.stop()

    def failure(self, **options: str) -> str:
        """Return the message with which the query fails."""
        with pytest.raises(StreamingQueryException) as raised:
            self.run(**options)
        return str(raised.value)

    def numbers(self) -> list[int]:
        """Return what arrived."""
        return sorted(row.number for row in self._spark.read.parquet(str(self._folder / "table")).collect())


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Return the offsets that a group has committed, by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in future.result(30).topic_partitions}


def test_a_stream_goes_on_after_a_restart_and_finds_new_partitions(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    stream = Stream(spark, bootstrap, tmp_path)
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
        "commitGroupId": topic,
    }
    produce(bootstrap, topic, {0: range(80), 1: range(80, 100)})

    batches = stream.run(**options)
    assert [each.numInputRows for each in batches] == [40, 40, 20]
    source = batches[0].sources[0]
    assert TopicOffsets.of(json.loads(source.endOffset)).offsets == {(topic, 0): 32, (topic, 1): 8}
    assert TopicOffsets.of(json.loads(source.latestOffset)).offsets == {(topic, 0): 80, (topic, 1): 20}
    assert stream.numbers() == [*range(100)]
    assert committed(bootstrap, topic) == {0: 80, 1: 20}

    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_partitions([NewPartitions(topic, 4)]).values()
    created.result(30)
    eventually(lambda: len(admin.list_topics(topic, 10).topics[topic].partitions) == 4, "there are four partitions")
    produce(bootstrap, topic, {0: range(100, 110), 3: range(110, 120)})
    assert sum(each.numInputRows for each in stream.run(**options)) == 20
    assert stream.numbers() == [*range(120)]
    assert committed(bootstrap, topic) == {0: 90, 1: 20, 2: 0, 3: 10}
    assert stream.run(**options) == []


def test_records_that_are_gone_fail_a_stream_or_are_skipped(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, removed = new_topic(), new_topic()
    stream = Stream(spark, bootstrap, tmp_path)
    options = {"subscribe": f"{topic},{removed}", "startingOffsets": "earliest"}
    produce(bootstrap, topic, {0: range(10)})
    produce(bootstrap, removed, {0: range(10, 15)})
    stream.run(**options)

    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_topics([removed]).values()
    deleted.result(30)
    eventually(lambda: removed not in admin.list_topics(timeout=10).topics, "the topic is deleted")
    produce(bootstrap, topic, {0: range(15, 40)})
    delete_before(bootstrap, topic, 20)

    assert f"DataLost: records may be lost: {removed}-0 no longer exist" in stream.failure(**options)
    assert stream.run(**options, failOnDataLoss="false")
    assert stream.numbers() == [*range(15), *range(25, 40)]
    assert f"MissingTopic: topic {removed} does not exist" in Stream(spark, bootstrap, tmp_path / "new").failure(
        **options
    )


def test_a_topic_that_was_created_anew_fails_a_stream_or_is_read_from_its_beginning(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    stream = Stream(spark, bootstrap, tmp_path)
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "50"}
    produce(bootstrap, topic, {0: range(100)})
    stream.run(**options)

    make_anew(bootstrap, topic)
    produce(bootstrap, topic, {0: range(1000, 1150)})  # more than there were: the old offsets exist again
    lost = f"DataLost: records may be lost: topic {topic} was deleted and created again since it was read"
    assert lost in stream.failure(**options)
    assert lost in stream.failure(**options, maxOffsetsPerTrigger="10"), "it does not pass by itself"
    assert stream.numbers() == [*range(100)]

    assert stream.run(**options, failOnDataLoss="false", maxOffsetsPerTrigger="60")
    assert stream.numbers() == [*range(100), *range(1000, 1150)]
    assert stream.run(**options) == []


def test_a_checkpoint_that_has_no_ids_of_topics_goes_on_and_gets_them(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    stream = Stream(spark, bootstrap, tmp_path)
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "50"}
    produce(bootstrap, topic, {0: range(20)})
    stream.run(**options)
    for file in (tmp_path / "checkpoint/offsets").glob("[0-9]*"):
        text = re.sub(r', \\?"topicId\\?": \\?"[^"\\]*\\?"', "", file.read_text())
        assert "topicId" not in text
        file.write_text(text)
        file.with_name(f".{file.name}.crc").unlink()

    produce(bootstrap, topic, {0: range(20, 30)})
    assert [each.numInputRows for each in stream.run(**options)] == [10]
    assert stream.numbers() == [*range(30)]
    make_anew(bootstrap, topic)
    produce(bootstrap, topic, {0: range(40)})
    assert "was deleted and created again" in stream.failure(**options)


def test_a_stream_that_starts_at_the_latest_offsets_reads_what_comes_later(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    stream = Stream(spark, bootstrap, tmp_path)
    produce(bootstrap, topic, {0: range(10)})
    query = stream.start(available_now=False, subscribe=topic, minOffsetsPerTrigger="15", maxTriggerDelay="1h")
    try:
        eventually(lambda: query.lastProgress is not None, "the first batch is done")
        produce(bootstrap, topic, {0: range(10, 20)})
        eventually(
            lambda: '"0": 20' in str(query.lastProgress.sources[0].latestOffset), "the stream sees the records"
        )
        assert stream_has_read_nothing(query)
        produce(bootstrap, topic, {0: range(20, 30)})
        eventually(lambda: any(each.numInputRows for each in query.recentProgress), "the stream has read")
    finally:
        query.stop()
    assert stream.numbers() == [*range(10, 30)]


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingTimestamp": str(START_MS + 1_000_000), "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["latest", "timestamp"],
)
def test_a_first_batch_that_a_crash_cut_short_loses_nothing_that_came_since(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory, tmp_path: Path, options: dict[str, str]
) -> None:
    topic = new_topic()
    stream = Stream(spark, bootstrap, tmp_path)
    produce(bootstrap, topic, {0: range(10)})
    assert stream.run(subscribe=topic, **options) == []
    for log in ("checkpoint/commits", "table/_spark_metadata"):  # as if it had crashed before the batch was done
        (first, *_) = (tmp_path / log).glob("0")
        first.unlink()
        first.with_name(".0.crc").unlink()
    produce(bootstrap, topic, {0: range(10, 20)})
    stream.run(subscribe=topic, **options)
    assert stream.numbers() == [*range(10, 20)]


def stream_has_read_nothing(query: StreamingQuery) -> bool:
    """Return whether no batch had any record."""
    return all(each.numInputRows == 0 for each in query.recentProgress)
