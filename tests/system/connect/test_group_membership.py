"""Memberships of Connect workers against a cluster: they share work, and nothing goes wrong when something does."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import count

import pytest

from ottla_connect.group.membership import MembershipFailed
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.group_workers import GroupWorker, Watch, is_even
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

CONNECTORS = {"flights": 4, "orders": 3, "users": 1}
SESSION_S = 2.0
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    """Two brokers, and a group coordinator that takes short sessions."""
    with OttlaCluster(
        tmp_path_factory.mktemp("membership") / "cluster",
        brokers=2,
        arguments=[
            *("--set", "group-coordinator:group.min.session.timeout.ms=500"),
            *("--set", "group-coordinator:group.initial.rebalance.delay.ms=300"),
        ],
    ) as cluster:
        yield cluster


class Workers(list[GroupWorker]):
    """The workers of one group."""

    names = count(1)

    def __init__(self, bootstrap: str):
        super().__init__()
        self.settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{next(self.names)}",
            "session.timeout.ms": str(int(SESSION_S * 1000)),
            "heartbeat.interval.ms": "200",
            "rebalance.timeout.ms": "10000",
            "scheduled.rebalance.max.delay.ms": "1000",
        }

    def start(self, *urls: str) -> None:
        self.extend(GroupWorker(url, self.settings, CONNECTORS) for url in urls)

    def wait_until_even(self) -> None:
        eventually(lambda: is_even(self, CONNECTORS), "the work is shared evenly", within_s=WITHIN_S)


@pytest.fixture
def workers(cluster: OttlaCluster) -> Iterator[Workers]:
    """Three workers that share the work; watched, and closed at the end."""
    workers = Workers(cluster.bootstrap)
    try:
        with Watch(lambda: workers):
            workers.start("http://a", "http://b", "http://c")
            workers.wait_until_even()
            yield workers
    finally:
        for worker in workers:
            worker.close()


def test_work_moves_from_a_killed_worker_and_from_one_that_leaves_and_to_a_new_one(workers: Workers):
    workers.pop(0).kill()
    workers.wait_until_even()
    workers.pop(0).close()
    workers.wait_until_even()
    workers.start("http://d")
    workers.wait_until_even()


def test_a_frozen_worker_loses_its_work_and_gets_a_share_when_it_is_back(workers: Workers):
    frozen = workers[1]
    frozen.freeze(SESSION_S + 4)
    others = [worker for worker in workers if worker is not frozen]
    eventually(lambda: is_even(others, CONNECTORS), "the others have taken its work", within_s=WITHIN_S)
    eventually(lambda: frozen.losses, "it notices", within_s=WITHIN_S)
    workers.wait_until_even()


def test_nothing_moves_when_brokers_and_the_coordinator_are_killed(workers: Workers, cluster: OttlaCluster):
    before = [worker.work for worker in workers]
    for service in cluster.services:
        if service.role in {"broker", "group-coordinator"}:
            os.kill(service.pid, signal.SIGKILL)
    killed_s = time.monotonic()
    eventually(
        lambda: all(worker.lease_s > killed_s + SESSION_S for worker in workers),
        "the workers' heartbeats are heard again",
        within_s=WITHIN_S,
    )
    workers.wait_until_even()
    assert [worker.work for worker in workers] == before
    assert not any(worker.losses for worker in workers)


def test_a_session_timeout_that_the_brokers_refuse_ends_the_membership(workers: Workers):
    settings = {**workers.settings, "session.timeout.ms": "100", "heartbeat.interval.ms": "50"}
    stranger = GroupWorker("http://e", settings, CONNECTORS)
    try:
        failure = eventually(lambda: stranger.failure, "the worker gives up", within_s=WITHIN_S)
        assert isinstance(failure, MembershipFailed)
        assert "session.timeout.ms is not within" in str(failure)
    finally:
        stranger.close()
