"""All kinds of connection through real TLS and real logins, to a front before a server that answers heartbeats."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.types import GroupId
from kio.static.primitive import i16, i32

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import PipelinedConnection
from ottla_core.client.security import ClientSecurity
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import RequestHeader, message_codec
from tests.support.eventually import eventually
from tests.support.eventually_async import eventually_async
from tests.support.free_ports import LOOPBACK
from tests.support.servers.certificates import Certificates
from tests.support.servers.secured_front import SecuredFront, receive_frame
from tests.support.servers.token_endpoint import TokenServer

API_VERSIONS, HEARTBEAT = 18, 12
BEAT = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id="m")
PASSWORD = "pa,ss=wörd"
USER = "us=er,"
WITHIN_S = 10.0


@contextmanager
def heartbeats() -> Iterator[int]:
    """A server that knows ApiVersions and Heartbeat; yields its port."""
    served = ApiVersion(api_key=i16(HEARTBEAT), min_version=i16(0), max_version=i16(4))
    responses: dict[int, Any] = {
        API_VERSIONS: ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(served,)),
        HEARTBEAT: message_of(HeartbeatResponse, error_code=ErrorCode.rebalance_in_progress),
    }

    def serve(connection: socket.socket) -> None:
        with connection:
            while True:
                try:
                    request = receive_frame(connection)
                except (EOFError, OSError):
                    return
                api_key, version = int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big")
                codec = message_codec(api_key, version)
                connection.sendall(codec.encode_response(int.from_bytes(request[8:12], "big"), responses[api_key]))

    with socket.create_server((LOOPBACK, 0)) as listener:
        threads = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("secured") / "certificates")


def beat_blocking(port: int, settings: dict[str, str], host: str = LOOPBACK, within_s: float = WITHIN_S) -> ErrorCode:
    security = ClientSecurity.of(settings)
    with BlockingConnection(host, port, security=security, client_id="test", answer_timeout_s=within_s) as connection:
        return connection.ask(BEAT).error_code  # type: ignore[no-any-return]


def beat_async(port: int, settings: dict[str, str], host: str = LOOPBACK, within_s: float = WITHIN_S) -> ErrorCode:
    async def beat() -> ErrorCode:
        security = ClientSecurity.of(settings)
        connection = await AsyncConnection.open(host, port, security=security, client_id="test", timeout_s=within_s)
        try:
            return (await connection.ask(BEAT, timeout_s=within_s)).error_code  # type: ignore[no-any-return]
        finally:
            connection.close()

    return asyncio.run(beat())


def beat_pipelined(
    port: int, settings: dict[str, str], host: str = LOOPBACK, within_s: float = WITHIN_S
) -> ErrorCode:
    async def beat() -> ErrorCode:
        security = ClientSecurity.of(settings)
        connection = await PipelinedConnection.open(
            host, port, security=security, client_id="test", timeout_s=within_s
        )
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def receive(found: Any) -> None:
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                response = message_codec(HEARTBEAT, 4).read_response(bytes(4) + found)
                answer.set_result(response.error_code)

        try:
            version = connection.version_among(HEARTBEAT, 4, 4)
            body = message_codec(HEARTBEAT, version).encode_request(
                RequestHeader(HEARTBEAT, version, 0, None, 0), BEAT
            )
            connection.send(HEARTBEAT, version, [body[11:]], receive, is_flexible=True, timeout_s=within_s)
            return await answer
        finally:
            connection.close()

    return asyncio.run(beat())


BEATS = pytest.mark.parametrize("beat", [beat_blocking, beat_async, beat_pipelined])


def trusting(certificates: Certificates, **more: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"security.protocol": "ssl", "ssl.ca.location": str(certificates.path("ca.pem")), **named}


def with_login(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password}


def encrypted(key: Path, password: str, directory: Path) -> Path:
    """A copy of a private key that needs a password."""
    path = directory / "encrypted.key"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", f"pass:{password}", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


@BEATS
def test_tls_with_the_authority_in_a_file_or_in_the_setting(beat: Any, certificates: Certificates):
    with heartbeats() as target, SecuredFront(target, certificates=certificates) as front:
        assert beat(front.port, trusting(certificates)) is ErrorCode.rebalance_in_progress
        pem = {"security.protocol": "SSL", "ssl.ca.pem": certificates.path("ca.pem").read_text()}
        assert beat(front.port, pem) is ErrorCode.rebalance_in_progress


@BEATS
def test_a_certificate_that_nobody_known_has_signed_is_refused(beat: Any, certificates: Certificates):
    with heartbeats() as target, SecuredFront(target, certificates=certificates) as front:
        with pytest.raises(AuthenticationFailed, match=rf"^127\.0\.0\.1:{front.port}: .*certificate"):
            beat(front.port, {"security.protocol": "ssl"})
        unverified = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
        assert beat(front.port, unverified) is ErrorCode.rebalance_in_progress


@BEATS
def test_a_certificate_of_another_host_is_refused_unless_hosts_do_not_count(beat: Any, certificates: Certificates):
    with heartbeats() as target, SecuredFront(target, certificates=certificates) as front:
        with pytest.raises(AuthenticationFailed, match=r"localhost.*ostname mismatch"):
            beat(front.port, trusting(certificates), "localhost")
        lax = trusting(certificates) | {"ssl.endpoint.identification.algorithm": "none"}
        assert beat(front.port, lax, "localhost") is ErrorCode.rebalance_in_progress


@BEATS
def test_a_certificate_of_ours_from_files_or_settings(beat: Any, certificates: Certificates, tmp_path: Path):
    own, key = certificates.path("client.pem"), certificates.path("client.key")
    secret_key = encrypted(key, "kéy", tmp_path)
    shown = [
        {"ssl.certificate.location": str(own), "ssl.key.location": str(key)},
        {"ssl.certificate.pem": own.read_text(), "ssl.key.pem": key.read_text()},
        {"ssl.certificate.pem": own.read_text() + key.read_text()},
        {"ssl.certificate.location": str(own), "ssl.key.location": str(secret_key), "ssl.key.password": "kéy"},
        {"ssl.certificate.pem": own.read_text(), "ssl.key.pem": secret_key.read_text(), "ssl.key.password": "kéy"},
    ]
    with (
        heartbeats() as target,
        SecuredFront(target, certificates=certificates, wants_client_certificate=True) as front,
    ):
        for settings in shown:
            assert beat(front.port, trusting(certificates) | settings) is ErrorCode.rebalance_in_progress


@BEATS
def test_a_missing_certificate_of_ours_is_told_by_the_broker(beat: Any, certificates: Certificates):
    with (
        heartbeats() as target,
        SecuredFront(target, certificates=certificates, wants_client_certificate=True) as front,
        pytest.raises(AuthenticationFailed, match="does not accept our certificate, or misses one"),
    ):
        beat(front.port, trusting(certificates))


@BEATS
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logins_over_tls_and_without_it(beat: Any, certificates: Certificates, mechanism: str):
    login = with_login(mechanism)
    with heartbeats() as target:
        with SecuredFront(target, passwords={USER: PASSWORD}) as front:
            assert beat(front.port, {"security.protocol": "sasl_plaintext", **login}) is not ErrorCode.none
            assert front.logins == [mechanism]
        with SecuredFront(target, certificates=certificates, passwords={USER: PASSWORD}) as front:
            settings = trusting(certificates) | login | {"security.protocol": "SASL_SSL"}
            assert beat(front.port, settings) is not ErrorCode.none
            assert front.logins == [mechanism]
            with pytest.raises(AuthenticationFailed, match=f"does not accept {USER}: Authentication failed") as told:
                beat(front.port, settings | {"sasl.password": "guessed"})
            assert "guessed" not in str(told.value)
            assert len(front.logins) == 1


@BEATS
def test_a_login_by_token_asks_for_one_first(beat: Any):
    token = "eyJ.abc-1~/+=="
    with (
        heartbeats() as target,
        TokenServer() as tokens,
        SecuredFront(target, passwords={"token": token}) as front,
    ):
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": tokens.url,
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "hush",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=p",
        }
        tokens.gives(token)
        assert beat(front.port, settings) is ErrorCode.rebalance_in_progress
        assert (front.logins, front.extensions) == (["OAUTHBEARER"], [{"logicalCluster": "lkc-1", "pool": "p"}])
        tokens.gives("forged")
        with pytest.raises(AuthenticationFailed, match="does not accept me: Authentication failed") as told:
            beat(front.port, settings)
        assert "forged" not in str(told.value)
        tokens.status = 403
        with pytest.raises(AuthenticationFailed, match="gives no token to me: 403"):
            beat(front.port, settings)
        assert len(front.logins) == 1


@BEATS
def test_settings_that_do_not_fit_what_listens_are_told(beat: Any, certificates: Certificates):
    with heartbeats() as target, SecuredFront(target, passwords={USER: PASSWORD}) as front:
        with pytest.raises(UnsupportedByBroker, match="does not have the API SaslHandshake"):
            beat(target, {"security.protocol": "sasl_plaintext", **with_login("PLAIN")})
        with pytest.raises(Unreachable, match="it closed the connection"):
            beat(front.port, {})
        with pytest.raises(Unreachable, match=rf"^127\.0\.0\.1:{front.port} \("):
            beat(front.port, trusting(certificates), within_s=1.0)  # the port says nothing


def test_a_blocking_connection_is_left_before_its_session_ends(certificates: Certificates):
    security = ClientSecurity.of(trusting(certificates) | with_login("PLAIN") | {"security.protocol": "sasl_ssl"})
    passwords = {USER: PASSWORD}
    with (
        heartbeats() as target,
        SecuredFront(target, certificates=certificates, passwords=passwords, session_s=3600) as front,
    ):
        with BlockingConnection(LOOPBACK, front.port, security=security, client_id="test") as connection:
            assert connection.is_usable
        assert not connection.is_usable
        front.session_s = 0.2
        with BlockingConnection(LOOPBACK, front.port, security=security, client_id="test") as connection:
            eventually(lambda: not connection.is_usable, "its session nears its end", within_s=WITHIN_S)


async def test_an_async_connection_is_left_before_its_session_ends(certificates: Certificates):
    security = ClientSecurity.of(trusting(certificates) | with_login("PLAIN") | {"security.protocol": "sasl_ssl"})
    with heartbeats() as target, SecuredFront(target, passwords={USER: PASSWORD}, session_s=0.2) as front:
        plain = ClientSecurity(login=security.login)
        connection = await AsyncConnection.open(LOOPBACK, front.port, security=plain, client_id="test")
        try:
            await eventually_async(lambda: not connection.is_usable, "its session nears its end", within_s=WITHIN_S)
        finally:
            connection.close()


def test_tls_is_never_older_than_1_2(certificates: Certificates):
    context = ClientSecurity.of(trusting(certificates)).tls
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
