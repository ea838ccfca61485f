"""The gRPC server: health, ports in use, and errors that arrive as they were raised."""

from collections.abc import AsyncIterator

import pytest
from google.protobuf.empty_pb2 import Empty
from grpc import aio, method_handlers_generic_handler, unary_unary_rpc_method_handler
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kio.schema.errors import ErrorCode

from ottla_core.errors import CodedError, InvalidTopic, KafkaError, NotController
from ottla_core.rpc.channel import ChannelPool
from ottla_core.rpc.server import PortInUse, RpcServer
from ottla_core.rpc.status import RpcUnavailable, kafka_error
from ottla_core.rpc_identity import CONTROLLER, RpcIdentity
from tests.support.free_ports import free_port

PEER = RpcIdentity(CONTROLLER, 1)


class FailingService:
    """Raises what the test puts into `error`."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def answer(self, request: Empty, _context: object) -> Empty:
        if self.error is not None:
            raise self.error
        return request

    def add_to(self, server: RpcServer) -> None:
        handler = unary_unary_rpc_method_handler(
            self.answer, request_deserializer=Empty.FromString, response_serializer=Empty.SerializeToString
        )
        server.server.add_generic_rpc_handlers(
            (method_handlers_generic_handler("test.Failing", {"Answer": handler}),)
        )


@pytest.fixture
async def server() -> AsyncIterator[RpcServer]:
    server = RpcServer()
    yield server
    await server.stop()


@pytest.fixture
async def channels() -> AsyncIterator[ChannelPool]:
    pool = ChannelPool()
    yield pool
    await pool.close()


async def received(channel: aio.Channel) -> KafkaError | None:
    call = channel.unary_unary(
        "/test.Failing/Answer",
        request_serializer=Empty.SerializeToString,
        response_deserializer=Empty.FromString,
    )
    try:
        await call(Empty(), timeout=10)
    except aio.AioRpcError as error:
        return kafka_error(error)
    return None


async def test_kafka_errors_arrive_with_class_code_and_message(server: RpcServer, channels: ChannelPool) -> None:
    service = FailingService()
    service.add_to(server)
    port = server.bind("127.0.0.1", 0)
    await server.start()
    channel = await channels.channel(f"127.0.0.1:{port}", PEER)

    assert await received(channel) is None
    for raised in (
        NotController("not me"),
        InvalidTopic("ungültig: \N{SNOWMAN}\n" + "x" * 300),
        CodedError(ErrorCode.snapshot_not_found, "slow down"),
    ):
        service.error = raised
        arrived = await received(channel)
        assert (type(arrived), arrived and arrived.code, arrived and arrived.message) == (
            type(raised),
            raised.code,
            raised.message,
        )


async def test_an_unexpected_error_arrives_as_unknown_server_error_without_details(
    server: RpcServer, channels: ChannelPool
) -> None:
    service = FailingService()
    service.error = RuntimeError("the password is 123")
    service.add_to(server)
    port = server.bind("127.0.0.1", 0)
    await server.start()
    arrived = await received(await channels.channel(f"127.0.0.1:{port}", PEER))
    assert arrived is not None
    assert arrived.code is ErrorCode.unknown_server_error
    assert "123" not in arrived.message


async def test_a_process_that_is_not_there_is_unavailable(channels: ChannelPool) -> None:
    assert isinstance(await received(await channels.channel(f"127.0.0.1:{free_port()}", PEER)), RpcUnavailable)


async def test_health_is_not_serving_until_the_service_says_so(server: RpcServer, channels: ChannelPool) -> None:
    port = server.bind("127.0.0.1", 0)
    await server.start()
    health = health_pb2_grpc.HealthStub(await channels.channel(f"127.0.0.1:{port}", PEER))
    request = health_pb2.HealthCheckRequest()
    assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await server.set_serving(serving=True)
    assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING


async def test_a_port_in_use_is_refused_with_its_address(server: RpcServer) -> None:
    port = server.bind("127.0.0.1", 0)
    await server.start()
    other = RpcServer()
    with pytest.raises(PortInUse, match=f"127.0.0.1:{port}"):
        other.bind("127.0.0.1", port)
    await other.stop()
