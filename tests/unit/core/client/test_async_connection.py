"""The connection against small servers that answer as they should not; real brokers are in the system tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import GroupId
from kio.static.primitive import i16, i32

from ottla_core.client.async_connection import AsyncConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.security import ClientSecurity, Login
from ottla_core.wire.conversion import message_of
from ottla_core.wire.messages import message_codec

API_VERSIONS, HEARTBEAT, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 12, 17, 36
BEAT = HeartbeatRequest(group_id=GroupId("g"), generation_id=i32(1), member_id="m")
SILENT = None
Answer = Callable[[int, int], Awaitable[bytes | None]]


def encoded(api_key: int, version: int, correlation_id: int, response: object) -> bytes:
    return message_codec(api_key, version).encode_response(correlation_id, response)  # type: ignore[arg-type]


def versions(correlation_id: int) -> bytes:
    """What a broker says that serves Heartbeat up to version 3, and SASL."""
    keys = ((HEARTBEAT, 0, 3), (SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 2))
    served = tuple(ApiVersion(api_key=i16(k), min_version=i16(a), max_version=i16(b)) for k, a, b in keys)
    response = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=served)
    return encoded(API_VERSIONS, 0, correlation_id, response)


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[int]:
    """Listens, and answers ApiVersions by itself and other requests as told; yields the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while size := int.from_bytes(await reader.readexactly(4), "big"):
                request = await reader.readexactly(size)
                api_key, correlation_id = int.from_bytes(request[:2], "big"), int.from_bytes(request[4:8], "big")
                reply = versions(correlation_id) if api_key == API_VERSIONS else await answer(api_key, correlation_id)
                if reply is None:
                    break
                writer.write(reply)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def connect(port: int, security: ClientSecurity | None = None) -> AsyncConnection:
    return await AsyncConnection.open(
        "127.0.0.1", port, security=security or ClientSecurity(), client_id="test", timeout_s=2
    )


async def beat(api_key: int, correlation_id: int) -> bytes:
    response = message_of(HeartbeatResponse, error_code=ErrorCode.rebalance_in_progress)
    return encoded(HEARTBEAT, 3, correlation_id, response)


async def test_requests_are_asked_in_the_newest_version_that_both_know():
    async with server(beat) as port:
        connection = await connect(port)
        assert connection.version_of(HEARTBEAT) == 3
        answers = await asyncio.gather(*(connection.ask(BEAT, timeout_s=2) for _ in range(3)))
        assert {answer.error_code for answer in answers} == {ErrorCode.rebalance_in_progress}
        assert {type(answer) for answer in answers} == {HeartbeatResponse}
        with pytest.raises(UnsupportedByBroker, match="does not have the API FindCoordinator"):
            connection.version_of(10)
        connection.close()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda _: SILENT, "it closed the connection"),
        (lambda n: encoded(HEARTBEAT, 3, n + 1, message_of(HeartbeatResponse)), "answered another request"),
        (lambda n: (6).to_bytes(4, "big") + n.to_bytes(4, "big") + b"\0\0", "malformed HeartbeatResponse"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
    ],
)
async def test_an_answer_that_is_none_closes_the_connection(reply: Callable[[int], bytes | None], reason: str):
    async def answer(_: int, correlation_id: int) -> bytes | None:
        return reply(correlation_id)

    async with server(answer) as port:
        connection = await connect(port)
        with pytest.raises(Unreachable, match=reason):
            await connection.ask(BEAT, timeout_s=2)
        assert not connection.is_usable
        with pytest.raises(Unreachable, match="the connection is closed"):
            await connection.ask(BEAT, timeout_s=2)


async def test_an_answer_that_is_late_closes_the_connection():
    async def never(_: int, __: int) -> bytes | None:
        await asyncio.sleep(60)  # longer than the test lives
        return SILENT

    async with server(never) as port:
        connection = await connect(port)
        with pytest.raises(Unreachable, match="no answer in time"):
            await connection.ask(BEAT, timeout_s=0.05)
        assert not connection.is_usable


async def test_a_request_that_is_cancelled_closes_the_connection():
    async def never(_: int, __: int) -> bytes | None:
        await asyncio.sleep(60)  # longer than the test lives
        return SILENT

    async with server(never) as port:
        connection = await connect(port)
        asking = asyncio.create_task(connection.ask(BEAT, timeout_s=60))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert not connection.is_usable


async def test_closing_ends_a_request_that_waits():
    asked = asyncio.Event()

    async def never(_: int, __: int) -> bytes | None:
        asked.set()
        await asyncio.sleep(60)  # longer than the test lives
        return SILENT

    async with server(never) as port:
        connection = await connect(port)
        asking = asyncio.create_task(connection.ask(BEAT, timeout_s=60))
        await asked.wait()
        connection.close()
        with pytest.raises(Unreachable):
            await asking


async def test_nobody_listens():
    async with server(beat) as port:
        pass
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        await connect(port)


LOGIN = ClientSecurity(login=Login(mechanism="SCRAM-SHA-256", username="worker", password="secret"))


async def test_a_mechanism_that_the_broker_does_not_have_is_named():
    async def refuse(_: int, correlation_id: int) -> bytes:
        response = SaslHandshakeResponse(
            error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=("PLAIN", "OAUTHBEARER")
        )
        return encoded(SASL_HANDSHAKE, 1, correlation_id, response)

    async with server(refuse) as port:
        with pytest.raises(AuthenticationFailed, match="does not take SCRAM-SHA-256, but PLAIN, OAUTHBEARER"):
            await connect(port, LOGIN)


async def test_a_refused_login_is_named_without_the_password():
    async def refuse(api_key: int, correlation_id: int) -> bytes:
        if api_key == SASL_HANDSHAKE:
            return encoded(SASL_HANDSHAKE, 1, correlation_id, SaslHandshakeResponse(error_code=ErrorCode.none))
        response = message_of(
            SaslAuthenticateResponse,
            error_code=ErrorCode.sasl_authentication_failed,
            error_message="Authentication failed",
        )
        return encoded(SASL_AUTHENTICATE, 2, correlation_id, response)

    async with server(refuse) as port:
        with pytest.raises(AuthenticationFailed, match="does not accept worker: Authentication failed"):
            await connect(port, LOGIN)
    assert "secret" not in repr(LOGIN)
