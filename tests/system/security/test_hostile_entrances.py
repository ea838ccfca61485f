"""The entrances with TLS and logins, as scanners and attackers meet them: nobody gets in, and others are served.

A failure of the mutated bytes prints the seed: OTTLA_FUZZ_SEED repeats the run.
"""

import base64
import hashlib
import hmac
import json
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.jwk import RSAKey
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from ottla_core.client.sasl import Scram
from tests.fuzz.test_parsers import mutated
from tests.support.clients.raw_client import RawClient
from tests.support.clients.secured_attempts import Attempt, confluent_attempt
from tests.support.clusters.secured_listeners import AUDIENCE, PASSWORD, TOPIC, SecuredListeners
from tests.support.eventually import eventually
from tests.support.reference.tls_scanner import scan
from tests.support.servers.issuer import Issuer

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
HANDSHAKES, AT_ONCE = 600, 16
HALF_OPEN = 150
MUTATED_HELLOS = 300
MEMORY_GROWTH_BYTES_MAX = 64 * 1024 * 1024
OLD_VERSIONS = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")
NEW_VERSIONS = ("tls_1_2", "tls_1_3")
WEAK = ("RC4", "3DES", "_DES_", "NULL", "EXPORT", "anon", "MD5", "IDEA", "SEED", "_CBC_")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredListeners]:
    with SecuredListeners(tmp_path_factory.mktemp("entrances")) as made:
        yield made


def writes(cluster: SecuredListeners) -> bool:
    """Whether a client with a right login over TLS is served."""
    right = Attempt(
        address=cluster.addresses["SASL_SSL"],
        protocol="SASL_SSL",
        topic=TOPIC,
        authority=cluster.path("ca.pem"),
        mechanism="PLAIN",
        user="ann",
        password=PASSWORD,
    )
    return confluent_attempt(right) is None


def memory_bytes(cluster: SecuredListeners) -> int:
    """What the broker's process has in memory."""
    pid = cluster.cluster.brokers[1].process.pid
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def connected(cluster: SecuredListeners, listener: str) -> socket.socket:
    host, _, port = cluster.addresses[listener].rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def trusting(cluster: SecuredListeners) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cluster.path("ca.pem")))


# Scans


@pytest.mark.requires("sslyze")
@pytest.mark.parametrize("listener", ["SSL", "MUTUAL", "SASL_SSL"])
def test_a_scanner_finds_nothing(cluster: SecuredListeners, listener: str) -> None:
    found = scan(cluster.addresses[listener], cluster.path("client") if listener == "MUTUAL" else None)

    def result(name: str) -> dict[str, Any]:
        command = found[name]
        assert command["status"] == "COMPLETED", command
        return dict(command["result"])

    for version in OLD_VERSIONS:
        assert not result(f"{version}_cipher_suites")["accepted_cipher_suites"], version
    for version in NEW_VERSIONS:
        accepted = [each["cipher_suite"] for each in result(f"{version}_cipher_suites")["accepted_cipher_suites"]]
        assert accepted, version
        assert not [each["name"] for each in accepted if any(word in each["name"] for word in WEAK)]
        assert all(each["key_size"] >= 128 and not each["is_anonymous"] for each in accepted)
    assert not result("heartbleed")["is_vulnerable_to_heartbleed"]
    assert not result("openssl_ccs_injection")["is_vulnerable_to_ccs_injection"]
    assert result("robot")["robot_result"].startswith("NOT_VULNERABLE")
    assert not result("tls_compression")["supports_compression"]
    renegotiation = result("session_renegotiation")
    assert renegotiation["supports_secure_renegotiation"]
    assert not renegotiation["is_vulnerable_to_client_renegotiation_dos"]
    assert result("tls_extended_master_secret")["supports_ems_extension"]


# Floods


def test_a_flood_of_handshakes_holds_up_nobody_and_leaves_nothing(cluster: SecuredListeners) -> None:
    context = trusting(cluster)

    def shake_hands(_: int) -> None:
        with (
            connected(cluster, "SSL") as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=True),
        ):
            pass

    assert writes(cluster)
    before = memory_bytes(cluster)
    with ThreadPoolExecutor(AT_ONCE) as clients:
        flood = [clients.submit(shake_hands, number) for number in range(HANDSHAKES)]
        assert writes(cluster), "in the middle of the flood"
        for each in flood:
            each.result()
    assert writes(cluster)
    assert memory_bytes(cluster) - before < MEMORY_GROWTH_BYTES_MAX


def test_half_open_and_slow_handshakes_are_given_up(cluster: SecuredListeners) -> None:
    hello = client_hello()
    before = memory_bytes(cluster)
    with ExitStack() as closing:
        waiting = [closing.enter_context(connected(cluster, "SASL_SSL")) for _ in range(HALF_OPEN)]
        for number, each in enumerate(waiting):
            each.sendall(hello[: number % len(hello)])
        assert writes(cluster)
        assert memory_bytes(cluster) - before < MEMORY_GROWTH_BYTES_MAX
        slow = waiting[-1]
        eventually(lambda: is_given_up(slow, hello[:1]), "a byte now and then does not keep a handshake alive")
        for each in waiting[:-1]:
            each.settimeout(TIMEOUT_S)
            while each.recv(1024):  # what was whole is answered first
                pass
    assert "it takes too long" in cluster.log()


def is_given_up(waiting: socket.socket, drop: bytes) -> bool:
    waiting.settimeout(0.2)
    try:
        waiting.sendall(drop)
        return waiting.recv(1024) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_half_open_logins_are_bounded_and_hold_up_nobody(cluster: SecuredListeners) -> None:
    context = trusting(cluster)
    before = memory_bytes(cluster)
    with ExitStack() as closing:
        for _ in range(HALF_OPEN):
            secured = context.wrap_socket(connected(cluster, "SASL_SSL"), server_hostname="127.0.0.1")
            closing.enter_context(secured)
            secured.sendall(b"\x00\x00\x10\x00")  # announces 4096 bytes, of which none comes
        assert writes(cluster)
        assert memory_bytes(cluster) - before < MEMORY_GROWTH_BYTES_MAX


# Mutated bytes


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="broker.example")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    return outgoing.read()


def test_mutated_handshakes_hurt_nobody(cluster: SecuredListeners, fuzz_source: random.Random) -> None:
    hello = client_hello()
    before = memory_bytes(cluster)
    for _ in range(MUTATED_HELLOS):
        with connected(cluster, fuzz_source.choice(["SSL", "MUTUAL", "SASL_SSL"])) as client:
            try:
                client.sendall(mutated(fuzz_source, hello))
                if fuzz_source.random() < 0.5:
                    client.sendall(fuzz_source.randbytes(fuzz_source.randrange(1, 2000)))
            except OSError:
                continue  # the broker has closed it already
    assert writes(cluster)
    assert memory_bytes(cluster) - before < MEMORY_GROWTH_BYTES_MAX
    assert "Traceback" not in cluster.log()
    assert "failed unexpectedly" not in cluster.log()


@pytest.fixture
def fuzz_source(request: pytest.FixtureRequest) -> random.Random:
    seed = int(os.environ.get("OTTLA_FUZZ_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"{request.node.name}: OTTLA_FUZZ_SEED={seed}")
    return random.Random(seed)


# Replayed logins


def authenticate(client: RawClient, message: bytes) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=message))


def begin(client: RawClient, mechanism: str) -> None:
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism)).error_code is ErrorCode.none


@pytest.mark.parametrize(("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_replayed_messages_of_scram_are_refused(cluster: SecuredListeners, mechanism: str, hash_name: str) -> None:
    scram = Scram(hash_name, "ann", PASSWORD, "a-nonce-that-comes-twice")
    with RawClient.to(cluster.addresses["SASL_PLAINTEXT"]) as client:
        begin(client, mechanism)
        first = scram.first()
        challenge = authenticate(client, first).auth_bytes
        final = scram.respond(challenge)
        assert final is not None
        answer = authenticate(client, final)
        assert answer.error_code is ErrorCode.none
        assert scram.respond(answer.auth_bytes) is None
    with RawClient.to(cluster.addresses["SASL_PLAINTEXT"]) as attacker:
        begin(attacker, mechanism)
        another = authenticate(attacker, first)
        assert another.error_code is ErrorCode.none
        assert another.auth_bytes != challenge, "the broker's nonce is another one"
        assert authenticate(attacker, final).error_code is ErrorCode.sasl_authentication_failed
    with RawClient.to(cluster.addresses["SASL_PLAINTEXT"]) as attacker:
        begin(attacker, mechanism)
        assert authenticate(attacker, final).error_code is ErrorCode.sasl_authentication_failed, "without a beginning"


# Forged tokens


def encoded(content: object) -> str:
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def claims() -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "ann", "aud": AUDIENCE, "iat": now, "exp": now + 300}


def unsigned(algorithm: str) -> str:
    return f"{encoded({'alg': algorithm, 'typ': 'JWT'})}.{encoded(claims())}."


def by_hmac(secret: bytes, header: dict[str, Any] | None = None) -> str:
    """A token whose signature is an HMAC, with a text that everybody knows as the key."""
    signed = f"{encoded({'alg': 'HS256', 'typ': 'JWT', **(header or {})})}.{encoded(claims())}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def public_key(cluster: SecuredListeners) -> RSAKey:
    assert isinstance(cluster.issuer.key, RSAKey)
    return cluster.issuer.key


def as_pem(cluster: SecuredListeners) -> bytes:
    return public_key(cluster).public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def with_key_in_header(cluster: SecuredListeners) -> str:
    """A token that brings along the key by which it is signed."""
    forger = Issuer(str(cluster.issuer.key.kid))
    head, body, _ = forger.token(aud=AUDIENCE).split(".")
    del head
    from joserfc import jws  # noqa: PLC0415

    header = {"alg": "RS256", "kid": cluster.issuer.key.kid, "jwk": forger.key.as_dict(private=False)}
    return jws.serialize_compact(header, base64.urlsafe_b64decode(body + "=="), forger.key, algorithms=["RS256"])


def changed_claims(cluster: SecuredListeners) -> str:
    head, _, signature = cluster.issuer.token(aud=AUDIENCE, subject="nobody").split(".")
    return f"{head}.{encoded(claims())}.{signature}"


FORGED: dict[str, Callable[[SecuredListeners], str]] = {
    "none": lambda _: unsigned("none"),
    "None": lambda _: unsigned("None"),
    "without a signature": lambda cluster: cluster.issuer.token(aud=AUDIENCE).rpartition(".")[0] + ".",
    "foreign key": lambda _: Issuer().token(aud=AUDIENCE),
    "foreign key of the same id": lambda cluster: Issuer(str(cluster.issuer.key.kid)).token(aud=AUDIENCE),
    "hmac of the public key in pem": lambda cluster: by_hmac(as_pem(cluster)),
    "hmac of the public key with its id": lambda cluster: by_hmac(
        as_pem(cluster), {"kid": str(cluster.issuer.key.kid)}
    ),
    "hmac of the key set": lambda cluster: by_hmac(cluster.issuer.key_set()),
    "hmac of nothing": lambda _: by_hmac(b""),
    "key in the header": with_key_in_header,
    "changed claims": changed_claims,
    "expired": lambda cluster: cluster.issuer.token(aud=AUDIENCE, life_s=-100),
    "of another audience": lambda cluster: cluster.issuer.token(aud="others"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_tokens_are_refused(cluster: SecuredListeners, forgery: str) -> None:
    token = FORGED[forgery](cluster)
    with RawClient.to(cluster.addresses["SASL_PLAINTEXT"]) as attacker:
        begin(attacker, "OAUTHBEARER")
        told = authenticate(attacker, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if told.error_code is ErrorCode.none:
            assert json.loads(told.auth_bytes) == {"status": "invalid_token"}
            told = authenticate(attacker, b"\x01")
        assert told.error_code is ErrorCode.sasl_authentication_failed
    assert token not in cluster.log()


def test_a_right_token_is_taken_by_the_same_way(cluster: SecuredListeners) -> None:
    with RawClient.to(cluster.addresses["SASL_PLAINTEXT"]) as client:
        begin(client, "OAUTHBEARER")
        token = cluster.issuer.token(aud=AUDIENCE)
        assert authenticate(client, f"n,,\x01auth=Bearer {token}\x01\x01".encode()).error_code is ErrorCode.none
