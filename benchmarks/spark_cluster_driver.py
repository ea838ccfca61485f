"""A driver of a Spark cluster that does what it is told on its standard input, one JSON document per line.

It is started as `python -m benchmarks.spark_cluster_driver MASTER BOOTSTRAP`. A request is `{"topic": …, "rounds": …,
"executors": …}`, its answer `{"seconds": …, "records": …}`; the first answer, `{}`, says that Spark has started.
"""

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions

from ottla_spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS_DEADLINE_S = 120.0
POLL_INTERVAL_S = 0.1
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
}


def main(master: str, bootstrap: str) -> None:
    """Serve requests until standard input ends."""
    spark = start_session("benchmark-cluster", {**SETTINGS, "spark.master": master})
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        _await_executors(spark, request["executors"])
        began_s = time.monotonic()
        records = run(spark, bootstrap, request["topic"], request["rounds"])
        print(json.dumps({"seconds": time.monotonic() - began_s, "records": records}), flush=True)
    spark.stop()


def run(spark: "SparkSession", bootstrap: str, topic: str, rounds: int) -> int:
    """Hash every record of the topic and return how many different results there are: as many as records."""
    source = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
    hashed = source.select(_expensive(rounds)(functions.col("value")).alias("hash"))
    return int(hashed.agg(functions.count_distinct("hash")).collect()[0][0])


def _expensive(rounds: int) -> Any:
    @functions.udf("string")
    def expensive(value: bytes) -> str:
        import hashlib  # noqa: PLC0415 - pickled by value, it may refer to nothing of this file

        for _ in range(rounds):
            value = hashlib.sha256(value).digest()
        return value.hex()

    return expensive


def _await_executors(spark: "SparkSession", count: int) -> None:
    """Wait until there are so many executors; the list has the driver, too."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - PySpark has no other way to ask
    deadline_s = time.monotonic() + EXECUTORS_DEADLINE_S
    while len(tracker.getExecutorInfos()) - 1 != count:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"there are {len(tracker.getExecutorInfos()) - 1} executors instead of {count}")
        time.sleep(POLL_INTERVAL_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
