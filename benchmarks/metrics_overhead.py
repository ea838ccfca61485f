"""What metrics cost on the path of a produce: this broker beside one that counts and times nothing.

The other broker runs a copy of the same sources out of which the counting and timing were cut, at the places that
`CUTS` names; it fails if one of them has moved. Rounds of both alternate, and what counts is the CPU time of the
broker's process: each pair of short rounds gives a ratio, of which the median is told. Small requests are the worst
case, as a request's metrics cost the same whatever it carries. What a scrape costs is told apart, as it goes by time.
"""

import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import ottla_broker
from benchmarks.client import BenchmarkFailed, Subject, temporary_topic
from benchmarks.small_requests import pipelined
from benchmarks.summary import Measures
from benchmarks.throughput import Load, produce
from tests.support.clusters.ottla_cluster import OttlaCluster

SMALL: Final = "small requests"
CASES: Final = (SMALL, "batches of 1 KB records")
SCRAPES: Final = 20
CUTS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "dispatch.py": [
        (
            "        times.count += 1\n"
            "        if times.count >= times.due:\n"
            "            connection.measured = times.measure()\n",
            "",
        ),
        ("        times = self.times[api.key]\n", ""),
    ],
    "connection.py": [
        ("        self._read_ns = now_ns()\n", ""),
        ("        measured = self.measured\n", "        measured = None\n"),
    ],
    "partition.py": [
        (
            "            traffic = self.traffic\n"
            "            traffic.produced_bytes += len(records)\n"
            "            traffic.produced_records += appended.last_offset - appended.base_offset + 1\n",
            "",
        ),
    ],
}
"""What is cut out of the other broker's sources, and what is put in its place."""


@dataclass(frozen=True)
class MetricsPlan:
    """How long to measure.

    Attributes:
        rounds: pairs of each case.
        requests: small requests in a round.
        total_bytes: of records of 1 KB in a round of the other case.
    """

    rounds: int = 60
    requests: int = 2_000
    total_bytes: int = 16 * 1024 * 1024


def measure(directory: Path, plan: MetricsPlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return for each case the median of the ratios of CPU time, with metrics to without, less one, in percent."""
    sources = bare_sources(directory / "bare")
    with _cluster(directory / "with", None) as measured, _cluster(directory / "without", sources) as bare:
        subjects = [Subject(each.bootstrap, each.broker.pid) for each in (measured, bare)]
        found: dict[str, Measures] = {case: ratios(subjects, case, plan, say) for case in CASES}
        found["scrape"] = {"cpu_ms": _scrape_ms(measured)}
        return found


def ratios(
    subjects: Sequence[Subject],
    case: str,
    plan: MetricsPlan,
    say: Callable[[str], None],
    *,
    named: tuple[str, str] = ("with metrics", "without"),
) -> dict[str, float]:
    """Return by how much the first of two brokers needs more CPU time in a case, and the quartiles of that."""
    ratios = []
    with ExitStack() as opened:
        topics = {each.pid: opened.enter_context(temporary_topic(each.bootstrap)) for each in subjects}
        for number in range(plan.rounds + 1):
            order = subjects if number % 2 else subjects[::-1]
            spent_ns = {each.pid: _spent_ns(each, topics[each.pid], case, plan) for each in order}
            with_ns, without_ns = (spent_ns[each.pid] for each in subjects)
            if number:  # the first pair warms both up
                ratios.append(with_ns / without_ns)
                say(f"{case}, pair {number}: {with_ns / 1e6:.0f} ms {named[0]}, {without_ns / 1e6:.0f} ms {named[1]}")
    low, _, high = quantiles(ratios, n=4)
    return {
        "overhead_percent": 100 * (median(ratios) - 1),
        "quartiles_from_percent": 100 * (low - 1),
        "quartiles_to_percent": 100 * (high - 1),
    }


def _spent_ns(subject: Subject, topic: str, case: str, plan: MetricsPlan) -> int:
    """Return the CPU time of a broker in one round."""
    before_ns = _cpu_ns(subject.pid)
    if case == SMALL:
        pipelined(subject, topic, plan.requests)
    else:
        produce(subject, topic, Load(record_bytes=1024, total_bytes=plan.total_bytes))
    return _cpu_ns(subject.pid) - before_ns


def _cpu_ns(pid: int) -> int:
    """Return what a process has used so far; rounds are too short for the kernel's hundredths of a second."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def bare_sources(directory: Path) -> Path:
    """Return a folder with a copy of the broker's package that counts and times nothing."""
    package = directory / "ottla_broker"
    shutil.copytree(Path(ottla_broker.__file__).parent, package)
    for name, cuts in CUTS.items():
        text = (package / name).read_text()
        for cut, replacement in cuts:
            if text.count(cut) != 1:
                raise BenchmarkFailed(f"{name} does not have what is to be cut out of it once:\n{cut}")
            text = text.replace(cut, replacement)
        (package / name).write_text(text)
    return directory


@contextmanager
def _cluster(directory: Path, sources: Path | None) -> Iterator[OttlaCluster]:
    """Run a cluster whose broker comes from a folder, if one is given."""
    former = os.environ.get("PYTHONPATH")
    if sources is not None:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(sources), former]))
    try:
        cluster = OttlaCluster(directory)
        cluster.start()
    finally:
        if former is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = former
    try:
        _check_sources(cluster, sources)
        yield cluster
    finally:
        cluster.stop()


def _check_sources(cluster: OttlaCluster, sources: Path | None) -> None:
    """See that the broker is the one that it should be: a bare one has counted no request."""
    with temporary_topic(cluster.bootstrap):
        pass
    counted = sum(
        float(line.rpartition(" ")[2])
        for line in _page(cluster).splitlines()
        if line.startswith("ottla_broker_requests_total{")
    )
    if bool(counted) == (sources is not None):
        raise BenchmarkFailed(f"the broker of {cluster.directory} has counted {counted:.0f} requests")


def _page(cluster: OttlaCluster) -> str:
    with urllib.request.urlopen(f"http://{_metrics_address(cluster)}/metrics", timeout=30) as page:
        text: str = page.read().decode()
    return text


def _scrape_ms(cluster: OttlaCluster) -> float:
    """Return the CPU time of the broker for a scrape."""
    before_ns = _cpu_ns(cluster.broker.pid)
    for _ in range(SCRAPES):
        _page(cluster)
    return (_cpu_ns(cluster.broker.pid) - before_ns) / 1e6 / SCRAPES


def _metrics_address(cluster: OttlaCluster) -> str:
    properties = (cluster.directory / "config" / f"broker-{cluster.broker.id}.properties").read_text()
    for line in properties.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "metrics.listener":
            return value.strip()
    raise BenchmarkFailed("the broker shows no metrics")
