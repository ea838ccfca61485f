"""Servers and channels with TLS: each side takes only the process that it wants, and new certificates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from grpc import (
    aio,
    method_handlers_generic_handler,
    stream_stream_rpc_method_handler,
    unary_unary_rpc_method_handler,
)
from grpc_health.v1 import health_pb2
from structlog.testing import capture_logs

from ottla_core.errors import ConfigurationError
from ottla_core.rpc.call_rules import BY_BROKERS, ROLE_NOT_ALLOWED, CallRule
from ottla_core.rpc.channel import ChannelPool
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.group_relay import broker_of_stream
from ottla_core.rpc.peer_problems import handshake_problem
from ottla_core.rpc.refusals import PEER_NOT_TRUSTED, REFUSED_BY_PEER, rpc_security
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc.tls import RpcTls
from ottla_core.rpc_identity import RpcIdentity
from tests.support.servers.process_certificates import NAMES, ProcessCertificates

CONTROLLER, OTHER_CONTROLLER = RpcIdentity("controller", 1), RpcIdentity("controller", 2)
BROKER, COORDINATOR = RpcIdentity("broker", 1), RpcIdentity("group-coordinator", 1)
METHOD, STREAM = "/test.Waiting/Answer", "/test.Waiting/Relay"
BY_ITSELF = CallRule(frozenset({"broker"}), broker_of_stream)


class Waiting:
    """Answers; the first call only when it is let."""

    def __init__(self, hold: asyncio.Event | None = None) -> None:
        self.hold = hold
        self.asked = asyncio.Event()

    async def answer(self, request: Empty, _context: object) -> Empty:
        self.asked.set()
        hold, self.hold = self.hold, None
        if hold is not None:
            await hold.wait()
        return request

    async def relay(self, requests: AsyncIterator[Empty], context: aio.ServicerContext[Any, Any]) -> None:
        async for request in requests:
            await context.write(request)

    def add_to(self, server: RpcServer) -> None:
        handler = unary_unary_rpc_method_handler(
            self.answer, request_deserializer=Empty.FromString, response_serializer=Empty.SerializeToString
        )
        stream = stream_stream_rpc_method_handler(
            self.relay, request_deserializer=Empty.FromString, response_serializer=Empty.SerializeToString
        )
        handlers = {"Answer": handler, "Relay": stream}
        server.server.add_generic_rpc_handlers((method_handlers_generic_handler("test.Waiting", handlers),))


@asynccontextmanager
async def serving(tls: RpcTls, service: Waiting | None = None) -> AsyncIterator[str]:
    server = RpcServer(tls=tls, rules={METHOD: BY_BROKERS, STREAM: BY_ITSELF})
    (service or Waiting()).add_to(server)
    port = server.bind("127.0.0.1", 0)
    await server.start()
    await server.set_serving(serving=True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


async def asked(channel: aio.Channel) -> grpc.StatusCode:
    call: Any = channel.unary_unary(METHOD, Empty.SerializeToString, Empty.FromString)(Empty(), timeout=10)
    return grpc.StatusCode(await call.code())


async def answer(address: str, tls: RpcTls, peer: RpcIdentity = CONTROLLER) -> grpc.StatusCode:
    async with dial(address, peer, tls=tls) as channel:
        return await asked(channel)


@pytest.fixture
def own(tmp_path: Path) -> ProcessCertificates:
    return ProcessCertificates(tmp_path / "own")


@pytest.fixture
def foreign(tmp_path: Path) -> ProcessCertificates:
    return ProcessCertificates(tmp_path / "foreign", name="a foreign authority")


async def test_a_broker_reaches_the_controller_that_it_wants(own: ProcessCertificates) -> None:
    async with serving(own.tls(CONTROLLER)) as address:
        assert await answer(address, own.tls(BROKER)) is grpc.StatusCode.OK


async def test_a_process_of_another_role_is_refused_and_both_sides_can_tell_why(own: ProcessCertificates) -> None:
    before = rpc_security.refusals[ROLE_NOT_ALLOWED]
    async with serving(own.tls(CONTROLLER)) as address:
        with capture_logs() as logs:
            async with dial(address, CONTROLLER, tls=own.tls(COORDINATOR)) as channel:
                with pytest.raises(aio.AioRpcError) as refusal:
                    await channel.unary_unary(METHOD, Empty.SerializeToString, Empty.FromString)(Empty(), timeout=10)
    assert refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED
    said = f"{METHOD}: a certificate of group-coordinator 1, for a call that only role broker may make"
    assert refusal.value.details() == said
    assert [line["problem"] for line in logs if line["event"] == "call refused"] == [said]
    assert rpc_security.refusals[ROLE_NOT_ALLOWED] == before + 1


async def test_whom_a_process_dials_has_to_be_whom_it_wants(own: ProcessCertificates) -> None:
    broker = own.tls(BROKER)
    async with serving(own.tls(OTHER_CONTROLLER)) as address:
        assert await answer(address, broker) is grpc.StatusCode.UNAVAILABLE
        problem = await asyncio.to_thread(handshake_problem, address, CONTROLLER, broker)
    assert problem == (PEER_NOT_TRUSTED, "it shows a certificate of controller 2 where controller 1 was wanted")


async def test_certificates_of_a_foreign_authority_are_refused_either_way(
    own: ProcessCertificates, foreign: ProcessCertificates
) -> None:
    stranger = foreign.tls(BROKER, trusted=own.ca)
    async with serving(own.tls(CONTROLLER)) as address:
        assert await answer(address, stranger) is grpc.StatusCode.UNAVAILABLE
        problem = await asyncio.to_thread(handshake_problem, address, CONTROLLER, stranger)
        assert problem is not None
        assert problem.reason == REFUSED_BY_PEER
    async with serving(foreign.tls(CONTROLLER, trusted=own.ca)) as address:
        assert await answer(address, own.tls(BROKER)) is grpc.StatusCode.UNAVAILABLE
        problem = await asyncio.to_thread(handshake_problem, address, CONTROLLER, own.tls(BROKER))
        assert problem is not None
        assert problem.reason == PEER_NOT_TRUSTED
        assert "unable to get local issuer" in problem.message


async def test_expired_certificates_are_refused_either_way(own: ProcessCertificates) -> None:
    past = timedelta(hours=-1)
    async with serving(own.tls(CONTROLLER)) as address:
        expired = own.tls(BROKER, valid=past, name="expired-broker")
        assert await answer(address, expired) is grpc.StatusCode.UNAVAILABLE
        problem = await asyncio.to_thread(handshake_problem, address, CONTROLLER, expired)
        assert problem is not None
        assert problem.reason == REFUSED_BY_PEER
    async with serving(own.tls(CONTROLLER, valid=past, name="expired-controller")) as address:
        assert await answer(address, own.tls(BROKER)) is grpc.StatusCode.UNAVAILABLE
        problem = await asyncio.to_thread(handshake_problem, address, CONTROLLER, own.tls(BROKER))
        assert problem == (PEER_NOT_TRUSTED, "its certificate is not accepted: certificate has expired")


async def test_nobody_is_served_without_tls_or_without_a_certificate(own: ProcessCertificates) -> None:
    async with serving(own.tls(CONTROLLER)) as address:
        async with aio.insecure_channel(address) as channel:
            assert await asked(channel) is grpc.StatusCode.UNAVAILABLE
        credentials = grpc.ssl_channel_credentials(own.ca.read_bytes())
        options = [("grpc.ssl_target_name_override", NAMES.name_of(CONTROLLER))]
        async with aio.secure_channel(address, credentials, options=options) as channel:
            assert await asked(channel) is grpc.StatusCode.UNAVAILABLE


async def test_health_can_be_asked_and_watched_by_every_process(own: ProcessCertificates) -> None:
    async with (
        serving(own.tls(CONTROLLER)) as address,
        dial(address, CONTROLLER, tls=own.tls(COORDINATOR)) as channel,
    ):
        message = health_pb2.HealthCheckRequest()
        encode, decode = health_pb2.HealthCheckRequest.SerializeToString, health_pb2.HealthCheckResponse.FromString
        told = await channel.unary_unary("/grpc.health.v1.Health/Check", encode, decode)(message, timeout=10)
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch", encode, decode)(message, timeout=10)
        seen = await watch.read()
        watch.cancel()
    assert told.status == seen.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("claimed", ["1", "2", "+2", "0_2", "1.0", "", "x", "9" * 40])
async def test_a_stream_is_of_the_broker_that_its_call_names(own: ProcessCertificates, claimed: str) -> None:
    async with (
        serving(own.tls(CONTROLLER)) as address,
        dial(address, CONTROLLER, tls=own.tls(BROKER)) as channel,
    ):
        stream: Any = channel.stream_stream(STREAM, Empty.SerializeToString, Empty.FromString)(
            metadata=(("broker-id", claimed),), timeout=10
        )
        if claimed == str(BROKER.id):
            await stream.write(Empty())
            assert await stream.read() == Empty()
            stream.cancel()
            return
        said = "says it is of broker 2" if claimed == "2" else "does not say which broker it is of"
        with pytest.raises(aio.AioRpcError, match=f"a certificate of broker 1 for a call that {said}"):
            await stream.read()


def test_a_certificate_of_another_process_is_refused_at_the_start(own: ProcessCertificates) -> None:
    with pytest.raises(ConfigurationError, match=r"is not for broker 1: .*controller-1\.test\.ottla"):
        RpcTls(own.files(CONTROLLER), NAMES, BROKER)


def test_the_key_is_in_no_repr(own: ProcessCertificates) -> None:
    tls = own.tls(BROKER)
    assert "PRIVATE" not in repr(tls.credentials)
    assert "PRIVATE" not in repr(own.authority)


async def test_a_server_and_a_pool_go_on_with_another_authority_and_no_call_is_lost(
    own: ProcessCertificates, foreign: ProcessCertificates
) -> None:
    """As `ottla secure renew` does it: both authorities are trusted for a while, then certificates change."""
    hold = asyncio.Event()
    service = Waiting(hold)
    server_tls, client_tls = own.tls(CONTROLLER), own.tls(BROKER)
    pool = ChannelPool(tls=client_tls)
    async with serving(server_tls, service) as address:
        before = await pool.channel(address, CONTROLLER)
        waiting = asyncio.create_task(asked(before))
        await service.asked.wait()
        own.ca.write_bytes(foreign.authority.chain + own.authority.chain)
        for tls in (server_tls, client_tls):
            tls.look()
        assert await asked(await pool.channel(address, CONTROLLER)) is grpc.StatusCode.OK
        for tls, identity in ((server_tls, CONTROLLER), (client_tls, BROKER)):
            renewed = foreign.files(identity)
            tls.files.certificate.write_bytes(renewed.certificate.read_bytes())
            tls.look()
            assert tls.is_outdated  # only one of two files is the new one
            assert await asked(await pool.channel(address, CONTROLLER)) is grpc.StatusCode.OK
            tls.files.key.write_bytes(renewed.key.read_bytes())
            tls.look()
            assert not tls.is_outdated
            assert await asked(await pool.channel(address, CONTROLLER)) is grpc.StatusCode.OK
        own.ca.write_bytes(foreign.authority.chain)
        for tls in (server_tls, client_tls):
            tls.look()
        assert await asked(await pool.channel(address, CONTROLLER)) is grpc.StatusCode.OK
        assert await pool.channel(address, CONTROLLER) is not before
        hold.set()
        assert await waiting is grpc.StatusCode.OK
    await pool.close()
