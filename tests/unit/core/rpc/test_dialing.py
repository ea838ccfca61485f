"""Channels between processes: messages are bounded on both sides, and errors of streams are translated."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio
from kio.schema.errors import ErrorCode

from ottla_core.errors import InvalidRequest
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc.status import kafka_error
from ottla_core.rpc_identity import CONTROLLER, RpcIdentity

LIMIT = 1024 * 1024
ECHO = "/test/Echo"


async def echo(requests: AsyncIterable[bytes], context: Any) -> None:
    async for request in requests:
        if request == b"refuse":
            raise InvalidRequest("a stream said something else")
        await context.write(request)


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = RpcServer()
    handler = grpc.stream_stream_rpc_method_handler(echo)
    server.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", {"Echo": handler}),))
    port = server.bind("127.0.0.1", 0)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop()


async def answers(address: str, *requests: bytes, limit: int = LIMIT) -> list[bytes]:
    async def said() -> AsyncIterator[bytes]:
        for request in requests:
            yield request

    async with dial(address, RpcIdentity(CONTROLLER, 1), message_bytes_max=limit) as channel, asyncio.timeout(10):
        return [answer async for answer in channel.stream_stream(ECHO)(said())]


async def test_messages_up_to_the_limit_pass(address: str) -> None:
    assert await answers(address, b"a", bytes(LIMIT)) == [b"a", bytes(LIMIT)]


async def test_a_message_beyond_the_limit_ends_its_call_with_a_final_error(address: str) -> None:
    with pytest.raises(aio.AioRpcError) as refused:
        await answers(address, bytes(LIMIT + 1))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kafka_error(refused.value).code is ErrorCode.message_too_large


async def test_what_a_stream_raises_is_translated_as_in_unary_calls(address: str) -> None:
    with pytest.raises(aio.AioRpcError) as refused:
        await answers(address, b"a", b"refuse")
    error = kafka_error(refused.value)
    assert isinstance(error, InvalidRequest)
    assert error.message == "a stream said something else"
