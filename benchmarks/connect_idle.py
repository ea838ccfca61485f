"""What an idle connector costs: memory and CPU of a worker, and of the processes of connectors that do nothing.

The connectors follow an empty directory each. Memory is proportional (PSS): pages that processes share, which are
most of the interpreter and of the runtime, are divided among them.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.client import BenchmarkFailed
from benchmarks.process_stats import cpu_time
from benchmarks.summary import Measures
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.connect_cluster import ConnectCluster

# The defaults of a worker, and topics that fit a single broker.
SETTINGS = {
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",
    "offset.flush.interval.ms": "60000",
    **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
}
SETTLE_S = 5.0
MEASURE_S = 20.0
TIMEOUT_S = 300.0
POLL_S = 0.2


def measure(directory: Path, sizes: Sequence[int], say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of a worker with so many idle connectors of one task each."""
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, Measures] = {}
    kafka = OttlaCluster(directory / "cluster")
    try:
        kafka.start()
        with ConnectCluster(directory, kafka.bootstrap, workers=1, settings=SETTINGS) as connect:
            worker = connect.workers[0]
            existing = 0
            for size in sorted(sizes):
                say(f"{size} idle connectors")
                began_s = time.perf_counter()
                for number in range(existing, size):
                    _create(connect, number, directory)
                _wait_running(connect, size)
                started_s = time.perf_counter() - began_s
                found[f"{size} connectors"] = {
                    **({"start_s_per_connector": started_s / (size - existing)} if size > existing else {}),
                    **_cost(worker.process.pid),
                }
                existing = size
    finally:
        kafka.stop()
    return found


def _create(connect: ConnectCluster, number: int, directory: Path) -> None:
    watched = directory / f"watched-{number}"
    watched.mkdir(parents=True, exist_ok=True)
    config = {
        "connector.class": "ottla_file.FileSource",
        "tasks.max": "1",
        "topic": "idle",
        "file.path": f"{watched}/*.txt",
    }
    connect.put_connector(f"idle-{number}", config)


def _wait_running(connect: ConnectCluster, size: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    statuses: dict[str, Any] = {}
    while time.monotonic() < deadline:
        statuses = connect.request("GET", "/connectors?expand=status")
        tasks = [task for each in statuses.values() for task in each["status"]["tasks"]]
        if sum(task["state"] == "RUNNING" for task in tasks) == size:
            return
        time.sleep(POLL_S)
    raise BenchmarkFailed(f"the connectors do not run: {statuses}")


def _cost(worker_pid: int) -> dict[str, float]:
    time.sleep(SETTLE_S)
    pids = [worker_pid, *_descendants(worker_pid)]
    before = {pid: cpu_time(pid).total_s for pid in pids}
    time.sleep(MEASURE_S)
    used = {pid: cpu_time(pid).total_s - before_s for pid, before_s in before.items()}
    return {
        "processes": float(len(pids)),
        "worker_pss_mib": _pss_mib(worker_pid),
        "all_pss_mib": sum(map(_pss_mib, pids)),
        "worker_core_percent": 100 * used[worker_pid] / MEASURE_S,
        "all_core_percent": 100 * sum(used.values()) / MEASURE_S,
    }


def _descendants(pid: int) -> list[int]:
    children = [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [each for child in children for each in (child, *_descendants(child))]


def _pss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")
