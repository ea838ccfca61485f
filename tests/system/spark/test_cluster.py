"""Jobs on a standalone cluster, whose machines have Spark and a bare Python, give what they give on a laptop."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from ottla_spark.cluster.java import JavaMissing
from ottla_spark.cluster.master import MasterUnreachable
from ottla_spark.session import start_session
from tests.conftest import TopicFactory
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.spark import spark_cluster_job
from tests.support.spark.spark_cluster import SparkCluster
from tests.support.spark.spark_cluster_job import WAITS, Job, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
RECORDS = 4_000
WORKERS = 2
CARRIERS = ("AA", "B6", "DL", "UA", "WN")
JOB_DEADLINE_S = 600.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """A cluster that has no workers yet."""
    with SparkCluster(tmp_path, workers=0) as running:
        yield running


@pytest.fixture
def delays(bootstrap: str, new_topic: TopicFactory) -> str:
    """A topic with the delays of `RECORDS` flights."""
    topic = new_topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        value = {"carrier": CARRIERS[number * number % len(CARRIERS)], "delay_minutes": number % 60 - 10}
        producer.produce(topic, json.dumps(value), key=str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return topic


def on_cluster(job: Job, cluster: SparkCluster, log: Path) -> dict[str, Any]:
    """Runs a job, and starts the cluster's workers only when it says that it waits for them."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, spark_cluster_job.__file__, job.as_argument()],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as driver,
    ):
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline().strip() == WAITS, log.read_text()
            cluster.add_workers(WORKERS)
            output, _ = driver.communicate(timeout=JOB_DEADLINE_S)
        finally:
            driver.kill()
    assert driver.returncode == 0, log.read_text()
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def test_a_job_gives_the_same_on_two_workers_that_have_nothing_but_python(
    spark: "SparkSession",
    cluster: SparkCluster,
    bootstrap: str,
    delays: str,
    new_topic: TopicFactory,
    tmp_path: Path,
):
    settings = {
        "spark.master": cluster.master,
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        # Both executors are to be there before the first task.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
        "spark.ottla.ship.cache": str(tmp_path / "cache"),
    }
    locally = run(spark, Job(bootstrap, delays, new_topic(), str(tmp_path / "local-tables"), {}))
    job = Job(bootstrap, delays, new_topic(), str(tmp_path / "cluster-tables"), settings)
    found = on_cluster(job, cluster, tmp_path / "driver.log")

    assert sum(flights for _, _, flights, _ in found["averages"]) == RECORDS
    assert [found[each] for each in ("averages", "streamed", "late")] == [
        locally[each] for each in ("averages", "streamed", "late")
    ]
    ran = {tuple(row[0].split(" ")) for row in found["python"]}
    assert {str(Path(python).parent) for python, _ in ran} == {str(cluster.python.parent)}
    assert {Path(module).relative_to(tmp_path).parts[0] for _, module in ran} == {"spark-worker-1", "spark-worker-2"}


def test_rows_of_ottla_sql_come_from_a_cluster_whose_machines_have_nothing_but_python(
    cluster: SparkCluster, bootstrap: str, delays: str
):
    cluster.add_workers(1)
    settings = ("spark.executor.memory=512m", "spark.driver.memory=512m", "spark.cores.max=1")
    shown = subprocess.run(
        [ottla_command(), "sql", "-b", bootstrap, "--json", "--master", cluster.master,
         *(word for each in settings for word in ("--conf", each)),
         "-e", f"SELECT _partition AS p, _offset AS o FROM `{delays}`"],
        capture_output=True, text=True, check=False, timeout=JOB_DEADLINE_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (shown.returncode, shown.stderr) == (0, "")
    rows = sorted((row["p"], row["o"]) for row in map(json.loads, shown.stdout.splitlines()))
    assert rows == [(p, o) for p in range(PARTITIONS) for o in range(RECORDS // PARTITIONS)]


def test_a_master_that_nobody_runs_is_one_clear_error():
    port = free_port()

    with pytest.raises(MasterUnreachable) as raised:
        start_session("tests", {"spark.master": f"spark://{LOOPBACK}:{port}"})

    assert str(raised.value) == (
        f"no Spark master answers at spark://{LOOPBACK}:{port} ({LOOPBACK}:{port}: Connection refused)"
    )


def test_a_machine_without_java_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JavaMissing, match=r"no java on the PATH.*apt-get install openjdk-17"):
        start_session("tests", {})
