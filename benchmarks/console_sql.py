"""SQL in the console's tab beside the same query by Spark, over records of the topic that is searched.

Both read the newest records of the topic's one partition, and answer the same text. The console reads and answers for
each page anew. Spark is started once (`spark_driver.py`), which is told apart; its first query is, too, as Java
compiles what is new to it. It is told the values' columns, which the console finds by itself. Spark answers over all
of the topic as well, for which the console has no page, and `ottla sql` does, as a command from its start to its end.

Memory beside the console's own is the proportional set size of the processes in which queries run.
"""

import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import httpx

from benchmarks.client import BenchmarkFailed
from benchmarks.console_ground import ConsoleGround, address
from benchmarks.process_stats import descendants, proportional_mib
from benchmarks.spark import Driver
from benchmarks.summary import Measures
from ottla_console.views.query_form import RECORDS, RECORDS_MAX
from tests.support.clusters.ottla_cluster import ottla_command

SQL: Final = "SELECT city, count(*) AS orders, avg(amount) AS amount FROM records GROUP BY city ORDER BY city"
SQL_COUNT: Final = "SELECT count(*), max(length(value)) FROM records"
COLUMNS: Final = "order BIGINT, customer STRING, city STRING, amount DOUBLE, note STRING"
TOLD: Final = re.compile(r"over ([\d,]+) records .*?read in ([\d.]+) s and answered in ([\d.]+) s")
COMMAND_DEADLINE_S: Final = 600.0
SAMPLE_INTERVAL_S: Final = 0.1


def measure(ground: ConsoleGround, repetitions: int, *, with_spark: bool) -> dict[str, Measures]:
    """Return the times of the console's answers and of Spark's.

    Raises:
        BenchmarkFailed: one of them fails, or answers over other records.
    """
    topic = ground.searched
    sizes = sorted({min(each, ground.messages) for each in (RECORDS, RECORDS_MAX)})
    measured: dict[str, Measures] = {}
    with ground.memory() as memory, _query_memory(ground.pid) as queries:
        for records in sizes:
            measured[f"sql over {records:,}: console"] = _console(ground, topic, records, repetitions)
    measured["sql: memory"] = {**memory, **queries}
    if with_spark:
        measured |= _spark(ground, topic, sizes, repetitions)
        measured["sql over all: ottla sql"] = _command(ground, topic)
    return measured


def _console(ground: ConsoleGround, topic: str, records: int, repetitions: int) -> Measures:
    reading: list[float] = []
    answering: list[float] = []

    def told(answer: httpx.Response) -> None:
        found = TOLD.search(answer.text)
        if found is None:
            raise BenchmarkFailed("the page of the query does not say over how many records it is")
        if int(found[1].replace(",", "")) != records:
            raise BenchmarkFailed(f"the query is over {found[1]} records instead of {records:,}")
        reading.append(float(found[2]))
        answering.append(float(found[3]))

    measures = ground.view(address(f"/topics/{topic}/sql", q=SQL, records=str(records)), repetitions, told)
    return {**measures, "read_s": statistics.median(reading), "answered_s": statistics.median(answering)}


def _spark(ground: ConsoleGround, topic: str, sizes: Sequence[int], repetitions: int) -> dict[str, Measures]:
    ground.say("starting Spark")
    measured: dict[str, Measures] = {}
    began_s = time.monotonic()
    with Driver("ottla", ground.bootstrap, ()) as spark:
        measured["spark's start"] = {"wall_s": time.monotonic() - began_s}
        for records in sorted({*sizes, ground.messages}):
            start = ground.messages - records
            first, *others = [
                spark.run("query", topic, records, sql=SQL, columns=COLUMNS, start=start)
                for _ in range(repetitions + 1)
            ]
            measured[f"sql over {records:,}: spark"] = {
                "first_ms": first.seconds * 1000,
                "median_ms": statistics.median(each.seconds for each in others or [first]) * 1000,
                "jvm_mib": max(each.jvm_mib for each in (first, *others)),
                "python_workers_mib": max(each.workers_mib for each in (first, *others)),
            }
    return measured


def _command(ground: ConsoleGround, topic: str) -> Measures:
    places = {name: str(ground.directory / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    sql = SQL.replace("records", f"`{topic}`")
    command = [ottla_command(), "sql", "-b", ground.bootstrap, "--json", "-e", sql]
    began_s = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        timeout=COMMAND_DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise BenchmarkFailed(f"ottla sql failed: {done.stderr.strip()[-500:]}")
    return {"wall_s": time.monotonic() - began_s}


@contextmanager
def _query_memory(pid: int) -> Iterator[dict[str, float]]:
    """Yield measures that have the memory of the processes of queries when it is left."""
    is_over = threading.Event()
    found = {"query_processes_peak_mib": 0.0}

    def sample() -> None:
        while not is_over.wait(SAMPLE_INTERVAL_S):
            used = sum(map(proportional_mib, descendants(pid)))
            found["query_processes_peak_mib"] = max(found["query_processes_peak_mib"], used)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield found
    finally:
        is_over.set()
        sampler.join()
