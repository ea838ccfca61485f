"""Connectors survive what happens to their workers, their own processes and the brokers.

Three workers run six connectors with fifteen tasks under load, while processes are killed, paused and restarted, a
task leaks memory and a plugin crashes. Tasks must restart or move, other connectors must not notice, REST must answer
throughout, and in the end nothing may be lost; what that means is written in `connect_delivery.py`.

In rounds of another kind, connectors and their offsets are changed by many at once meanwhile (`connect_changes.py`).

`OTTLA_TEST_CONNECT_FAULTS` is how often each fault happens (default: once), `OTTLA_TEST_CONNECT_ROUNDS` how many
rounds of changes there are; `OTTLA_TEST_SEED` repeats a run's order.
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.connect.connect_changes import TASKS as TASKS_OF_CHANGED
from tests.support.connect.connect_changes import Changes, figures
from tests.support.connect.connect_cluster import ConnectCluster, ConnectWorker
from tests.support.connect.connect_delivery import (
    SourceTaskId,
    collected,
    overlap_problems,
    sink_problems,
    source_problems,
)
from tests.support.connect.connect_observer import ConnectObserver
from tests.support.connect.connect_plugin_path import environment_with_test_plugins
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

FAULTS_DEFAULT = 1
ROUNDS_DEFAULT = 4
BROKERS = 3
WORKERS = 3
PARTITIONS = 4
SOURCES = {"src-a": ("topic-a", 3), "src-b": ("topic-b", 3), "src-leak": ("topic-c", 2)}
SINKS = {"sink-a": ("topic-a", 3), "sink-b": ("topic-b", 2), "sink-c": ("topic-c", 2)}
TASKS = [f"{connector}-{task}" for connector, (_, tasks) in {**SOURCES, **SINKS}.items() for task in range(tasks)]
ALL = [*SOURCES, *SINKS, *TASKS]
CHANGED = {"one": "topic-one", "two": "topic-two", "three": "topic-three"}
ONE_REPLICA = {f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")}
LEAKS, CRASHES = "src-leak", "sink-a"
MEMORY_MAX_BYTES = 200 * 1024 * 1024
OFFSETS_TOPIC = "connect-offsets"
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
RECOVERY_DEADLINE_S = 120.0
"""On a busy machine some recoveries take three quarters of a minute."""
COLLECTED_DEADLINE_S = 240.0
"""Long enough for a consumer of librdkafka that hangs to be found and replaced, on a busy machine."""
PAUSE_GOES_ON_S = 1.0
REST_TIMEOUT_S = 5.0
REST_INTERVAL_S = 0.1
PROBLEMS_SHOWN_MAX = 10


@dataclass
class Scene:
    """Everything that a fault may touch."""

    brokers: OttlaCluster
    connect: ConnectCluster
    observer: ConnectObserver
    directory: Path
    chance: random.Random
    problems: list[str] = field(default_factory=list)

    def marker(self, connector: str) -> Path:
        """The file that keeps a connector's fault from happening; it is there again once it has."""
        return self.directory / f"{connector}.marker"

    def target(self, sink: str) -> Path:
        return self.directory / f"{sink}.jsonl"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaCluster]:
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(tmp_path / "cluster", brokers=BROKERS, arguments=arguments) as cluster:
        yield cluster


@pytest.fixture
def scene(brokers: OttlaCluster, tmp_path: Path) -> Iterator[Scene]:
    create_topics(brokers.bootstrap, [topic for topic, _ in SOURCES.values()], replicas=BROKERS)
    settings = {"offset.storage.message.timestamp.type": "LogAppendTime"}
    connectors_by_topic = {topic: name for name, (topic, _) in SOURCES.items()}
    with (
        ConnectCluster(
            tmp_path,
            brokers.bootstrap,
            workers=WORKERS,
            settings=settings,
            environment=environment_with_test_plugins(),
        ) as connect,
        ConnectObserver(brokers.bootstrap, connectors=connectors_by_topic, offsets_topic=OFFSETS_TOPIC) as observer,
    ):
        seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
        print(f"OTTLA_TEST_SEED={seed}")
        yield Scene(brokers, connect, observer, tmp_path, random.Random(seed))


def test_nothing_is_lost_whatever_fails(scene: Scene) -> None:
    faults = chosen_faults(int(os.environ.get("OTTLA_TEST_CONNECT_FAULTS", FAULTS_DEFAULT)), scene.chance)
    create_connectors(scene)
    wait_until_well(scene, "all has started")
    with rest_answers_throughout(scene) as unanswered:
        for fault in faults:
            begun_s = time.monotonic()
            print(fault.__doc__, end=" ", flush=True)
            fault(scene)
            wait_until_well(scene, f"all is well after: {fault.__doc__}")
            print(f"Well again after {time.monotonic() - begun_s:.1f} s.")
    scene.problems += unanswered
    finish(scene)
    scene.problems += source_problems(scene.observer.appended, scene.observer.committed)
    scene.problems += overlap_problems(scene.observer.appended)
    for name, (topic, _) in SINKS.items():
        scene.problems += sink_problems(name, scene.target(name), scene.observer.origins[topic])
    assert not scene.problems, f"{len(scene.problems)} problems: {scene.problems[:PROBLEMS_SHOWN_MAX]}"
    assert scene.observer.committed, "no source offsets were committed"


def test_changes_come_one_after_the_other_whatever_fails(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    rounds = int(os.environ.get("OTTLA_TEST_CONNECT_ROUNDS", ROUNDS_DEFAULT))
    print(f"OTTLA_TEST_SEED={seed}")
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    sources = {name: source_settings(topic, tasks=TASKS_OF_CHANGED) for name, topic in CHANGED.items()}
    with ExitStack() as stack:
        bootstrap = stack.enter_context(OttlaCluster(tmp_path / "cluster", arguments=arguments)).bootstrap
        create_topics(bootstrap, CHANGED.values(), replicas=1)
        environment = environment_with_test_plugins()
        connect = stack.enter_context(
            ConnectCluster(tmp_path, bootstrap, workers=WORKERS, environment=environment, settings=ONE_REPLICA)
        )
        by_topic = {topic: name for name, topic in CHANGED.items()}
        observer = stack.enter_context(ConnectObserver(bootstrap, connectors=by_topic, offsets_topic=OFFSETS_TOPIC))
        changes = Changes(connect, observer, sources, random.Random(seed))
        changes.create()
        for number in range(rounds):
            changes.run_round()
            assert not changes.problems, f"round {number}: {changes.problems[:PROBLEMS_SHOWN_MAX]}"
        observer.catch_up()
        changes.check_history(bootstrap)
        changes.problems += overlap_problems(observer.appended)
        print(figures(changes, rounds))
    assert not changes.problems, f"{len(changes.problems)} problems: {changes.problems[:PROBLEMS_SHOWN_MAX]}"


# The faults.


def kill_a_task(scene: Scene) -> None:
    """A task's process is killed."""
    name = scene.chance.choice(TASKS)
    with only_affects(scene, name.rpartition("-")[0]):
        (pid,) = scene.connect.processes()[name]
        os.kill(pid, signal.SIGKILL)


def crash_a_plugin(scene: Scene) -> None:
    """A plugin has a segmentation fault."""
    with only_affects(scene, CRASHES, says="Fatal Python error: Segmentation fault"):
        scene.marker(CRASHES).unlink()


def leak_memory(scene: Scene) -> None:
    """A task leaks memory up to its limit."""
    with only_affects(scene, LEAKS, says="more than task.memory.max.bytes allows"):
        scene.marker(LEAKS).unlink()


def kill_a_worker(scene: Scene) -> None:
    """A worker is killed, and started again when others have its connectors and tasks."""
    worker = scene.chance.choice(scene.connect.workers)
    processes = worker.processes()
    worker.kill()
    wait_until_well(scene, "others have its connectors and tasks")
    left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    if left:
        scene.problems.append(f"processes {left} have outlived their worker")
    worker.start()
    worker.wait_until_ready()


def pause_a_worker(scene: Scene) -> None:
    """A worker is paused until others have its connectors and tasks."""
    worker = scene.chance.choice(scene.connect.workers)
    worker.pause()
    try:
        wait_until_well(scene, "others have its connectors and tasks", paused=worker)
        well_s = time.monotonic()
        eventually(lambda: time.monotonic() > well_s + PAUSE_GOES_ON_S, "its tasks could have shown that they work")
    finally:
        worker.resume()
    worker.wait_until_ready()


def restart_the_brokers(scene: Scene) -> None:
    """The brokers are killed or stopped one after the other; each is started again."""
    numbers = [service.id for service in scene.brokers.services if service.role == "broker"]
    scene.chance.shuffle(numbers)
    for number in numbers:
        former = broker_pid(scene, number)
        os.kill(former, scene.chance.choice((signal.SIGKILL, signal.SIGTERM)))

        def is_back(number: int = number, former: int = former) -> bool:
            return broker_pid(scene, number) not in (0, former)

        eventually(is_back, f"broker {number} has been started again", within_s=RECOVERY_DEADLINE_S)
        eventually(lambda: fully_replicated(scene), "all replicas are in sync", within_s=RECOVERY_DEADLINE_S)


FAULTS: list[Callable[[Scene], None]] = [
    kill_a_task,
    crash_a_plugin,
    leak_memory,
    kill_a_worker,
    pause_a_worker,
    restart_the_brokers,
]


def chosen_faults(times: int, chance: random.Random) -> list[Callable[[Scene], None]]:
    """Every fault so many times, in any order."""
    faults = FAULTS * times
    chance.shuffle(faults)
    return faults


# What must hold meanwhile.


@contextmanager
def only_affects(scene: Scene, connector: str, *, says: str = "") -> Iterator[None]:
    """Waits until a process of this connector was replaced and all is well; all other processes must live on.

    `says` is what must be in the workers' logs once more than before.
    """
    before = scene.connect.processes()
    said = scene.connect.logs().count(says)
    yield
    own = [name for name in TASKS if name.startswith(f"{connector}-")]
    eventually(
        lambda: any(scene.connect.processes().get(name) not in (None, before[name]) for name in own),
        f"a task of {connector} has another process",
        within_s=RECOVERY_DEADLINE_S,
    )
    wait_until_well(scene, f"{connector} is well")
    after = scene.connect.processes()
    changed = [name for name in ALL if name not in own and before.get(name) != after.get(name)]
    if changed:
        scene.problems.append(f"a fault of {connector} has cost {changed} their processes")
    if says and scene.connect.logs().count(says) == said:
        scene.problems.append(f"no log of a worker says {says!r}")


@contextmanager
def rest_answers_throughout(scene: Scene) -> Iterator[list[str]]:
    """Asks every worker again and again; what was not answered in time is in the list at the end."""
    unanswered: list[str] = []
    stop = threading.Event()

    def ask(worker: ConnectWorker) -> None:
        disturbances = worker.disturbances
        begun_s = time.monotonic()
        try:
            answer = httpx.get(f"{worker.url}/connectors", params={"expand": "status"}, timeout=REST_TIMEOUT_S)
            problem = "" if answer.status_code == httpx.codes.OK and len(answer.json()) == 6 else answer.text
        except httpx.TransportError as error:
            problem = repr(error)
        if problem and worker.disturbances == disturbances and worker.answers():
            unanswered.append(f"worker {worker.number} after {time.monotonic() - begun_s:.1f} s: {problem}")

    def ask_all() -> None:
        while not stop.wait(REST_INTERVAL_S):
            for worker in scene.connect.answering():
                ask(worker)

    asking = threading.Thread(target=ask_all, name="REST")
    asking.start()
    try:
        yield unanswered
    finally:
        stop.set()
        asking.join()


def wait_until_well(scene: Scene, what: str, *, paused: ConnectWorker | None = None) -> None:
    """Waits until everything runs once, on the workers that answer in equal parts, and makes progress."""
    begun = scene.observer.highest()
    lengths = {name: length_of(scene.target(name)) for name in SINKS}
    missing: list[str] = []

    def at_rest(running: Mapping[str, list[int]]) -> list[str]:
        highest = scene.observer.highest()
        sources = [
            f"{name}-{task}"
            for name, (_, tasks) in SOURCES.items()
            for task in range(tasks)
            if highest.get(SourceTaskId(name, task), -1) <= begun.get(SourceTaskId(name, task), -1)
            or not scene.observer.has_seen(running[f"{name}-{task}"][0])
        ]
        return sources + [name for name in SINKS if length_of(scene.target(name)) <= lengths[name]]

    def is_well() -> bool:
        running = scene.connect.processes(without=paused)
        counts = {name: len(running.get(name, [])) for name in TASKS}
        missing[:] = [f"{name} runs {count} times" for name, count in counts.items() if count != 1]
        missing[:] = missing or unbalanced(scene)
        missing[:] = missing or [f"{name} makes no progress" for name in at_rest(running)]
        missing[:] = missing or [f"{name} is {state}" for name, state in states(scene).items() if state != "RUNNING"]
        return not missing

    try:
        eventually(is_well, what, within_s=RECOVERY_DEADLINE_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {missing}") from None


def unbalanced(scene: Scene) -> list[str]:
    """Says if some worker has more than others: then the next rebalance, which moves tasks, is still to come."""
    workers = [list(worker.processes().values()) for worker in scene.connect.answering()]
    loads = [(sum(name in TASKS for name in names), sum(name not in TASKS for name in names)) for names in workers]
    spreads = [max(counts) - min(counts) for counts in zip(*loads, strict=True)]
    return [] if max(spreads) <= 1 else [f"the workers run {loads} tasks and connectors"]


def states(scene: Scene) -> dict[str, str]:
    """The states of all connectors and tasks, as some worker tells them."""
    worker = random.choice(scene.connect.answering())
    told = scene.connect.request("GET", "/connectors?expand=status", worker=worker)
    found = dict.fromkeys(ALL, "unknown")
    for name, expanded in told.items():
        status = expanded["status"]
        found[name] = status["connector"]["state"]
        found |= {f"{name}-{task['id']}": task["state"] for task in status["tasks"]}
    return found


def length_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# The scene.


def create_topics(bootstrap: str, names: Iterable[str], *, replicas: int) -> None:
    configs = {"retention.ms": "-1", "min.insync.replicas": str(min(replicas, 2)), **APPEND_TIME}
    topics = [
        NewTopic(topic, num_partitions=PARTITIONS, replication_factor=replicas, config=configs) for topic in names
    ]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for created in client.create_topics(topics).values():
        created.result()


def create_connectors(scene: Scene) -> None:
    for name, (topic, tasks) in SOURCES.items():
        scene.connect.put_connector(
            name,
            {
                **source_settings(topic, tasks=tasks),
                "task.memory.max.bytes": str(MEMORY_MAX_BYTES),
                **fault_settings(scene, name, "poll", "leak" if name == LEAKS else ""),
            },
        )
    for name, (topic, tasks) in SINKS.items():
        scene.connect.put_connector(
            name,
            {
                "connector.class": "ottla_test_plugins.CollectingSink",
                "tasks.max": str(tasks),
                "topics": topic,
                "collect.path": str(scene.target(name)),
                **fault_settings(scene, name, "put", "segfault" if name == CRASHES else ""),
            },
        )


def source_settings(topic: str, *, tasks: int) -> dict[str, str]:
    return {
        "connector.class": "ottla_test_plugins.ListSource",
        "tasks.max": str(tasks),
        "topic": topic,
        "list.tasks": str(tasks),
        "list.count": "0",
        "list.batch": "5",
        "list.pause.ms": "100",
        "list.tell.pid": "true",
    }


def fault_settings(scene: Scene, connector: str, where: str, kind: str) -> dict[str, str]:
    if not kind:
        return {}
    scene.marker(connector).touch()
    return {"fault.where": where, "fault.kind": kind, "fault.marker": str(scene.marker(connector))}


def broker_pid(scene: Scene, number: int) -> int:
    """The process of a broker, 0 while it is not ready."""
    command = [ottla_command(), "status", "--dir", str(scene.brokers.directory), "--json"]
    status = subprocess.run(command, capture_output=True, check=False, timeout=RECOVERY_DEADLINE_S)
    return next(
        (
            int(each["pid"])
            for each in json.loads(status.stdout)["processes"]
            if each["role"] == "broker" and int(each["id"]) == number and each["state"] == "ready"
        ),
        0,
    )


def fully_replicated(scene: Scene) -> bool:
    topics = AdminClient({"bootstrap.servers": scene.brokers.bootstrap}).list_topics(timeout=10).topics
    return all(len(partition.isrs) == BROKERS for topic in topics.values() for partition in topic.partitions.values())


def finish(scene: Scene) -> None:
    """Stops the sources, and waits until the sinks have everything."""
    for name in SOURCES:
        scene.connect.request("PUT", f"/connectors/{name}/stop")
    eventually(
        lambda: all(scene.connect.states(name) == {name: "STOPPED"} for name in SOURCES),
        "the sources have stopped",
        within_s=RECOVERY_DEADLINE_S,
    )
    scene.observer.catch_up()

    def all_collected() -> bool:
        return all(
            len(set(collected(scene.target(name)))) >= scene.observer.count(topic)
            for name, (topic, _) in SINKS.items()
        )

    eventually(all_collected, "the sinks have everything", within_s=COLLECTED_DEADLINE_S)
