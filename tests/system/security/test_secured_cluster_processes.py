"""A cluster started with --secure: who is let in and who is not, and all certificates replaced while it works."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf.message import Message
from grpc import aio
from grpc_health.v1 import health_pb2
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v15 import request as fetch
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i32Timedelta, i64

from ottla.secure.authority import IssuedCertificate, new_authority
from ottla.secure.certificate_folder import CertificateFolder
from ottla.secure.etcd_users import make_users
from ottla_core.reloaded_files import CHECK_SECONDS
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.tls import RpcTls
from ottla_core.rpc_identity import RpcIdentity
from ottla_proto.gen.ottla import controller_pb2, group_relay_pb2
from tests.support.child_process import ChildProcess
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import create_topic_request, fetch_request
from tests.support.clients.steady_writer import SteadyWriter
from tests.support.clusters.ottla_cluster import OttlaCluster, Service
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.secured_cluster import SecuredCluster
from tests.support.clusters.service_process import service_command
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow

HEALTH = "/grpc.health.v1.Health/Check"
CREATE, ALTER = "/ottla.controller.v1.Controller/CreateTopics", "/ottla.controller.v1.Controller/AlterPartitions"
RELAY = "/ottla.group_relay.v1.GroupRelay/Relay"
BROKER_1, BROKER_2 = RpcIdentity("broker", 1), RpcIdentity("broker", 2)
COORDINATOR, ADMIN = RpcIdentity("group-coordinator", 1), RpcIdentity("admin", 0)
ROLES = ("broker", "controller", "group-coordinator")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    folder = tmp_path_factory.mktemp("secured")
    (folder / "made").mkdir()
    with OttlaCluster(folder / "cluster", brokers=2, arguments=["--secure"]) as cluster:
        yield SecuredCluster(cluster, folder / "made")


@pytest.fixture(scope="module")
def foreign() -> IssuedCertificate:
    return new_authority("a foreign authority", datetime.now(UTC), timedelta(days=1))


async def call(address: str, peer: RpcIdentity, tls: RpcTls, method: str, request: Message) -> aio.AioRpcError | None:
    """The error that a call ends with, or None."""
    async with dial(address, peer, tls=tls) as channel:
        try:
            await channel.unary_unary(method, type(request).SerializeToString, bytes)(request, timeout=10)
        except aio.AioRpcError as error:
            return error
    return None


def asked(secured: SecuredCluster, service: Service, tls: RpcTls, method: str, request: Message) -> str | None:
    """What keeps a call from being answered, or None."""
    peer = RpcIdentity(service.role, service.id)
    error = asyncio.run(call(secured.rpc_address(service), peer, tls, method, request))
    return None if error is None else f"{error.code().name}: {error.details()}"


def test_clients_use_the_file_that_the_start_names_and_commands_find_it(secured: SecuredCluster) -> None:
    ottla = Ottla(secured.cluster.bootstrap)
    ottla.environment["OTTLA_DIR"] = str(secured.cluster.directory)
    ottla.run("topic", "create", "flights", "--partitions", "2")
    with SteadyWriter(secured.cluster.bootstrap, "flights", settings=secured.client_settings()) as writer:
        writer.wait_for_acknowledgements(10)
    writer.check_complete()
    assert b"flights" in ottla.run("topic", "list").stdout


def replica_fetch_request() -> fetch.FetchRequest:
    """Fetches as if it were broker 2, under a registration that is not outdated."""
    wanted = fetch.FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1000))
    return fetch.FetchRequest(
        max_wait=i32Timedelta.parse(timedelta()),
        min_bytes=i32(0),
        topics=(fetch.FetchTopic(topic_id=uuid4(), partitions=(wanted,)),),
        forgotten_topics_data=(),
        replica_state=fetch.ReplicaState(replica_id=BrokerId(2), replica_epoch=i64(2**62)),
    )


@pytest.mark.parametrize("role", ["controller", "group-coordinator"])
def test_the_certificate_of_another_role_has_no_rights_among_brokers(secured: SecuredCluster, role: str) -> None:
    (service, *_) = secured.services("broker")
    files = secured.certificate(RpcIdentity(role, 1))
    context = ssl.create_default_context(cafile=str(secured.tls / "admin" / "ca.pem"))
    context.load_cert_chain(files.certificate, files.key)
    with RawClient(LOOPBACK, service.port, tls=context) as client:
        for request in (replica_fetch_request(), fetch_request("any", 0)):
            (partition,) = client.ask(request).responses[0].partitions
            assert partition.error_code is ErrorCode.topic_authorization_failed
        (created,) = client.ask(create_topic_request("of-another-role")).topics
        assert created.error_code is ErrorCode.topic_authorization_failed


def test_a_client_with_another_name_may_do_what_access_control_lists_let_it(secured: SecuredCluster) -> None:
    guest = AdminClient(secured.client("guest"))
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        guest.create_topics([NewTopic("of-a-guest", 1, 1)])["of-a-guest"].result(30)


def is_served(context: ssl.SSLContext, port: int) -> bool:
    """Whether a broker keeps a connection that says nothing; one that it refuses ends with an alert, or without."""
    try:
        with (
            socket.create_connection((LOOPBACK, port)) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK) as encrypted,
        ):
            encrypted.settimeout(2)
            return bool(encrypted.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def test_a_client_without_a_certificate_of_the_authority_is_refused(
    secured: SecuredCluster, foreign: IssuedCertificate
) -> None:
    stranger = secured.certificate(RpcIdentity("admin", 0), authority=foreign)
    ended = secured.certificate(RpcIdentity("admin", 0), valid=timedelta(hours=-1))
    (broker, *_) = secured.services("broker")
    for files, said in ((None, "no certificate"), (stranger, "unable to get local issuer"), (ended, "has expired")):
        context = ssl.create_default_context(cafile=str(secured.tls / "admin" / "ca.pem"))
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        assert not is_served(context, broker.port)
        eventually(lambda said=said: said in secured.log_of(broker), f"the broker's log says {said!r}")


@pytest.mark.parametrize("role", ROLES)
def test_no_process_answers_foreign_or_expired_certificates_and_its_log_says_why(
    secured: SecuredCluster, foreign: IssuedCertificate, role: str
) -> None:
    (service, *_) = secured.services(role)
    request = health_pb2.HealthCheckRequest()
    assert asked(secured, service, secured.as_process(ADMIN), HEALTH, request) is None
    stranger = secured.as_process(BROKER_1, authority=foreign)
    assert "UNAVAILABLE" in (asked(secured, service, stranger, HEALTH, request) or "")
    ended = secured.as_process(BROKER_1, valid=timedelta(hours=-1))
    assert "UNAVAILABLE" in (asked(secured, service, ended, HEALTH, request) or "")
    for said in ("unable to get local issuer certificate", "certificate has expired"):
        eventually(lambda said=said: _handshake_failed(secured.log_of(service), said), f"{role}'s log says {said!r}")


def _handshake_failed(log: str, why: str) -> bool:
    return any("Handshake failed" in line and why in line for line in log.splitlines())


@pytest.mark.parametrize("caller", [COORDINATOR, ADMIN, RpcIdentity("controller", 2)])
def test_only_brokers_call_controllers_and_coordinators(secured: SecuredCluster, caller: RpcIdentity) -> None:
    tls = secured.as_process(caller)
    said = f"a certificate of {caller}, for a call that only role broker may make"
    for role, method, request in (
        ("controller", CREATE, controller_pb2.CreateTopicsRequest()),
        ("group-coordinator", RELAY, group_relay_pb2.Frames()),
    ):
        (service,) = secured.services(role)
        assert asked(secured, service, tls, method, request) == f"PERMISSION_DENIED: {method}: {said}"
        assert said in secured.log_of(service)


def test_a_broker_speaks_for_itself_only(secured: SecuredCluster) -> None:
    (controller,) = secured.services("controller")
    request = controller_pb2.AlterPartitionsRequest(broker_id=1, broker_epoch=1)
    as_other = asked(secured, controller, secured.as_process(BROKER_2), ALTER, request)
    assert as_other == f"PERMISSION_DENIED: {ALTER}: a certificate of broker 2 for a call that says it is of broker 1"
    assert as_other.partition(": ")[2] in secured.log_of(controller)
    as_itself = asked(secured, controller, secured.as_process(BROKER_1), ALTER, request)
    assert as_itself is not None
    assert "STALE_BROKER_EPOCH" in as_itself.upper()


def broker_9(secured: SecuredCluster, folder: Path, rpc: dict[str, str]) -> ChildProcess:
    """A broker that etcd knows, with other settings for its certificate towards processes."""
    root = secured.tls / "etcd-root"
    document = secured.cluster.directory / "config" / "broker-1.properties"
    settings = dict(line.split("=", 1) for line in document.read_text().splitlines() if not line.startswith("#"))
    files = (root / "ca.pem", root / "certificate.pem", root / "key.pem")
    make_users(settings["etcd.endpoints"], files, "ottla", {"broker": 9})
    etcd = secured.certificate(RpcIdentity("broker", 9))
    (port,) = free_ports(1)
    settings |= {
        "node.id": "9",
        "listeners": f"SSL://{LOOPBACK}:{port}",
        "advertised.listeners": f"SSL://{LOOPBACK}:{port}",
        "rpc.listener": f"{LOOPBACK}:0",
        "metrics.listener": f"{LOOPBACK}:0",
        "log.dirs": str(folder / "data"),
        "etcd.tls.certificate": str(etcd.certificate),
        "etcd.tls.key": str(etcd.key),
        **rpc,
    }
    config = folder / "broker-9.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return ChildProcess("broker 9", [service_command("ottla-broker"), "--config", str(config)], log=folder / "log")


def test_a_broker_with_a_foreign_certificate_reaches_nobody_and_says_so(
    secured: SecuredCluster, foreign: IssuedCertificate, tmp_path: Path
) -> None:
    files = secured.certificate(RpcIdentity("broker", 9), authority=foreign)
    process = broker_9(
        secured, tmp_path, {"rpc.tls.certificate": str(files.certificate), "rpc.tls.key": str(files.key)}
    )
    process.start()
    try:
        log = tmp_path / "log"
        eventually(lambda: "another process is not to be called" in log.read_text(), "it says so", within_s=60)
        (line,) = [each for each in log.read_text().splitlines() if "another process is not to be called" in each][:1]
        assert "group-coordinator 1" in line
        assert "certificate" in line
    finally:
        process.stop()


@pytest.mark.parametrize("identity", [BROKER_2, COORDINATOR])
def test_a_process_does_not_start_with_the_certificate_of_another(
    secured: SecuredCluster, tmp_path: Path, identity: RpcIdentity
) -> None:
    files = secured.certificate(identity)
    process = broker_9(
        secured, tmp_path, {"rpc.tls.certificate": str(files.certificate), "rpc.tls.key": str(files.key)}
    )
    process.start()
    assert process.wait(within_s=60) != 0
    assert "is not for broker 9" in (tmp_path / "log").read_text()


JOIN_SECONDS = 60


class SteadyRequests:
    """Creates topics and reads with a group, all the time; each must be answered as it should be."""

    def __init__(self, secured: SecuredCluster, topic: str) -> None:
        self.problems: list[str] = []
        self.created = 0
        self.consumed = 0
        self._stop = threading.Event()
        self._topic = topic
        self._settings = secured.client_settings()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._create, self._consume)]

    def __enter__(self) -> "SteadyRequests":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive(), "a request of the load is not answered"

    def _create(self) -> None:
        admin = AdminClient(self._settings)
        while not self._stop.wait(0.2):
            name = f"made-beside-{self._topic}-{self.created}"
            try:
                admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=30, request_timeout=40)[name].result(45)
                self.created += 1
            except KafkaException as error:
                self.problems.append(f"{name}: {error}")
                return

    def _consume(self) -> None:
        group = f"readers-of-{self._topic}"
        consumer = Consumer({**self._settings, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.consumed += 1
                if self.consumed % 200 == 0:
                    consumer.commit(asynchronous=False)
            elif message is not None:
                self.problems.append(f"consumer: {message.error()}")
        consumer.close()


def all_have(secured: SecuredCluster, version: int) -> bool:
    """Whether every process has taken up so many changes of its certificate since its start."""
    logs = [secured.log_of(service) for service in secured.services(*ROLES)]
    return all(log.count('"event": "the process has a new certificate"') >= version for log in logs)


def restart_etcd(secured: SecuredCluster) -> None:
    (before,) = secured.services("etcd")
    os.kill(before.pid, signal.SIGTERM)

    def is_back() -> bool:
        members = secured.services("etcd")
        return len(members) == 1 and members[0].pid != before.pid

    eventually(is_back, "etcd is started again", within_s=30)


def renew(secured: SecuredCluster, *options: str) -> None:
    # In a process of its own, as the person does it.
    command = [sys.executable, "-m", "ottla.main", "secure", "renew", str(secured.tls), *options]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def load_on(secured: SecuredCluster, topic: str) -> Iterator[Callable[[], None]]:
    """Clients that trust what the cluster's files say now, and whose every request must be answered as it should be.

    Yields:
        What waits until each kind of request was answered anew.
    """
    settings = secured.client_settings()
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(30)

    def is_served_anew() -> None:
        done, created = len(writer.acknowledged), requests.created
        eventually(lambda: requests.created > created, "a topic is created", within_s=60)
        writer.wait_for_acknowledgements(100)
        assert len(writer.acknowledged) > done

    with (
        SteadyWriter(secured.cluster.bootstrap, topic, settings=settings) as writer,
        SteadyRequests(secured, topic) as requests,
    ):
        yield is_served_anew
    assert requests.problems == []
    assert writer.failures == []
    assert requests.consumed > 0
    writer.check_complete()


def test_all_certificates_and_their_authority_are_renewed_under_load_and_no_request_fails(
    secured: SecuredCluster,
) -> None:
    """Clients begin anew after each step, as the docs say: to trust both authorities, and with new certificates."""
    former = secured.authority().chain
    with load_on(secured, "renewed") as is_served_anew:
        renew(secured, "--begin-authority")
        eventually(lambda: all_have(secured, 1), "the new authority has come to all", within_s=10 * CHECK_SECONDS)
        restart_etcd(secured)
        is_served_anew()
    with load_on(secured, "renewed-again") as is_served_anew:
        renew(secured)
        eventually(lambda: all_have(secured, 2), "new certificates have come to all", within_s=10 * CHECK_SECONDS)
        is_served_anew()
    with load_on(secured, "renewed-at-last") as is_served_anew:
        renew(secured, "--end-authority")
        eventually(lambda: all_have(secured, 3), "the former authority has ended", within_s=10 * CHECK_SECONDS)
        restart_etcd(secured)
        is_served_anew()
        (secured.made / "former.pem").write_bytes(former)
        context = ssl.create_default_context(cafile=str(secured.made / "former.pem"))
        assert not is_served(context, secured.services("broker")[0].port)
    assert {each.issuer for each in CertificateFolder(secured.tls).facts()} == {
        secured.authority().certificate.subject.rfc4514_string()
    }
    for service in secured.services(*ROLES):
        assert asked(secured, service, secured.as_process(ADMIN), HEALTH, health_pb2.HealthCheckRequest()) is None
