"""Channels from one Ottla process to another: kept open, one per address, and closed together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpc import aio

from ottla_core.rpc.dialing import dial

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing

MAX_IDLE_CHANNELS = 16


class ChannelPool:
    """The channels of a process, by address; with `tracing` each unary call has a span."""

    def __init__(self, tracing: "Tracing | None" = None) -> None:
        self._tracing = tracing
        self._channels: dict[str, aio.Channel] = {}

    async def channel(self, address: str) -> aio.Channel:
        """Return the channel to `host:port`; it connects when first used."""
        channel = self._channels.pop(address, None)
        if channel is None:
            channel = dial(address, interceptors=self._interceptors(address))
        self._channels[address] = channel  # the newest used stands last
        while len(self._channels) > MAX_IDLE_CHANNELS:
            await self._channels.pop(next(iter(self._channels))).close()
        return channel

    def _interceptors(self, address: str) -> Sequence[aio.ClientInterceptor]:
        if self._tracing is None:
            return ()
        from ottla_core.rpc.call_spans import CallerSpans  # noqa: PLC0415 - imports OpenTelemetry

        return (CallerSpans(self._tracing, address),)

    async def close(self) -> None:
        """Close every channel."""
        while self._channels:
            await self._channels.popitem()[1].close()
