"""A pipeline whose topics Spark's own Kafka source reads and writes: `kafka.source: kafka`, jars from Maven."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conftest import TopicFactory
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.reference.java_class_archive import options_for_spark
from tests.support.spark.spark_kafka_jars import spark_kafka_jars

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

DEADLINE_S = 240.0
CARRIERS = {"AA": "American", "UA": "United"}
TOPICS = ("config", "offset", "status")


def pipeline(folder: Path, flights: str, airlines: str, delays: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_spark.SparkPipeline",
        "checkpoint.location": str(folder / "checkpoint"),
        "kafka.source": "kafka",
        "spark.jars": ",".join(str(jar) for jar in spark_kafka_jars()),
        "spark.master": "local[1]",
        "spark.driver.memory": "512m",
        "tables": "flights,airlines",
        "tables.flights.topic": flights,
        "tables.flights.value.schema": "carrier STRING, dep_delay INT",
        "tables.airlines.topic": airlines,
        "tables.airlines.mode": "static",
        "sql": """
            CREATE TEMPORARY VIEW totals AS SELECT carrier, sum(dep_delay) AS delay FROM flights GROUP BY carrier;
            SELECT name, delay FROM totals JOIN airlines USING (carrier)
        """,
        "outputs": "delays",
        "outputs.delays.topic": delays,
        "outputs.delays.mode": "update",
        "outputs.delays.key.columns": "name",
    }


def publish(bootstrap: str, topic: str, rows: list[dict[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for row in rows:
        producer.produce(topic, json.dumps(row), key=row["carrier"])
    assert producer.flush(30) == 0


def test_a_pipeline_reads_and_writes_topics_with_sparks_own_source(
    bootstrap: str, new_topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", options_for_spark())
    flights, airlines, delays = new_topic(partitions=2), new_topic(), new_topic()
    publish(bootstrap, airlines, [{"carrier": carrier, "name": name} for carrier, name in CARRIERS.items()])
    publish(bootstrap, flights, [{"carrier": "UA" if n % 3 else "AA", "dep_delay": n} for n in range(30)])
    settings = {f"{each}.storage.replication.factor": "1" for each in TOPICS}
    settings |= {"session.timeout.ms": "30000", "task.shutdown.graceful.timeout.ms": "20000"}  # Java starts slowly
    settings |= {"group.id": "kafka-source", **{f"{each}.storage.topic": f"kafka-source-{each}" for each in TOPICS}}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(delays, 0, 0)])
    newest: dict[str, int] = {}

    def arrived(wanted: dict[str, int]) -> bool:
        if (record := consumer.poll(0.1)) is not None and record.error() is None:
            row = json.loads(record.value() or b"")
            assert record.key() == row["name"].encode()
            newest[row["name"]] = row["delay"]
        return newest == wanted

    try:
        with ConnectCluster(tmp_path / "connect", bootstrap, workers=1, settings=settings) as connect:
            connect.put_connector("pipe", pipeline(tmp_path, flights, airlines, delays))
            sums = {"American": sum(range(0, 30, 3)), "United": sum(n for n in range(30) if n % 3)}
            eventually(lambda: arrived(sums), "the totals are in the topic", within_s=DEADLINE_S)
            publish(bootstrap, flights, [{"carrier": "AA", "dep_delay": 1000}])
            sums["American"] += 1000
            eventually(lambda: arrived(sums), "what came later counts, too", within_s=DEADLINE_S)
            (task,) = connect.request("GET", "/connectors/pipe/status")["tasks"]
            assert task["state"] == "RUNNING"
            connect.request("DELETE", "/connectors/pipe")
    finally:
        consumer.close()
