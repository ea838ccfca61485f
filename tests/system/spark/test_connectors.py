"""Spark connectors under a real Connect worker: a chain of all three, pausing, progress, what is wrong at once.

Each connector is a driver with a Java process of its own, which takes seconds to start; so one chain shows it all.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest
from confluent_kafka import Producer

from tests.conftest import TopicFactory
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ONE_BROKER = {f"{topic}.storage.replication.factor": "1" for topic in ("config", "offset", "status")}
PATIENT = {
    "session.timeout.ms": "30000",
    "task.shutdown.graceful.timeout.ms": "20000",
    "task.restart.attempts.max": "0",
}
"""A machine that starts several Java processes at once is slow in everything else."""
DEADLINE_S = 240.0
SPARK = {"spark.master": "local[1]", "spark.driver.memory": "512m"}
ROWS = 600


@pytest.fixture(scope="module")
def connect(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectCluster]:
    """A worker of the shared broker's cluster."""
    own = {
        "group.id": "spark-connect",
        **{f"{each}.storage.topic": f"spark-{each}" for each in ("config", "offset", "status")},
    }
    directory = tmp_path_factory.mktemp("spark-connect")
    with ConnectCluster(directory, bootstrap, workers=1, settings={**ONE_BROKER, **PATIENT, **own}) as cluster:
        yield cluster


def task(connect: ConnectCluster, name: str) -> dict[str, Any]:
    """The status of a connector's one task; empty while it is not there."""
    tasks = connect.request("GET", f"/connectors/{name}/status")["tasks"]
    return dict(tasks[0]) if tasks else {}


def until_state(connect: ConnectCluster, name: str, state: str) -> dict[str, Any]:
    """Waits until the task of a connector has a state, and returns its status."""

    def found() -> dict[str, Any] | None:
        status = task(connect, name)
        assert status.get("state") in (state, None, "UNASSIGNED", "RUNNING", "PAUSED", "STOPPED"), status
        return status if status.get("state") == state else None

    return eventually(found, f"the task of {name} is {state}", within_s=DEADLINE_S)


def drivers(connect: ConnectCluster) -> list[int]:
    """The Java processes of the worker's tasks."""
    return [pid for pid in below(connect.workers[0].process.pid) if name_of(pid) == "java"]


def below(pid: int) -> Iterator[int]:
    """The processes below one."""
    try:
        children = [
            int(each)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for each in (thread / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield child
        yield from below(child)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_a_chain_of_a_source_a_pipeline_and_a_sink(
    connect: ConnectCluster, bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    flights, delays = new_topic(partitions=2), new_topic(partitions=2)
    rows = pd.DataFrame(
        {
            "carrier": ["AA" if number % 3 else "UA" for number in range(ROWS)],
            "dep_delay": [float(number % 50) for number in range(ROWS)],
            "time_hour": [f"2013-01-01T{number // 100:02}:00:00Z" for number in range(ROWS)],
        }
    )
    rows.to_csv(tmp_path / "flights.csv", index=False)
    (tmp_path / "airlines.csv").write_text("carrier,name\nAA,American\nUA,United\n")
    connect.put_connector("read", source(tmp_path, flights))
    done = eventually(
        lambda: outputs(connect, "read").get("output", {}).get("state") == "finished",
        "the file is in the topic",
        within_s=DEADLINE_S,
    )
    assert done
    eventually(lambda: not drivers(connect), "a source that is done has ended its Java", within_s=DEADLINE_S)

    connect.put_connector("pipe", pipeline(tmp_path, flights, delays))
    connect.put_connector("keep", sink(tmp_path, delays))
    wanted = set(expected(rows))
    eventually(lambda: written(tmp_path) >= wanted, "the table has every hour", within_s=DEADLINE_S)
    progress = eventually(
        lambda: (
            outputs(connect, "pipe").get("delays", {}).get("lag_records") == {"flights": 0}
            and outputs(connect, "pipe")
        ),
        "the pipeline has read all",
        within_s=DEADLINE_S,
    )
    assert progress["delays"]["state"] == "running"
    assert {"batch", "rows", "input_rows_per_second", "processed_rows_per_second", "duration_ms"} <= set(
        progress["delays"]
    )
    assert f"delays: batch 0, {ROWS} rows" in connect.logs()

    connect.request("PUT", "/connectors/keep/pause")
    until_state(connect, "keep", "PAUSED")
    eventually(lambda: len(drivers(connect)) == 1, "the Java of what is paused is gone", within_s=DEADLINE_S)
    connect.request("PUT", "/connectors/keep/resume")
    publish(bootstrap, flights, {"carrier": "AA", "dep_delay": 5.0, "time_hour": "2013-01-01T23:00:00Z"})
    late = ("American", "2013-01-01T23:00:00Z", 1, 5.0)
    eventually(lambda: late in written(tmp_path), "what comes goes on into the table", within_s=DEADLINE_S)
    assert len(drivers(connect)) == 2
    for name in ("pipe", "keep", "read"):
        connect.request("DELETE", f"/connectors/{name}")
    eventually(lambda: drivers(connect) == [], "no Java is left", within_s=DEADLINE_S)


def source(folder: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_spark.SparkSource",
        "checkpoint.location": str(folder / "read"),
        "read.format": "csv",
        "read.path": str(folder / "flights.csv"),
        "read.options.header": "true",
        "read.schema": "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP",
        "topic": topic,
        "key.columns": "carrier",
        **SPARK,
    }


def pipeline(folder: Path, flights: str, delays: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_spark.SparkPipeline",
        "checkpoint.location": str(folder / "pipe"),
        "tables": "flights,airlines",
        "tables.flights.topic": flights,
        "tables.flights.value.schema": "carrier STRING, dep_delay DOUBLE, time_hour TIMESTAMP",
        "tables.airlines.mode": "static",
        "tables.airlines.format": "csv",
        "tables.airlines.path": str(folder / "airlines.csv"),
        "tables.airlines.options.header": "true",
        "sql": """
            CREATE TEMPORARY VIEW hourly AS
                SELECT carrier, time_hour AS hour, count(*) AS flights, sum(dep_delay) AS delay
                FROM flights GROUP BY carrier, time_hour;
            SELECT name, hour, flights, delay FROM hourly JOIN airlines USING (carrier)
        """,
        "outputs": "delays",
        "outputs.delays.topic": delays,
        "outputs.delays.mode": "update",
        "outputs.delays.key.columns": "name",
        **SPARK,
    }


def sink(folder: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_spark.SparkSink",
        "topics": topic,
        "checkpoint.location": str(folder / "keep"),
        "value.schema": "name STRING, hour TIMESTAMP, flights BIGINT, delay DOUBLE",
        "write.format": "parquet",
        "write.path": str(folder / "delays"),
        "write.partition.by": "name",
        **SPARK,
    }


def publish(bootstrap: str, topic: str, row: dict[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps(row), key=row["carrier"])
    assert producer.flush(30) == 0


def expected(rows: pd.DataFrame) -> Iterator[tuple[str, str, int, float]]:
    names = {"AA": "American", "UA": "United"}
    for (carrier, hour), group in rows.groupby(["carrier", "time_hour"]):
        yield names[carrier], hour, len(group), float(group["dep_delay"].sum())


def written(folder: Path) -> set[tuple[str, str, int, float]]:
    """The rows of the partitioned table, out of the files that its log says belong to it."""
    return {
        (file.parent.name.partition("=")[2], row.hour.strftime("%Y-%m-%dT%H:%M:%SZ"), int(row.flights), row.delay)
        for file in committed(folder / "delays")
        for row in pd.read_parquet(file).itertuples()
    }


def committed(table: Path) -> Iterator[Path]:
    for log in (table / "_spark_metadata").glob("[0-9]*"):
        _, *entries = log.read_text().splitlines()
        yield from (Path(unquote(urlsplit(json.loads(entry)["path"]).path)) for entry in entries)


def outputs(connect: ConnectCluster, name: str) -> dict[str, Any]:
    """What the status says about the outputs of a connector's task."""
    return dict(task(connect, name).get("progress", {}).get("outputs", {}))


def test_what_is_wrong_before_spark_starts_is_said_once_and_nothing_is_written(
    connect: ConnectCluster, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    good = sink(tmp_path, topic)
    (tmp_path / "other").mkdir()
    record = {"version": 1, "connector": "other", "outputs": {"output": "topic elsewhere"}}
    (tmp_path / "other" / "ottla-query.json").write_text(json.dumps(record))
    refused = {
        "missing": ({"topics": "no-such-topic"}, "the topic no-such-topic of the table input does not exist"),
        "master": ({"spark.master": "spark://127.0.0.1:1"}, "no Spark master answers at spark://127.0.0.1:1"),
    }
    for name, (settings, _) in refused.items():
        connect.put_connector(name, {**good, **settings})
    for name, (_, message) in refused.items():
        status = eventually(
            lambda name=name: (status := task(connect, name)).get("state") == "FAILED" and status,
            f"{name} has failed",
            within_s=DEADLINE_S,
        )
        assert message in status["trace"]
        connect.request("DELETE", f"/connectors/{name}")
    foreign = {**good, "name": "foreign", "checkpoint.location": str(tmp_path / "other")}
    document = connect.request("PUT", "/connector-plugins/SparkSink/config/validate", foreign)
    (wrong,) = (each["value"] for each in document["configs"] if each["value"]["errors"])
    assert wrong["name"] == "checkpoint.location"
    assert "it belongs to the connector other (output writes topic elsewhere), this is foreign" in wrong["errors"][0]
    assert {path.name for path in tmp_path.rglob("*")} == {"other", "ottla-query.json"}
