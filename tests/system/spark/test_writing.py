"""Writing with `format("ottla")`: every row arrives as it was, at least once, or the query fails and says why."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import functions

from ottla_spark.datasource.client_options import librdkafka_settings
from ottla_spark.datasource.errors import MissingTopic
from ottla_spark.datasource.writing_errors import RecordsUndelivered
from ottla_spark.datasource.writing_producer import RecordProducer
from tests.conftest import TopicFactory
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_INTERVAL_S = 0.2
READ_DEADLINE_S = 30.0
MANY = 200_000
ROWS = "key binary, value binary, topic string, partition int, headers array<struct<key string, value binary>>"


def write(frame: "DataFrame", bootstrap: str, **options: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**{key.replace("_", "."): value for key, value in options.items()}).save()


def failure_of(frame: "DataFrame", bootstrap: str, **options: str) -> str:
    with pytest.raises(PySparkException) as raised:
        write(frame, bootstrap, **options)
    return str(raised.value)


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The end of each partition; raises ConnectionError while one has no leader."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=READ_DEADLINE_S).topics[topic].partitions
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=READ_DEADLINE_S)[1]
            for partition in partitions
        }
    except KafkaException as error:
        raise ConnectionError(error) from error
    finally:
        consumer.close()


def records_of(bootstrap: str, topic: str) -> list[Message]:
    """Everything the topic has now, in order within each partition."""
    ends = {partition: end for partition, end in end_offsets(bootstrap, topic).items() if end > 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    records: list[Message] = []
    try:
        deadline = time.monotonic() + READ_DEADLINE_S
        while len(records) < sum(ends.values()):
            taken = consumer.consume(10_000, timeout=READ_INTERVAL_S)  # waits so long unless there are so many
            assert time.monotonic() < deadline, f"{topic}: {len(records)} of {sum(ends.values())} records came"
            assert all(record.error() is None for record in taken)
            records += taken
    finally:
        consumer.close()
    return records


def values_of(bootstrap: str, topic: str) -> list[str]:
    return [(record.value() or b"").decode() for record in records_of(bootstrap, topic)]


def test_every_column_arrives_as_it_was(spark: "SparkSession", bootstrap: str, new_topic: TopicFactory) -> None:
    one, other = new_topic(partitions=3), new_topic(partitions=1)
    headers = [("trace", b"\x00\xff"), ("trace", None), ("ä", b"")]
    rows = [
        (b"k1", b"v1", one, 2, headers),
        (b"", b"", one, 2, []),
        (None, None, one, 2, None),
        (b"21", "ünïcode".encode(), one, None, None),
        (b"k1", b"elsewhere", other, 0, None),
    ]
    write(spark.createDataFrame(rows, ROWS).coalesce(1), bootstrap)
    in_two = [record for record in records_of(bootstrap, one) if record.key() != b"21"]
    assert [(r.partition(), r.key(), r.value(), r.headers()) for r in in_two] == [
        (2, b"k1", b"v1", headers),
        (2, b"", b"", None),
        (2, None, None, None),
    ]
    (placed,) = (record for record in records_of(bootstrap, one) if record.key() == b"21")
    # The hash of this key in Kafka's own tests of murmur2 is -973932308.
    assert placed.partition() == (-973932308 & 0x7FFFFFFF) % 3
    assert [(r.key(), r.value()) for r in records_of(bootstrap, other)] == [(b"k1", b"elsewhere")]


def test_text_columns_the_topic_option_and_the_order_of_a_task(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory
) -> None:
    topic, unused = new_topic(), new_topic()
    frame = spark.range(0, 25_000, 1, 1).select(
        functions.col("id").cast("string").alias("key"),
        functions.concat(functions.lit("ü"), functions.col("id")).alias("value"),
        functions.lit(unused).alias("topic"),
        functions.col("id").alias("another"),
    )
    write(frame, bootstrap, topic=topic, kafka_compression_type="lz4")
    records = records_of(bootstrap, topic)
    assert [int(record.key() or b"") for record in records] == list(range(25_000))
    assert records[-1].value() == "ü24999".encode()
    assert end_offsets(bootstrap, unused) == {0: 0}


def test_what_cannot_be_written_fails_with_the_reason(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    numbers = spark.range(3)
    text = numbers.selectExpr("cast(id as string) as value")
    assert "value: the column is required" in failure_of(numbers, bootstrap, topic=topic)
    assert "of type bigint, and must be string or binary" in failure_of(
        numbers.selectExpr("id as value"), bootstrap, topic=topic
    )
    assert "write the option 'topic'" in failure_of(text, bootstrap)
    assert "kafka.acks" in failure_of(text, bootstrap, topic=topic, kafka_acks="0")
    with pytest.raises(PySparkException, match=r"topic can only be appended to; write mode\('append'\)"):
        text.write.format("ottla").mode("overwrite").options(topic=topic).save()
    assert end_offsets(bootstrap, topic) == {0: 0}

    without_topic = text.withColumn("topic", functions.lit(None).cast("string"))
    assert "the column 'topic' is null in a row" in failure_of(without_topic, bootstrap)
    in_partition_7 = text.withColumn("partition", functions.lit(7))
    assert f"topic '{topic}' has no partition 7" in failure_of(in_partition_7, bootstrap, topic=topic)
    large = spark.range(1).select(functions.repeat(functions.lit("x"), 1_500_000).alias("value"))
    assert "kafka.max.request.size" in failure_of(large, bootstrap, topic=topic)


def test_a_stream_writes_every_row_at_least_once_across_restarts(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, checkpoint = new_topic(partitions=2), tmp_path / "checkpoint"
    (tmp_path / "in").mkdir()

    def run() -> None:
        lines = spark.readStream.text(str(tmp_path / "in"))
        sink = lines.writeStream.format("ottla").options(topic=topic, checkpointLocation=str(checkpoint))
        query = sink.option("kafka.bootstrap.servers", bootstrap).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()

    first, second = [f"a{number}" for number in range(500)], [f"b{number}" for number in range(500)]
    (tmp_path / "in" / "1.txt").write_text("\n".join(first))
    run()
    run()  # nothing new: nothing is written
    assert sorted(values_of(bootstrap, topic)) == sorted(first)
    (tmp_path / "in" / "2.txt").write_text("\n".join(second))
    run()
    assert sorted(values_of(bootstrap, topic)) == sorted(first + second)
    # The driver died before it noted that the last micro-batch was done: it is written again, from its beginning.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    run()
    assert sorted(values_of(bootstrap, topic)) == sorted(first + second + second)


def test_a_stream_in_the_mode_complete_appends_all_rows_of_each_micro_batch(
    spark: "SparkSession", bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\nb\na")
    counts = spark.readStream.text(str(tmp_path / "in")).groupBy(functions.col("value").alias("key")).count()
    frame = counts.select("key", functions.col("count").cast("string").alias("value"))
    sink = frame.writeStream.format("ottla").outputMode("complete").trigger(availableNow=True)
    query = sink.options(topic=topic, checkpointLocation=str(tmp_path / "checkpoint")).option(
        "kafka.bootstrap.servers", bootstrap
    )
    assert query.start().awaitTermination(60)
    assert {record.key(): record.value() for record in records_of(bootstrap, topic)} == {b"a": b"2", b"b": b"1"}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    """A cluster whose broker may be ended, and that makes no topics by itself."""
    directory = tmp_path_factory.mktemp("writing") / "cluster"
    with OttlaCluster(directory, arguments=["--set", "broker:auto.create.topics.enable=false"]) as cluster:
        yield cluster


def test_a_topic_that_does_not_exist_fails_the_query_with_its_name(
    spark: "SparkSession", own_cluster: OttlaCluster
) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as value")
    assert "topic 'flihgts' does not exist" in failure_of(frame, own_cluster.bootstrap, topic="flihgts")


def test_a_partition_that_a_producer_does_not_know_yet_is_not_taken_for_missing(own_cluster: OttlaCluster) -> None:
    bootstrap, topic = own_cluster.bootstrap, make_topic(own_cluster.bootstrap)
    options = {"kafka.bootstrap.servers": bootstrap}
    known = RecordProducer(librdkafka_settings(options, kind="producer"))
    assert known.send([(topic, b"a", None, 0)]) == 1
    known.finish()
    with pytest.raises(MissingTopic, match="has no partition 1"):
        known.send([(topic, b"b", None, 1)])
    known.discard()

    known = RecordProducer(librdkafka_settings(options, kind="producer"))
    assert known.send([(topic, b"a", None, 0)]) == 1
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_partitions([NewPartitions(topic, 2)]).values()
    created.result(READ_DEADLINE_S)
    eventually(lambda: len(end_offsets(bootstrap, topic)) == 2, "there are two partitions")
    with pytest.raises(RecordsUndelivered, match="Unknown partition"):
        known.send([(topic, b"b", None, 1)])
    known.discard()


def test_a_broker_that_hangs_in_mid_write_fails_the_query(
    spark: "SparkSession", own_cluster: OttlaCluster, tmp_path: Path
) -> None:
    bootstrap, topic = own_cluster.bootstrap, make_topic(own_cluster.bootstrap)
    failed = threading.Event()

    def hang() -> None:
        eventually(lambda: sum(end_offsets(bootstrap, topic).values()), "the first records arrive")
        with stopped(own_cluster.broker.pid):
            (tmp_path / "go on").touch()
            failed.wait(60)

    with ThreadPoolExecutor(1) as thread:  # Spark wants queries in the thread that has its session
        hanging = thread.submit(hang)
        rows = many_rows(spark, half_after=tmp_path / "go on")
        failure = failure_of(rows, bootstrap, topic=topic, kafka_delivery_timeout_ms="3000")
        failed.set()
        hanging.result()
    assert f"records were not acknowledged, the first one for topic '{topic}'" in failure
    ends = eventually(lambda: end_offsets(bootstrap, topic), "the broker leads its partitions again")
    assert sum(ends.values()) < MANY


def test_a_broker_that_is_killed_in_mid_write_and_comes_back_has_every_row(
    spark: "SparkSession", own_cluster: OttlaCluster, tmp_path: Path
) -> None:
    bootstrap, topic = own_cluster.bootstrap, make_topic(own_cluster.bootstrap, partitions=2)

    def kill() -> int:
        reached = eventually(lambda: sum(end_offsets(bootstrap, topic).values()), "the first records arrive")
        os.kill(own_cluster.broker.pid, signal.SIGKILL)
        (tmp_path / "go on").touch()
        return reached

    with ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill)
        write(many_rows(spark, half_after=tmp_path / "go on"), bootstrap, topic=topic)
        assert killing.result() < MANY
    own_cluster.refresh()
    assert {int(value) for value in values_of(bootstrap, topic)} == set(range(MANY))


def many_rows(spark: "SparkSession", *, half_after: Path) -> "DataFrame":
    """Many rows of one task, the second half of them not before the file `half_after` exists."""

    def waiting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch["id"][0].as_py() >= MANY // 2:
                eventually(half_after.exists, f"{half_after} exists", within_s=READ_DEADLINE_S)
            yield batch

    return (
        spark.range(0, MANY, 1, 1)
        .mapInArrow(waiting, "id long")
        .select(functions.lpad(functions.col("id").cast("string"), 200, "0").alias("value"))
    )
