"""The time to the first answer of `ottla sql`, beside a bare PySpark `SELECT 1`, each in a new process.

The cases take turns, and every figure of a round is also given as its ratio to the bare PySpark of the same round, as
a shared machine is faster in one minute than in the next. Beside the time on the wall there is the processor time of
the command with all its processes, of which a busy machine changes less. The first run, which makes the archive of
classes, is no part of it. `warm-…` are commands that
use a session that is kept warm, whose own processor time is no part of theirs.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.client import BenchmarkFailed, temporary_topic
from benchmarks.summary import Measures
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command

BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.sql("SELECT 1").collect())
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""
"""Waits for Java, as `ottla sql` does: its processor time counts when it has ended."""
RUN_DEADLINE_S = 300.0
KEEP_WARM = ("--keep-warm", "30")


@dataclass(frozen=True, kw_only=True)
class SqlStartPlan:
    """What to measure.

    Attributes:
        records: of the topic.
        repetitions: rounds.
    """

    records: int = 20_000
    repetitions: int = 5


def measure(directory: Path, plan: SqlStartPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of each case's figures.

    Raises:
        BenchmarkFailed: a command failed.
    """
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(directory / "cache"),
        "XDG_STATE_HOME": str(directory / "state"),
    }
    with OttlaCluster(directory / "cluster") as cluster, temporary_topic(cluster.bootstrap) as topic:
        _fill(cluster.bootstrap, topic, plan.records)
        sql = [ottla_command(), "sql", "-b", cluster.bootstrap, "--json", "-e"]
        limited = f"SELECT carrier FROM `{topic}` LIMIT 1"
        cases = {
            "pyspark-select-1": [sys.executable, "-c", BARE],
            "select-1": [*sql, "SELECT 1"],
            "select-limit-1": [*sql, limited],
            "two-selects-limit-1": [*sql, f"{limited}; {limited}"],
            "warm-select-1": [*sql, "SELECT 1", *KEEP_WARM],
            "warm-select-limit-1": [*sql, limited, *KEEP_WARM],
        }
        say("making the archive of classes")
        _timed(cases["select-limit-1"], environment)
        rounds = []
        try:
            for number in range(plan.repetitions):
                say(f"round {number + 1} of {plan.repetitions}")
                _timed(cases["warm-select-limit-1"], environment)  # begins the session, or finds it
                rounds.append({name: _timed(command, environment) for name, command in cases.items()})
        finally:
            _timed([ottla_command(), "sql", "--stop-warm"], environment)
    return {name: _medians([_with_ratios(name, each) for each in rounds]) for name in cases}


def _fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(records):
        row = {"carrier": ("UA", "AA", "B6")[number % 3], "flight": number, "dep_delay": number % 60 - 5}
        producer.produce(topic, json.dumps(row))
        producer.poll(0)
    if producer.flush(60):
        raise BenchmarkFailed(f"the topic {topic} could not be filled")


def _timed(command: list[str], environment: Mapping[str, str]) -> dict[str, float]:
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RUN_DEADLINE_S, check=False
    )
    wall_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise BenchmarkFailed(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return {"wall_s": wall_s, "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def _with_ratios(name: str, each: Mapping[str, Mapping[str, float]]) -> Measures:
    bare, own = each["pyspark-select-1"], each[name]
    found = {**own, **{f"{unit}_to_pyspark": own[unit] / bare[unit] for unit in ("wall_s", "cpu_s")}}
    if name == "two-selects-limit-1":
        once = each["select-limit-1"]
        found |= {f"second_{unit}": own[unit] - once[unit] for unit in ("wall_s", "cpu_s")}
    return found


def _medians(rounds: Sequence[Measures]) -> Measures:
    return {figure: statistics.median(each[figure] for each in rounds) for figure in rounds[0]}
