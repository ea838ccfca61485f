"""The gate before the requests of a connection: what passes, what does not, and how a login ends."""

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from structlog.testing import capture_logs

from ottla_broker.dispatch import Dispatcher
from ottla_broker.sasl.credentials import UserCredentials
from ottla_broker.sasl.delegation_tokens import DelegationTokens
from ottla_broker.sasl.listener_sasl import ListenerSasl, LoginCounts
from ottla_broker.sasl.sasl_settings import SaslSettings
from ottla_broker.sasl_gate import AUTHENTICATION_SECONDS_MAX, SaslGate
from ottla_core.client import sasl as client_sasl
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.features import FinalizedFeatures
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, ScramMechanism, SecurityState
from ottla_core.errors import InvalidRequest
from ottla_core.failure_log import REASON_CHARACTERS_MAX
from ottla_core.principal import ANONYMOUS, USER, Principal
from ottla_core.scram import credential_of, salted_password
from ottla_core.tokens.token_claims import Judgement
from tests.support.broker.broker_parts import broker_of
from tests.support.clients.raw_client import decode_response, encode_request
from tests.support.clients.raw_requests import metadata_request

MECHANISM = ScramMechanism.SHA_256
SALT = b"a salt of a user"
STATE = SecurityState(
    scram_credentials={
        (MECHANISM, "ann"): credential_of(MECHANISM, salted_password(MECHANISM, "word", SALT, 4096), SALT, 4096)
    }
)
FEED = SimpleNamespace(state=SimpleNamespace(features=FinalizedFeatures()))
RIGHT = b"\0bob\0word"
SEEDS = 400


@dataclass
class Peer:
    """Stands for the connection of a client."""

    peer: str = "10.0.0.7:5"
    listener_name: str = "CLIENTS"
    principal: Principal = ANONYMOUS
    is_token_authenticated: bool = False
    gate: Any = None
    is_closed: bool = False
    is_idle: bool = True
    charge: Any = None
    meters: Any = None
    measured: Any = None
    throttle_ms: int = 0
    client_software: tuple[str | None, str | None] = (None, None)
    delayed: frozenset[Any] = frozenset()
    handled: list[bytes] = field(default_factory=list)

    def close(self, reason: str = "") -> None:
        self.is_closed = True

    def throttle(self, throttle_ms: int) -> None:
        self.throttle_ms = throttle_ms


class NoTokens:
    """Stands for what judges bearer tokens."""

    async def judge(self, token: str) -> Judgement:
        return Judgement(reason="it is none of ours")


def gated(
    *,
    lifetime_ms: int = 0,
    counts: LoginCounts | None = None,
    dispatcher: Dispatcher | None = None,
    failure_delay_s: float = 0,
) -> Peer:
    """A connection with a gate; what passes is in `handled`, and goes on to a dispatcher if there is one."""
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    settings = SaslSettings(
        mechanisms=mechanisms,
        passwords={"bob": "word", "carla": "word"},
        users_file="",
        receive_bytes_max=1000,
        reauthentication_ms=dict.fromkeys(mechanisms, lifetime_ms),
        bearer=None,
    )
    users = UserCredentials(lambda: STATE, b"secret")
    tokens = DelegationTokens(lambda: STATE, "", users, SystemClock())
    sasl = ListenerSasl(
        "CLIENTS",
        settings,
        failure_delay_s=failure_delay_s,
        users=users,
        find_token=tokens.find,
        bearer=NoTokens(),  # type: ignore[arg-type]
        counts=counts or LoginCounts(),
    )
    peer = Peer()

    def handle(frame: memoryview, connection: Any) -> list[Any]:
        assert connection is peer
        peer.handled.append(bytes(frame))
        return [b"handled"] if dispatcher is None else dispatcher.handle(frame, connection)

    peer.gate = SaslGate(peer, sasl, handle, SystemClock())  # type: ignore[arg-type]
    return peer


async def send(peer: Peer, frame: bytes) -> bytes | None:
    """What the client is answered, without its length."""
    outcome = peer.gate.handle(memoryview(frame).toreadonly())
    while isinstance(outcome, Awaitable):
        outcome = await outcome
    return None if outcome is None else b"".join(outcome)[4:]


async def ask(peer: Peer, request: Any) -> bytes | None:
    return await send(peer, encode_request(request, 1))


async def log_in(peer: Peer, message: bytes = RIGHT) -> Any:
    await ask(peer, SaslHandshakeRequest(mechanism="PLAIN"))
    answer = await ask(peer, SaslAuthenticateRequest(auth_bytes=message))
    assert answer is not None
    return decode_response(answer, SaslAuthenticateResponse)[1]


async def closed(peer: Peer) -> None:
    """Wait until the broker has closed the connection."""
    async with asyncio.timeout(10):
        while not peer.is_closed:
            await asyncio.sleep(0.01)  # between two looks; the deadline ends them


def test_the_gate_goes_with_the_login() -> None:
    async def run() -> None:
        peer = gated()
        assert peer.gate.request_bytes_max == 1000
        assert (await log_in(peer)).error_code is ErrorCode.none
        assert peer.gate is None
        assert peer.principal == Principal(USER, "bob")
        assert not peer.handled

    asyncio.run(run())


def test_only_questions_for_versions_pass_before_a_login() -> None:
    async def run() -> None:
        peer = gated()
        question = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        assert await ask(peer, question) == b"led"  # `send` leaves out four bytes
        assert len(peer.handled) == 1
        assert await ask(peer, metadata_request([])) is None
        await asyncio.sleep(0)
        assert peer.is_closed
        assert len(peer.handled) == 1

    asyncio.run(run())


def test_questions_before_a_login_take_nothing_of_a_quota_and_leave_nothing_behind() -> None:
    async def run() -> None:
        broker = broker_of(FEED)
        defaults = QuotaEntity(((QuotaEntityKind.CLIENT_ID, None),))
        limited = {defaults: {"producer_byte_rate": 1.0, "request_percentage": 1e-6}}
        state: Any = SimpleNamespace(security=SimpleNamespace(client_quotas=limited))
        broker.quotas.state_changed(None, state)
        question = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        for number in range(10):
            peer = gated(dispatcher=Dispatcher(broker))
            answer = await send(peer, encode_request(question, 1, client_id=f"{number}"))
            assert answer is not None
            assert decode_response(answer, ApiVersionsResponse)[1].error_code is ErrorCode.none
            assert (peer.charge, peer.meters, peer.throttle_ms) == (None, None, 0)
        assert not broker.quotas._meters

    asyncio.run(run())


def test_a_connection_keeps_little_of_what_its_client_says_of_itself() -> None:
    async def run() -> None:
        peer = gated(dispatcher=Dispatcher(broker_of(FEED)))
        for name in ("librdkafka", "n" * 10_000):
            await ask(
                peer, ApiVersionsRequest(client_software_name=name, client_software_version="1.2" + "3" * 10_000)
            )
            assert peer.client_software == (name[:256], "1.2" + "3" * 253)

    asyncio.run(run())


def test_a_mechanism_is_named_once() -> None:
    async def run() -> None:
        peer = gated()
        for code in (ErrorCode.none, ErrorCode.illegal_sasl_state):
            answer = await ask(peer, SaslHandshakeRequest(mechanism="PLAIN"))
            assert answer is not None
            assert decode_response(answer, SaslHandshakeResponse)[1].error_code is code
        await closed(peer)

    asyncio.run(run())


def test_a_client_that_is_told_why_it_is_refused_has_a_moment_to_close_the_connection_itself() -> None:
    async def run() -> None:
        peer = gated()
        assert (await log_in(peer, b"\0bob\0guess")).error_code is ErrorCode.sasl_authentication_failed
        await asyncio.sleep(0)
        assert not peer.is_closed
        await closed(peer)

    asyncio.run(run())


def test_a_login_may_not_take_for_ever() -> None:
    async def run() -> None:
        peer = gated(lifetime_ms=60_000)
        now = asyncio.get_running_loop().time()
        assert not peer.gate.is_overdue(now)
        assert peer.gate.is_overdue(now + AUTHENTICATION_SECONDS_MAX + 1)
        await log_in(peer)
        assert not peer.gate.is_overdue(now + AUTHENTICATION_SECONDS_MAX + 1)
        assert peer.gate.request_bytes_max is None

    asyncio.run(run())


def test_a_client_that_is_throttled_has_time_to_renew_its_login_afterwards() -> None:
    async def run() -> None:
        peer = gated(lifetime_ms=60_000)
        await log_in(peer)
        await ask(peer, SaslHandshakeRequest(mechanism="PLAIN"))
        peer.throttle_ms = 1
        later = asyncio.get_running_loop().time() + AUTHENTICATION_SECONDS_MAX + 1
        assert not peer.gate.is_overdue(later)
        peer.throttle_ms = 0
        assert not peer.gate.is_overdue(later + AUTHENTICATION_SECONDS_MAX - 1)
        assert peer.gate.is_overdue(later + AUTHENTICATION_SECONDS_MAX + 1)

    asyncio.run(run())


def test_versions_are_not_asked_for_without_end() -> None:
    async def run() -> None:
        peer = gated()
        question = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        for _ in range(10):
            await ask(peer, question)
        assert len(peer.handled) < 10

    asyncio.run(run())


def test_a_renewal_is_of_the_same_user_and_mechanism() -> None:
    async def run() -> None:
        counts = LoginCounts()
        peer = gated(lifetime_ms=60_000, counts=counts)
        assert (await log_in(peer)).session_lifetime.total_seconds() == 60
        assert (await log_in(peer)).error_code is ErrorCode.none
        assert counts.succeeded == 2
        await send(peer, encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        assert len(peer.handled) == 1, "a second renewal within a second is no renewal, and handled as out of place"

        other = gated(lifetime_ms=60_000)
        await log_in(other)
        refused = await log_in(other, b"\0carla\0word")
        assert refused.error_code is ErrorCode.sasl_authentication_failed
        assert "from User:bob: User:carla" in refused.error_message
        assert other.principal == Principal(USER, "bob")

    asyncio.run(run())


def test_requests_in_the_middle_of_a_renewal_are_refused() -> None:
    async def run() -> None:
        peer = gated(lifetime_ms=60_000)
        await log_in(peer)
        await ask(peer, SaslHandshakeRequest(mechanism="PLAIN"))
        assert await ask(peer, metadata_request([])) is None
        await asyncio.sleep(0)
        assert peer.is_closed
        assert not peer.handled

    asyncio.run(run())


def test_a_recorded_login_by_scram_cannot_be_repeated() -> None:
    async def run() -> None:
        client = client_sasl.begin("SCRAM-SHA-256", "ann", "word", nonce="clientnonce")
        peer = gated()
        frames = [encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)]
        await send(peer, frames[-1])
        message: bytes | None = client.first()
        while message is not None:
            frames.append(encode_request(SaslAuthenticateRequest(auth_bytes=message), 1))
            answer = await send(peer, frames[-1])
            assert answer is not None
            message = client.respond(decode_response(answer, SaslAuthenticateResponse)[1].auth_bytes)
        assert peer.principal == Principal(USER, "ann")

        again = gated()
        for frame in frames:
            await send(again, frame)
        assert again.principal == ANONYMOUS
        assert again.gate is not None

    asyncio.run(run())


def test_changed_logins_let_nobody_in() -> None:
    """Frames of right logins with bytes changed, cut, doubled and swapped; the seed is in the failure."""

    async def run(seed: int) -> None:
        drawn = random.Random(seed)
        client = client_sasl.begin("SCRAM-SHA-256", "ann", "wrong", nonce="clientnonce")
        frames = [
            encode_request(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 1),
            encode_request(SaslHandshakeRequest(mechanism=drawn.choice(["PLAIN", "SCRAM-SHA-256", "x"])), 1),
            encode_request(SaslAuthenticateRequest(auth_bytes=client.first()), 1),
            encode_request(SaslAuthenticateRequest(auth_bytes=b"\0bob\0wore"), 1),
            encode_request(metadata_request([]), 1),
            client.first(),
        ]
        peer = gated(lifetime_ms=drawn.choice([0, 60_000]))
        for _ in range(6):
            frame = bytearray(drawn.choice(frames) if drawn.random() < 0.4 else frames[min(_, 5)])
            for _ in range(drawn.choice([0, 0, 1, 3])):
                place = drawn.randrange(len(frame))
                frame[place : place + drawn.choice([0, 1, 4])] = drawn.randbytes(drawn.choice([0, 1, 1, 2]))
            try:
                await asyncio.wait_for(send(peer, bytes(frame)), 10)
            except InvalidRequest:
                return
            if peer.is_closed:
                return
            assert peer.principal in (ANONYMOUS, Principal(USER, "bob")), "nobody is let in by chance"
            assert peer.gate is not None

    for seed in range(SEEDS):
        try:
            asyncio.run(run(seed))
        except BaseException:
            print(f"seed {seed}")
            raise


def test_a_refused_token_counts_once_and_also_if_the_client_leaves_at_the_challenge() -> None:
    async def run() -> None:
        counts = LoginCounts()
        shown = SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer abc\x01\x01")
        peer = gated(counts=counts)
        await ask(peer, SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        answer = await ask(peer, shown)
        assert answer is not None
        assert b"invalid_token" in answer
        assert counts.failed == 1
        answer = await ask(peer, SaslAuthenticateRequest(auth_bytes=b"\x01"))
        assert answer is not None
        refused = decode_response(answer, SaslAuthenticateResponse)[1]
        assert refused.error_code is ErrorCode.sasl_authentication_failed
        assert counts.failed == 1

        held = gated(counts=counts, failure_delay_s=3600)
        await ask(held, SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        waiting = asyncio.create_task(ask(held, shown))
        while counts.failed == 1:
            await asyncio.sleep(0)
        assert not waiting.done(), "the challenge waits as well"
        waiting.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_a_wrong_password_is_told_like_an_unknown_user(user: str) -> None:
    async def run() -> None:
        counts = LoginCounts()
        peer = gated(counts=counts)
        await ask(peer, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        client = client_sasl.begin("SCRAM-SHA-256", user, "wrong", nonce="clientnonce")
        answer = await ask(peer, SaslAuthenticateRequest(auth_bytes=client.first()))
        assert answer is not None
        challenge = decode_response(answer, SaslAuthenticateResponse)[1]
        proof = client.respond(challenge.auth_bytes)
        assert proof is not None
        answer = await ask(peer, SaslAuthenticateRequest(auth_bytes=proof))
        assert answer is not None
        refused = decode_response(answer, SaslAuthenticateResponse)[1]
        assert refused.error_code is ErrorCode.sasl_authentication_failed
        assert refused.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
        assert (counts.failed, counts.succeeded) == (1, 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\0" + b"n" * 16_000 + b"\0wrong"),
        ("SCRAM-SHA-256", b"n,a=" + b"m" * 7_000 + b",n=" + b"n" * 7_000 + b",r=nonce"),
    ],
)
def test_what_a_stranger_sends_takes_little_room_in_the_log(mechanism: str, message: bytes) -> None:
    async def run() -> None:
        peer = gated()
        await ask(peer, SaslHandshakeRequest(mechanism=mechanism))
        with capture_logs() as lines:
            await ask(peer, SaslAuthenticateRequest(auth_bytes=message))
        (line,) = (each for each in lines if each["event"] == "login failed")
        assert "nnn" in line["reason"] or "mmm" in line["reason"]
        assert len(line["reason"]) <= REASON_CHARACTERS_MAX

    asyncio.run(run())
