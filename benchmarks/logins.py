"""How many connections clients set up in a second, with and without TLS and a login, and what one costs the broker.

A set-up is a TCP connection, the handshake of TLS, a login by SCRAM-SHA-512 with 4096 iterations, as far as the
listener has them, and the answer to ApiVersions. Some threads make one after the other; the salted password is made
once, as a client does that keeps it, for otherwise the client's hashing would be what is measured. Each listener is
warmed up before; what compiles itself needs thousands of set-ups for that.
"""

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ScramMechanism as ClientMechanism
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from benchmarks.client import BenchmarkFailed, CpuMeter, Subject
from benchmarks.summary import Measures
from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.scram import salted_password
from tests.support.clients.raw_client import decode_response, encode_request, response_type_of
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference.reference_kafka import ReferenceKafka
from tests.support.servers.certificates import Certificates

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISM: Final = ScramMechanism.SHA_512
USER, PASSWORD = "worker", "its password"
ITERATIONS: Final = 4096
TIMEOUT_S: Final = 30.0
_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, kw_only=True)
class LoginsPlan:
    """What to measure.

    Attributes:
        connections: how many are set up in each measurement.
        warm_up: how many before it.
        threads: that set them up.
        repetitions: of everything, on every target.
    """

    connections: int = 3000
    warm_up: int = 3000
    threads: int = 4
    repetitions: int = 3


class Brokers:
    """One broker with a listener of each of `PROTOCOLS`.

    Attributes:
        addresses: of the listeners, by protocol.
    """

    def __init__(self, name: str, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._certificates = Certificates(directory / "certificates")
        self._directory = directory
        self._ports = dict(zip(PROTOCOLS[1:], free_ports(3), strict=True))
        self._running: OttlaCluster | ReferenceKafka = self._ottla() if name == "ottla" else self._kafka()
        self.addresses: dict[str, int] = {}

    def start(self) -> Subject:
        """Start it, and create the user."""
        self._running.start()
        bootstrap = self._running.bootstrap
        self.addresses = {"PLAINTEXT": int(bootstrap.rpartition(":")[2]), **self._ports}
        credential = ScramCredentialInfo(ClientMechanism.SCRAM_SHA_512, ITERATIONS)
        upsertion = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(TIMEOUT_S)
        running = self._running
        return Subject(bootstrap, running.broker.pid if isinstance(running, OttlaCluster) else running.process.pid)

    def stop(self) -> None:
        self._running.stop()

    def context(self) -> ssl.SSLContext:
        """What clients with TLS use."""
        return ssl.create_default_context(cafile=str(self._certificates.path("ca.pem")))

    def client_settings(self, protocol: str) -> dict[str, str]:
        """What a client of librdkafka needs for a listener without logins."""
        address = f"{LOOPBACK}:{self.addresses[protocol]}"
        settings = {"bootstrap.servers": address, "security.protocol": protocol}
        if protocol == "SSL":
            settings["ssl.ca.location"] = str(self._certificates.path("ca.pem"))
        return settings

    def _settings(self) -> dict[str, str]:
        own = self._directory / "own.pem"
        own.write_bytes(b"".join(self._certificates.path(f"server.{end}").read_bytes() for end in ("key", "pem")))
        return {
            "sasl.enabled.mechanisms": MECHANISM.sasl_name,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(own),
        }

    def _listeners(self) -> list[str]:
        return [f"{name}://{LOOPBACK}:{port}" for name, port in self._ports.items()]

    def _ottla(self) -> OttlaCluster:
        settings = {"listeners": ",".join(self._listeners()), **self._settings()}
        arguments = [word for key, value in settings.items() for word in ("--set", f"broker-1:{key}={value}")]
        return OttlaCluster(self._directory / "cluster", arguments=arguments)

    def _kafka(self) -> ReferenceKafka:
        plain_port, controller_port = free_ports(2)
        listeners = ",".join((f"PLAINTEXT://{LOOPBACK}:{plain_port}", *self._listeners()))
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings = {
            "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join((*(f"{p}:{p}" for p in PROTOCOLS), "CONTROLLER:PLAINTEXT")),
            **{
                f"listener.name.{name}.scram-sha-512.sasl.jaas.config": module
                for name in ("sasl_plaintext", "sasl_ssl")
            },
            **self._settings(),
        }
        return ReferenceKafka(
            self._directory / "kafka",
            port=plain_port,
            controller_ports={1: controller_port},
            settings=settings,
            java_options=("-Xmx1g", "-Xms1g"),
        )


def measure(
    names: list[str], directory: Path, plan: LoginsPlan, say: Callable[[str], None]
) -> dict[str, list[Measures]]:
    """Return the figures of every repetition by the name of the target; the targets take turns."""
    found: dict[str, list[Measures]] = {name: [] for name in names}
    for repetition in range(1, plan.repetitions + 1):
        for name in names:
            say(f"logins: {name}, {repetition} of {plan.repetitions}")
            brokers = Brokers(name, directory / f"{name}-{repetition}")
            try:
                subject = brokers.start()
                measures: dict[str, float] = {}
                for protocol in PROTOCOLS:
                    measures |= _measure(subject, brokers, protocol, plan)
                found[name].append(measures)
            finally:
                brokers.stop()
    return found


def _measure(subject: Subject, brokers: Brokers, protocol: str, plan: LoginsPlan) -> Mapping[str, float]:
    context = brokers.context() if protocol.endswith("SSL") else None
    port, logs_in = brokers.addresses[protocol], protocol.startswith("SASL")
    _set_up_many(port, context, plan.warm_up, plan.threads, logs_in=logs_in)
    meter = CpuMeter(subject)
    _set_up_many(port, context, plan.connections, plan.threads, logs_in=logs_in)
    cpu, elapsed_s = meter.stop()
    short = protocol.lower()
    return {
        f"{short}_per_s": plan.connections / elapsed_s,
        f"{short}_cpu_us": cpu.total_s / plan.connections * 1e6,
    }


def _set_up_many(port: int, context: ssl.SSLContext | None, count: int, threads: int, *, logs_in: bool) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(count // threads):
                _set_up(port, context, logs_in=logs_in)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise BenchmarkFailed(f"a connection could not be set up: {failures[0]!r}")


def _set_up(port: int, context: ssl.SSLContext | None, *, logs_in: bool) -> None:
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = plain if context is None else context.wrap_socket(plain, server_hostname=LOOPBACK)
        try:
            _ask(sock, ApiVersionsRequest())
            if logs_in:
                _log_in(sock)
        finally:
            sock.close()


def _log_in(sock: socket.socket) -> None:
    _ask(sock, SaslHandshakeRequest(mechanism=MECHANISM.sasl_name))
    first = f"n={USER},r={secrets.token_urlsafe(18)}"
    challenge = _ask(sock, SaslAuthenticateRequest(auth_bytes=f"n,,{first}".encode())).auth_bytes.decode()
    nonce, salt, iterations = (each.partition("=")[2] for each in challenge.split(","))
    client_key, stored_key = _keys(salt, int(iterations))
    final = f"c=biws,r={nonce}"
    signature = hmac.digest(stored_key, f"{first},{challenge},{final}".encode(), "sha512")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    answer = _ask(sock, SaslAuthenticateRequest(auth_bytes=f"{final},p={proof}".encode()))
    if answer.error_code is not ErrorCode.none:
        raise BenchmarkFailed(f"the login failed: {answer.error_message}")


@cache
def _keys(salt: str, iterations: int) -> tuple[bytes, bytes]:
    salted = salted_password(MECHANISM, PASSWORD, base64.b64decode(salt), iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    return client_key, hashlib.sha512(client_key).digest()


def _ask(sock: socket.socket, request: Any) -> Any:
    frame = encode_request(request, 1)
    sock.sendall(_LENGTH.pack(len(frame)) + frame)
    (length,) = _LENGTH.unpack(_received(sock, _LENGTH.size))
    return decode_response(_received(sock, length), response_type_of(request))[1]


def _received(sock: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = sock.recv(size - len(content))
        if not piece:
            raise BenchmarkFailed("the broker closed a connection")
        content += piece
    return content
