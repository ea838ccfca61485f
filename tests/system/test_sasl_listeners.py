"""Logins on listeners with SASL, as clients that others wrote meet them, and as bytes that no client would send."""

import asyncio
import base64
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest as SaslHandshakeRequestV0
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i64Timedelta

from ottla_broker.sasl_gate import AUTHENTICATION_SECONDS_MAX
from ottla_core.client.sasl import Scram
from tests.support.clients.raw_client import Closed, RawClient
from tests.support.clients.raw_requests import metadata_request
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.servers.certificates import Certificates
from tests.support.servers.issuer import Issuer

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "pass=wörd, with commas"
TOPIC = "letters"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
RIGHT = b"\0ann\0ann's secret"
WRONG = b"\0ann\0bob's secret"
REFUSAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"


class SaslCluster:
    """A broker with two listeners with logins, one of them with TLS, and a plain one.

    Attributes:
        plain: address of the listener without TLS.
        secured: address of the one with TLS.
        short: address of one on which logins hold for a second and a half.
        bearer: address of one that takes the tokens of `issuer`.
    """

    def __init__(self, directory: Path):
        self.certificates = Certificates(directory / "certificates")
        own = directory / "own.pem"
        own.write_bytes(b"".join(self.certificates.path(f"server.{end}").read_bytes() for end in ("key", "pem")))
        ports = free_ports(4)
        self.plain, self.secured, self.short, self.bearer = (f"{LOOPBACK}:{port}" for port in ports)
        self.issuer = Issuer()
        keys = directory / "keys.json"
        keys.write_bytes(self.issuer.key_set())
        self.cluster = ReplicatedCluster(
            directory / "cluster",
            brokers=1,
            controller_settings={"delegation.token.expiry.check.interval.ms": "500"},
            more_listeners={
                1: (
                    f"SASL_PLAINTEXT://{self.plain}",
                    f"SASL_SSL://{self.secured}",
                    f"SHORT://{self.short}",
                    f"BEARER://{self.bearer}",
                )
            },
            broker_settings={
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SHORT:SASL_PLAINTEXT,"
                    "BEARER:SASL_PLAINTEXT"
                ),
                "ssl.keystore.location": str(own),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "sasl.server.max.receive.size": "20000",
                **{
                    f"listener.name.{name}.plain.sasl.jaas.config": (
                        f'{PLAIN_MODULE} required user_ann="ann\'s secret" user_bob="bob\'s secret";'
                    )
                    for name in ("sasl_plaintext", "sasl_ssl", "short")
                },
                "listener.name.bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.bearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "listener.name.bearer.sasl.oauthbearer.expected.audience": "ottla",
                "delegation.token.secret.key": "the secret of tokens",
                "listener.name.short.connections.max.reauth.ms": "1500",
                "connection.failed.authentication.delay.ms": "200",
                "offsets.topic.replication.factor": "1",
            },
        )

    def client(
        self, bootstrap: str, user: str = "ann", password: str = "ann's secret", mechanism: str = "PLAIN"
    ) -> dict[str, Any]:
        """Returns settings of librdkafka."""
        protocol = "sasl_ssl" if bootstrap == self.secured else "sasl_plaintext"
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": protocol,
            "ssl.ca.location": str(self.certificates.path("ca.pem")),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }

    def log(self) -> str:
        return self.cluster.brokers[1].process.log.read_text()


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    made = SaslCluster(tmp_path_factory.mktemp("sasl"))
    with made.cluster:
        made.cluster.create_topic(TOPIC, partitions=1)
        yield made


@pytest.fixture(scope="module")
def scram_user(logins: SaslCluster) -> str:
    """A user who logs in by both variants of SCRAM with the password `PASSWORD`."""
    create_user(logins, "zofie", PASSWORD)
    return "zofie"


def create_user(logins: SaslCluster, user: str, password: str) -> None:
    both = [word for each in SCRAM for word in ("--mechanism", each)]
    ottla = Ottla(logins.cluster.bootstrap)
    ottla.run("user", "create", user, *both, "--password-file", "-", stdin=f"{password}\n".encode())


def publish(settings: dict[str, Any]) -> None:
    told: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(TOPIC, b"value", partition=0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert told == [None]


def problem_of(settings: dict[str, Any]) -> str:
    """Returns what librdkafka says of brokers that it cannot use."""
    told: list[str] = []
    watched: dict[str, Any] = {**settings, "error_cb": lambda error: told.append(error.str())}
    admin = AdminClient(watched)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    eventually(lambda: admin.poll(0) or told, "the client says what is wrong")
    return " ".join(told)


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "tls"])
def test_librdkafka_logs_in(logins: SaslCluster, secured: bool) -> None:
    publish(logins.client(logins.secured if secured else logins.plain))


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "tls"])
@pytest.mark.parametrize(("user", "password"), [("ann", "bob's secret"), ("nobody", "ann's secret")])
def test_librdkafka_is_told_the_same_for_every_wrong_login(
    logins: SaslCluster, secured: bool, user: str, password: str
) -> None:
    assert REFUSAL in problem_of(logins.client(logins.secured if secured else logins.plain, user, password))


def test_tls_to_plain_and_plain_to_tls_end_the_connection(logins: SaslCluster) -> None:
    assert problem_of(logins.client(logins.secured) | {"security.protocol": "sasl_plaintext"})
    assert problem_of(logins.client(logins.plain) | {"security.protocol": "sasl_ssl"})
    assert problem_of(logins.client(logins.plain) | {"security.protocol": "plaintext"})
    assert problem_of(logins.client(logins.cluster.bootstrap))
    logins.cluster.brokers[1].process.check_running()


def test_librdkafka_is_told_which_mechanisms_there_are(logins: SaslCluster) -> None:
    settings = logins.client(logins.plain) | {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=ann",
    }
    assert "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" in problem_of(settings)


@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "tls"])
def test_kafka_python_logs_in_and_is_refused(logins: SaslCluster, secured: bool) -> None:
    settings = {
        "bootstrap_servers": logins.secured if secured else logins.plain,
        "security_protocol": "SASL_SSL" if secured else "SASL_PLAINTEXT",
        "ssl_cafile": str(logins.certificates.path("ca.pem")),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
    }
    producer = KafkaProducer(**settings, sasl_plain_password="ann's secret")
    try:
        producer.send(TOPIC, b"value", partition=0).get(TIMEOUT_S)
    finally:
        producer.close()
    with pytest.raises(PythonKafkaError):
        KafkaProducer(**settings, sasl_plain_password="wrong", bootstrap_timeout_ms=3000, max_block_ms=3000)


def test_aiokafka_logs_in_and_is_refused(logins: SaslCluster) -> None:
    async def send(password: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=logins.plain,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="ann",
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, b"value", partition=0)
        finally:
            await producer.stop()

    asyncio.run(send("ann's secret"))
    with pytest.raises(AioKafkaError):
        asyncio.run(send("wrong"))


def logged_in(client: RawClient, message: bytes = RIGHT) -> Any:
    """Logs in by PLAIN, and returns the answer."""
    assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none
    return client.ask(SaslAuthenticateRequest(auth_bytes=message))


def test_requests_pass_after_a_login_and_not_before(logins: SaslCluster) -> None:
    request = metadata_request([])
    with RawClient.to(logins.plain) as client:
        versions = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))
        assert {17, 36} <= {each.api_key for each in versions.api_keys}
        answer = logged_in(client)
        assert answer.error_code is ErrorCode.none
        assert client.ask(request).brokers
        assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.illegal_sasl_state
    with RawClient.to(logins.plain) as client:
        client.send_request(request)
        assert client.is_closed()
    with RawClient.to(logins.plain) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        client.send_request(request)
        assert client.is_closed()


def test_a_refused_login_is_told_late_and_ends_the_connection(logins: SaslCluster) -> None:
    with RawClient.to(logins.plain) as client:
        answer = logged_in(client, WRONG)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message == REFUSAL
        assert client.is_closed()
    eventually(lambda: "wrong password of user 'ann'" in logins.log(), "the log has the reason")
    assert "bob's secret" not in logins.log()


def test_the_handshake_of_version_0_is_followed_by_bare_frames(logins: SaslCluster) -> None:
    with RawClient.to(logins.plain) as client:
        assert client.ask(SaslHandshakeRequestV0(mechanism="PLAIN")).error_code is ErrorCode.none
        client.send_frame(RIGHT)
        assert client.read_frame() == b""
        assert client.ask(metadata_request([])).brokers
    with RawClient.to(logins.plain) as client:
        client.ask(SaslHandshakeRequestV0(mechanism="PLAIN"))
        client.send_frame(WRONG)
        with pytest.raises(Closed):
            client.read_frame()


def test_what_comes_too_early_is_not_handled(logins: SaslCluster) -> None:
    """All frames of a login at once, and a request behind them that may pass only if the login succeeds."""
    for message, passes in ((RIGHT, True), (WRONG, False)):
        with RawClient.to(logins.plain) as client:
            for request in (
                SaslHandshakeRequest(mechanism="PLAIN"),
                SaslAuthenticateRequest(auth_bytes=message),
                metadata_request([]),
            ):
                client.send_request(request)
            client.read_frame()
            client.read_frame()
            if passes:
                assert client.read_frame()
            else:
                assert client.is_closed()


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\x12",
        b"\0\x11\0\x09\0\0\0\1\xff\xff",
        b"\0\x11\0\1\0\0\0\1\xff\xff\x7f\xff",
        b"GET / HTTP/1.1",
    ],
)
def test_bytes_that_are_no_login_end_the_connection(logins: SaslCluster, frame: bytes) -> None:
    with RawClient.to(logins.plain) as client:
        client.send_frame(frame)
        assert client.is_closed()
    logins.cluster.brokers[1].process.check_running()


def test_before_a_login_only_small_requests_are_taken(logins: SaslCluster) -> None:
    with RawClient.to(logins.plain) as client:
        client.send_bytes(struct.pack(">i", 20_001))
        assert client.is_closed()


def test_half_open_and_slow_logins_hold_up_nobody_and_end(logins: SaslCluster) -> None:
    """Those that say nothing, those that stop within a frame, and those that stop within the login."""
    waiting = [RawClient.to(logins.plain) for _ in range(150)]
    try:
        for client in waiting[:50]:
            client.send_bytes(struct.pack(">i", 10_000) + bytes(5000))
        for client in waiting[50:100]:
            client.send_request(SaslHandshakeRequest(mechanism="PLAIN"))
        publish(logins.client(logins.plain))
        for client in waiting:
            assert client.is_closed(within_s=2 * AUTHENTICATION_SECONDS_MAX)
    finally:
        for client in waiting:
            client.close()


def test_many_wrong_logins_are_logged_in_part_and_hold_up_nobody(logins: SaslCluster) -> None:
    before = logins.log().count("login failed")
    clients = [RawClient.to(logins.plain) for _ in range(300)]
    try:
        for client in clients:
            client.send_request(SaslHandshakeRequest(mechanism="PLAIN"))
            client.send_request(SaslAuthenticateRequest(auth_bytes=WRONG))
        publish(logins.client(logins.plain))
        for client in clients:
            assert client.is_closed()
    finally:
        for client in clients:
            client.close()
    assert 0 < logins.log().count("login failed") - before < 300


def test_a_login_that_is_not_renewed_in_time_ends_with_the_next_request(logins: SaslCluster) -> None:
    with RawClient.to(logins.short) as client:
        answer = logged_in(client)
        assert answer.session_lifetime.total_seconds() == 1.5

        def expired() -> bool:
            try:
                client.ask(metadata_request([]))
            except Closed:
                return True
            return False

        eventually(expired, "the login has expired")


def test_a_login_is_renewed_on_the_open_connection(logins: SaslCluster) -> None:
    with RawClient.to(logins.short) as client:
        logged_in(client)
        renewals = 0

        def renewed_thrice() -> bool:
            nonlocal renewals
            if client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none:
                assert client.ask(SaslAuthenticateRequest(auth_bytes=RIGHT)).error_code is ErrorCode.none
                renewals += 1
            return renewals == 3

        eventually(renewed_thrice, "the login was renewed three times, for longer than it holds")
        assert client.ask(metadata_request([])).brokers


def test_a_login_cannot_become_that_of_somebody_else(logins: SaslCluster) -> None:
    with RawClient.to(logins.short) as client:
        logged_in(client)
        eventually(
            lambda: client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none,
            "the login may be renewed",
        )
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob's secret"))
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert "Cannot change principals" in answer.error_message
        assert client.is_closed()


def test_librdkafka_renews_its_login(logins: SaslCluster) -> None:
    """It goes on over several lifetimes of its login without an error."""
    told: list[Any] = []
    producer = Producer({**logins.client(logins.short), "error_cb": told.append})
    end = time.monotonic() + 3 * 1.5

    def outlived() -> bool:
        producer.produce(TOPIC, b"value", partition=0, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(TIMEOUT_S) == 0
        return time.monotonic() > end

    eventually(outlived, "records are published for three lifetimes of a login")
    assert set(told) == {None}


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "tls"])
def test_librdkafka_logs_in_by_scram_and_is_refused(
    logins: SaslCluster, scram_user: str, mechanism: str, secured: bool
) -> None:
    bootstrap = logins.secured if secured else logins.plain
    publish(logins.client(bootstrap, scram_user, PASSWORD, mechanism))
    for user in (scram_user, "nobody"):
        assert f"invalid credentials with SASL mechanism {mechanism}" in problem_of(
            logins.client(bootstrap, user, "wrong", mechanism)
        )


@pytest.mark.parametrize("mechanism", SCRAM)
def test_python_clients_log_in_by_scram(logins: SaslCluster, scram_user: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": logins.plain,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": scram_user,
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**settings)
    try:
        producer.send(TOPIC, b"value", partition=0).get(TIMEOUT_S)
    finally:
        producer.close()

    async def send() -> None:
        async with AIOKafkaProducer(**settings) as other:
            await other.send_and_wait(TOPIC, b"value", partition=0)

    asyncio.run(send())


def test_users_are_created_changed_and_deleted_by_the_command(logins: SaslCluster) -> None:
    ottla = Ottla(logins.cluster.bootstrap)
    name = "a user, with = and ž"
    create_user(logins, name, "first")
    publish(logins.client(logins.plain, name, "first", SCRAM[1]))
    listed = {each["user"]: each["mechanisms"] for each in ottla.json("user", "list")["users"]}
    assert listed[name] == dict.fromkeys(SCRAM, 8192)
    assert "" not in listed
    refused = ottla.run("user", "create", name, "--password-file", "-", stdin=b"other\n", fails_with=1)
    assert b"there is a user" in refused.stderr
    ottla.run("user", "password", name, "--password-file", "-", stdin=b"its second password\n")
    publish(logins.client(logins.plain, name, "its second password", SCRAM[0]))
    assert "invalid credentials" in problem_of(logins.client(logins.plain, name, "first", SCRAM[0]))
    ottla.run("user", "delete", name)
    assert "invalid credentials" in problem_of(logins.client(logins.plain, name, "its second password", SCRAM[0]))
    assert b"there is no user" in ottla.run("user", "delete", name, fails_with=1).stderr
    assert "second password" not in logins.log()


def test_commands_log_in(logins: SaslCluster, scram_user: str, tmp_path: Path) -> None:
    """Those that speak Kafka's protocol themselves, and those of librdkafka's; settings from options and a file."""
    ottla = Ottla(logins.secured)
    settings = {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(logins.certificates.path("ca.pem")),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": scram_user,
        "sasl.password": PASSWORD,
    }
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    assert scram_user in {each["user"] for each in ottla.json("user", "list", *options)["users"]}
    assert TOPIC in str(ottla.json("topic", "list", *options))
    wrong = [*options[:-1], "sasl.password=wrong"]
    assert b"invalid credentials" in ottla.run("user", "list", *wrong, fails_with=1).stderr


def test_librdkafka_administers_users(logins: SaslCluster) -> None:
    """As Kafka answers: one result for each user, and the same refusals."""
    admin = AdminClient({"bootstrap.servers": logins.cluster.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000)
    changes = [
        UserScramCredentialUpsertion("rdkafka", info, b"its password"),
        UserScramCredentialUpsertion("weak", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4095), b"p"),
        UserScramCredentialUpsertion("slow", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 16385), b"p"),
        UserScramCredentialUpsertion("twice", info, b"p"),
        UserScramCredentialUpsertion("twice", info, b"q"),
        UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
    ]
    codes: dict[str, int | None] = {}
    for user, future in admin.alter_user_scram_credentials(changes).items():
        try:
            future.result(TIMEOUT_S)
            codes[user] = None
        except KafkaException as refused:
            codes[user] = refused.args[0].code()
    assert codes == {
        "rdkafka": None,
        "weak": KafkaError.UNACCEPTABLE_CREDENTIAL,
        "slow": KafkaError.UNACCEPTABLE_CREDENTIAL,
        "twice": KafkaError.DUPLICATE_RESOURCE,
        "nobody": KafkaError.RESOURCE_NOT_FOUND,
    }
    described = described_users(admin, "rdkafka").result(TIMEOUT_S)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ScramMechanism.SCRAM_SHA_256, 5000)
    with pytest.raises(KafkaException) as unknown:
        described_users(admin, "nobody").result(TIMEOUT_S)
    assert unknown.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    publish(logins.client(logins.plain, "rdkafka", "its password", SCRAM[0]))


def described_users(admin: AdminClient, user: str) -> Any:
    """The future of what a cluster says of one user."""
    futures: Any = admin.describe_user_scram_credentials([user])
    return futures[user]


def test_an_unknown_user_is_shown_what_a_user_is_shown(logins: SaslCluster, scram_user: str) -> None:
    """The same salt each time, as long as others' and with as many iterations."""

    def challenge(user: str) -> tuple[bytes, bytes, bytes]:
        with RawClient.to(logins.plain) as client:
            client.ask(SaslHandshakeRequest(mechanism=SCRAM[0]))
            answer = client.ask(SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=nonce".encode()))
            assert answer.error_code is ErrorCode.none
            nonce, salt, iterations = answer.auth_bytes.split(b",")
            return nonce, salt, iterations

    unknown, again, real = challenge("nobody"), challenge("nobody"), challenge(scram_user)
    assert unknown[0] != again[0]
    assert unknown[1:] == again[1:]
    assert unknown[1] != real[1]
    assert len(unknown[1]) == len(real[1])
    assert challenge("somebody else")[1] != unknown[1]


def bearer_client(logins: SaslCluster, token: str) -> dict[str, Any]:
    """Settings of librdkafka with a token."""
    return {
        "bootstrap.servers": logins.bearer,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 300),
        "log_level": 0,
    }


def test_librdkafka_logs_in_by_a_token(logins: SaslCluster) -> None:
    publish(bearer_client(logins, logins.issuer.token(aud=["ottla", "others"])))


@pytest.mark.parametrize("fault", ["expired", "foreign", "other audience", "unsigned", "no token"])
def test_a_token_that_does_not_hold_is_refused(logins: SaslCluster, fault: str) -> None:
    tokens: dict[str, Callable[[], str]] = {
        "expired": lambda: logins.issuer.token(aud="ottla", life_s=-60),
        "foreign": lambda: Issuer().token(aud="ottla"),
        "other audience": lambda: logins.issuer.token(aud="others"),
        "unsigned": lambda: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJpYXQiOjEsImV4cCI6OTk5OTk5OTk5OX0.",
        "no token": lambda: "no-token-at-all",
    }
    token = tokens[fault]()
    told = problem_of(bearer_client(logins, token))
    assert "invalid credentials with SASL mechanism OAUTHBEARER" in told or "invalid_token" in told
    assert token not in logins.log()


def test_a_login_by_a_token_holds_as_long_as_the_token(logins: SaslCluster) -> None:
    with RawClient.to(logins.bearer) as client:
        client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        message = f"n,,\x01auth=Bearer {logins.issuer.token(aud='ottla', life_s=100)}\x01\x01".encode()
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=message))
        assert answer.error_code is ErrorCode.none
        assert 0 < answer.session_lifetime.total_seconds() <= 100


@contextmanager
def logged_in_by_scram(
    logins: SaslCluster, user: str, password: str, *, by_token: bool = False
) -> Iterator[RawClient]:
    """A connection of a user of SCRAM, or of a delegation token."""
    scram = Scram("sha512", user, password, "nonce")
    if by_token:
        scram._first += ",tokenauth=true"
    with RawClient.to(logins.plain) as client:
        client.ask(SaslHandshakeRequest(mechanism=SCRAM[1]))
        message: bytes | None = scram.first()
        while message is not None:
            answer = client.ask(SaslAuthenticateRequest(auth_bytes=message))
            if answer.error_code is not ErrorCode.none:
                raise Closed(answer.error_message)
            message = scram.respond(answer.auth_bytes)
        yield client


def create_token(client: RawClient, **changed: Any) -> Any:
    asked = {"owner_principal_type": None, "owner_principal_name": None, "renewers": (), **changed}
    return client.ask(CreateDelegationTokenRequest(max_lifetime=i64Timedelta.parse(timedelta(hours=1)), **asked))


def test_a_delegation_token_stands_for_its_owner(logins: SaslCluster, scram_user: str) -> None:
    with logged_in_by_scram(logins, scram_user, PASSWORD) as owner:
        made = create_token(owner)
        assert made.error_code is ErrorCode.none
        assert made.principal_name == scram_user
        password = base64.b64encode(made.hmac).decode()
        with logged_in_by_scram(logins, made.token_id, password, by_token=True) as client:
            assert client.ask(metadata_request([])).brokers
            refused = create_token(client)
            assert refused.error_code is ErrorCode.delegation_token_request_not_allowed
        with pytest.raises(Closed), logged_in_by_scram(logins, made.token_id, "wrong", by_token=True):
            pass
        with pytest.raises(Closed), logged_in_by_scram(logins, made.token_id, password):
            pass
        shown = owner.ask(DescribeDelegationTokenRequest(owners=None))
        assert made.token_id in {each.token_id for each in shown.tokens}
        renewed = owner.ask(
            RenewDelegationTokenRequest(hmac=made.hmac, renew_period=i64Timedelta.parse(timedelta(minutes=1)))
        )
        assert renewed.error_code is ErrorCode.none
        assert renewed.expiry_timestamp < made.expiry_timestamp
        ended = owner.ask(
            ExpireDelegationTokenRequest(
                hmac=made.hmac, expiry_time_period=i64Timedelta.parse(timedelta(milliseconds=-1))
            )
        )
        assert ended.error_code is ErrorCode.none
        with pytest.raises(Closed), logged_in_by_scram(logins, made.token_id, password, by_token=True):
            pass
        assert password not in logins.log()
        assert made.hmac.hex() not in logins.log()


def test_only_owners_and_renewers_end_tokens(logins: SaslCluster, scram_user: str) -> None:
    create_user(logins, "renewer", PASSWORD)
    create_user(logins, "stranger", PASSWORD)
    renewer = CreatableRenewers(principal_type="User", principal_name="renewer")
    with logged_in_by_scram(logins, scram_user, PASSWORD) as owner:
        made = create_token(owner, renewers=(renewer,))
        wrong = create_token(owner, renewers=(replace(renewer, principal_type="Group"),))
        assert wrong.error_code is ErrorCode.invalid_principal_type
    request = ExpireDelegationTokenRequest(
        hmac=made.hmac, expiry_time_period=i64Timedelta.parse(timedelta(milliseconds=-1))
    )
    for user, code in (
        ("stranger", ErrorCode.delegation_token_owner_mismatch),
        ("renewer", ErrorCode.none),
        (scram_user, ErrorCode.delegation_token_not_found),
    ):
        with logged_in_by_scram(logins, user, PASSWORD) as client:
            assert client.ask(request).error_code is code


def test_nobody_gets_a_token_who_has_not_logged_in(logins: SaslCluster) -> None:
    with RawClient.to(logins.cluster.bootstrap) as client:
        assert create_token(client).error_code is ErrorCode.delegation_token_request_not_allowed


def test_tokens_that_have_expired_are_deleted(logins: SaslCluster, scram_user: str) -> None:
    with logged_in_by_scram(logins, scram_user, PASSWORD) as owner:
        made = create_token(owner)
        owner.ask(
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period=i64Timedelta.parse(timedelta(seconds=1)))
        )

        def gone() -> bool:
            shown = owner.ask(DescribeDelegationTokenRequest(owners=None))
            return made.token_id not in {each.token_id for each in shown.tokens}

        eventually(gone, "the controller has deleted the token")
