"""Source tasks write every record once (`exactly.once.source.support=enabled`), whatever happens to them.

Three workers run a source of files and a source of a SQL table, both of which grow all the time. Workers, tasks and
brokers are killed (SIGKILL) one after the other; what consumers of committed records see in the end must be every
line and every row, once. Another test pauses a worker with its tasks, in the middle of a transaction, until others
have taken them over: what it wrote must not come to light when it goes on.

`OTTLA_TEST_KILLS` is how many processes are killed (default: ten), `OTTLA_TEST_SEED` repeats a run's order.
"""

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.committed_lines import CommittedCounts, read_all
from tests.support.connect.connect_cluster import ConnectCluster, ConnectWorker
from tests.support.connect.connect_plugin_path import environment_with_test_plugins
from tests.support.connect.sql_runs import SqliteFile
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

KILLS_DEFAULT = 10
BROKERS = 3
WORKERS = 3
FILES = 4
LINES_TOPIC, ROWS_TOPIC, LIST_TOPIC = "lines", "sql-numbers", "list"
RECOVERY_DEADLINE_S = 90.0
GROWN_BETWEEN_KILLS = 30
"""So many records more are committed of each source before the next process is killed."""
GROWTH_INTERVAL_S = 0.05
SHOWN_MAX = 10
EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "value.converter": "StringConverter"}


class Growth:
    """Appends numbered lines to files and numbered rows to a table, until told to stop."""

    def __init__(self, directory: Path, database: SqliteFile) -> None:
        self.lines = 0
        self.rows = 0
        self._paths = [directory / f"{number}.txt" for number in range(FILES)]
        for path in self._paths:
            path.touch()
        self._database = database
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._grow, name="growth")

    def __enter__(self) -> "Growth":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _grow(self) -> None:
        while not self._ended.wait(GROWTH_INTERVAL_S):
            path = self._paths[self.lines % FILES]
            with path.open("a") as file:
                file.write(f"{self.lines}\n{self.lines + 1}\n")
            self.lines += 2
            self._database.run(f"INSERT INTO numbers VALUES ({self.rows + 1}, 'x'), ({self.rows + 2}, 'x')")
            self.rows += 2


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[OttlaCluster]:
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(tmp_path / "cluster", brokers=BROKERS, coordinators=2, arguments=arguments) as cluster:
        yield cluster


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    print(f"OTTLA_TEST_SEED={seed}")
    return random.Random(seed)


def test_every_record_is_committed_once_though_workers_tasks_and_brokers_are_killed(
    brokers: OttlaCluster, tmp_path: Path, chance: random.Random
) -> None:
    kills = int(os.environ.get("OTTLA_TEST_KILLS", KILLS_DEFAULT))
    create_topics(brokers.bootstrap, LINES_TOPIC, ROWS_TOPIC)
    directory, database = tmp_path / "lines", SqliteFile(tmp_path)
    directory.mkdir()
    database.run("CREATE TABLE numbers (id INTEGER PRIMARY KEY, text TEXT)")
    with (
        Growth(directory, database) as growth,
        ConnectCluster(tmp_path, brokers.bootstrap, workers=WORKERS, settings=EXACTLY_ONCE) as connect,
        CommittedCounts(brokers.bootstrap, [LINES_TOPIC, ROWS_TOPIC], value_of) as committed,
    ):
        connect.put_connector("lines", file_source(directory))
        connect.put_connector("rows", sql_source(database))
        for number in range(kills):
            wait_for_growth(committed)
            kill = chance.choice((kill_a_worker, kill_a_task, kill_a_broker))
            print(f"kill {number + 1}: {kill.__doc__}")
            kill(brokers, connect, chance)
        wait_for_growth(committed)
        growth.end()
        eventually(
            lambda: (committed.distinct(LINES_TOPIC), committed.distinct(ROWS_TOPIC)) == (growth.lines, growth.rows),
            "everything is committed",
            within_s=RECOVERY_DEADLINE_S,
        )
    assert_each_once(brokers.bootstrap, LINES_TOPIC, set(range(growth.lines)))
    assert_each_once(brokers.bootstrap, ROWS_TOPIC, set(range(1, growth.rows + 1)))


def test_a_paused_worker_whose_tasks_have_moved_commits_nothing_when_it_goes_on(
    brokers: OttlaCluster, tmp_path: Path
) -> None:
    create_topics(brokers.bootstrap, LIST_TOPIC)
    with (
        ConnectCluster(
            tmp_path,
            brokers.bootstrap,
            workers=2,
            settings={**EXACTLY_ONCE, "value.converter": "JsonConverter"},
            environment=environment_with_test_plugins(),
        ) as connect,
        CommittedCounts(brokers.bootstrap, [LIST_TOPIC], position_of) as committed,
    ):
        connect.put_connector("list", list_source())
        eventually(lambda: committed.distinct(LIST_TOPIC) > 0, "the task commits", within_s=RECOVERY_DEADLINE_S)
        owner = owner_of(connect, "list-0")
        (pid,) = [each for each, name in owner.processes().items() if name == "list-0"]
        with paused(owner, pid):
            eventually(
                lambda: len(connect.processes(without=owner).get("list-0", [])) == 1,
                "another worker has the task",
                within_s=RECOVERY_DEADLINE_S,
            )
            before = committed.distinct(LIST_TOPIC)
            eventually(lambda: committed.distinct(LIST_TOPIC) > before + 50, "it commits there")
            of_zombie = committed_by(brokers.bootstrap, pid)
        owner.wait_until_ready()
        # It has a lease no more, or is fenced: either way its process ends, and what it has written is aborted.
        eventually(lambda: pid not in owner.processes(), "the former task has ended", within_s=RECOVERY_DEADLINE_S)
        before = committed.distinct(LIST_TOPIC)
        eventually(lambda: committed.distinct(LIST_TOPIC) > before + 50, "the task goes on")
        connect.request("PUT", "/connectors/list/stop")
        eventually(lambda: connect.states("list") == {"list": "STOPPED"}, "the connector has stopped")
    assert committed_by(brokers.bootstrap, pid) == of_zombie
    counts = Counter(map(position_of, read_all(brokers.bootstrap, [LIST_TOPIC])))
    assert_complete(counts, set(range(len(counts))))


# The kills.


def kill_a_worker(_: OttlaCluster, connect: ConnectCluster, chance: random.Random) -> None:
    """a worker"""
    worker = chance.choice(connect.workers)
    worker.kill()
    worker.start()
    worker.wait_until_ready()


def kill_a_task(_: OttlaCluster, connect: ConnectCluster, chance: random.Random) -> None:
    """a task"""
    found = eventually(
        lambda: {name: pids for name, pids in connect.processes().items() if "-" in name}, "there are tasks"
    )
    os.kill(found[chance.choice(sorted(found))][0], signal.SIGKILL)


def kill_a_broker(brokers: OttlaCluster, _: ConnectCluster, chance: random.Random) -> None:
    """a broker"""
    killed = chance.choice([each for each in brokers.recorded() if each.role == "broker"])
    os.kill(killed.pid, signal.SIGKILL)

    def is_back() -> bool:
        found = [each.pid for each in brokers.recorded() if (each.role, each.id) == ("broker", killed.id)]
        return bool(found) and found != [killed.pid]

    eventually(is_back, f"broker {killed.id} has been started again", within_s=RECOVERY_DEADLINE_S)
    eventually(lambda: fully_replicated(brokers.bootstrap), "all replicas are in sync", within_s=RECOVERY_DEADLINE_S)


@contextmanager
def paused(worker: ConnectWorker, task: int) -> Iterator[None]:
    """Both stand still; the task goes on first, so that it does not learn from its worker what has happened."""
    os.kill(task, signal.SIGSTOP)
    worker.pause()
    try:
        yield
    finally:
        os.kill(task, signal.SIGCONT)
        worker.resume()


# What is looked at.


def wait_for_growth(committed: CommittedCounts) -> None:
    before = {topic: committed.distinct(topic) for topic in (LINES_TOPIC, ROWS_TOPIC)}
    eventually(
        lambda: all(committed.distinct(topic) >= count + GROWN_BETWEEN_KILLS for topic, count in before.items()),
        "more records of both sources are committed",
        within_s=RECOVERY_DEADLINE_S,
    )


def assert_each_once(bootstrap: str, topic: str, expected: set[int]) -> None:
    messages = read_all(bootstrap, [topic])
    written = len(read_all(bootstrap, [topic], isolation="read_uncommitted"))
    print(f"{topic}: {len(messages)} committed records of {written} that were written")
    assert_complete(Counter(map(value_of, messages)), expected)


def assert_complete(counts: Mapping[object, int], expected: set[int]) -> None:
    repeated = sorted(str(value) for value, count in counts.items() if count > 1)
    missing = sorted(expected - set(counts), key=str)  # type: ignore[arg-type]
    assert not repeated, f"{len(repeated)} are there more than once: {repeated[:SHOWN_MAX]}"
    assert not missing, f"{len(missing)} of {len(expected)} are missing: {missing[:SHOWN_MAX]}"
    assert set(counts) == expected


def value_of(message: Message) -> int:
    value = message.value()
    assert isinstance(value, bytes)
    return int(value) if value.isdigit() else int(json.loads(value)["id"])


def position_of(message: Message) -> int:
    value = message.value()
    assert isinstance(value, bytes)
    return int(json.loads(value)["position"])


def committed_by(bootstrap: str, pid: int) -> list[int]:
    """The positions that a task's process has committed."""
    found = read_all(bootstrap, [LIST_TOPIC])
    return sorted(position_of(each) for each in found if json.loads(each.value() or b"")["pid"] == pid)


def owner_of(connect: ConnectCluster, task: str) -> ConnectWorker:
    find: Callable[[], list[ConnectWorker]] = lambda: [  # noqa: E731 - for `eventually`
        each for each in connect.workers if task in each.processes().values()
    ]
    return eventually(find, f"a worker runs {task}")[0]


# The scene.


def create_topics(bootstrap: str, *names: str) -> None:
    topics = [
        NewTopic(name, num_partitions=2, replication_factor=BROKERS, config={"min.insync.replicas": "2"})
        for name in names
    ]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for created in client.create_topics(topics).values():
        created.result()


def fully_replicated(bootstrap: str) -> bool:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    return all(len(partition.isrs) == BROKERS for topic in topics.values() for partition in topic.partitions.values())


def file_source(directory: Path) -> dict[str, str]:
    return {
        "connector.class": "ottla_file.FileSource",
        "tasks.max": "2",
        "topic": LINES_TOPIC,
        "file.path": str(directory / "*.txt"),
        "file.format": "lines",
        "file.poll.interval.ms": "100",
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "300",
    }


def sql_source(database: SqliteFile) -> dict[str, str]:
    return {
        "connector.class": "ottla_sql.SqlSource",
        "tasks.max": "1",
        "connection.url": database.url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "numbers",
        "topic.prefix": "sql-",
        "poll.interval.ms": "100",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }


def list_source() -> dict[str, str]:
    return {
        "connector.class": "ottla_test_plugins.ListSource",
        "tasks.max": "1",
        "topic": LIST_TOPIC,
        "list.count": "0",
        "list.batch": "5",
        "list.pause.ms": "50",
        "list.tell.pid": "true",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "500",
    }
