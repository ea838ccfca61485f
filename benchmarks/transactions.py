"""What transactions cost: how many a second, the CPU of each, and how long their records and their commits take.

All processes of a target are held to one processor, and the client has the others, so the transactions per second are
those of a core. Producers of librdkafka, each with a thread of its own, have transactions of many records over ten
partitions, or of one record, as fast as they can. The records are flushed before the commit, so that each has its own
time: until the last record is acknowledged, and from then on until the commit is. The targets take turns; each
is warmed up before, since what compiles itself needs that.

At last many ids are opened, each with a transaction of one record that nobody ends, for the memory that they take.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, Message
from confluent_kafka import Producer as TransactionalProducer

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, create_topic, delete_topic
from benchmarks.encryption import hold_to
from benchmarks.groups import ProcessMeter
from benchmarks.process_stats import shared_once_mib
from benchmarks.summary import Measures, percentile
from benchmarks.throughput import VALUES, random_values
from tests.support.clients.transaction_client import TransactionClient
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.reference.reference_kafka import ReferenceKafka

PARTITIONS: Final = 10
RECORD_BYTES: Final = 1000
SILENCE_S: Final = 30.0
OPEN_TIMEOUT_MS: Final = 900_000
"""Of the transactions that stay open: the longest that is allowed."""
OPENING_CLIENTS: Final = 16
"""That open transactions side by side."""

KAFKA_JAVA_OPTIONS: Final = ("-Xmx1g", "-Xms1g")
"""Both of Java's compilers are on, as they are by default."""


@dataclass(frozen=True, kw_only=True)
class TransactionsPlan:
    """What to measure.

    Attributes:
        records: of the transactions of each measurement; those of many are spread evenly over the partitions.
        producers: how many have transactions side by side, of each measurement.
        seconds: of each measurement.
        warm_up_s: before it, on each target.
        repetitions: of everything, on every target.
        open_ids: how many ids have an open transaction at last; 0 leaves that out.
    """

    records: tuple[int, ...] = (100, 1)
    producers: tuple[int, ...] = (1, 8)
    seconds: float = 8.0
    warm_up_s: float = 10.0
    repetitions: int = 3
    open_ids: int = 10_000


@dataclass(frozen=True, slots=True)
class Running:
    """A target that runs.

    Attributes:
        bootstrap: its address.
        processes: all of its processes, by name.
        stop: ends them.
    """

    bootstrap: str
    processes: Mapping[str, int]
    stop: Callable[[], None]

    def hold_to(self, processor: int) -> None:
        """Keep all processes on one processor."""
        for pid in self.processes.values():
            hold_to(pid, processor)


def measure(
    names: list[str], directory: Path, plan: TransactionsPlan, say: Callable[[str], None]
) -> dict[str, list[Measures]]:
    """Return the figures of every repetition by the name of the target; the targets take turns."""
    processors = sorted(os.sched_getaffinity(0))
    running: dict[str, Running] = {}
    found: dict[str, list[Measures]] = {name: [] for name in names}
    try:
        for name in names:
            running[name] = STARTERS[name](directory / name)
            running[name].hold_to(processors[0])
        os.sched_setaffinity(0, processors[1:] or processors)
        for name, target in running.items():
            say(f"transactions: {name} is warmed up")
            for records, producers in _cases(plan):
                _measure(target, records, producers, plan.warm_up_s)
        for repetition in range(1, plan.repetitions + 1):
            measures: dict[str, dict[str, float]] = {name: {} for name in names}
            for records, producers in _cases(plan):
                for name, target in running.items():
                    say(f"transactions: {name}, {records} records, {producers} producers, {repetition}")
                    measures[name] |= _measure(target, records, producers, plan.seconds)
            for name in names:
                found[name].append(measures[name])
        for name, target in running.items() if plan.open_ids else ():
            say(f"transactions: {name}, {plan.open_ids} open ids")
            memory = _open_ids_mib(target, plan.open_ids)
            found[name] = [{**each, "open_ids_mib": memory} for each in found[name]]
    finally:
        os.sched_setaffinity(0, processors)
        for target in running.values():
            target.stop()
    return found


def _start_ottla(directory: Path) -> Running:
    directory.mkdir(parents=True)
    cluster = OttlaCluster(directory / "cluster")
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    processes = {f"{each.role}-{each.id}": each.pid for each in cluster.services}
    return Running(cluster.bootstrap, processes, cluster.stop)


def _start_kafka(directory: Path) -> Running:
    kafka = ReferenceKafka(directory, java_options=KAFKA_JAVA_OPTIONS)
    try:
        kafka.start()
    except BaseException:
        kafka.stop()
        raise
    return Running(kafka.bootstrap, {"kafka": kafka.process.pid}, kafka.stop)


STARTERS: Final[Mapping[str, Callable[[Path], Running]]] = {"ottla": _start_ottla, "kafka": _start_kafka}


def _cases(plan: TransactionsPlan) -> list[tuple[int, int]]:
    return [(records, producers) for records in plan.records for producers in plan.producers]


class _Worker:
    """One producer, and the times of its transactions.

    Attributes:
        produce_s: from the first record to the last acknowledgement, of each transaction.
        commit_s: of each commit from then on.
    """

    def __init__(self, bootstrap: str, topic: str, name: str, records: int) -> None:
        self.produce_s: list[float] = []
        self.commit_s: list[float] = []
        self._topic = topic
        self._partitions = [number % PARTITIONS for number in range(records)]
        self._values = random_values(RECORD_BYTES)
        self._failures: list[str] = []
        self._producer = TransactionalProducer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "compression.type": "none",
                "on_delivery": self._on_delivery,
            }
        )

    def begin(self) -> None:
        """Initialize the transactions, and have one before the clock starts, with every partition."""
        self._producer.init_transactions(SILENCE_S)
        self._transact(list(range(PARTITIONS)))

    def run_until(self, end_s: float) -> None:
        """Have transactions until a moment of the performance counter."""
        try:
            while not self._failures and time.perf_counter() < end_s:
                began_s = time.perf_counter()
                produced_s, committed_s = self._transact(self._partitions)
                self.produce_s.append(produced_s - began_s)
                self.commit_s.append(committed_s - produced_s)
        except KafkaException as error:
            self._failures.append(str(error))

    def close(self) -> None:
        """End the producer's threads and connections, which would go on with the next measurement."""
        self._producer.close()

    def check(self) -> None:
        """Raise BenchmarkFailed if anything has failed."""
        if self._failures:
            raise BenchmarkFailed(f"{len(self._failures)} failures: {self._failures[0]}")

    def _transact(self, partitions: Sequence[int]) -> tuple[float, float]:
        producer = self._producer
        producer.begin_transaction()
        for number, partition in enumerate(partitions):
            producer.produce(self._topic, self._values[number % VALUES], partition=partition)
        if producer.flush(SILENCE_S):
            raise BenchmarkFailed("records were not acknowledged")
        produced_s = time.perf_counter()
        producer.commit_transaction(SILENCE_S)
        return produced_s, time.perf_counter()

    def _on_delivery(self, error: ClientError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())


def _measure(target: Running, records: int, producers: int, seconds: float) -> dict[str, float]:
    topic = create_topic(target.bootstrap, PARTITIONS)
    workers = [_Worker(target.bootstrap, topic, f"{topic}-{number}", records) for number in range(producers)]
    try:
        for worker in workers:
            worker.begin()
        meter = ProcessMeter(target.processes)
        end_s = time.perf_counter() + seconds
        threads = [threading.Thread(target=worker.run_until, args=(end_s,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu_s, elapsed_s = meter.stop()
        for worker in workers:
            worker.check()
    finally:
        for worker in workers:
            worker.close()
        delete_topic(target.bootstrap, topic)
    count = sum(len(worker.commit_s) for worker in workers)
    times = {
        "produce": [each for worker in workers for each in worker.produce_s],
        "commit": [each for worker in workers for each in worker.commit_s],
    }
    short = f"{records}_records_{producers}_producers"
    return {
        f"{short}_per_s": count / elapsed_s,
        f"{short}_cpu_ms": sum(cpu_s.values()) / count * 1e3,
        **{
            f"{short}_{name}_p{percent}_ms": percentile(values, percent) * 1e3
            for name, values in times.items()
            for percent in (50, 99)
        },
    }


def _open_ids_mib(target: Running, count: int) -> float:
    """Return the MiB that all processes have more when so many ids have an open transaction with a record."""
    topic = create_topic(target.bootstrap, PARTITIONS)
    pids = list(target.processes.values())
    before_mib = shared_once_mib(pids)
    with ThreadPoolExecutor(OPENING_CLIENTS) as clients:
        shares = [range(first, count, OPENING_CLIENTS) for first in range(OPENING_CLIENTS)]
        list(clients.map(lambda share: _open(target.bootstrap, topic, share), shares))
    return shared_once_mib(pids) - before_mib


def _open(bootstrap: str, topic: str, numbers: Iterable[int]) -> None:
    with TransactionClient(bootstrap) as client:
        for number in numbers:
            name, partition = f"{topic}-{number}", number % PARTITIONS
            error, producer = client.init(name, timeout_ms=OPEN_TIMEOUT_MS)
            if error == "none":
                error = client.produce(name, producer, topic, [b"open"], partition=partition)
            if error != "none":
                raise BenchmarkFailed(f"cannot open transaction {number}: {error}")
