"""`format("ottla")` beside Spark's own `format("kafka")`: reading and writing a topic of small records, and memory.

Each format has a Spark of its own (`spark_driver.py`), both with the same settings and both running all the time:
in one session, the one would find the other's compiled code and heap, and nobody could say whose memory is whose.
They take turns, and the one whose turn it is not does nothing. Before anything is measured each makes all kinds of
runs on a small topic, because a JVM compiles while it works. Reading looks at every column of all records;
writing makes 100-byte values of numbers, which costs both the same. The broker works on the same machine.

Memory is the proportional set size of the driver's JVM and of all Python workers below it (the driver's own
interpreter is not in it), sampled while a run lasts; the highest value counts.
"""

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client import BenchmarkFailed, temporary_topic
from benchmarks.process_stats import descendants, proportional_mib
from benchmarks.summary import Measures
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.reference.kafka_jars import REPOSITORY, JarsUnavailable
from tests.support.spark.spark_kafka_jars import spark_kafka_jars

FORMATS = ("ottla", "kafka")
DIRECTIONS = ("write", "read")
SAMPLE_INTERVAL_S = 0.5
STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class SparkPlan:
    """What to measure.

    Attributes:
        records: of each run, of 100 bytes.
        partitions: of each topic.
        repetitions: how often every run is made.
        warm_up_records: of the runs before, which are not measured.
    """

    records: int = 10_000_000
    partitions: int = 4
    repetitions: int = 3
    warm_up_records: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run took, and the most memory of Spark's Java and of all Python workers meanwhile."""

    seconds: float
    jvm_mib: float
    workers_mib: float


class Driver:
    """A driver of one format; used with `with`, at whose end it is gone."""

    def __init__(self, format_name: str, bootstrap: str, jars: Sequence[Path]) -> None:
        self.format_name = format_name
        command = [sys.executable, "-m", "benchmarks.spark_driver", format_name, bootstrap, *map(str, jars)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )

    def __enter__(self) -> "Driver":
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def run(self, direction: str, topic: str, records: int, **more: Any) -> Run:
        """Make a run, and return what it took; a query needs `more` than others, as `spark_driver.py` says.

        Raises:
            BenchmarkFailed: it failed, or saw another number of records.
        """
        assert self._process.stdin is not None
        with _sampled_memory(self._process.pid) as memory:
            print(
                json.dumps({"do": direction, "topic": topic, "records": records, **more}),
                file=self._process.stdin,
                flush=True,
            )
            answer = self._answer()
        if answer["records"] != records:
            raise BenchmarkFailed(f"{direction} {self.format_name}: {answer['records']} records instead of {records}")
        return Run(seconds=answer["seconds"], jvm_mib=memory.jvm_mib, workers_mib=memory.workers_mib)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkFailed(f"the driver of format {self.format_name} ended; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(slots=True)
class _Memory:
    jvm_mib: float = 0.0
    workers_mib: float = 0.0

    def sample(self, driver_pid: int) -> None:
        jvm_mib = workers_mib = 0.0
        for pid, command in descendants(driver_pid).items():
            if command == "java":
                jvm_mib += proportional_mib(pid)
            else:
                workers_mib += proportional_mib(pid)
        self.jvm_mib, self.workers_mib = max(self.jvm_mib, jvm_mib), max(self.workers_mib, workers_mib)


@contextmanager
def _sampled_memory(driver_pid: int) -> Iterator[_Memory]:
    memory, is_over = _Memory(), threading.Event()

    def sample() -> None:
        while not is_over.wait(SAMPLE_INTERVAL_S):
            memory.sample(driver_pid)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield memory
    finally:
        is_over.set()
        sampler.join()


def measure(directory: Path, plan: SparkPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of every kind of run, and the ratios of ottla's rows per second to kafka's.

    Raises:
        BenchmarkFailed: the jars of Spark's own format cannot be had, or a run failed.
    """
    try:
        jars = spark_kafka_jars()
    except JarsUnavailable as error:
        raise BenchmarkFailed(str(error)) from None
    found: dict[str, list[Run]] = {}
    with ExitStack() as running:
        bootstrap = running.enter_context(OttlaCluster(directory / "cluster")).bootstrap
        drivers = [
            running.enter_context(Driver(name, bootstrap, jars if name == "kafka" else ())) for name in FORMATS
        ]
        say("warming up")
        _take_turns(drivers, bootstrap, plan, plan.warm_up_records, {})
        for repetition in range(plan.repetitions):
            say(f"{repetition + 1}/{plan.repetitions}")
            _take_turns(drivers, bootstrap, plan, plan.records, found)
    results: dict[str, Measures] = {name: _medians(runs, plan.records) for name, runs in found.items()}
    results["rows/s, ottla to kafka"] = _ratios(found)
    return results


def _take_turns(
    drivers: Sequence[Driver], bootstrap: str, plan: SparkPlan, records: int, found: dict[str, list[Run]]
) -> None:
    """Have every driver write a topic of its own and then read it, so that both have theirs in the page cache."""
    with ExitStack() as topics:
        own = [topics.enter_context(temporary_topic(bootstrap, plan.partitions)) for _ in drivers]
        for direction in DIRECTIONS:
            for driver, topic in zip(drivers, own, strict=True):
                run = driver.run(direction, topic, records)
                found.setdefault(f"{direction} {driver.format_name}", []).append(run)


def _medians(runs: Sequence[Run], records: int) -> Measures:
    return {
        "rows_per_s": records / statistics.median(run.seconds for run in runs),
        "jvm_mib": statistics.median(run.jvm_mib for run in runs),
        "python_workers_mib": statistics.median(run.workers_mib for run in runs),
    }


def _ratios(found: Mapping[str, Sequence[Run]]) -> Measures:
    """Return the medians of ratios between neighbours, so that a slow minute hits both, and their ranges."""
    ratios: dict[str, float] = {}
    for direction in DIRECTIONS:
        pairs = zip(found[f"{direction} ottla"], found[f"{direction} kafka"], strict=True)
        each = [theirs.seconds / ours.seconds for ours, theirs in pairs]
        ratios |= {
            f"{direction}": statistics.median(each),
            f"{direction}, lowest": min(each),
            f"{direction}, highest": max(each),
        }
    return ratios
