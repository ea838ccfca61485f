"""A listener with TLS beside one without, as clients that others wrote meet it: right and wrong certificates."""

import contextlib
import os
import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.certificates import Certificates

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
LARGE = os.urandom(700_000)
TOPIC = "secret"
CONNECTIONS_MAX = 250


def together(certificates: Certificates, name: str, file: Path) -> None:
    """Writes a certificate and its key into one file, as a broker takes them."""
    file.write_bytes(b"".join(certificates.path(f"{name}.{end}").read_bytes() for end in ("key", "pem")))


class TlsCluster:
    """A broker with a listener of TLS, one of mutual TLS, and a plain one.

    Attributes:
        certificates: those that everybody uses.
        tls: address of the listener that shows a certificate.
        mutual: address of the listener that wants one of clients as well.
    """

    def __init__(self, directory: Path):
        self.certificates = Certificates(directory / "certificates")
        self.own = directory / "own.pem"
        self.use("server")
        tls_port, mutual_port = free_ports(2)
        self.tls, self.mutual = f"{LOOPBACK}:{tls_port}", f"{LOOPBACK}:{mutual_port}"
        self.cluster = ReplicatedCluster(
            directory / "cluster",
            brokers=1,
            more_listeners={1: (f"SSL://{self.tls}", f"MUTUAL://{self.mutual}")},
            broker_settings={
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
                "ssl.keystore.location": str(self.own),
                "listener.name.mutual.ssl.truststore.location": str(self.certificates.path("ca.pem")),
                "listener.name.mutual.ssl.client.auth": "required",
                "offsets.topic.replication.factor": "1",
                "max.connections.per.ip": str(CONNECTIONS_MAX),
            },
        )

    def use(self, name: str) -> None:
        """Has the broker show this certificate from the next look on."""
        new = self.own.with_suffix(".new")
        together(self.certificates, name, new)
        new.replace(self.own)

    def client(self, bootstrap: str, **changed: str) -> dict[str, str | int]:
        """Returns settings of librdkafka; underscores in names stand for dots."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.certificates.path("ca.pem")),
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in changed.items()},
        }

    def own_certificate(self) -> dict[str, str]:
        return {
            "ssl_certificate_location": str(self.certificates.path("client.pem")),
            "ssl_key_location": str(self.certificates.path("client.key")),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    made = TlsCluster(tmp_path_factory.mktemp("tls"))
    with made.cluster:
        made.cluster.create_topic(TOPIC, partitions=1)
        yield made


def publish(settings: dict[str, str | int], value: bytes) -> int:
    """Publishes a record and returns its offset."""
    told: list[tuple[KafkaError | None, int]] = []
    producer = Producer({**settings, "message.max.bytes": 2_000_000})
    producer.produce(
        TOPIC, value, partition=0, on_delivery=lambda error, got: told.append((error, got.offset() or 0))
    )
    assert producer.flush(TIMEOUT_S) == 0
    ((error, offset),) = told
    assert error is None, error
    return offset


def read(settings: dict[str, str | int], offset: int) -> bytes:
    consumer = Consumer({**settings, "group.id": "readers", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        value = message.value()
        assert isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def problem_of(settings: dict[str, str | int]) -> str:
    """Returns what librdkafka says of brokers that it cannot reach."""
    told: list[str] = []
    admin = AdminClient({**settings, "error_cb": lambda error: told.append(error.str()), "socket.timeout.ms": 5000})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    eventually(lambda: admin.poll(0) or told, "the client says what is wrong")
    return " ".join(told)


@pytest.mark.parametrize("value", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mutual"])
def test_records_go_in_and_out(secured: TlsCluster, value: bytes, mutual: bool) -> None:
    bootstrap = secured.mutual if mutual else secured.tls
    settings = secured.client(bootstrap, **(secured.own_certificate() if mutual else {}))
    metadata = AdminClient(settings).list_topics(timeout=TIMEOUT_S)
    assert [f"{each.host}:{each.port}" for each in metadata.brokers.values()] == [bootstrap]
    offset = publish(settings, value)
    assert read(settings, offset) == value
    plain = {"bootstrap.servers": secured.cluster.bootstrap}
    assert read(dict(plain), offset) == value


def test_many_records_are_read_by_another_client(secured: TlsCluster) -> None:
    """In answers that are longer than what is encrypted at a time, over pipelined requests."""
    settings = secured.client(secured.tls)
    producer = Producer({**settings, "linger.ms": 5})
    for number in range(20_000):
        producer.produce(TOPIC, b"%05d" % number + bytes(500), partition=0, key=b"many")
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=secured.tls,
        security_protocol="SSL",
        ssl_cafile=str(secured.certificates.path("ca.pem")),
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        found = (message.value[:5] for message in consumer if message.key == b"many")
        assert [next(found) for _ in range(20_000)] == [b"%05d" % number for number in range(20_000)]
    finally:
        consumer.close()


def test_a_client_that_does_not_know_the_authority_gives_up(secured: TlsCluster, tmp_path: Path) -> None:
    foreign = Certificates(tmp_path / "foreign")
    assert "certificate" in problem_of(secured.client(secured.tls, ssl_ca_location=str(foreign.path("ca.pem"))))


def test_a_client_without_a_certificate_is_refused_where_it_needs_one(secured: TlsCluster) -> None:
    assert problem_of(secured.client(secured.mutual))
    secured.cluster.brokers[1].process.check_running()


def test_a_certificate_of_a_foreign_authority_is_refused(secured: TlsCluster, tmp_path: Path) -> None:
    foreign = Certificates(tmp_path / "foreign")
    settings = secured.client(
        secured.mutual,
        ssl_certificate_location=str(foreign.path("client.pem")),
        ssl_key_location=str(foreign.path("client.key")),
    )
    assert problem_of(settings)


def test_plain_bytes_to_tls_and_tls_to_plain_end_the_connection(secured: TlsCluster) -> None:
    host, port = secured.tls.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
        plain.sendall(b"\0\0\0\x14" + bytes(20))
        with contextlib.suppress(ConnectionResetError):
            while plain.recv(1024):  # an alert may come before the end
                pass
    assert problem_of({"bootstrap.servers": secured.tls, "log_level": 0})
    assert problem_of(secured.client(secured.cluster.bootstrap))


def test_half_open_and_slow_handshakes_hold_up_nobody(secured: TlsCluster) -> None:
    host, port = secured.tls.split(":")
    waiting = [socket.create_connection((host, int(port)), TIMEOUT_S) for _ in range(200)]
    try:
        for each in waiting[:100]:
            each.sendall(b"\x16\x03\x01\x02")
        settings = secured.client(secured.tls)
        assert read(settings, publish(settings, b"beside them")) == b"beside them"
        for each in waiting:
            each.settimeout(TIMEOUT_S)
            while each.recv(1024):  # the broker gives them up
                pass
    finally:
        for each in waiting:
            each.close()


def test_clients_that_leave_in_the_handshake_leave_their_places_to_others(secured: TlsCluster) -> None:
    host, port = secured.tls.split(":")
    for _ in range(CONNECTIONS_MAX + 50):
        with socket.create_connection((host, int(port)), TIMEOUT_S) as leaving:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, at once
    settings = secured.client(secured.tls)
    assert read(settings, publish(settings, b"after them")) == b"after them"


@pytest.mark.parametrize(
    ("version", "is_accepted"), [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)]
)
def test_old_versions_are_refused(secured: TlsCluster, version: ssl.TLSVersion, is_accepted: bool) -> None:
    context = ssl.create_default_context(cafile=str(secured.certificates.path("ca.pem")))
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    host, port = secured.tls.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
        if is_accepted:
            with context.wrap_socket(plain, server_hostname=host) as encrypted:
                assert encrypted.version() == "TLSv1.2"
        else:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(plain, server_hostname=host)


def test_a_new_certificate_is_shown_without_a_restart(secured: TlsCluster) -> None:
    settings = secured.client(secured.tls)
    offset = publish(settings, b"before")
    before = shown(secured)
    broken = secured.own.with_suffix(".broken")
    shutil.copy(secured.certificates.path("client.pem"), broken)  # without its key
    broken.replace(secured.own)
    log = secured.cluster.brokers[1].process.log
    eventually(lambda: "former certificate" in log.read_text(), "the broker says that it cannot be used")
    assert shown(secured) == before
    secured.use("client")
    eventually(lambda: shown(secured) != before, "the new certificate is shown")
    assert read(settings, offset) == b"before"


def shown(secured: TlsCluster) -> bytes:
    """Returns the certificate that a new connection gets to see."""
    host, port = secured.tls.split(":")
    return ssl.get_server_certificate((host, int(port)), timeout=TIMEOUT_S).encode()


def test_brokers_fetch_from_each_other_by_mutual_tls(tmp_path: Path) -> None:
    """Records of many sizes; a certificate that no authority of theirs has signed is of no use."""
    certificates = Certificates(tmp_path / "certificates")
    files = {number: tmp_path / f"own-{number}.pem" for number in (1, 2, 3)}
    for file in files.values():
        together(certificates, "server", file)
    ports = free_ports(3)
    cluster = ReplicatedCluster(
        tmp_path / "cluster",
        more_listeners={number: (f"INNER://{LOOPBACK}:{port}",) for number, port in enumerate(ports, 1)},
        broker_settings={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:SSL",
            "inter.broker.listener.name": "INNER",
            "ssl.truststore.location": str(certificates.path("ca.pem")),
            "ssl.client.auth": "required",
            "replica.lag.time.max.ms": "2000",
        },
        broker_environments={number: {"OTTLA_SSL_KEYSTORE_LOCATION": str(file)} for number, file in files.items()},
    )
    with cluster:
        cluster.create_topic(TOPIC, partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.max.bytes": 2_000_000})
        for number in range(300):
            producer.produce(TOPIC, LARGE[: 10 + number * 2000], partition=number % 3)
        assert producer.flush(TIMEOUT_S) == 0
        for index in range(3):
            cluster.wait_for_isr(TOPIC, {1, 2, 3}, index=index)

        foreign = Certificates(tmp_path / "foreign")
        cluster.brokers[3].stop()
        cluster.wait_for_isr(TOPIC, {1, 2})
        together(foreign, "server", files[3])
        cluster.brokers[3].start()
        log = cluster.brokers[1].process.log
        eventually(lambda: "certificate is not accepted" in log.read_text(), "another broker does not accept it")
        cluster.wait_for_isr(TOPIC, {1, 2})
