"""Jobs in a Spark session: from settings by way of a plan to queries, with topics of a real broker.

Nearly all run with `trigger.available.now`, so that they end by themselves when they have done what there is.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla_sdk import FatalError
from ottla_spark import SparkPipeline, SparkSink, SparkSource
from ottla_spark.job.checkpoint import FILE_NAME, HadoopFolder
from ottla_spark.job.checkpoint_record import CheckpointRecord, ForeignCheckpoint
from ottla_spark.job.clients import topic_clients
from ottla_spark.job.plan import PythonFunction
from ottla_spark.job.planning import plan_of
from ottla_spark.job.progress import QueryProgress
from ottla_spark.job.python_function import load_function
from ottla_spark.job.running_job import RunningJob
from ottla_spark.messages import in_plain_words, kind_of
from tests.conftest import TopicFactory
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

DEADLINE_S = 300.0
POLL_TIMEOUT_S = 10.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scene:
    """Spark, a broker, and a folder."""

    spark: SparkSession
    bootstrap: str
    folder: Path

    def job(self, connector: Any, settings: Mapping[str, str], *, name: str = "job") -> RunningJob:
        """A job of a connector with these settings, begun."""
        written = {"checkpoint.location": str(self.folder / "state"), "trigger.available.now": "true", **settings}
        plan = plan_of(connector.config_model.parse(written), name)
        worker = {"bootstrap.servers": self.bootstrap}
        job = RunningJob(self.spark, plan, topic_clients(plan, worker, worker), log)
        job.begin(load_function(plan.query) if isinstance(plan.query, PythonFunction) else None)
        return job

    def run(self, connector: Any, settings: Mapping[str, str]) -> dict[str, list[QueryProgress]]:
        """Runs a job to its end; returns what each of its queries has done."""
        job = self.job(connector, settings)
        done: dict[str, list[QueryProgress]] = {}
        try:
            eventually(lambda: not job.is_active(), "the job is done", within_s=DEADLINE_S)
            job.check()
            for output, progress in job.news():
                done.setdefault(output, []).append(progress)
            assert {each["state"] for each in job.document().values()} == {"finished"}
        finally:
            job.stop()
        return done

    def publish(self, topic: str, rows: Sequence[Mapping[str, Any] | str], *, key: str = "") -> None:
        """Publishes rows as JSON, and texts as they are."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for row in rows:
            if isinstance(row, str):
                producer.produce(topic, row)
            else:
                producer.produce(topic, json.dumps(row), key=str(row[key]) if key else None)
        assert producer.flush(30) == 0

    def read(self, topic: str) -> list[tuple[str | None, Any]]:
        """The keys and JSON values of a topic, by partition and offset."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        found = []
        try:
            for partition in consumer.list_topics(topic).topics[topic].partitions:
                _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition))
                consumer.assign([TopicPartition(topic, partition, 0)])
                while end and (message := consumer.poll(POLL_TIMEOUT_S)) is not None:
                    key, value = message.key(), message.value()
                    found.append((key and key.decode(), value and json.loads(value)))
                    if message.offset() == end - 1:
                        break
        finally:
            consumer.close()
        return found


@pytest.fixture
def scene(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Scene:
    return Scene(spark, bootstrap, tmp_path)


def flight(carrier: str, hour: int, delay: float) -> dict[str, Any]:
    return {"carrier": carrier, "dep_delay": delay, "time_hour": f"2013-01-01T{hour:02}:15:00Z"}


def test_windows_with_a_static_table_go_on_where_they_were(scene: Scene, new_topic: TopicFactory) -> None:
    flights, latest = new_topic(partitions=2), new_topic()
    (scene.folder / "airlines.csv").write_text("carrier,name\nAA,American\nUA,United\n")
    settings = {
        "tables": "flights,airlines",
        "tables.flights.topic": flights,
        "tables.flights.watermark": "time_hour 1 hour",
        "tables.airlines.mode": "static",
        "tables.airlines.format": "csv",
        "tables.airlines.path": str(scene.folder / "airlines.csv"),
        "tables.airlines.options.header": "true",
        "tables.flights.value.schema": "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP",
        "sql": """
            CREATE TEMPORARY VIEW hourly AS -- one; two
                SELECT carrier, window(time_hour, '1 hour').start AS hour,
                    count(*) AS flights, avg(dep_delay) AS delay
                FROM flights GROUP BY carrier, window(time_hour, '1 hour');
            SELECT name, hour, flights, delay FROM hourly JOIN airlines USING (carrier)
        """,
        "outputs": "latest,table",
        "outputs.latest.topic": latest,
        "outputs.latest.mode": "update",
        "outputs.latest.key.columns": "name",
        "outputs.table.format": "parquet",
        "outputs.table.path": str(scene.folder / "table"),
        "outputs.table.partition.by": "name",
    }
    first = [flight("AA", 5, 10), flight("AA", 5, 20), flight("UA", 5, 1), flight("AA", 6, 3)]
    scene.publish(flights, first, key="carrier")
    done = scene.run(SparkPipeline, settings)
    assert sum(progress.rows for progress in done["latest"]) == 4
    at_five = {key: row["flights"] for key, row in scene.read(latest) if row["hour"].startswith("2013-01-01T05")}
    assert at_five == {"American": 2, "United": 1}
    assert table(scene) == [], "no window is over before the watermark has passed it"

    scene.publish(flights, [flight("AA", 6, 5), flight("UA", 9, 7)], key="carrier")
    done = scene.run(SparkPipeline, settings)
    assert sum(progress.rows for progress in done["latest"]) == 2, "what was read before is not read again"
    assert table(scene) == [("American", 5, 2, 15.0), ("American", 6, 2, 4.0), ("United", 5, 1, 1.0)]
    assert done["latest"][-1].lag_records == {"flights": 0}
    assert done["table"][-1].watermark.startswith("2013-01-01T08:15")
    assert done["table"][-1].state_rows == 1
    american = [row["flights"] for key, row in scene.read(latest) if key == "American" and "T06" in row["hour"]]
    assert american[-1] == 2, "the window's count has gone on from where it was"

    shutil.rmtree(scene.folder / "state")
    with pytest.raises(FatalError, match=r"the output table has no checkpoint .* Bring the checkpoint back"):
        scene.run(SparkPipeline, settings)


def table(scene: Scene) -> list[tuple[str, int, int, float]]:
    """The rows of the partitioned table, read as Spark does."""
    if not any((scene.folder / "table").glob("name=*")):
        return []
    rows = scene.spark.read.parquet(str(scene.folder / "table")).collect()
    return sorted((row["name"], row["hour"].hour, row["flights"], row["delay"]) for row in rows)


def test_streams_are_joined_without_duplicates_and_schemas_are_inferred_once(
    scene: Scene, new_topic: TopicFactory
) -> None:
    orders, payments, paid = new_topic(), new_topic(), new_topic()
    at = "2026-01-01T10:00:00Z"
    scene.publish(orders, [{"id": 1, "item": "book"}, {"id": 1, "item": "book"}, {"id": 2, "item": "pen"}])
    scene.publish(payments, [{"order_id": 1, "at": at}, {"order_id": 3, "at": at}])
    settings = {
        "tables": "orders,payments",
        "tables.orders.topic": orders,
        "tables.orders.watermark": "_timestamp 1 hour",
        "tables.orders.deduplicate.by": "id",
        "tables.payments.topic": payments,
        "tables.payments.watermark": "_timestamp 1 hour",
        "sql": "SELECT id, item, at FROM orders JOIN payments ON id = order_id",
        "outputs": "paid",
        "outputs.paid.topic": paid,
        "outputs.paid.key.columns": "id",
    }
    scene.run(SparkPipeline, settings)
    assert [(key, row["item"]) for key, row in scene.read(paid)] == [("1", "book")]
    record = CheckpointRecord.from_json((scene.folder / "state" / FILE_NAME).read_text(), "")
    assert set(record.schemas) == {"orders", "payments"}

    scene.publish(orders, [{"id": 3, "item": "cup", "colour": "red"}, {"id": 1, "item": "book"}])
    scene.run(SparkPipeline, settings)
    assert [(key, row["item"]) for key, row in scene.read(paid)] == [("1", "book"), ("3", "cup")]
    again = CheckpointRecord.from_json((scene.folder / "state" / FILE_NAME).read_text(), "")
    assert again.schemas == record.schemas, "later records do not change a schema that was inferred"


def test_a_python_function_writes_a_database_and_a_topic(scene: Scene, new_topic: TopicFactory) -> None:
    numbers, odd = new_topic(), new_topic()
    (scene.folder / "ottla_test_split.py").write_text(
        "from pyspark.sql.functions import col, udf\n"
        "@udf('int')\n"
        "def squared(x):\n"
        "    return x * x\n"
        "def split(spark, tables):\n"
        "    squares = tables['numbers'].select('x', squared('x').alias('square'))\n"
        "    return {'even': squares.where(col('x') % 2 == 0), 'odd': squares.where(col('x') % 2 == 1)}\n"
    )
    file = scene.folder / "ottla_test_split.py"
    scene.spark.sparkContext.addPyFile(str(file))
    scene.publish(numbers, [{"x": number} for number in range(6)])
    database = f"jdbc:derby:memory:{scene.folder.name};create=true"
    settings = {
        "tables": "numbers",
        "tables.numbers.topic": numbers,
        "tables.numbers.value.schema": "x INT",
        "python.function": "ottla_test_split:split",
        "python.files": str(file),
        "outputs": "even,odd",
        "outputs.even.format": "jdbc",
        "outputs.even.options.url": database,
        "outputs.even.options.dbtable": "even",
        "outputs.even.options.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "outputs.odd.topic": odd,
    }
    scene.run(SparkPipeline, settings)
    read = scene.spark.read.format("jdbc").options(url=database, dbtable="even").load()
    assert sorted((row[0], row[1]) for row in read.collect()) == [(0, 0), (2, 4), (4, 16)]
    assert sorted(row["square"] for _, row in scene.read(odd)) == [1, 9, 25]


def test_what_is_no_stream_is_written_once(scene: Scene, new_topic: TopicFactory) -> None:
    topic = new_topic()
    (scene.folder / "in").mkdir()
    (scene.folder / "in" / "a.csv").write_text("id,name\n1,one\n2,two\n")
    settings = {
        "read.format": "csv",
        "read.path": str(scene.folder / "in"),
        "read.options.header": "true",
        "read.schema": "id INT, name STRING",
        "sql": "SELECT id, upper(name) AS name FROM input",
        "topic": topic,
        "key.columns": "id",
    }
    for _ in range(2):
        scene.run(SparkSource, settings)
    assert sorted(scene.read(topic)) == [("1", {"id": 1, "name": "ONE"}), ("2", {"id": 2, "name": "TWO"})]

    files = {
        "checkpoint.location": str(scene.folder / "copied"),
        "tables": "words",
        "tables.words.mode": "static",
        "tables.words.topic": topic,
        "outputs": "copy",
        "outputs.copy.from": "words",
        "outputs.copy.format": "parquet",
        "outputs.copy.path": str(scene.folder / "copy"),
    }
    scene.run(SparkPipeline, files)
    record = scene.folder / "copied" / FILE_NAME
    document = json.loads(record.read_text())
    assert (document["begun"], document["done"]) == ({"copy": True}, ["copy"])
    record.write_text(json.dumps({**document, "done": []}))  # as after a crash before the end
    scene.run(SparkPipeline, files)
    copied = scene.spark.read.parquet(str(scene.folder / "copy")).collect()
    assert sorted((row["_key"], row["name"]) for row in copied) == [("1", "ONE"), ("2", "TWO")]


def test_a_mistake_in_one_output_leaves_all_unwritten(scene: Scene, new_topic: TopicFactory) -> None:
    topic = new_topic()
    scene.publish(topic, [{"x": 1}])
    settings = {
        "tables": "numbers",
        "tables.numbers.topic": topic,
        "tables.numbers.value.schema": "x INT",
        "sql": "CREATE TEMPORARY VIEW bad AS SELECT y FROM numbers; SELECT x FROM numbers",
        "outputs": "good,bad",
        "outputs.good.format": "parquet",
        "outputs.good.path": str(scene.folder / "good"),
        "outputs.bad.format": "parquet",
        "outputs.bad.path": str(scene.folder / "bad"),
        "outputs.bad.from": "bad",
    }
    with pytest.raises(PySparkException) as raised:
        scene.job(SparkPipeline, settings)
    assert kind_of(raised.value) is FatalError
    assert "`y`" in in_plain_words(raised.value)
    good_sql = {**settings, "sql": "CREATE TEMPORARY VIEW bad AS SELECT x AS y FROM numbers; SELECT x FROM numbers"}
    with pytest.raises(FatalError, match=r"the output bad has no column z for partition\.by; there are y"):
        scene.job(SparkPipeline, {**good_sql, "outputs.bad.partition.by": "z"})
    with pytest.raises(FatalError, match="key"):
        scene.job(
            SparkPipeline,
            {
                **{key: value for key, value in good_sql.items() if not key.startswith("outputs.bad.")},
                "outputs.bad.topic": topic,
                "outputs.bad.key.columns": "no_such_key",
            },
        )
    assert list(scene.folder.iterdir()) == []


def test_a_bad_record_fails_its_query_and_stops_the_others(scene: Scene, new_topic: TopicFactory) -> None:
    good, bad = new_topic(), new_topic()
    scene.publish(good, [{"x": 1}])
    scene.publish(bad, [{"x": 1}, '{"x": "many"}'])
    settings = {
        "trigger.available.now": "false",
        "tables": "good,bad",
        "tables.good.topic": good,
        "tables.good.value.schema": "x INT",
        "tables.bad.topic": bad,
        "tables.bad.value.schema": "x INT",
        "outputs": "good,bad",
        "outputs.good.from": "good",
        "outputs.good.format": "parquet",
        "outputs.good.path": str(scene.folder / "good"),
        "outputs.bad.from": "bad",
        "outputs.bad.format": "parquet",
        "outputs.bad.path": str(scene.folder / "bad"),
    }
    job = scene.job(SparkPipeline, settings)
    try:

        def failure() -> Exception | None:
            try:
                job.check()
            except PySparkException as error:
                return error
            return None

        error = eventually(failure, "the query has failed", within_s=DEADLINE_S)
        assert kind_of(error) is FatalError
        assert f"topic {bad}, partition 0, offset 1" in in_plain_words(error)
        assert not job.is_active(), "the other query is stopped, too"
        assert list((scene.folder / "bad").glob("*.parquet")) == [], "nothing of the batch is left"
    finally:
        job.stop()


def test_a_sink_copies_with_keys_and_a_checkpoint_of_another_connector_is_refused(
    scene: Scene, new_topic: TopicFactory
) -> None:
    topic, copy = new_topic(partitions=3), new_topic()
    scene.publish(topic, [{"x": number} for number in range(5)], key="x")
    settings = {"topics": topic, "value.schema": "x INT", "write.format": "topic", "write.topic": copy}
    scene.run(SparkSink, settings)
    assert sorted(scene.read(copy)) == [(str(number), {"x": number}) for number in range(5)]
    with pytest.raises(ForeignCheckpoint, match=r"it belongs to the connector job .* this is other"):
        scene.job(SparkSink, settings, name="other")
    (scene.folder / "state" / FILE_NAME).unlink()
    with pytest.raises(ForeignCheckpoint, match="that no connector has made"):
        scene.job(SparkSink, settings)
    shutil.rmtree(scene.folder / "state")


def test_a_checkpoint_on_any_file_system_that_spark_knows(scene: Scene) -> None:
    folder = HadoopFolder(scene.spark, (scene.folder / "remote").as_uri())
    assert folder.is_empty()
    assert folder.read(FILE_NAME) is None
    for text in ('"first"', '"second: ü"'):
        folder.write(FILE_NAME, text)
        assert folder.read(FILE_NAME) == text
    assert not folder.is_empty()
    assert folder.has(FILE_NAME)
    (scene.folder / "remote" / FILE_NAME).rename(scene.folder / "remote" / f".{FILE_NAME}.new")
    assert folder.read(FILE_NAME) == '"second: ü"', "what was written and not renamed counts"
    (scene.folder / "remote" / f".{FILE_NAME}.new").write_text('"sec')
    (scene.folder / "remote" / f"..{FILE_NAME}.new.crc").unlink(missing_ok=True)
    assert folder.read(FILE_NAME) is None, "what was not written to its end does not"
