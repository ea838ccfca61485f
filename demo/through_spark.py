"""The demo's third part: Spark computes how late the flights of each airline were, hour by hour.

A `SparkPipeline` connector reads the topic of flights as a stream, groups it by airline and hour of departure, joins
the airlines' names from another topic, and writes the result into a third topic and into a partitioned parquet table.
Then both are compared with what pandas computes from the package's CSV files: every number of every window.

A window is written once it lies before the *watermark*: the latest hour seen so far, minus how late flights may come.
The file has its months in the order 1, 10, 11, 12, 2, …, so a flight may come 334 days after a later one, and the
pipeline allows for 365; into which batches Spark divides the topic then makes no difference. In a stream that goes
on, later flights end the last windows. Here one flight long after all others does; its own window is never written.
"""

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.through_connect import (
    DEADLINE_S,
    POLL_S,
    REQUEST_TIMEOUT_S,
    ConnectFailed,
    create_connector,
    raise_if_failed,
)

FLIGHTS, AIRLINES, DELAYS = "flights", "airlines", "delays"
CONNECTOR = "delays"
WARNINGS = 4
"""A level of librdkafka's log, which goes to standard error."""
# Of a known airline: Spark filters rows that no join can match before they count for the watermark.
CLOSING_FLIGHT = {"carrier": "UA", "dep_delay": 0, "time_hour": "2016-01-01T00:00:00Z"}
HOUR_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
READ_AT_ONCE = 10_000
READ_SILENCE_S = 30.0

SQL = """
CREATE TEMPORARY VIEW windows AS
SELECT carrier,
       window.start AS hour,
       count(*) AS flights,
       count_if(dep_delay IS NULL) AS cancelled,
       coalesce(sum(dep_delay), 0) AS delay_minutes,
       avg(dep_delay) AS mean_delay_minutes
FROM flights
GROUP BY carrier, window(time_hour, '1 hour');

SELECT carrier, name AS airline, hour, flights, cancelled, delay_minutes, mean_delay_minutes
FROM windows JOIN airlines USING (carrier)
"""


@dataclass(frozen=True, slots=True)
class Delays:
    """How late an airline's flights left within some time.

    Attributes:
        airline: its name.
        flights: all that were planned.
        cancelled: those that did not leave.
        minutes: the sum of the others' delays, in which those that left early count as negative.
        mean_minutes: of the same; None if no flight left.
    """

    airline: str
    flights: int
    cancelled: int
    minutes: int
    mean_minutes: float | None

    @classmethod
    def counted(cls, airline: str, flights: int, departed: int, minutes: int) -> "Delays":
        """Return it with what follows from the numbers."""
        return cls(airline, flights, flights - departed, minutes, minutes / departed if departed else None)


Windows = dict[tuple[str, str], Delays]
"""By the airline's code and the hour's begin in UTC, such as `2013-01-01T10:00:00Z`."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """How the analysis went.

    Attributes:
        windows: what the topic, the table and pandas agree on.
        seconds: from the creation of the connector until the last window stood in both; Spark's start is included.
    """

    windows: Windows
    seconds: float

    def by_airline(self) -> list[Delays]:
        """Return the whole year's delays of each airline, the latest first."""
        groups: dict[str, list[Delays]] = {}
        for window in self.windows.values():
            groups.setdefault(window.airline, []).append(window)
        years = [
            Delays.counted(
                airline,
                sum(each.flights for each in group),
                sum(each.flights - each.cancelled for each in group),
                sum(each.minutes for each in group),
            )
            for airline, group in groups.items()
        ]
        return sorted(years, key=lambda year: year.mean_minutes or 0.0, reverse=True)


def analyse_flights(
    bootstrap: str, worker_url: str, package: Path, directory: Path, on_lag: Callable[[int], None]
) -> Analysed:
    """Compute the delays.

    Args:
        bootstrap: the cluster, which has the topic of flights.
        worker_url: the Connect worker's REST API.
        package: the folder with the CSV files.
        directory: for the table and the checkpoint.
        on_lag: told how many flights are still to be read, now and then.

    Raises:
        ConnectFailed: the connector failed, or a number is not what pandas says.
    """
    expected = windows_by_pandas(package)
    publish_airlines(bootstrap, package / "airlines.csv")
    publish(bootstrap, FLIGHTS, [(None, json.dumps(CLOSING_FLIGHT).encode())])
    table = directory / "delays"

    began_s = time.monotonic()
    create_connector(worker_url, CONNECTOR, pipeline_config(table, directory / "checkpoint"))
    wait_until_done(worker_url, on_lag)
    seconds = time.monotonic() - began_s

    compare("topic", windows_of_topic(bootstrap), expected)
    compare("table", windows_of_table(table), expected)
    return Analysed(expected, seconds)


def pipeline_config(table: Path, checkpoint: Path) -> dict[str, str]:
    """Return the pipeline's settings."""
    return {
        "connector.class": "ottla_spark.SparkPipeline",
        "checkpoint.location": str(checkpoint),
        "trigger.available.now": "true",
        "tables": "flights,airlines",
        "tables.flights.topic": FLIGHTS,
        "tables.flights.value.schema": "carrier STRING, dep_delay INT, time_hour TIMESTAMP",
        "tables.flights.watermark": "time_hour 365 days",
        "tables.airlines.topic": AIRLINES,
        "tables.airlines.mode": "static",
        "tables.airlines.value.schema": "carrier STRING, name STRING",
        "sql": SQL,
        "outputs": "topic,table",
        "outputs.topic.topic": DELAYS,
        "outputs.topic.key.columns": "carrier,hour",
        "outputs.topic.key.format": "json",
        "outputs.table.format": "parquet",
        "outputs.table.path": str(table),
        "outputs.table.partition.by": "carrier",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "-1",
        "spark.driver.memory": "1g",
    }


def publish_airlines(bootstrap: str, file: Path) -> None:
    """Publish the airlines as JSON, keyed by their codes."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNINGS})
    admin.create_topics([NewTopic(AIRLINES, num_partitions=1, replication_factor=1)])[AIRLINES].result(30)
    with file.open(encoding="utf-8", newline="") as opened:
        airlines = list(csv.DictReader(opened))
    publish(bootstrap, AIRLINES, ((each["carrier"].encode(), json.dumps(each).encode()) for each in airlines))


def publish(bootstrap: str, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
    """Publish a few records.

    Raises:
        ConnectFailed: the cluster has not taken one.
    """
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in records:
        producer.produce(
            topic, key=key, value=value, on_delivery=lambda error, _: failures.append(error.str()) if error else None
        )
    producer.flush()
    if failures:
        raise ConnectFailed(f"{len(failures)} records could not be published to {topic}: {failures[0]}")


def wait_until_done(worker_url: str, on_lag: Callable[[int], None]) -> None:
    """Wait until the pipeline has written both outputs.

    Raises:
        ConnectFailed: it has failed, or it takes too long.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        outputs = progress_of(worker_url)
        raise_if_failed(worker_url)
        lags = [each["lag_records"].get("flights", 0) for each in outputs.values() if "lag_records" in each]
        if len(lags) == len(outputs) > 0:
            on_lag(max(lags))
        if outputs and all(each["state"] == "finished" for each in outputs.values()):
            return
        if time.monotonic() > deadline:
            raise ConnectFailed(f"{CONNECTOR} is not done after {DEADLINE_S:.0f} s: {outputs}")
        time.sleep(POLL_S)


def progress_of(worker_url: str) -> dict[str, dict[str, Any]]:
    """Return what the task says of its outputs; nothing before Spark has started."""
    answer = httpx.get(f"{worker_url}/connectors/{CONNECTOR}/status", timeout=REQUEST_TIMEOUT_S)
    if answer.is_error:  # not every part of the worker knows the connector yet
        return {}
    outputs: dict[str, dict[str, Any]] = {}
    for task in answer.json()["tasks"]:
        outputs |= task.get("progress", {}).get("outputs", {})
    return outputs


def windows_by_pandas(package: Path) -> Windows:
    """Return all windows, computed from the package's files."""
    names = pd.read_csv(package / "airlines.csv").set_index("carrier")["name"]
    flights = pd.read_csv(package / "flights.csv.zip", usecols=["carrier", "dep_delay", "time_hour"])
    counted = flights.groupby(["carrier", "time_hour"])["dep_delay"].agg(["size", "count", "sum"])
    return {
        (carrier, hour): Delays.counted(names[carrier], size, departed, int(minutes))
        for (carrier, hour), size, departed, minutes in counted.itertuples(name=None)
    }


def windows_of_topic(bootstrap: str) -> Windows:
    """Return all windows of the result topic. After a crash one may be there twice, with the same numbers.

    Raises:
        ConnectFailed: they are not, or the topic cannot be read.
    """
    windows: Windows = {}
    for row in map(json.loads, values_of_topic(bootstrap, DELAYS)):
        hour = datetime.fromisoformat(row["hour"]).astimezone(UTC).strftime(HOUR_FORMAT)
        found = Delays(
            row["airline"], row["flights"], row["cancelled"], row["delay_minutes"], row.get("mean_delay_minutes")
        )
        known = windows.setdefault((row["carrier"], hour), found)
        if known != found:
            raise ConnectFailed(f"the topic {DELAYS} has {known} as well as {found} at {hour}")
    return windows


def values_of_topic(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Yield the values of a topic's records.

    Raises:
        ConnectFailed: it cannot be read to its end.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False})
    try:
        partitions = [
            TopicPartition(topic, number) for number in consumer.list_topics(topic, 30).topics[topic].partitions
        ]
        missing = 0
        for partition in partitions:
            partition.offset, end = consumer.get_watermark_offsets(partition, 30)
            missing += end - partition.offset
        consumer.assign(partitions)
        while missing:
            messages = consumer.consume(min(missing, READ_AT_ONCE), READ_SILENCE_S)
            failures = [error.str() for message in messages if (error := message.error()) is not None]
            if failures or not messages:
                raise ConnectFailed(f"{missing:,} records of {topic} do not come: {failures}")
            yield from (message.value() or b"" for message in messages)
            missing -= len(messages)
    finally:
        consumer.close()


def windows_of_table(table: Path) -> Windows:
    """Return all windows of the parquet table.

    Raises:
        ConnectFailed: it has one twice.
    """
    rows = pd.read_parquet(table)
    rows["hour"] = pd.to_datetime(rows["hour"], utc=True).dt.strftime(HOUR_FORMAT)
    rows = rows.astype({"mean_delay_minutes": object})
    rows = rows.where(rows.notna(), None)
    numbers = ["airline", "flights", "cancelled", "delay_minutes", "mean_delay_minutes"]
    windows = {
        (carrier, hour): Delays(*values)
        for carrier, hour, *values in rows[["carrier", "hour", *numbers]].itertuples(index=False, name=None)
    }
    if len(windows) != len(rows):
        raise ConnectFailed(f"the table has {len(rows):,} rows for {len(windows):,} windows")
    return windows


def compare(place: str, found: Windows, expected: Windows) -> None:
    """Check that an output has all windows and no others, with all their numbers.

    Raises:
        ConnectFailed: it has not; the message shows the first window that differs.
    """
    for carrier, hour in sorted(expected.keys() | found.keys()):
        here, there = found.get((carrier, hour)), expected.get((carrier, hour))
        if here != there:
            raise ConnectFailed(f"{carrier} at {hour}: {here} in the {place}, and {there} by pandas")
