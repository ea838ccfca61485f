"""The gRPC service that brokers call: one stream per broker, the newest in place of an older one."""
# ruff: noqa: N802 - gRPC's generated code sets the names of the methods

import asyncio
import contextlib
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog
from grpc import aio

from ottla_core.cluster.state.model import ClusterState
from ottla_core.rpc.group_relay import BROKER_EPOCH_METADATA, BROKER_ID_METADATA, number_in
from ottla_group_coordinator.runtime.relay_stream import OnRequest, RelayStream
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from ottla_proto.gen.ottla.group_relay_pb2_grpc import GroupRelayServicer

if TYPE_CHECKING:  # generic in the stubs only
    Context = aio.ServicerContext[Any, Any]

log = structlog.get_logger("relay")


class GroupRelayService(GroupRelayServicer):
    """The streams of all brokers.

    Args:
        on_request: called for every request that a client sends through a broker.
    """

    def __init__(self, on_request: OnRequest) -> None:
        self._on_request = on_request
        self._streams: dict[int, RelayStream] = {}

    def stream_of(self, broker_id: int) -> RelayStream | None:
        """Return a broker's stream, or None while it has none."""
        return self._streams.get(broker_id)

    def any_stream(self) -> RelayStream | None:
        """Return the stream of some broker, or None while there is none."""
        return next(iter(self._streams.values()), None)

    def __len__(self) -> int:
        return len(self._streams)

    async def Relay(self, request_iterator: AsyncIterable[pb.Frames], context: "Context") -> None:  # type: ignore[override]  # gRPC takes a coroutine that writes as well as a generator
        """Carry one broker's frames until its stream ends."""
        try:
            broker_id, broker_epoch = _caller(context)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        former = self._streams.get(broker_id)
        if former is not None and former.broker_epoch > broker_epoch:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"broker {broker_id} has a stream of epoch {former.broker_epoch}, after {broker_epoch}",
            )
        stream = RelayStream(broker_id, broker_epoch, self._on_request)
        self._streams[broker_id] = stream
        if former is not None:
            former.close()
        log.info("stream opened", broker=broker_id, epoch=broker_epoch)
        try:
            await context.send_initial_metadata(())  # the broker waits for it: from here on, the stream is open
            await stream.run(request_iterator, context.write)
        finally:
            if self._streams.get(broker_id) is stream:
                del self._streams[broker_id]
            log.info("stream ended", broker=broker_id, epoch=broker_epoch)

    def on_cluster_state(self, state: ClusterState) -> None:
        """Close streams of brokers that are gone: a host that vanished does not close its connections."""
        for stream in tuple(self._streams.values()):
            broker = state.brokers.get(stream.broker_id)
            is_current = broker is not None and broker.epoch == stream.broker_epoch
            # An epoch is a revision: a broker that is newer than the state may not be in it yet.
            if not is_current and stream.broker_epoch <= state.revision:
                log.info("broker is gone", broker=stream.broker_id, epoch=stream.broker_epoch)
                stream.close()

    async def close(self, timeout_s: float) -> None:
        """End all streams, after sending what is to be sent within `timeout_s`."""
        streams = tuple(self._streams.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for stream in streams:
                    await stream.drain()
        for stream in streams:
            stream.close()


def _caller(context: "Context") -> tuple[int, int]:
    metadata = dict(cast("tuple[tuple[str, str], ...]", context.invocation_metadata() or ()))
    broker_id, broker_epoch = (number_in(metadata, name) for name in (BROKER_ID_METADATA, BROKER_EPOCH_METADATA))
    if broker_id is None or broker_epoch is None:
        raise ValueError(
            f"the call needs {BROKER_ID_METADATA} and {BROKER_EPOCH_METADATA} as decimal numbers in its metadata"
        )
    return broker_id, broker_epoch
