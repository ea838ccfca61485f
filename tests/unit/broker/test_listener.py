"""Listening sockets: limits on connections, and connections that are given up."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla_broker import listener as listener_module
from ottla_broker.config import MAX_INT, BrokerConfig
from ottla_broker.dynamic_config import with_dynamic
from ottla_broker.listener import Listener, ListenerError, bind
from ottla_broker.tls.tls_channel import secured
from ottla_broker.tls.tls_stream import receive_buffer
from ottla_core.config import validated
from ottla_core.dynamic_broker_config import check_process_configs, is_applied
from ottla_core.errors import ConfigurationError, InvalidConfig
from ottla_core.failure_log import FailureLog
from tests.support.eventually_async import eventually_async

DEADLINE_SECONDS = 10


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@pytest.fixture
async def listen():
    listeners: list[Listener] = []

    def start(**settings: object) -> int:
        return start_all("PLAINTEXT", **settings)["PLAINTEXT"]

    def start_all(*names: str, tls: Sequence[str] = (), **settings: object) -> dict[str, int]:
        """Start listeners, of which the first is that among brokers; return their ports."""
        named = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "inter.broker.listener.name": names[0],
        }
        config = BrokerConfig.model_validate({"node.id": 1, "log.dirs": (Path("/nowhere"),), **named, **settings})
        sockets = [(name, bind("127.0.0.1", 0)) for name in names]
        dispatcher = SimpleNamespace(handle=lambda frame, _connection: [framed(bytes(frame))])
        context, buffer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), receive_buffer()
        of_listener = SimpleNamespace(accept=lambda sock: secured(context, sock, buffer, server_side=True))
        certificates: Any = dict.fromkeys(tls, of_listener) or None
        listener = Listener(config, sockets, dispatcher, certificates=certificates)  # type: ignore[arg-type]
        listener.start()
        listeners.append(listener)
        return {name: sock.getsockname()[1] for name, sock in sockets}

    start.all = start_all  # type: ignore[attr-defined]
    start.listeners = listeners  # type: ignore[attr-defined]

    yield start
    for listener in listeners:
        await listener.close()
        assert not listener.connections


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(DEADLINE_SECONDS):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(framed(b"hello"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await reader.readexactly(9) == framed(b"hello")


async def test_a_client_of_ipv4_has_its_own_address_where_ipv6_is_listened_to() -> None:
    """Quotas, limits and access control lists are written for that one."""
    config = BrokerConfig.model_validate({"node.id": 1, "log.dirs": (Path("/nowhere"),)})
    sock = bind("::", 0)
    listener = Listener(config, [("PLAINTEXT", sock)], SimpleNamespace(handle=None))  # type: ignore[arg-type]
    listener.start()
    _, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
    await eventually_async(lambda: listener.connections, "the connection is accepted")
    assert [connection.address for connection in listener.connections] == ["127.0.0.1"]
    writer.close()
    await listener.close()


async def test_connections_beyond_the_limit_are_closed_at_once(listen: Callable[..., int]) -> None:
    port = listen(**{"max.connections": 2})
    allowed = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    assert all([await echoes(*pair) for pair in allowed])

    refused, _ = await asyncio.open_connection("127.0.0.1", port)
    assert await is_closed(refused)

    allowed[0][1].close()
    await allowed[0][1].wait_closed()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(framed(b"again"))
            if await reader.read(9) == framed(b"again"):
                break


async def test_an_address_has_a_limit_of_its_own(listen: Callable[..., int]) -> None:
    port = listen(**{"max.connections.per.ip": 1})
    assert await echoes(*await asyncio.open_connection("127.0.0.1", port))
    refused, _ = await asyncio.open_connection("127.0.0.1", port)
    assert await is_closed(refused)


async def test_an_idle_connection_is_closed(listen: Callable[..., int]) -> None:
    port = listen(**{"connections.max.idle.ms": 100})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await echoes(reader, writer)
    assert await is_closed(reader)


async def test_a_request_that_stops_arriving_closes_its_connection_and_frees_the_budget(
    listen: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_STALL_SECONDS", 0.2)
    port = listen(**{"queued.max.request.bytes": 1_000_000})
    hoarder, hoarder_writer = await asyncio.open_connection("127.0.0.1", port)
    hoarder_writer.write(struct.pack(">i", 1_000_000) + b"and then silence")
    assert await is_closed(hoarder)

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = bytes(900_000)
    writer.write(framed(content))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await reader.readexactly(900_004) == framed(content)


async def test_a_throttled_client_in_mid_request_gives_its_memory_up_when_others_want_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_STALL_SECONDS", 0.5)
    monkeypatch.setattr(listener_module, "STARVED_WINDOW_SECONDS", 0.05)
    settings = {"node.id": 1, "log.dirs": (Path("/nowhere"),), "queued.max.request.bytes": 1_000_000}
    sock = bind("127.0.0.1", 0)
    dispatcher = SimpleNamespace(handle=lambda frame, _connection: [framed(bytes(frame))])
    config = BrokerConfig.model_validate(settings)
    listener = Listener(config, [("PLAINTEXT", sock)], dispatcher)  # type: ignore[arg-type]
    listener.start()
    hoarder, hoarder_writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
    hoarder_writer.write(struct.pack(">i", 1_000_000) + bytes(700_000))
    await eventually_async(lambda: listener.budget.reserved >= 700_000, "the first part of the request is here")
    (throttled,) = listener.connections
    throttled.throttle(3_600_000)

    reader, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
    content = bytes(900_000)
    writer.write(framed(content))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await reader.readexactly(900_004) == framed(content)
    assert await is_closed(hoarder)
    await listener.close()


async def test_small_requests_pass_while_the_budget_is_spent(listen: Callable[..., int]) -> None:
    port = listen(**{"queued.max.request.bytes": 1_000_000})
    _, hoarder = await asyncio.open_connection("127.0.0.1", port)
    hoarder.write(struct.pack(">i", 1_000_000) + b"and then silence")
    await hoarder.drain()

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for half in (framed(b"hello")[:6], framed(b"hello")[6:]):
        writer.write(half)
        await writer.drain()
        await asyncio.sleep(0.01)  # without it the kernel may join the halves; the test would then prove less
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await reader.readexactly(9) == framed(b"hello")


async def test_connections_that_announce_much_and_send_little_hold_up_no_large_request(
    listen: Callable[..., int],
) -> None:
    port = listen(**{"queued.max.request.bytes": 10_000_000})
    for _ in range(3):
        _, hoarder = await asyncio.open_connection("127.0.0.1", port)
        hoarder.write(struct.pack(">i", 100_000_000) + b"and then next to nothing")
        await hoarder.drain()

    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = bytes(5_000_000)
    writer.write(framed(content))
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await reader.readexactly(5_000_004) == framed(content)


async def test_a_large_request_that_arrives_too_slowly_closes_its_connection(
    listen: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "REQUEST_STALL_SECONDS", 0.2)
    port = listen()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(struct.pack(">i", 1_000_000))

    async def drip() -> None:
        while True:
            writer.write(b".")
            await asyncio.sleep(0.02)  # a byte now and then: too slow, but never silent

    dripping = asyncio.create_task(drip())
    assert await is_closed(reader)
    dripping.cancel()


async def test_a_peer_that_reads_nothing_is_closed(listen: Callable[..., int]) -> None:
    port = listen(**{"connections.max.idle.ms": 300})
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                writer.write(framed(bytes(1_000_000)))
                await writer.drain()


async def test_peers_that_leave_most_unread_are_given_up_when_memory_runs_out(
    listen: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "UNSENT_BYTES_OVERALL_MAX", 12_000_000)
    port = listen()
    unread: list[asyncio.StreamWriter] = []
    for size in (5_000_000, 20_000_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(framed(bytes(size)))
        await writer.drain()
        unread.append(writer)
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                unread[1].write(bytes(1000))
                await unread[1].drain()
                await asyncio.sleep(0.01)  # until the broker closes the connection, or the deadline
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await echoes(reader, writer)


def test_a_port_in_use_is_named() -> None:
    taken = bind("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    with taken, pytest.raises(ListenerError, match=f":{port}: the port is in use"):
        bind("127.0.0.1", port)


def test_an_address_of_another_host_is_named() -> None:
    with pytest.raises(ListenerError, match=r"cannot listen on 192\.0\.2\.1:0"):
        bind("192.0.2.1", 0)


async def test_an_address_may_have_a_limit_of_its_own(listen: Callable[..., int]) -> None:
    port = listen(**{"max.connections.per.ip": 1, "max.connections.per.ip.overrides": "127.0.0.1:2,::1:7"})
    pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    assert all([await echoes(*pair) for pair in pairs])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await is_closed(reader)
    for each in (*(writer for _, writer in pairs), writer):
        each.close()


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    pair = await asyncio.open_connection("127.0.0.1", port)
    assert await echoes(*pair)
    return pair


async def test_a_listener_may_have_a_limit_of_its_own(listen: Any) -> None:
    ports = listen.all("BROKERS", "CLIENTS", "OTHERS", **{"listener.name.clients.max.connections": 1})
    pairs = [await opened(ports["CLIENTS"])]
    refused, writer = await asyncio.open_connection("127.0.0.1", ports["CLIENTS"])
    assert await is_closed(refused)
    pairs += [await opened(ports[each]) for each in ("OTHERS", "OTHERS", "BROKERS")]
    for each in (*(each for _, each in pairs), writer):
        each.close()


def test_the_brokers_limits_do_not_hold_for_the_listener_among_brokers() -> None:
    config = BrokerConfig.model_validate(
        {
            "node.id": 1,
            "log.dirs": (Path("/nowhere"),),
            "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "max.connections": 7,
            "max.connection.creation.rate": 3,
        }
    )
    limits = config.connection_limits(1000)
    assert limits.protected == "BROKERS"
    assert (limits.listeners["CLIENTS"].connections, limits.listeners["CLIENTS"].per_second) == (7, 3)
    assert (limits.listeners["BROKERS"].connections, limits.listeners["BROKERS"].per_second) == (MAX_INT, MAX_INT)


async def test_a_client_makes_way_for_a_broker_where_the_limit_is_reached(listen: Any) -> None:
    ports = listen.all("BROKERS", "CLIENTS", **{"max.connections": 2})
    longest = await opened(ports["CLIENTS"])
    newer = await opened(ports["CLIENTS"])
    broker = await opened(ports["BROKERS"])
    assert await is_closed(longest[0])
    assert await echoes(*newer)
    refused, writer = await asyncio.open_connection("127.0.0.1", ports["CLIENTS"])
    assert await is_closed(refused), "a client does not make way for another one"
    assert await echoes(*broker)
    for each in (longest[1], newer[1], broker[1], writer):
        each.close()


async def test_unfinished_handshakes_make_way_for_a_broker_the_oldest_first(listen: Any) -> None:
    ports = listen.all("BROKERS", "CLIENTS", tls=["CLIENTS"], **{"max.connections": 2})
    silent = [await asyncio.open_connection("127.0.0.1", ports["CLIENTS"]) for _ in range(2)]
    await eventually_async(lambda: len(listen.listeners[-1]._handshakes) == 2, "both handshakes have begun")
    brokers = [await opened(ports["BROKERS"])]
    assert await is_closed(silent[0][0])
    assert len(listen.listeners[-1]._handshakes) == 1
    brokers.append(await opened(ports["BROKERS"]))
    assert await is_closed(silent[1][0])
    assert all([await echoes(*each) for each in brokers])
    for _, writer in (*silent, *brokers):
        writer.close()


async def test_refused_connections_do_not_keep_failed_handshakes_out_of_the_log(listen: Any) -> None:
    ports = listen.all("BROKERS", "CLIENTS", tls=["CLIENTS"], **{"listener.name.brokers.max.connections": 1})
    held = await opened(ports["BROKERS"])
    with capture_logs() as logs:
        for _ in range(2 * FailureLog.LINES_PER_SECOND):
            reader, writer = await asyncio.open_connection("127.0.0.1", ports["BROKERS"])
            assert await is_closed(reader)
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["CLIENTS"])
        writer.write(b"no handshake")
        assert await is_closed(reader)
        writer.close()
    assert [each["event"] for each in logs].count("TLS handshake failed") == 1
    held[1].close()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("listener.name.client.max.connections", "listeners names no CLIENT; it names BROKERS, CLIENTS"),
        ("listener.name.CLIENTS.max.connections", "write the name of a listener in lower case"),
        ("listener.name.CLIENTS.max.connection.creation.rate", "write the name of a listener in lower case"),
    ],
)
def test_a_limit_that_would_hold_for_no_listener_is_refused(key: str, problem: str) -> None:
    written = {"node.id": "1", "log.dirs": "/nowhere", "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0"}
    written["listener.security.protocol.map"] = "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT"
    validated(BrokerConfig, {**written, "listener.name.clients.max.connections": "7"}, {})
    with pytest.raises(ConfigurationError, match=problem):
        validated(BrokerConfig, {**written, key: "7"}, {})


def test_a_limit_of_a_listener_is_not_changed_under_a_name_that_none_has() -> None:
    check_process_configs({"listener.name.elsewhere.max.connections": "7"})
    with pytest.raises(InvalidConfig, match="lower case"):
        check_process_configs({"listener.name.CLIENTS.max.connections": "7"})


async def test_a_changed_limit_of_a_listener_holds_from_then_on(listen: Any) -> None:
    settings = {"listener.name.clients.max.connections": "1"}
    with pytest.raises(ValueError, match=r"listener\.name\.clients\.max\.connections"):
        listen.all("CLIENTS", **{"listener.name.clients.max.connections": "0"})
    config = BrokerConfig.model_validate(
        {"node.id": 1, "log.dirs": (Path("/nowhere"),), "listeners": "CLIENTS://127.0.0.1:0"}
        | {"listener.security.protocol.map": "CLIENTS:PLAINTEXT"}
    )
    assert with_dynamic(config, {1: settings}, is_applied).connection_limits(5).listeners["CLIENTS"].connections == 1
    assert config.connection_limits(5).listeners["CLIENTS"].connections == config.max_connections


async def test_connections_that_come_too_fast_wait_and_are_served(listen: Callable[..., int]) -> None:
    port = listen(**{"max.connection.creation.rate": 4, "quota.window.num": 2})
    pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(7)]
    assert all([await echoes(*pair) for pair in pairs])
    for _, writer in pairs:
        writer.close()


@pytest.mark.parametrize("text", ["host:3", "10.0.0.1", "10.0.0.1:x", "10.0.0.1:-1"])
def test_limits_of_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="ADDRESS:COUNT"):
        check_process_configs({"max.connections.per.ip.overrides": text})
