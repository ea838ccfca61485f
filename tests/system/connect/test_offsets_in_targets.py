"""Offsets that a sink keeps in its target are changed by the worker that leads, and by no other that has led before.

A worker's process waits for a lock of the database that it is to change the offsets in. Then the worker is paused,
alone or with all its processes as on a machine that is suspended, until another one leads, which changes the offsets,
too. What it has acknowledged stays as it is.
"""

import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.connect_cluster import ConnectCluster, ConnectWorker
from tests.support.connect.connect_plugin_path import environment_with_test_targets
from tests.support.eventually import eventually
from tests.support.machine.process_stat import has_ended, stat

pytestmark = pytest.mark.slow

NAME, TOPIC = "sink", "records"
ONE_REPLICA = {f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")}
LOCK_WAIT_S = 300
"""So long a process waits for the database: longer than any of these tests takes."""
REQUEST_TIMEOUT_S = 120.0
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(tmp_path_factory.mktemp("targets") / "cluster", arguments=arguments) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])[TOPIC].result()
        yield cluster.bootstrap


class Target:
    """A database with the offset of one partition, whose table the sink has made."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "target.db"
        self.url = f"sqlite:///{self.path}?timeout={LOCK_WAIT_S}"
        self.told = directory / "told"

    def offset(self) -> int:
        with closing(sqlite3.connect(self.path)) as connection:
            ((offset,),) = connection.execute("SELECT next_offset FROM progress").fetchall()
            return int(offset)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else can write."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def changing_process(self) -> int:
        """The process that has begun to change offsets; 0 if none has."""
        return int(self.told.read_text()) if self.told.exists() else 0


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.fixture
def connect(bootstrap: str, tmp_path: Path, target: Target) -> Iterator[ConnectCluster]:
    """Two workers, and a stopped sink with an offset of 1."""
    settings = {**ONE_REPLICA, "group.id": tmp_path.name}
    settings |= {f"{kind}.storage.topic": f"{tmp_path.name}-{kind}" for kind in ("config", "offset", "status")}
    environment = environment_with_test_targets()
    with ConnectCluster(tmp_path, bootstrap, workers=2, environment=environment, settings=settings) as connect:
        config = {
            "connector.class": "ottla_test_targets.TellingSqlSink",
            "topics": TOPIC,
            "connection.url": target.url,
            "offsets.table": "progress",
            "told.path": str(target.told),
        }
        connect.request("POST", "/connectors", {"name": NAME, "config": config, "initial_state": "STOPPED"})
        change_in_the_end(connect.workers[0], 1)
        target.told.unlink()
        assert target.offset() == 1
        yield connect


def test_a_paused_workers_process_ends_before_another_worker_changes_anything(
    connect: ConnectCluster, target: Target
) -> None:
    former, other = by_lead(connect)
    with ThreadPoolExecutor(1) as pool:
        with ExitStack() as until_resumed:
            with target.locked():
                answer, pid = begun_change(pool, former, 5, target)
                until_resumed.enter_context(paused(former))
                eventually(lambda: has_ended(pid), "the process has ended by itself", within_s=WITHIN_S)
                eventually(lambda: leads(other), "the other worker leads", within_s=WITHIN_S)
            change_in_the_end(other, 7)
            assert target.offset() == 7
        refused = answer.result()
    assert refused is None or not refused.is_success
    assert target.offset() == 7


def test_a_suspended_process_writes_nothing_when_it_wakes_up_after_another_worker_has_changed_offsets(
    connect: ConnectCluster, target: Target
) -> None:
    former, other = by_lead(connect)
    with ThreadPoolExecutor(1) as pool:
        with ExitStack() as until_resumed:
            with target.locked():
                answer, pid = begun_change(pool, former, 5, target)
                launcher = parent(pid)
                eventually(lambda: suspended_without_locks(pid, target.path), "the process waits for the database")
                until_resumed.enter_context(paused(former, pid, launcher))
                eventually(lambda: leads(other), "the other worker leads", within_s=WITHIN_S)
            change_in_the_end(other, 7)
            os.kill(pid, signal.SIGCONT)  # its worker does not run yet, and cannot end it
            eventually(lambda: has_ended(pid), "the process has ended by itself", within_s=WITHIN_S)
            assert target.offset() == 7
        refused = answer.result()
    assert refused is None or not refused.is_success
    assert target.offset() == 7


def offsets(offset: int) -> Any:
    """The body of a request to set the only partition's offset."""
    partition = {"kafka_topic": TOPIC, "kafka_partition": 0}
    return {"offsets": [{"partition": partition, "offset": {"kafka_offset": offset}}]}


def change_in_the_end(worker: ConnectWorker, offset: int) -> None:
    """Has a worker change the offset, however often it has to be asked."""

    def is_done() -> bool:
        answer = change(worker, offset)
        if answer is not None and not answer.is_success:
            raise ConnectionError(answer.text)  # which `eventually` tells if it stays so
        return answer is not None

    eventually(is_done, f"the offset is changed to {offset}", within_s=WITHIN_S)


def begun_change(
    pool: ThreadPoolExecutor, worker: ConnectWorker, offset: int, target: Target
) -> tuple[Future[httpx.Response | None], int]:
    """The answer to come to a request to change the offset, and the process that has begun to."""
    answer = pool.submit(change, worker, offset)

    def has_begun() -> int:
        nonlocal answer
        if answer.done():  # a worker that is short of processor time may have no lease at the moment
            answer = pool.submit(change, worker, offset)
        return target.changing_process()

    pid = eventually(has_begun, "a process changes the offset", within_s=WITHIN_S)
    return answer, pid


def change(worker: ConnectWorker, offset: int) -> httpx.Response | None:
    """Has a worker change the offset, whatever comes of it; None if it does not answer."""
    url = f"{worker.url}/connectors/{NAME}/offsets"
    try:
        return httpx.patch(url, json=offsets(offset), timeout=REQUEST_TIMEOUT_S, verify=False, trust_env=False)
    except httpx.TransportError:
        return None


def by_lead(connect: ConnectCluster) -> tuple[ConnectWorker, ConnectWorker]:
    """The worker that leads, then the other one."""
    leader = eventually(lambda: next(filter(leads, connect.workers), None), "a worker leads")
    (other,) = (each for each in connect.workers if each is not leader)
    return leader, other


def leads(worker: ConnectWorker) -> bool:
    """Whether a worker would not forward a request that only the leader answers."""
    url = f"{worker.url}/connectors/none?forward=false"
    return httpx.delete(url, timeout=REQUEST_TIMEOUT_S, verify=False, trust_env=False).status_code == 404


@contextmanager
def paused(worker: ConnectWorker, *pids: int) -> Iterator[None]:
    """A worker and these processes do not run; it is ready again in the end."""
    worker.pause()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if not has_ended(pid):
                os.kill(pid, signal.SIGCONT)
        worker.resume()
    worker.wait_until_ready()


def suspended_without_locks(pid: int, file: Path) -> bool:
    """Suspends a process; if it was just looking for a lock of the file, which nobody else would get, it goes on."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: stat(pid)[0] == "T", "the process is suspended")
    holder, locked = str(pid), f":{file.stat().st_ino}"
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    if any(holder in each and any(word.endswith(locked) for word in each) for each in locks):
        os.kill(pid, signal.SIGCONT)
        return False
    return True


def parent(pid: int) -> int:
    return int(stat(pid)[1])
