"""Logs in to other brokers, on a connection that was just made, before anything else is said on it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ottla_broker.channel import Channel
from ottla_broker.sasl.sasl_settings import OAUTHBEARER, PeerLoginSettings
from ottla_broker.tls.connecting import Connect
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.protocol import ClientProtocol, Opening
from ottla_core.client.security import ClientSecurity
from ottla_core.random_ids import random_nonce

LOGIN_SECONDS_MAX: Final = 10.0
_LENGTH_BYTES: Final = 4


def peer_security(settings: PeerLoginSettings, client_id: str) -> ClientSecurity:
    """Return what connections to other brokers log in by; they have their TLS from elsewhere.

    Raises:
        ConfigurationError: something is missing.
    """
    options = settings.options
    named: dict[str, str] = {"security.protocol": "sasl_plaintext", "sasl.mechanism": settings.mechanism}
    if settings.mechanism == OAUTHBEARER:
        prefix = "sasl.oauthbearer."
        named |= {
            f"{prefix}method": "oidc",
            f"{prefix}token.endpoint.url": settings.token_endpoint,
            f"{prefix}client.id": options["clientId"],
            f"{prefix}client.secret": options["clientSecret"],
            f"{prefix}scope": options.get("scope", ""),
        }
        if authorities := options.get("ssl.truststore.location"):
            named["https.ca.location"] = authorities
    else:
        named |= {"sasl.username": options["username"], "sasl.password": options["password"]}
    return ClientSecurity.of({**named, "client.id": client_id})


def connect_with_login(connect: Connect, security: ClientSecurity, client_id: str) -> Connect:
    """Return what connects and logs in.

    Args:
        connect: connects.
        security: says who we are.
        client_id: by which the other broker's log knows us.
    """

    async def connected(host: str, port: int) -> Channel:
        channel = await connect(host, port)
        try:
            async with asyncio.timeout(LOGIN_SECONDS_MAX):
                login = await asyncio.to_thread(security.login_now, LOGIN_SECONDS_MAX)  # which may ask for a token
                protocol = ClientProtocol(f"{host}:{port}", client_id, login)
                await _open(channel, protocol, protocol.opening(random_nonce()))
                channel.usable_for_s = protocol.usable_for_s
        except (AuthenticationFailed, Unreachable, UnsupportedByBroker) as error:
            channel.close()
            raise ConnectionError(str(error)) from None
        except BaseException:
            channel.close()
            raise
        return channel

    return connected


async def _open(channel: Channel, protocol: ClientProtocol, opening: Opening) -> None:
    frame = next(opening)
    while True:
        await _send(channel, frame)
        length = await _receive(channel, _LENGTH_BYTES)
        answer = length + await _receive(channel, protocol.response_size(length))
        # In a thread, as what follows from a challenge of SCRAM takes milliseconds.
        following = await asyncio.to_thread(_advance, opening, protocol.response(answer))
        if following is None:
            return
        frame = following


def _advance(opening: Opening, response: Any) -> bytes | None:
    """Return the next frame, None where all is said."""
    try:
        return opening.send(response)
    except StopIteration:
        return None


async def _send(channel: Channel, frame: bytes) -> None:
    loop = asyncio.get_running_loop()
    left = memoryview(frame)
    while left:
        try:
            left = left[channel.send(left) :]
        except (BlockingIOError, InterruptedError):
            await _ready(channel, loop.add_writer, loop.remove_writer)


async def _receive(channel: Channel, size: int) -> bytes:
    """Receive so many bytes and no more, as what follows is for others."""
    loop = asyncio.get_running_loop()
    received = bytearray(size)
    view, filled = memoryview(received), 0
    while filled < size:
        try:
            count = channel.receive_into(view[filled:])
        except (BlockingIOError, InterruptedError):
            await _ready(channel, loop.add_reader, loop.remove_reader)
            continue
        if count == 0:
            raise ConnectionError("the other broker ended the connection during the login")
        filled += count
    return bytes(received)


async def _ready(
    channel: Channel, watch: Callable[[int, Callable[[], None]], object], end: Callable[[int], object]
) -> None:
    ready = asyncio.get_running_loop().create_future()
    watch(channel.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        end(channel.fileno())
