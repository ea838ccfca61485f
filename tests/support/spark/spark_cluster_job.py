"""A job that uses all that executors need: clients, Arrow, pandas, fastavro, a user's Python function, and shuffles.

A test runs it in its own session, and as a program of its own (`python spark_cluster_job.py DOCUMENT`), which is the
driver of a cluster; what it says of the data has to be the same.
"""

import json
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from ottla_spark.cluster.executors import waits_for_executors
from ottla_spark.formats.decoding import decoded
from ottla_spark.formats.encoding import encoded
from ottla_spark.formats.format import Format
from ottla_spark.session import start_session

DELAYS = "carrier STRING, delay_minutes INT"
AVERAGES = (
    '{"type": "record", "name": "Averages", "fields": [{"name": "carrier", "type": "string"}, '
    '{"name": "flights", "type": "long"}, {"name": "delay", "type": "double"}]}'
)
STREAM_DEADLINE_S = 300
WAITS = "waits for executors"
LOOK_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """What the job works on.

    Attributes:
        bootstrap: a broker.
        delays: the topic to read: JSON of `DELAYS`.
        averages: an empty topic to write to: Avro of `AVERAGES`.
        folder: of tables and checkpoints.
        settings: Spark's.
    """

    bootstrap: str
    delays: str
    averages: str
    folder: str
    settings: dict[str, str]

    def as_argument(self) -> str:
        return json.dumps(asdict(self))


def run(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Runs the job and returns what it found, and where Python ran."""
    delays = _decoded(spark.read, job, job.delays, Format(name="json", schema=DELAYS))
    averages = delays.groupBy("carrier").agg(sf.count("*").alias("flights"), sf.avg("delay_minutes").alias("delay"))
    records = encoded(
        averages, key=Format(name="string"), value=Format(name="avro", schema=AVERAGES), key_columns=["carrier"]
    )
    _written_to_topic(records, job)
    written = _decoded(spark.read, job, job.averages, Format(name="avro", schema=AVERAGES))
    return {
        "averages": _rows(written.select("_key", "carrier", "flights", "delay")),
        "streamed": _streamed(spark, job),
        "late": _late(delays),
        "python": _rows(delays.select(_python()(sf.col("_partition")).alias("ran")).distinct()),
    }


def _decoded(reader: Any, job: Job, topic: str, value: Format) -> DataFrame:
    options = {"kafka.bootstrap.servers": job.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return decoded(reader.format("ottla").options(**options).load(), key=Format(name="string"), value=value)


def _written_to_topic(records: DataFrame, job: Job) -> None:
    options = {"kafka.bootstrap.servers": job.bootstrap, "topic": job.averages}
    records.write.format("ottla").options(**options).mode("append").save()


def _streamed(spark: SparkSession, job: Job) -> list[list[Any]]:
    stream = _decoded(spark.readStream, job, job.delays, Format(name="json", schema=DELAYS))
    table, checkpoint = f"{job.folder}/delays", f"{job.folder}/checkpoint"
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(table)
    )
    try:
        assert query.awaitTermination(STREAM_DEADLINE_S), "the stream did not end"
    finally:
        query.stop()
    return _rows(spark.read.parquet(table).groupBy("carrier").agg(sf.count("*"), sf.sum("delay_minutes")))


def _late(delays: DataFrame) -> list[list[Any]]:
    @sf.pandas_udf("boolean")  # type: ignore[attr-defined, untyped-decorator]
    def is_late(minutes: pd.Series) -> pd.Series:
        return minutes > 15

    return _rows(delays.where(is_late(sf.col("delay_minutes"))).groupBy("carrier").count())


def _python() -> Any:
    @sf.udf("string")
    def ran(partition: int) -> str:
        import sys  # noqa: PLC0415 - pickled by value, it may refer to nothing of this file

        import fastavro  # noqa: PLC0415

        return f"{sys.executable} {fastavro.__file__}"

    return ran


def _rows(frame: DataFrame) -> list[list[Any]]:
    return sorted(list(row) for row in frame.collect())


def _tell_when_it_waits(spark: SparkSession, done: threading.Event) -> None:
    while not done.wait(LOOK_INTERVAL_S):
        if waits_for_executors(spark):
            print(WAITS, flush=True)
            return


if __name__ == "__main__":
    document = Job(**json.loads(sys.argv[1]))
    session = start_session("cluster-job", document.settings)
    ended = threading.Event()
    telling = threading.Thread(target=_tell_when_it_waits, args=(session, ended))
    telling.start()
    try:
        print(json.dumps(run(session, document)))
    finally:
        ended.set()
        telling.join()
        session.stop()
