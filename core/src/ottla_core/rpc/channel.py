"""Channels from one Ottla process to another: kept open, one per process, and closed together.

When the certificate of this process has changed, a channel makes way for a new one, and has `RETIREMENT_S` for the
calls that are under way on it.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from grpc import aio

from ottla_core.background import start_detached
from ottla_core.rpc.dialing import dial
from ottla_core.rpc.peer_problems import PeerProblems
from ottla_core.rpc_identity import RpcIdentity

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing
    from ottla_core.rpc.tls import RpcTls

MAX_IDLE_CHANNELS = 16
RETIREMENT_S: Final = 60.0
"""Longer than any call takes."""


class _Opened(NamedTuple):
    """A channel, and which version of the certificate it was opened with."""

    channel: aio.Channel
    version: int


class ChannelPool:
    """The channels of a process, by address; with `tracing` each unary call has a span."""

    def __init__(self, tracing: "Tracing | None" = None, tls: "RpcTls | None" = None) -> None:
        self._tracing = tracing
        self._tls = tls
        self._channels: dict[tuple[str, RpcIdentity], _Opened] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self.problems = PeerProblems(tls)

    async def channel(self, address: str, peer: RpcIdentity) -> aio.Channel:
        """Return the channel to a process at `host:port`; it connects when first used."""
        version = 0 if self._tls is None else self._tls.version
        opened = self._channels.pop((address, peer), None)
        if opened is not None and opened.version != version:
            self._retire(opened.channel)
            opened = None
        if opened is None:
            interceptors = self._interceptors(address)
            opened = _Opened(dial(address, peer, tls=self._tls, interceptors=interceptors), version)
        self._channels[address, peer] = opened  # the newest used stands last
        while len(self._channels) > MAX_IDLE_CHANNELS:
            await self._channels.pop(next(iter(self._channels))).channel.close()
        return opened.channel

    def _retire(self, channel: aio.Channel) -> None:
        closing = start_detached("closing a channel", channel.close(RETIREMENT_S))
        self._retiring.add(closing)
        closing.add_done_callback(self._retiring.discard)

    def _interceptors(self, address: str) -> Sequence[aio.ClientInterceptor]:
        if self._tracing is None:
            return ()
        from ottla_core.rpc.call_spans import CallerSpans  # noqa: PLC0415 - imports OpenTelemetry

        return (CallerSpans(self._tracing, address),)

    async def close(self) -> None:
        """Close every channel."""
        for closing in tuple(self._retiring):
            closing.cancel()
        while self._channels:
            await self._channels.popitem()[1].channel.close()
