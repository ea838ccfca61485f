"""A Spark driver that does what it is told on its standard input, one JSON document per line, and answers likewise.

`python -m benchmarks.spark_driver FORMAT BOOTSTRAP [JAR…]` knows one format, with the jars that it needs. A request
is `{"do": "write" or "read", "topic": …, "records": …}`, its answer `{"seconds": …, "records": …}`; the first answer,
`{}`, says that Spark has started.
"""

import json
import sys
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions

from ottla_spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
TASKS = 4
RECORD_BYTES = 100


def main(format_name: str, bootstrap: str, jars: list[str]) -> None:
    """Serve requests until standard input ends."""
    settings = {"spark.master": f"local[{CORES}]", "spark.driver.memory": "1g"}
    if jars:
        settings["spark.jars"] = ",".join(jars)
    spark = start_session(f"benchmark-{format_name}", settings)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        run = write if request["do"] == "write" else read
        began_s = time.monotonic()
        records = run(spark, format_name, bootstrap, request["topic"], request["records"])
        print(json.dumps({"seconds": time.monotonic() - began_s, "records": records}), flush=True)
    spark.stop()


def write(spark: "SparkSession", format_name: str, bootstrap: str, topic: str, records: int) -> int:
    """Write so many records without keys, each with its number at its beginning, and return how many there were."""
    value = functions.rpad(functions.col("id").cast("string"), RECORD_BYTES, "x").alias("value")
    rows = spark.range(0, records, 1, TASKS).select(value)
    sink = rows.write.format(format_name).mode("append").option("kafka.bootstrap.servers", bootstrap)
    sink.option("topic", topic).save()
    return records


def read(spark: "SparkSession", format_name: str, bootstrap: str, topic: str, _: int) -> int:
    """Read all records of the topic, look at every column, and return how many there were."""
    source = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", topic).load()
    looks = [functions.max(functions.length(column)) for column in ("key", "value", "topic")]
    looks += [functions.max(column) for column in ("partition", "offset", "timestamp", "timestampType")]
    counted = rows.agg(functions.count(functions.lit(1)).alias("records"), *looks).first()
    assert counted is not None, "an aggregate without groups has one row"
    return int(counted["records"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
