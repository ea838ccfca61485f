"""Producers and consumers do not notice when the leading controller or etcd goes; topics can soon be created again.

One cluster is `ottla up` with two controllers, of which the leader is killed; the other services are started one by
one, so that etcd can be taken away and given back.
"""

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    create_topic_request,
    end_offset,
    fetch_request,
    fetched,
    metadata_request,
    produce_request,
    produced,
)
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow

FAILOVER_DEADLINE_S = 30.0
CREATE_TIMEOUT_MS = 2000
RECORDS_MEANWHILE = 50
RETRIABLE = {
    ErrorCode.not_controller,
    ErrorCode.request_timed_out,
    ErrorCode.broker_not_available,
    ErrorCode.coordinator_not_available,
    ErrorCode.leader_not_available,
    ErrorCode.network_exception,
}


class Load:
    """One producer and consumer in a thread: publishes a numbered record and reads it back, again and again.

    Attributes:
        delivered: how many records made the round trip.
        refused: how often the broker said that it does not lead, which producers take for "try again".
        problem: what went wrong first, if anything.
    """

    def __init__(self, bootstrap: str, topic: str):
        self.delivered = 0
        self.refused = 0
        self.problem: str | None = None
        self._bootstrap, self._topic = bootstrap, topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def wait_for_more(self) -> None:
        """Waits until further records made the round trip."""
        goal = self.delivered + RECORDS_MEANWHILE
        eventually(lambda: self.problem or self.delivered >= goal, "records are published and read")
        assert self.problem is None

    def _run(self) -> None:
        try:
            with RawClient.to(self._bootstrap) as client:
                while not self._ending.is_set():
                    self._round_trip(client)
        except (OSError, AssertionError) as error:
            self.problem = f"after {self.delivered} records: {error!r}"

    def _round_trip(self, client: RawClient) -> None:
        value = str(self.delivered).encode()
        answer = produced(client.ask(produce_request(self._topic, batch_of([value]).encode())))
        if answer.error_code is ErrorCode.not_leader_or_follower:
            self.refused += 1
            return
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, self.delivered), answer
        read = fetched(client.ask(fetch_request(self._topic, self.delivered)))
        if read.error_code is ErrorCode.not_leader_or_follower:
            self.refused += 1
        else:
            assert read_values(read.records) == [(self.delivered, value)], read
        self.delivered += 1

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


def create_topic(client: RawClient) -> ErrorCode:
    """Tries to create a topic of a new name and returns the answer's code."""
    wanted = [{"name": f"failover-{uuid.uuid4().hex[:12]}", "num_partitions": 1, "replication_factor": 1}]
    (answer,) = client.ask(
        sparse_request("create_topics", 7, topics=wanted, timeout=CREATE_TIMEOUT_MS), within_s=FAILOVER_DEADLINE_S
    ).topics
    code = answer.error_code
    assert code is ErrorCode.none or answer.error_message, "an error says what is wrong"
    assert isinstance(code, ErrorCode)
    return code


def creates_topics(client: RawClient) -> Callable[[], bool]:
    """A condition: a topic was created. As in Kafka, a broker that is not registered is no place for one."""

    def created() -> bool:
        code = create_topic(client)
        assert code in {ErrorCode.none, ErrorCode.invalid_replication_factor, *RETRIABLE}
        return code is ErrorCode.none

    return created


# Controllers


@pytest.fixture
def two_controllers(tmp_path: Path) -> Iterator[OttlaCluster]:
    with OttlaCluster(tmp_path / "cluster", controllers=2) as cluster:
        yield cluster


def test_a_killed_leading_controller_is_replaced_while_clients_go_on(two_controllers: OttlaCluster) -> None:
    """Both are killed in turn: whichever leads, and whichever took over and got its place back."""
    topic = make_topic(two_controllers.bootstrap)
    with Load(two_controllers.bootstrap, topic) as load, RawClient.to(two_controllers.bootstrap) as client:
        load.wait_for_more()
        for controller in [service for service in two_controllers.services if service.role == "controller"]:
            os.kill(controller.pid, signal.SIGKILL)
            load.wait_for_more()
            eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
        load.wait_for_more()
        delivered = load.delivered  # the load goes on
        assert end_offset(client, topic) >= delivered


def test_a_leading_controller_that_hangs_is_replaced(two_controllers: OttlaCluster) -> None:
    """Stopped for longer than its lease, then woken: it must not act on what it believed before."""
    topic = make_topic(two_controllers.bootstrap)
    controllers = [service.pid for service in two_controllers.services if service.role == "controller"]
    with Load(two_controllers.bootstrap, topic) as load, RawClient.to(two_controllers.bootstrap) as client:
        for pid in controllers:
            with _stopped(pid):
                eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
                load.wait_for_more()
        eventually(creates_topics(client), "topics can be created", within_s=FAILOVER_DEADLINE_S)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_without_a_controller_only_changes_fail_and_clearly(tmp_path: Path) -> None:
    with SingleBrokerServices(tmp_path) as services:
        topic = make_topic(services.broker.bootstrap)
        with Load(services.broker.bootstrap, topic) as load, RawClient.to(services.broker.bootstrap) as client:
            services.controller.process.kill()
            assert create_topic(client) in RETRIABLE
            load.wait_for_more()
            services.controller.start()
            eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)


def test_without_a_controller_asking_for_an_unknown_topic_holds_up_no_produce_behind_it(tmp_path: Path) -> None:
    """Clients send both over one connection, on which answers leave in order."""
    with SingleBrokerServices(tmp_path) as services:
        topic = make_topic(services.broker.bootstrap)
        services.controller.process.kill()
        with RawClient.to(services.broker.bootstrap) as client:
            client.send_request(
                sparse_request("metadata", 12, topics=[{"name": "absent"}], allow_auto_topic_creation=True)
            )
            client.send_request(produce_request(topic, batch_of([b"v"]).encode()))
            client.read_frame()
            client.read_frame()


# etcd


@pytest.fixture
def services(tmp_path: Path) -> Iterator[SingleBrokerServices]:
    with SingleBrokerServices(tmp_path) as running:
        yield running


@pytest.mark.parametrize("absence", ["killed", "silent"])
def test_a_sole_replica_serves_while_etcd_is_away(services: SingleBrokerServices, absence: str) -> None:
    bootstrap = services.broker.bootstrap
    topic = make_topic(bootstrap)
    with Load(bootstrap, topic) as load, RawClient.to(bootstrap) as client:
        load.wait_for_more()
        with etcd_away(services, absence):
            load.wait_for_more()
            assert create_topic(client) in RETRIABLE
            (described,) = client.ask(metadata_request([topic])).topics
            assert described.error_code is ErrorCode.none
            load.wait_for_more()
            assert load.refused == 0
        eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
        load.wait_for_more()


def test_a_sole_replica_serves_on_when_etcd_comes_back(services: SingleBrokerServices) -> None:
    bootstrap = services.broker.bootstrap
    with Load(bootstrap, make_topic(bootstrap)) as load, RawClient.to(bootstrap) as client:
        with etcd_away(services, "killed"):
            load.wait_for_more()
        eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
        load.wait_for_more()
        assert load.refused == 0


@contextmanager
def etcd_away(services: SingleBrokerServices, absence: str) -> Iterator[None]:
    """Kills or pauses etcd, waits until the broker has lost its registration, and gives etcd back at the end."""
    killed = absence == "killed"
    (services.etcd.stop if killed else services.etcd.pause)()
    try:
        eventually(lambda: "lease lost" in services.broker.process.log_tail(), "the broker's lease has run out")
        yield
    finally:
        (services.etcd.start if killed else services.etcd.resume)()


def test_clients_that_arrive_while_etcd_is_away_find_the_broker(services: SingleBrokerServices) -> None:
    bootstrap = services.broker.bootstrap
    topic = make_topic(bootstrap)
    with etcd_away(services, "killed"), RawClient.to(bootstrap) as newcomer:
        answer = newcomer.ask(metadata_request([topic]))
        (partition,) = answer.topics[0].partitions
        assert [member.node_id for member in answer.brokers] == [partition.leader_id]
        written = produced(newcomer.ask(produce_request(topic, batch_of([b"v"]).encode())))
        assert written.error_code is ErrorCode.none


def test_an_etcd_that_restarts_again_and_again_stops_nobody(services: SingleBrokerServices) -> None:
    bootstrap = services.broker.bootstrap
    with Load(bootstrap, make_topic(bootstrap)) as load, RawClient.to(bootstrap) as client:
        for _ in range(3):
            services.etcd.restart()
            load.wait_for_more()
            eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
        load.wait_for_more()
        names = {topic.name for topic in client.ask(metadata_request(None)).topics}
        assert len([name for name in names if name.startswith("failover-")]) >= 3


def test_a_topic_created_just_before_etcd_went_is_there_when_it_is_back(services: SingleBrokerServices) -> None:
    topic = f"failover-{uuid.uuid4().hex[:12]}"
    with RawClient.to(services.broker.bootstrap) as client:
        assert client.ask(create_topic_request(topic)).topics[0].error_code is ErrorCode.none
        services.etcd.restart()
        eventually(creates_topics(client), "topics can be created again", within_s=FAILOVER_DEADLINE_S)
        assert client.ask(create_topic_request(topic)).topics[0].error_code is ErrorCode.topic_already_exists
        written = produced(client.ask(produce_request(topic, batch_of([b"v"]).encode())))
        assert written.error_code is ErrorCode.none
