"""A Spark driver that does what it is told on its standard input, one JSON document per line, and answers likewise.

`python -m benchmarks.spark_driver FORMAT BOOTSTRAP [JAR…]` knows one format, with the jars that it needs. A request
is `{"do": "write", "read" or "query", "topic": …, "records": …}`, its answer `{"seconds": …, "records": …}`; the
first answer, `{}`, says that Spark has started. A query has `sql` over the table `records`, `columns` of its JSON
values, and the `start`, an offset, from which the topic's one partition is read; the second column of its answer
counts records.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

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
        began_s = time.monotonic()
        records = _RUNS[request["do"]](spark, format_name, bootstrap, request)
        print(json.dumps({"seconds": time.monotonic() - began_s, "records": records}), flush=True)
    spark.stop()


def write(spark: "SparkSession", format_name: str, bootstrap: str, request: Mapping[str, Any]) -> int:
    """Write so many records without keys, each with its number at its beginning, and return how many there were."""
    value = functions.rpad(functions.col("id").cast("string"), RECORD_BYTES, "x").alias("value")
    records: int = request["records"]
    rows = spark.range(0, records, 1, TASKS).select(value)
    sink = rows.write.format(format_name).mode("append").option("kafka.bootstrap.servers", bootstrap)
    sink.option("topic", request["topic"]).save()
    return records


def read(spark: "SparkSession", format_name: str, bootstrap: str, request: Mapping[str, Any]) -> int:
    """Read all records of the topic, look at every column, and return how many there were."""
    source = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", request["topic"]).load()
    looks = [functions.max(functions.length(column)) for column in ("key", "value", "topic")]
    looks += [functions.max(column) for column in ("partition", "offset", "timestamp", "timestampType")]
    counted = rows.agg(functions.count(functions.lit(1)).alias("records"), *looks).first()
    assert counted is not None, "an aggregate without groups has one row"
    return int(counted["records"])


def query(spark: "SparkSession", format_name: str, bootstrap: str, request: Mapping[str, Any]) -> int:
    """Answer SQL over a topic's JSON values from an offset on, and return how many records it counted."""
    start = json.dumps({request["topic"]: {"0": request["start"]}})
    source = spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", request["topic"]).option("startingOffsets", start).load()
    parted = functions.from_json(rows["value"].cast("string"), request["columns"]).alias("fields")
    rows.select(parted).select("fields.*").createOrReplaceTempView("records")
    return sum(int(row[1]) for row in spark.sql(request["sql"]).collect())


_RUNS: Final = {"write": write, "read": read, "query": query}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
