"""Kafka Streams with `exactly_once_v2`, whose instances die, as brokers do: results are as without faults.

An application counts words and joins two streams. Its input is written while processes are killed at random moments;
its results, as readers of committed records get them, are compared with what is computed here: each count of each
word in its order, and each pair once. `OTTLA_TEST_SEED` is another seed, `OTTLA_TEST_KILLS` how many are killed:
`OTTLA_TEST_KILLS=50` for the whole of it.
"""

import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.compat.exactly_once.cluster import make_topics, strikes_at, three_brokers
from tests.compat.exactly_once.records import (
    CommittedReader,
    Feed,
    Feeder,
    Record,
    all_of,
    committed_records,
    nothing_is_open,
)
from tests.compat.exactly_once.strikes import Strikes, strike
from tests.compat.java.java_programs import JavaProgram
from tests.support.child_process import ChildProcess
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SEED = int(os.environ.get("OTTLA_TEST_SEED", "721"))
KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "10"))
INSTANCES = 2
PARTITIONS = 2
TOPICS = ("lines", "departures", "arrivals", "counts", "flights")
FLIGHTS_PER_KILL = 60
FLIGHTS_PER_S = 20.0
AIRPORTS = ("AMS", "BER", "CPH", "DUB", "FRA", "HAM", "LIS", "OSL", "RIX", "VIE", "WAW", "ZRH")
START_DEADLINE_S = 90.0
RESULTS_DEADLINE_S = 240.0


class Instance:
    """One instance of the application, which keeps its directory."""

    def __init__(self, name: str, command: list[str], log: Path):
        self._process = ChildProcess(name, command, log=log)
        self._process.start()

    def is_running(self) -> bool:
        return "RUNNING" in self._process.log.read_text().splitlines()

    def kill(self) -> None:
        """SIGKILL; it is started again at once."""
        self._process.kill()
        self._process.start()

    def check(self) -> None:
        self._process.check_running()

    def stop(self) -> None:
        self._process.stop()

    def end(self) -> None:
        """Kills it, if it still runs."""
        self._process.kill()


@contextmanager
def running_application(cluster: OttlaCluster, directory: Path) -> Iterator[list[Instance]]:
    """Instances that all run, and are ended after it."""
    program = JavaProgram("WordsAndFlights", directory, heap_mib=256)
    instances: list[Instance] = []
    try:
        for number in range(INSTANCES):
            name = f"streams-{number}"
            arguments = (cluster.bootstrap, "words-and-flights", str(directory / name), "3")
            instances.append(Instance(name, program.command(*arguments), directory / f"{name}.log"))
        for instance in instances:
            eventually(instance.is_running, "the instance runs", within_s=START_DEADLINE_S)
        yield instances
    finally:
        for instance in instances:
            instance.end()


def inputs(count: int) -> tuple[list[Feed], Counter[str], dict[str, str]]:
    """What is fed; and what is expected of it: how often each word comes, and each flight's value."""
    chance = random.Random(SEED)
    feeds: list[Feed] = []
    words: Counter[str] = Counter()
    flights: dict[str, str] = {}
    for number in range(count):
        flight, (start, end) = f"OT{number}", chance.sample(AIRPORTS, 2)
        line = [start.lower(), "to", end.lower(), *(["late"] if chance.random() < 0.3 else [])]
        words.update(line)
        halves = [Feed("departures", number % PARTITIONS, Record(flight, start))]
        halves.append(Feed("arrivals", number % PARTITIONS, Record(flight, end)))
        chance.shuffle(halves)
        feeds += [*halves, Feed("lines", chance.randrange(PARTITIONS), Record(flight, " ".join(line)))]
        flights[flight] = f"{start} {end}"
    return feeds, words, flights


def test_results_are_those_of_a_run_without_faults(tmp_path: Path) -> None:
    feeds, words, flights = inputs(KILLS * FLIGHTS_PER_KILL)
    with three_brokers(tmp_path / "cluster") as cluster:
        make_topics(cluster, TOPICS, PARTITIONS)
        with running_application(cluster, tmp_path) as instances:
            feeder = Feeder(cluster.bootstrap, feeds, FLIGHTS_PER_S * len(feeds) / len(flights))
            feeder.start()
            strikes: Strikes = strikes_at(cluster)
            strikes |= {f"instance {number}": each.kill for number, each in enumerate(instances)}
            struck = strike(strikes, random.Random(SEED), KILLS, lambda: check(instances))
            print(f"seed {SEED}: {KILLS} kills: {', '.join(struck)}", file=sys.stderr)
            feeder.finish()
            for topic, count in (("flights", len(flights)), ("counts", words.total())):
                with CommittedReader(cluster.bootstrap, topic, PARTITIONS) as reader:
                    reader.read_until(count, within_s=RESULTS_DEADLINE_S)
            for instance in instances:
                instance.stop()
        eventually(
            lambda: nothing_is_open(cluster.bootstrap, TOPICS, PARTITIONS), "no transaction is open", within_s=60
        )
        pairs = sorted(all_of(committed_records(cluster.bootstrap, "flights", PARTITIONS)))
        counts = counts_of(all_of(committed_records(cluster.bootstrap, "counts", PARTITIONS)))
    assert pairs == sorted(Record(flight, value) for flight, value in flights.items())
    assert counts == {word: list(range(1, count + 1)) for word, count in words.items()}


def check(instances: list[Instance]) -> None:
    """No instance may end by itself."""
    for instance in instances:
        instance.check()


def counts_of(records: list[Record]) -> dict[str, list[int]]:
    """The counts of each word, in their order; all of a word's are in one partition."""
    counts: dict[str, list[int]] = defaultdict(list)
    for word, count in records:
        counts[word].append(int(count))
    return counts
