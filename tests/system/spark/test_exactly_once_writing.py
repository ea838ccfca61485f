"""Writing batches exactly once: what is done again is not written again, and readers see a batch as a whole."""

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions

from ottla_spark.datasource.batch_numbers_topic import ensure_topic
from ottla_spark.datasource.exactly_once import ExactlyOnceWriter, write_task
from ottla_spark.datasource.transaction_plan import transaction_plan
from ottla_spark.datasource.transactional_producer import TransactionalProducer
from ottla_spark.job.checkpoint import LocalFolder, offsets_digest
from pyspark_ottla import exactly_once
from tests.conftest import TopicFactory
from tests.support.clusters.broker_under_test import make_topic
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_TIMEOUT_S = 0.2
ANSWER_TIMEOUT_S = 30.0


def committed_values(bootstrap: str, topic: str) -> list[str]:
    """The values that a reader of committed records gets, up to the first that is undecided."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        values: list[str] = []
        ended: set[int | None] = set()

        def all_read() -> bool:
            for message in consumer.consume(1000, READ_TIMEOUT_S):
                error = message.error()
                if error is None:
                    value = message.value()
                    assert isinstance(value, bytes)
                    values.append(value.decode())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
            return len(ended) == len(partitions)

        eventually(all_read, f"{topic} is read")
    finally:
        consumer.close()
    return values


@pytest.fixture
def options(bootstrap: str, new_topic: TopicFactory) -> dict[str, str]:
    """Of a writer to a topic of its own, whose numbers are in a topic of their own."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "topic": new_topic(partitions=3),
        "batchNumbersTopic": f"numbers-{uuid.uuid4()}",
    }


def numbers(spark: "SparkSession", first: int, end: int) -> "DataFrame":
    return spark.range(first, end, 1, 4).selectExpr("cast(id as string) as key", "cast(id as string) as value")


def texts(first: int, end: int) -> list[str]:
    return sorted(str(number) for number in range(first, end))


def test_a_batch_that_is_done_again_is_not_written_again(
    spark: "SparkSession", bootstrap: str, options: dict[str, str]
) -> None:
    query = str(uuid.uuid4())
    writer = ExactlyOnceWriter(options)
    writer.write(numbers(spark, 0, 1000), query, 0)
    writer.write(numbers(spark, 0, 1000), query, 0)
    writer.write(numbers(spark, 1000, 1500), query, 1)
    ExactlyOnceWriter(options).write(
        numbers(spark, 7000, 8000), query, 1
    )  # other rows, as after a change of the query
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 1500)


def arrow(first: int, end: int) -> pa.RecordBatch:
    rows = texts(first, end)
    return pa.RecordBatch.from_pydict({"key": rows, "value": rows})


def test_a_producer_that_was_kept_makes_way_for_one_that_claims_its_id_anew(
    spark: "SparkSession", bootstrap: str, options: dict[str, str]
) -> None:
    plan = transaction_plan(options, numbers(spark, 0, 1).schema)
    ensure_topic(plan)
    identity = f"kept-{uuid.uuid4()}"
    for number, batches in enumerate(
        ([arrow(0, 10)], [arrow(10, 20), arrow(20, 30)], [], [arrow(30, 30)], [arrow(30, 40)])
    ):
        (told,) = write_task(plan, identity, number, iter(batches))
        assert told.to_pydict() == {"records": [sum(map(len, batches))], "written": [True]}
        another = TransactionalProducer(plan.write.settings, identity)
        another.claim(plan.numbers_topic)  # as a process that does the batch again
        another.discard()
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 40)


def test_each_query_has_numbers_of_its_own(spark: "SparkSession", bootstrap: str, options: dict[str, str]) -> None:
    writer = ExactlyOnceWriter(options)
    for query, first in ((str(uuid.uuid4()), 0), (str(uuid.uuid4()), 10)):
        writer.write(numbers(spark, first, first + 10), query, 0)
        writer.write(numbers(spark, first, first + 10), query, 0)
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 20)


def test_nothing_of_a_batch_that_fails_is_seen_and_it_is_written_by_the_next_attempt(
    spark: "SparkSession", bootstrap: str, options: dict[str, str]
) -> None:
    query = str(uuid.uuid4())
    writer = ExactlyOnceWriter(options)
    failing = numbers(spark, 0, 50_000).withColumn(
        "value", functions.expr("if(value = '49999', raise_error('no such luck'), value)")
    )
    refused = numbers(spark, 0, 10).withColumn("partition", functions.expr("if(value = '9', -3, 0)"))
    for frame in (failing, refused):
        with pytest.raises(PySparkException):
            writer.write(frame, query, 0)
    assert committed_values(bootstrap, options["topic"]) == []
    writer.write(numbers(spark, 0, 10), query, 0)
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 10)


def test_batches_of_which_nothing_is_known_are_refused(
    spark: "SparkSession", bootstrap: str, options: dict[str, str]
) -> None:
    query = str(uuid.uuid4())
    writer = ExactlyOnceWriter(options)
    with pytest.raises(PySparkException, match=r"this is batch 7, .* no batch is the last one written"):
        writer.write(numbers(spark, 0, 10), query, 7)
    later = ExactlyOnceWriter({**options, "exactlyOnceSince": "7"})
    later.write(numbers(spark, 0, 10), query, 7)
    later.write(numbers(spark, 10, 20), query, 8)
    with pytest.raises(PySparkException, match=r"this is batch 10, .* batch 8 is the last one written"):
        later.write(numbers(spark, 0, 10), query, 10)
    with pytest.raises(PySparkException, match=r"this is batch 3, .* batch 8 is written"):
        later.write(numbers(spark, 0, 10), query, 3)
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 20)


def test_the_topic_of_numbers_is_compacted_and_of_one_partition(
    spark: "SparkSession", bootstrap: str, options: dict[str, str]
) -> None:
    ExactlyOnceWriter(options).write(numbers(spark, 0, 1), str(uuid.uuid4()), 0)
    made = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=ANSWER_TIMEOUT_S)
    assert list(made.topics[options["batchNumbersTopic"]].partitions) == [0]


Stream = Callable[["DataFrame", int], None]


def run_to_the_end(spark: "SparkSession", bootstrap: str, source: str, checkpoint: Path, write: Stream) -> None:
    """Have a streaming query write what the source has now."""
    rows = (
        spark.readStream.format("ottla")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"})
        .load()
        .select("key", "value")
    )
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_streams_batch_is_written_once_though_spark_has_forgotten_that_it_was_done(
    spark: "SparkSession", bootstrap: str, options: dict[str, str], tmp_path: Path
) -> None:
    source, repeated = make_topic(bootstrap), make_topic(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})

    def repeating(batch: "DataFrame", _number: int) -> None:
        to = {"kafka.bootstrap.servers": bootstrap, "topic": repeated}
        batch.write.format("ottla").mode("append").options(**to).save()

    writers: dict[str, Stream] = {"once": exactly_once(options), "repeating": repeating}
    for first in (0, 100):
        for number in range(first, first + 100):
            producer.produce(source, str(number))
        assert producer.flush(ANSWER_TIMEOUT_S) == 0
        for name, write in writers.items():
            for _ in range(2):
                run_to_the_end(spark, bootstrap, source, tmp_path / name, write)
                forget(tmp_path / name / "commits")  # as if it had been killed just before
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 200)
    assert len(committed_values(bootstrap, repeated)) > 200  # so this would be noticed


def test_a_checkpoint_that_was_put_back_does_not_have_other_rows_taken_for_written(
    spark: "SparkSession", bootstrap: str, options: dict[str, str], tmp_path: Path
) -> None:
    source, checkpoint = make_topic(bootstrap), tmp_path / "once"
    producer = Producer({"bootstrap.servers": bootstrap})
    write = ExactlyOnceWriter(options, partial(offsets_digest, LocalFolder(tmp_path), "once"))
    for first in (0, 10):
        for number in range(first, first + 10):
            producer.produce(source, str(number))
        assert producer.flush(ANSWER_TIMEOUT_S) == 0
        run_to_the_end(spark, bootstrap, source, checkpoint, write)
        forget(checkpoint / "commits")
        run_to_the_end(spark, bootstrap, source, checkpoint, write)  # the same batch, so it is left as it is
    producer.produce(source, "20")
    assert producer.flush(ANSWER_TIMEOUT_S) == 0
    for log in ("commits", "offsets"):
        forget(checkpoint / log)
    with pytest.raises(StreamingQueryException, match="but of other offsets"):
        run_to_the_end(spark, bootstrap, source, checkpoint, write)
    assert sorted(committed_values(bootstrap, options["topic"])) == texts(0, 20)


def forget(log: Path) -> None:
    """Take the last entry of a log of Spark's away."""
    last = max(log.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (log / f".{last.name}.crc").unlink()
