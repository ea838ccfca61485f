"""The client's side of a connection, played through without any I/O."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import GroupId
from kio.static.primitive import i16, i32, i64Timedelta

from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.framing import CorrelationIds
from ottla_core.client.protocol import SASL_LIFETIME_SHARE, SASL_ROUNDS_MAX, ClientProtocol
from ottla_core.client.security import Login
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import message_codec, read_request_header

HEARTBEAT, SASL_HANDSHAKE, SASL_AUTHENTICATE = 12, 17, 36
BEAT = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id="m")
SERVED = {HEARTBEAT: (0, 3), SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
PLAIN = Login(mechanism="PLAIN", username="u", password="p")
SCRAM = Login(mechanism="SCRAM-SHA-256", username="u", password="p")


def answer_to(frame: bytes, response: Any) -> bytes:
    """The response as a broker frames it that got this request."""
    header = read_request_header(memoryview(frame)[4:])
    return message_codec(header.api_key, header.api_version).encode_response(header.correlation_id, response)


def versions(served: dict[int, tuple[int, int]]) -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(oldest), max_version=i16(newest))
        for key, (oldest, newest) in served.items()
    )
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys)


def opened(login: Login | None, *responses: Any, served: dict[int, tuple[int, int]] | None = None) -> ClientProtocol:
    """A connection that has begun, by these responses after the one of ApiVersions."""
    protocol = ClientProtocol("b:1", "test", login)
    opening = protocol.opening("nonce")
    frame = next(opening)
    for response in (versions(SERVED if served is None else served), *responses):
        try:
            frame = opening.send(protocol.response(answer_to(frame, response)))
        except StopIteration:
            return protocol
    raise AssertionError("it wants to say more")


def authenticated(**values: Any) -> SaslAuthenticateResponse:
    return message_of(SaslAuthenticateResponse, error_code=ErrorCode.none, **values)


TAKEN = SaslHandshakeResponse(error_code=ErrorCode.none)


def test_answers_belong_to_requests_in_order_and_come_in_the_newest_class():
    protocol = opened(None)
    first, second = protocol.request(BEAT), protocol.request(BEAT)
    assert read_request_header(memoryview(first)[4:]).api_version == 3
    assert int.from_bytes(first[:4], "big") == protocol.response_size(first[:4]) == len(first) - 4
    for frame, code in ((first, ErrorCode.none), (second, ErrorCode.rebalance_in_progress)):
        response = protocol.response(answer_to(frame, message_of(HeartbeatResponse, error_code=code)))
        assert (type(response), response.error_code) == (HeartbeatResponse, code)


def test_an_answer_out_of_order_is_none():
    protocol = opened(None)
    protocol.request(BEAT)
    second = protocol.request(BEAT)
    with pytest.raises(Unreachable, match=r"^b:1 \(it answered another request\)"):
        protocol.response(answer_to(second, message_of(HeartbeatResponse)))


@pytest.mark.parametrize("length", [b"HTTP", b"\0\0\0\3", b"\xff\xff\xff\xff"])
def test_a_length_that_no_broker_sends_is_told(length: bytes):
    with pytest.raises(Unreachable, match=r"^b:1 \(what listens there does not speak Kafka's protocol\)"):
        ClientProtocol("b:1", "test").response_size(length)


def test_versions_that_only_one_side_knows_are_no_versions():
    protocol = opened(None, served={HEARTBEAT: (100, 101)})
    for api_key in (HEARTBEAT, SASL_HANDSHAKE):
        with pytest.raises(UnsupportedByBroker, match=r"^b:1 does not have the API"):
            protocol.version_of(api_key)
    with pytest.raises(UnsupportedByBroker, match="does not have the API Heartbeat"):
        protocol.request(BEAT)


def test_a_login_without_an_end_is_used_without_one():
    assert opened(PLAIN, TAKEN, authenticated()).usable_for_s is None


def test_a_session_is_left_before_the_broker_ends_it():
    protocol = opened(PLAIN, TAKEN, authenticated(session_lifetime=i64Timedelta.parse(timedelta(seconds=10))))
    assert protocol.usable_for_s == pytest.approx(10 * SASL_LIFETIME_SHARE)
    assert SASL_LIFETIME_SHARE < 1


@pytest.mark.parametrize(
    ("login", "responses", "reason"),
    [
        (
            SCRAM,
            [SaslHandshakeResponse(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=("PLAIN", "X"))],
            "^b:1 does not take SCRAM-SHA-256, but PLAIN, X$",
        ),
        (
            PLAIN,
            [
                TAKEN,
                message_of(
                    SaslAuthenticateResponse, error_code=ErrorCode.sasl_authentication_failed, error_message="No"
                ),
            ],
            "^b:1 does not accept u: No$",
        ),
        (SCRAM, [TAKEN, authenticated(auth_bytes=b"r=another,s=c2FsdA==,i=4096")], "^b:1: SCRAM: the broker's nonce"),
    ],
)
def test_who_is_not_let_in_is_told_why(login: Login, responses: list[Any], reason: str):
    with pytest.raises(AuthenticationFailed, match=reason):
        opened(login, *responses)


def test_a_broker_that_does_not_know_of_logins_is_told_of_no_password():
    with pytest.raises(UnsupportedByBroker, match="does not have the API SaslHandshake"):
        opened(PLAIN, served={HEARTBEAT: (0, 3)})


def test_a_conversation_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ottla_core.client.sasl.Plain.respond", lambda *_: b"again")
    with pytest.raises(AuthenticationFailed, match=f"not finished after {SASL_ROUNDS_MAX}"):
        opened(PLAIN, TAKEN, *[authenticated()] * SASL_ROUNDS_MAX)


def test_correlation_ids_are_never_negative():
    ids = CorrelationIds()
    assert [ids.next(), ids.next()] == [1, 2]
    ids._last = 2**31 - 1
    assert 0 <= ids.next() < 2
