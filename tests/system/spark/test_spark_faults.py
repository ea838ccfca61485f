"""A job on Spark survives what happens to its driver, its executors, its worker and the brokers.

One pipeline copies a topic into a table of parquet files and into two other topics, a batch about every second, while
a writer fills the topic. Processes are killed in the middle of batches. Nobody restarts anything but the killed
worker; in the end the table and the topic that is written exactly once must have every record exactly once, and the
other topic at least once and in order for each key, as `spark_faults_delivery.py` says.

`OTTLA_TEST_SPARK_FAULTS` is how many faults there are (with five, each kind once), `OTTLA_TEST_SEED` repeats a run's
order. Executors are Python processes below the driver; with `OTTLA_TEST_SPARK_STANDALONE=1`, JVMs of a cluster.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from ottla_spark.datasource.offsets import TOPIC_ID
from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.connect.connect_cluster import ConnectCluster, ConnectWorker
from tests.support.eventually import eventually
from tests.support.spark.spark_cluster import SparkCluster
from tests.support.spark.spark_faults_delivery import (
    Arrived,
    Place,
    Row,
    copy_problems,
    input_problems,
    once_problems,
    repeat_count,
    table_problems,
)
from tests.support.spark.spark_faults_moments import Moment, TopicEnd, file_count, latest_batch
from tests.support.spark.spark_faults_processes import MARK_VARIABLE, DriverWatch, Kind, Mark
from tests.support.spark.spark_faults_topics import PLACE_COLUMNS, ROW_SCHEMA, KeyedWriter, read_copy, read_input

pytestmark = pytest.mark.slow

FAULTS_DEFAULT = 3
BROKERS = 3
WORKERS = 2
PARTITIONS = 4
INPUT, COPY, ONCE = "orders", "copied", "once"
CONNECTOR, TASK = "flow", "flow-0"
OUTPUTS = ("table", "copy", "once")
BATCHES_BETWEEN_FAULTS = 2
OVERLAP_S_MAX = 3.0
"""For so long a killed driver's last processes may be seen beside its successor."""
RECOVERY_DEADLINE_S = 300.0
ADMIN_TIMEOUT_S = 10.0
WORKER_SETTINGS = {"session.timeout.ms": "6000", "task.shutdown.graceful.timeout.ms": "10000"}
CLUSTER = {"spark.executor.memory": "512m"}
LOCAL = {"spark.master": "local[2,4]"}
"""Four failures of a part of a batch fail the batch, as on a cluster; by default one does."""


@dataclass
class Scene:
    """Everything that a fault may touch."""

    brokers: OttlaCluster
    connect: ConnectCluster
    directory: Path
    mark: Mark
    chance: random.Random
    spark: Mapping[str, str]
    executor_kind: Kind
    copy_end: TopicEnd
    once_end: TopicEnd

    @property
    def table(self) -> Path:
        return self.directory / "table"

    def checkpoint(self, output: str) -> Path:
        return self.directory / "checkpoint" / output

    def committed_batches(self) -> dict[str, int]:
        """The number of the last batch that each output has finished; -1 before the first."""
        return {output: latest_batch(self.checkpoint(output) / "commits") for output in OUTPUTS}

    def drivers(self) -> list[int]:
        """The process ids of all drivers' JVMs."""
        return [each.pid for each in self.mark.of_kind(Kind.DRIVER)]

    def worker_with_the_task(self) -> ConnectWorker:
        return next(each for each in self.connect.answering() if TASK in each.processes().values())


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaCluster]:
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(tmp_path / "cluster", brokers=BROKERS, arguments=arguments) as cluster:
        yield cluster


@pytest.fixture
def scene(
    brokers: OttlaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> Iterator[Scene]:
    create_topics(brokers.bootstrap)
    mark = Mark.new()
    monkeypatch.setenv(MARK_VARIABLE, mark.text)  # not in the shared session's environment, which has begun before
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    print(f"OTTLA_TEST_SEED={seed}")
    try:
        with (
            executors(tmp_path) as (settings, kind),
            ConnectCluster(tmp_path, brokers.bootstrap, workers=WORKERS, settings=WORKER_SETTINGS) as connect,
        ):
            ends = [TopicEnd(brokers.bootstrap, topic, PARTITIONS) for topic in (COPY, ONCE)]
            yield Scene(brokers, connect, tmp_path, mark, random.Random(seed), settings, kind, *ends)
            for end in ends:
                end.close()
        eventually(lambda: not mark.processes(), "no process of the workers is left")
    finally:
        mark.kill_all()


@contextmanager
def executors(directory: Path) -> Iterator[tuple[Mapping[str, str], Kind]]:
    """What a driver is told about its executors, and what they are."""
    if not os.environ.get("OTTLA_TEST_SPARK_STANDALONE"):
        yield LOCAL, Kind.WORKER
        return
    with SparkCluster(directory / "spark") as cluster:
        yield {"spark.master": cluster.master, **CLUSTER}, Kind.EXECUTOR


def test_a_table_and_a_topic_have_everything_once_and_another_topic_has_it_in_order_whatever_fails(
    scene: Scene, spark: SparkSession
) -> None:
    faults = chosen_faults(int(os.environ.get("OTTLA_TEST_SPARK_FAULTS", FAULTS_DEFAULT)), scene.chance)
    with DriverWatch(scene.mark) as watch, KeyedWriter(scene.brokers.bootstrap, INPUT) as writer:
        scene.connect.put_connector(CONNECTOR, pipeline(scene))
        wait_until_well(scene, dict.fromkeys(OUTPUTS, -1), "the pipeline has started")
        for fault in faults:
            happens_in_a_batch(scene, fault)
    topic = read_input(scene.brokers.bootstrap, INPUT)
    catch_up(scene, ends_of(topic))
    copied = read_copy(scene.brokers.bootstrap, COPY)
    once = read_copy(scene.brokers.bootstrap, ONCE, isolation="read_committed")
    end_the_connector(scene)
    rows = read_table(spark, scene.table)
    problems = [
        *input_problems(writer.acknowledged, topic),
        *table_problems(rows, topic),
        *copy_problems(copied, topic, "copy"),
        *copy_problems(once, topic, "once"),
        *once_problems(once),
    ]
    given_up = spark.read.parquet(f"{scene.table}/*.parquet").count() - len(rows)
    print(
        f"{len(topic)} records; {given_up} rows in files that do not count, {repeat_count(copied)} repeats in {COPY}."
    )
    print(f"{len(watch.drivers)} drivers, two at once for {watch.longest_s:.1f} s.")
    assert not problems
    assert not writer.failures
    assert watch.longest_s < OVERLAP_S_MAX, f"{sorted(watch.who)} have worked at the same time"


# The faults.


def kill_the_driver(scene: Scene) -> None:
    """The driver's Python process is killed."""
    (pid,) = scene.connect.processes()[TASK]
    os.kill(pid, signal.SIGKILL)


def kill_the_jvm(scene: Scene) -> None:
    """The driver's JVM is killed."""
    (pid,) = scene.drivers()
    os.kill(pid, signal.SIGKILL)


def kill_the_worker(scene: Scene) -> None:
    """The Connect worker with the task is killed, and started again when the other has the task."""
    worker = scene.worker_with_the_task()
    worker.kill()
    eventually(
        lambda: TASK in scene.connect.processes(), "the other worker has the task", within_s=RECOVERY_DEADLINE_S
    )
    worker.start()
    worker.wait_until_ready()


def kill_an_executor(scene: Scene) -> None:
    """An executor is killed."""
    os.kill(
        scene.chance.choice(eventually(lambda: scene.mark.of_kind(Kind.WORKER), "there is one")).pid, signal.SIGKILL
    )


def kill_a_broker(scene: Scene) -> None:
    """A broker is killed, and started again by the cluster."""
    before = ready_brokers(scene)
    killed = scene.chance.choice(sorted(before))
    os.kill(before[killed], signal.SIGKILL)

    def is_back() -> bool:
        return ready_brokers(scene).get(killed, before[killed]) != before[killed]

    eventually(is_back, f"broker {killed} has been started again", within_s=RECOVERY_DEADLINE_S)
    eventually(lambda: fully_replicated(scene), "all replicas are in sync", within_s=RECOVERY_DEADLINE_S)


COSTS_THE_DRIVER: list[Callable[[Scene], None]] = [kill_the_driver, kill_the_jvm, kill_the_worker]
LEAVES_THE_DRIVER: list[Callable[[Scene], None]] = [kill_an_executor, kill_a_broker]


def chosen_faults(count: int, chance: random.Random) -> list[Callable[[Scene], None]]:
    """So many, each kind once before one comes again. A driver takes long to start: the first three cost one."""
    chosen: list[Callable[[Scene], None]] = []
    while len(chosen) < count:
        first, *others = chance.sample(COSTS_THE_DRIVER, len(COSTS_THE_DRIVER))
        chosen += chance.sample([first, *LEAVES_THE_DRIVER], 1 + len(LEAVES_THE_DRIVER)) + others
    return chosen[:count]


def happens_in_a_batch(scene: Scene, fault: Callable[[Scene], None]) -> None:
    """Waits until an output has written part of a batch, has the fault happen, and waits until all is well."""
    output = scene.chance.choice(OUTPUTS)
    written = {
        "table": lambda: file_count(scene.table),
        "copy": scene.copy_end.record_count,
        "once": scene.once_end.record_count,
    }[output]
    moment = Moment(scene.checkpoint(output), written)
    eventually(moment.has_come, f"{output} is in the middle of a batch", within_s=RECOVERY_DEADLINE_S)
    begun_s, before = time.monotonic(), scene.committed_batches()
    print(f"In batch {before[output] + 1} of {output}: {fault.__doc__}", end=" ", flush=True)
    fault(scene)
    wait_until_well(scene, before, f"all is well after: {fault.__doc__}")
    print(f"Well again after {time.monotonic() - begun_s:.1f} s, with driver {scene.drivers()}.", flush=True)


# What is waited for.


def wait_until_well(scene: Scene, before: dict[str, int], what: str) -> None:
    """Waits until everything is RUNNING by itself, there is one driver, and both outputs have finished batches."""
    missing: list[str] = []

    def is_well() -> bool:
        done = scene.committed_batches()
        missing[:] = [
            f"{output} is at batch {done[output]}"
            for output in OUTPUTS
            if done[output] < before[output] + BATCHES_BETWEEN_FAULTS
        ]
        missing[:] = missing or [f"there are drivers {drivers}" for drivers in [scene.drivers()] if len(drivers) != 1]
        missing[:] = missing or [
            f"{name} is {state}" for name, state in scene.connect.states(CONNECTOR).items() if state != "RUNNING"
        ]
        return not missing

    try:
        eventually(is_well, what, within_s=RECOVERY_DEADLINE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {missing}\n{scene.connect.logs()[-8000:]}") from None


def catch_up(scene: Scene, ends: dict[str, int]) -> None:
    """Waits until both outputs have done all that is in the input, and their groups are told."""

    def are_done() -> bool:
        return all(reached(scene, output) == ends for output in OUTPUTS)

    def are_told() -> bool:
        groups = [f"connect-{CONNECTOR}-{output}" for output in OUTPUTS]
        return all(committed_offsets(scene.brokers.bootstrap, group) == ends for group in groups)

    eventually(are_done, f"all outputs are at {ends}", within_s=RECOVERY_DEADLINE_S)
    eventually(are_told, f"all groups are at {ends}", within_s=RECOVERY_DEADLINE_S)


def reached(scene: Scene, output: str) -> dict[str, int]:
    """How far an output has come in each partition, as its checkpoint says."""
    folder = scene.checkpoint(output)
    last_line = (folder / "offsets" / str(latest_batch(folder / "commits"))).read_text().splitlines()[-1]
    partitions = json.loads(last_line)[INPUT].items()
    return {partition: int(offset) for partition, offset in partitions if partition != TOPIC_ID}


def committed_offsets(bootstrap: str, group: str) -> dict[str, int]:
    """A group's offsets in the input."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {str(each.partition): each.offset for each in asked.result(ADMIN_TIMEOUT_S).topic_partitions}


def end_the_connector(scene: Scene) -> None:
    """Deletes it; its driver must leave no process behind."""
    scene.connect.request("DELETE", f"/connectors/{CONNECTOR}")
    eventually(lambda: not scene.mark.spark(), "no process of Spark is left", within_s=RECOVERY_DEADLINE_S)


def ready_brokers(scene: Scene) -> dict[int, int]:
    """The process id of each broker that is ready."""
    command = [ottla_command(), "status", "--dir", str(scene.brokers.directory), "--json"]
    # Its exit code says whether all are ready.
    status = subprocess.run(command, capture_output=True, check=False, timeout=RECOVERY_DEADLINE_S)
    return {
        int(each["id"]): int(each["pid"])
        for each in json.loads(status.stdout)["processes"]
        if each["role"] == "broker" and each["state"] == "ready"
    }


def fully_replicated(scene: Scene) -> bool:
    topics = AdminClient({"bootstrap.servers": scene.brokers.bootstrap}).list_topics(timeout=ADMIN_TIMEOUT_S).topics
    return all(len(partition.isrs) == BROKERS for topic in topics.values() for partition in topic.partitions.values())


# The scene.


def create_topics(bootstrap: str) -> None:
    configs = {"retention.ms": "-1", "min.insync.replicas": "2"}
    topics = [
        NewTopic(topic, num_partitions=PARTITIONS, replication_factor=BROKERS, config=configs)
        for topic in (INPUT, COPY, ONCE)
    ]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for created in client.create_topics(topics).values():
        created.result()


def pipeline(scene: Scene) -> dict[str, str]:
    partition, offset = PLACE_COLUMNS
    return {
        "connector.class": "ottla_spark.SparkPipeline",
        "tasks.max": "1",
        "checkpoint.location": str(scene.directory / "checkpoint"),
        "trigger.interval": "500 milliseconds",
        **scene.spark,
        "spark.driver.memory": "512m",
        "tables": INPUT,
        f"tables.{INPUT}.value.schema": ROW_SCHEMA,
        "sql": f"SELECT key, number, payload, _partition AS {partition}, _offset AS {offset} FROM {INPUT}",
        "outputs": ",".join(OUTPUTS),
        "outputs.table.format": "parquet",
        "outputs.table.path": str(scene.table),
        "outputs.copy.topic": COPY,
        "outputs.copy.key.columns": "key",
        "outputs.once.topic": ONCE,
        "outputs.once.key.columns": "key",
        "outputs.once.delivery.guarantee": "exactly-once",
        # Faults come faster here than restarts are meant to be apart.
        "task.restart.backoff.max.ms": "1000",
        "task.restart.attempts.max": "100",
    }


def ends_of(topic: Mapping[Place, Row]) -> dict[str, int]:
    """Where the input ends in each partition."""
    ends: dict[str, int] = {}
    for partition, offset in topic:
        ends[str(partition)] = max(offset + 1, ends.get(str(partition), 0))
    return ends


def read_table(spark: SparkSession, path: Path) -> list[Arrived]:
    """The table as Spark reads it: the files that its metadata names."""
    rows = spark.read.parquet(str(path)).select(*PLACE_COLUMNS, "key", "number", "payload").collect()
    return [Arrived(Place(row[0], row[1]), Row(row[2], row[3], row[4])) for row in rows]
