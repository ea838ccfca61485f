"""One worker of a standalone Spark cluster beside two: a pipeline that is bound by a Python function per row.

Workers have one core each, and one driver (`spark_cluster_driver.py`) lives all the time: it gets an executor when a
worker joins, and loses it when that is killed. So both sizes are measured in turn, with the same warm session. The
topic's partitions are of the same size, and several for each core. Broker, master and driver work on the same machine
as the workers, so on two cores the second worker cannot quite double the speed.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, temporary_topic
from benchmarks.summary import Measures
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.reference.kafka_jars import REPOSITORY
from tests.support.spark.spark_cluster import SparkCluster

RECORD_BYTES = 100
FLUSH_DEADLINE_S = 60.0
STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class SparkClusterPlan:
    """What to measure.

    Attributes:
        records: of the topic.
        partitions: of the topic.
        repetitions: how often each size is measured.
        rounds: of hashing per record, which is what costs.
    """

    records: int = 100_000
    partitions: int = 8
    repetitions: int = 3
    rounds: int = 300


class Driver:
    """A driver of the cluster; used with `with`, at whose end it is gone."""

    def __init__(self, master: str, bootstrap: str) -> None:
        command = [sys.executable, "-m", "benchmarks.spark_cluster_driver", master, bootstrap]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    def __enter__(self) -> "Driver":
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def run(self, topic: str, plan: SparkClusterPlan, executors: int) -> float:
        """Run the pipeline on so many executors, and return how many seconds it took.

        Raises:
            BenchmarkFailed: it failed, or saw another number of records.
        """
        assert self._process.stdin is not None
        request = {"topic": topic, "rounds": plan.rounds, "executors": executors}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._answer()
        if answer["records"] != plan.records:
            raise BenchmarkFailed(f"the pipeline saw {answer['records']} records instead of {plan.records}")
        return float(answer["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed("the driver of the cluster ended; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def measure(directory: Path, plan: SparkClusterPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the median speeds of one worker and of two, and the ratios between them.

    Raises:
        BenchmarkFailed: a run failed.
    """
    (directory / "spark").mkdir(parents=True)
    one: list[float] = []
    two: list[float] = []
    with (
        OttlaCluster(directory / "cluster") as broker,
        SparkCluster(directory / "spark", workers=1) as cluster,
        temporary_topic(broker.bootstrap, plan.partitions) as topic,
        Driver(cluster.master, broker.bootstrap) as driver,
    ):
        _fill(broker.bootstrap, topic, plan)
        for repetition in range(plan.repetitions + 1):
            say("warming up" if repetition == 0 else f"{repetition}/{plan.repetitions}")
            one.append(driver.run(topic, plan, 1))
            second = cluster.add_worker()
            driver.run(topic, plan, 2)  # a new executor has to unpack what is shipped, and to compile
            two.append(driver.run(topic, plan, 2))
            second.kill()
    return _results(one[1:], two[1:], plan)


def _fill(bootstrap: str, topic: str, plan: SparkClusterPlan) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": plan.records, **CLIENT_SETTINGS}
    )
    for number in range(plan.records):
        producer.produce(topic, str(number).rjust(RECORD_BYTES), partition=number % plan.partitions)
    if left := producer.flush(FLUSH_DEADLINE_S):
        raise BenchmarkFailed(f"{left} records were not delivered")


def _results(one: Sequence[float], two: Sequence[float], plan: SparkClusterPlan) -> dict[str, Measures]:
    ratios = [seconds / shared for seconds, shared in zip(one, two, strict=True)]
    return {
        "one worker": {"rows_per_s": plan.records / statistics.median(one)},
        "two workers": {"rows_per_s": plan.records / statistics.median(two)},
        "two to one": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
    }
