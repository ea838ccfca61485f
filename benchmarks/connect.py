"""What Connect's task runtime costs beside a plain confluent-kafka loop that does the same conversion.

A sink task that forgets its records, and a source task that has its records in memory, both with JSON without
schemas, each in its own process as in a worker; a plain loop in a process of its own, with the same JSON library and
settings of the client, the consumer also with librdkafka's own; all with one broker on this machine, in turns. Values
are 130 bytes of JSON, without keys. The loops call back for nothing and look at nothing but the value.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, temporary_topic
from benchmarks.process_stats import cpu_time
from benchmarks.summary import Measures
from ottla_connect.processes.messages import RunTask
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.connect_plugin_path import environment_with_test_plugins
from tests.support.connect.connect_process import ConnectProcess

DEADLINE_S = 300.0
POLL_S = 0.01
LEASE_S = 2 * DEADLINE_S
DISTINCT_VALUES = 1000
SINK = "ottla_test_plugins.speed.NoOpSink"
SOURCE = "ottla_test_plugins.speed.MemorySource"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectPlan:
    """What to measure.

    Attributes:
        records: of each run.
        repetitions: how often every run is made; the runs take turns.
    """

    records: int = 1_000_000
    repetitions: int = 3


@dataclass(frozen=True, slots=True)
class _Run:
    """How long a run took, and what its process used of the CPU."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class _Process:
    """The process that is measured."""

    pid: int
    is_alive: Callable[[], bool]


def measure(directory: Path, plan: ConnectPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the medians of every kind of run, and the ratios of the tasks' speeds to the loops'."""
    found: dict[str, list[_Run]] = {}
    with OttlaCluster(directory / "cluster") as cluster:
        for repetition in range(plan.repetitions):
            for name, run in _runs(cluster.bootstrap, plan.records, directory):
                say(f"{repetition + 1}/{plan.repetitions} {name}")
                found.setdefault(name, []).append(run())
    results: dict[str, Measures] = {name: _figures(runs, plan.records) for name, runs in found.items()}
    results["ratios"] = _ratios(found)
    return results


def _ratios(found: dict[str, list[_Run]]) -> dict[str, float]:
    pairs = (
        ("sink task", "consume loop"),
        ("sink task", "consume loop, librdkafka's settings"),
        ("source task", "produce loop"),
        ("source task, new records", "produce loop"),
    )
    return {
        f"{task} / {loop}, {what}": _ratio(found[loop], found[task], what)
        for task, loop in pairs
        for what in ("speed", "CPU")
    }


def _runs(bootstrap: str, records: int, directory: Path) -> Iterator[tuple[str, Callable[[], _Run]]]:
    """Return what to run, in turns; those that consume read the same topic."""
    with temporary_topic(bootstrap) as topic:
        yield "produce loop", partial(_produce_loop, bootstrap, topic, records, directory)
        yield "consume loop", partial(_consume_loop, "consume", bootstrap, topic, records, directory)
        own = "consume-with-own-settings"
        yield "consume loop, librdkafka's settings", partial(_consume_loop, own, bootstrap, topic, records, directory)
        yield "sink task", partial(_sink_task, bootstrap, topic, records, directory)
    for name, fresh in (("source task", False), ("source task, new records", True)):
        with temporary_topic(bootstrap) as topic:
            yield name, partial(_source_task, bootstrap, topic, records, directory, fresh=fresh)


def _produce_loop(bootstrap: str, topic: str, records: int, directory: Path) -> _Run:
    report = directory / "produce-loop.json"
    with _loop("produce", bootstrap, topic, records, report) as process:
        return _until_published(bootstrap, topic, records, report, process)


def _consume_loop(what: str, bootstrap: str, topic: str, records: int, directory: Path) -> _Run:
    report = directory / "consume-loop.json"
    with _loop(what, bootstrap, topic, records, report) as process:
        return _until_read(report, process)


def _sink_task(bootstrap: str, topic: str, records: int, directory: Path) -> _Run:
    report = directory / "sink-task.json"
    with _task(SINK, {"topics": topic}, bootstrap, records, report) as process:
        return _until_read(report, process)


def _source_task(bootstrap: str, topic: str, records: int, directory: Path, *, fresh: bool) -> _Run:
    report = directory / "source-task.json"
    settings = {"topic": topic, "speed.fresh": str(fresh).lower()}
    with _task(SOURCE, settings, bootstrap, records, report) as process:
        return _until_published(bootstrap, topic, records, report, process)


@contextlib.contextmanager
def _loop(what: str, bootstrap: str, topic: str, records: int, report: Path) -> Iterator[_Process]:
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "benchmarks.connect_loops",
        what,
        bootstrap,
        topic,
        str(records),
        str(_values(report)),
        str(report),
    ]
    process = subprocess.Popen(command, env=environment_with_test_plugins())
    try:
        yield _Process(process.pid, lambda: process.poll() is None)
        if process.wait(DEADLINE_S):
            raise BenchmarkFailed(f"the plain loop that is to {what} ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _task(connector: str, settings: dict[str, str], bootstrap: str, records: int, report: Path) -> Iterator[_Process]:
    report.unlink(missing_ok=True)
    name = f"speed-{time.time_ns():x}"
    all_settings = {
        "name": name,
        "connector.class": connector,
        "speed.count": str(records),
        "speed.path": str(report),
        "speed.values": str(_values(report)),
        **settings,
    }
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }
    purpose = RunTask(connector=name, task=0, connector_settings=all_settings, settings=all_settings, worker=worker)
    with ConnectProcess(purpose, output=report.with_suffix(".log"), lease=False) as process:
        process.lease(LEASE_S)
        yield _Process(process.process.pid or 0, process.process.is_alive)
        process.stop()


def _values(report: Path) -> Path:
    """Return a file with values of 130 bytes of JSON each, beside a report."""
    path = report.with_name("values.json")
    if not path.exists():
        row = {"carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH", "dep_delay": 2.0, "arr_delay": 11.0}
        rows = [
            {"id": 100_000 + number, **row, "distance": 1400, "tail": "N14228"} for number in range(DISTINCT_VALUES)
        ]
        path.write_text(json.dumps(rows))
    return path


def _until_read(report: Path, process: _Process) -> _Run:
    """Wait until a consumer has reported its times."""
    times = _report(report, process)
    return _Run(times["last"]["wall_s"] - times["first"]["wall_s"], times["last"]["cpu_s"] - times["first"]["cpu_s"])


def _until_published(bootstrap: str, topic: str, records: int, report: Path, process: _Process) -> _Run:
    """Wait until a topic has all records; the producer has reported when it began."""
    began = _report(report, process)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark", **CLIENT_SETTINGS})
    try:
        give_up_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up_s:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
            if end >= records:
                return _Run(time.monotonic() - began["wall_s"], cpu_time(process.pid).total_s - began["cpu_s"])
            time.sleep(POLL_S)
    finally:
        consumer.close()
    raise BenchmarkFailed(f"{topic} has not got {records} records within {DEADLINE_S:.0f} s")


def _report(path: Path, process: _Process) -> Any:
    """Return what a process has reported, once it has."""
    give_up_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < give_up_s:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return json.loads(path.read_text())
        if not process.is_alive():
            raise BenchmarkFailed(f"the process ended that was to report in {path.name}")
        time.sleep(POLL_S)
    raise BenchmarkFailed(f"nothing was reported in {path.name} within {DEADLINE_S:.0f} s")


def _figures(runs: list[_Run], records: int) -> dict[str, float]:
    return {
        "records_per_s": records / statistics.median(run.wall_s for run in runs),
        "cpu_us_per_record": statistics.median(run.cpu_s for run in runs) / records * 1e6,
    }


def _ratio(loops: list[_Run], tasks: list[_Run], what: str) -> float:
    """Return how many times as fast, or as thrifty, the tasks were as the loops of the same repetitions."""
    pairs = list(zip(loops, tasks, strict=True))
    if what == "speed":
        return statistics.median(loop.wall_s / task.wall_s for loop, task in pairs)
    return statistics.median(loop.cpu_s / task.cpu_s for loop, task in pairs)
