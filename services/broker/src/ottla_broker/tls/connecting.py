"""Connects to other brokers by the listener that they use among themselves, with TLS where it has some."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ottla_broker.channel import Channel, PlainChannel
from ottla_broker.tls.handshake import HANDSHAKE_SECONDS_MAX, why_failed
from ottla_broker.tls.tls_channel import TlsSocket, channel_of, secured
from ottla_broker.tls.tls_stream import receive_buffer
from ottla_core.client.security import ClientSecurity

Connect = Callable[[str, int], Awaitable[Channel]]
"""Returns a channel to a host and port; raises OSError."""


def _no_context() -> None:
    """Return that there is no TLS."""


async def connect_plain(host: str, port: int) -> Channel:
    """Connect without TLS.

    Raises:
        OSError: nobody can be reached there.
    """
    return PlainChannel(await _connect(host, port))


def connect_by_tls(context: Callable[[], ssl.SSLContext]) -> Connect:
    """Return what connects with TLS.

    Args:
        context: returns the present one.
    """
    buffer = receive_buffer()

    async def connect(host: str, port: int) -> Channel:
        connected = await _connect(host, port)
        sock = secured(context(), connected, buffer, server_side=False, server_hostname=host)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS_MAX):
                await _shake_hands(sock)
        except BaseException:
            sock.close()
            raise
        return channel_of(sock)

    return connect


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """How this broker reaches others, by the listener that brokers use.

    Attributes:
        connect: opens a channel, and logs in where the listener has logins.
        tls: returns the present context of clients, None where the listener has no TLS.
        security: what connections log in by that are made otherwise; their TLS is that of `tls`.
    """

    connect: Connect = connect_plain
    tls: Callable[[], ssl.SSLContext | None] = _no_context
    security: ClientSecurity = field(default_factory=ClientSecurity)


async def _connect(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = addresses[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def _shake_hands(sock: TlsSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(sock, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(sock, loop.add_writer, loop.remove_writer)
        except ssl.SSLError as error:
            raise ConnectionError(why_failed(error, of_client=False)) from None
        else:
            return


async def _ready(
    sock: TlsSocket, watch: Callable[[int, Callable[[], None]], object], end: Callable[[int], object]
) -> None:
    ready = asyncio.get_running_loop().create_future()
    watch(sock.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        end(sock.fileno())
